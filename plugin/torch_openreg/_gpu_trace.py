# SPDX-License-Identifier: BSD-3-Clause
"""Callbacks for events, streams and memory, with the names of torch.cuda._gpu_trace.

Core calls them after torch._C._activate_gpu_trace(). An event has the number event_id, a
stream the number native_handle.
"""

from torch._utils import CallbackRegistry

EventCreationCallbacks = CallbackRegistry("openreg event creation")
EventDeletionCallbacks = CallbackRegistry("openreg event deletion")
EventRecordCallbacks = CallbackRegistry("openreg event record")
EventWaitCallbacks = CallbackRegistry("openreg event wait")
MemoryAllocationCallbacks = CallbackRegistry("openreg memory allocation")
MemoryDeallocationCallbacks = CallbackRegistry("openreg memory deallocation")
StreamCreationCallbacks = CallbackRegistry("openreg stream creation")
DeviceSynchronizationCallbacks = CallbackRegistry("openreg device synchronization")
StreamSynchronizationCallbacks = CallbackRegistry("openreg stream synchronization")
EventSynchronizationCallbacks = CallbackRegistry("openreg event synchronization")

register_callback_for_event_creation = EventCreationCallbacks.add_callback
register_callback_for_event_deletion = EventDeletionCallbacks.add_callback
register_callback_for_event_record = EventRecordCallbacks.add_callback
register_callback_for_event_wait = EventWaitCallbacks.add_callback
register_callback_for_memory_allocation = MemoryAllocationCallbacks.add_callback
register_callback_for_memory_deallocation = MemoryDeallocationCallbacks.add_callback
register_callback_for_stream_creation = StreamCreationCallbacks.add_callback
register_callback_for_device_synchronization = DeviceSynchronizationCallbacks.add_callback
register_callback_for_stream_synchronization = StreamSynchronizationCallbacks.add_callback
register_callback_for_event_synchronization = EventSynchronizationCallbacks.add_callback
