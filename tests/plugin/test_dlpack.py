# SPDX-License-Identifier: BSD-3-Clause
"""DLPack with the device type kDLExtDev: the pointers are addresses of the card."""

import numpy as np
import pytest
import torch
from torch.utils import dlpack

DEV = "openreg"
EXT_DEV = 12


@pytest.mark.parametrize("index", [0, 1])
def test_round_trip_shares_memory(index):
    x = torch.arange(6.0).view(2, 3).to(f"openreg:{index}")
    assert x.__dlpack_device__() == (EXT_DEV, index)
    for y in (torch.from_dlpack(x), dlpack.from_dlpack(dlpack.to_dlpack(x))):
        assert y.device == x.device and y.data_ptr() == x.data_ptr()
        y.add_(1)
        assert torch.equal(y.cpu(), x.cpu())


def test_strides_and_dtypes():
    for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.int64, torch.bool):
        x = torch.arange(12).view(3, 4).to(dtype).to(DEV).t()[1:]
        y = torch.from_dlpack(x)
        assert (y.shape, y.stride(), y.dtype) == (x.shape, x.stride(), dtype)
        assert torch.equal(y.cpu(), x.cpu())


def test_the_capsule_keeps_the_memory():
    x = torch.arange(1000.0).to(DEV)
    capsule = dlpack.to_dlpack(x)
    want = x.cpu()
    del x
    other = torch.zeros(1000, device=DEV)
    y = dlpack.from_dlpack(capsule)
    assert torch.equal(y.cpu(), want) and other.data_ptr() != y.data_ptr()


def test_to_the_cpu_is_a_copy():
    x = torch.arange(4.0).to(DEV)
    y = torch.from_dlpack(x, device="cpu")
    assert y.device.type == "cpu" and y.tolist() == [0, 1, 2, 3]


def test_a_consumers_stream_waits(gate):
    """The consumer's stream waits for the producer's work."""
    consumer, producer = torch.openreg.Stream(), torch.openreg.Stream()
    with torch.openreg.stream(producer):
        x = torch.zeros(4, device=DEV)
        with gate:
            x.add_(1)
            capsule = x.__dlpack__(stream=consumer.native_handle)
            with torch.openreg.stream(consumer):
                y = torch.from_dlpack(capsule) + 1
                assert not consumer.query()
    consumer.synchronize()
    assert y.cpu().tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("stream, waits", [(None, True), (-1, False)])
def test_none_means_the_default_stream(gate, stream, waits):
    producer = torch.openreg.Stream()
    torch.openreg.synchronize()
    with torch.openreg.stream(producer):
        x = torch.zeros(4, device=DEV)
        with gate:
            x.__dlpack__(stream=stream)
            assert torch.openreg.default_stream().query() != waits


def test_wrong_streams():
    x = torch.zeros(4, device=DEV)
    with pytest.raises(TypeError, match="native_handle"):
        x.__dlpack__(stream=torch.openreg.Stream())
    for other in (0, 1, 2, -2, 1 << 40, torch.openreg.Stream(1).native_handle):
        with pytest.raises(ValueError, match="native_handle"):
            x.__dlpack__(stream=other)


def test_cpu_tensors_still_work():
    x = torch.arange(3.0)
    assert x.__dlpack_device__() == (1, 0)
    assert torch.from_dlpack(dlpack.ReadOnlyTensorWrapper(x)).tolist() == [0, 1, 2]
    with pytest.raises(AssertionError, match="cpu"):
        x.__dlpack__(stream=3)


def test_numpy_cannot_read_the_card():
    with pytest.raises((BufferError, RuntimeError, TypeError)):
        np.from_dlpack(torch.ones(2, device=DEV))
    with pytest.raises(TypeError, match="cpu"):
        torch.ones(2, device=DEV).numpy()


def test_from_numpy_to_the_card_and_back():
    a = np.arange(5, dtype=np.float32)
    x = torch.from_dlpack(a).to(DEV)
    assert np.array_equal(x.cpu().numpy(), a)


def test_gradients_are_refused():
    x = torch.ones(2, device=DEV, requires_grad=True)
    with pytest.raises(BufferError, match="grad"):
        torch.from_dlpack(x)


class Producer:
    """Another library with memory on the card and its own stream."""

    def __init__(self, tensor, stream):
        self.tensor, self.stream, self.asked = tensor, stream, []

    def __dlpack_device__(self):
        return EXT_DEV, self.tensor.device.index

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        self.asked.append(stream)
        with torch.openreg.stream(self.stream):
            return self.tensor.__dlpack__(stream=stream)


class OldProducer(Producer):
    """A producer from before the version argument."""

    def __dlpack__(self, *, stream=None):
        return super().__dlpack__(stream=stream)


@pytest.mark.parametrize("from_dlpack", [torch.from_dlpack, dlpack.from_dlpack])
@pytest.mark.parametrize("kind", [Producer, OldProducer])
def test_producer_gets_the_current_stream(gate, from_dlpack, kind):
    producers, consumer = torch.openreg.Stream(), torch.openreg.Stream()
    with torch.openreg.stream(producers):
        x = torch.zeros(4, device=DEV)
        producer = kind(x, producers)
        with gate:
            x.add_(1)
            with torch.openreg.stream(consumer):
                y = from_dlpack(producer) + 1
                assert not consumer.query()
    assert producer.asked == [consumer.native_handle]
    consumer.synchronize()
    assert y.cpu().tolist() == [2, 2, 2, 2]


def test_a_producer_of_the_other_card():
    x = torch.arange(3.0).to("openreg:1")
    producer = Producer(x, torch.openreg.default_stream(1))
    y = torch.from_dlpack(producer)
    assert y.device.index == 1 and y.data_ptr() == x.data_ptr()
    assert producer.asked == [torch.openreg.current_stream(1).native_handle]
    z = torch.from_dlpack(producer, device="openreg:0")
    assert z.device.index == 0 and z.tolist() == [0, 1, 2]


def test_producer_with_a_missing_card():
    class Wrong(Producer):
        def __dlpack_device__(self):
            return EXT_DEV, 5

    x = torch.ones(1, device=DEV)
    with pytest.raises(RuntimeError, match="openreg:5 does not exist.* 2 cards"):
        torch.from_dlpack(Wrong(x, torch.openreg.default_stream()))


def test_onto_a_device_and_as_a_copy():
    x = torch.arange(4.0).to("openreg:1")
    for how in ({"device": "openreg:1"}, {"device": x.device, "copy": False}):
        assert torch.from_dlpack(x, **how).data_ptr() == x.data_ptr()
    for how in ({"copy": True}, {"device": "openreg:1", "copy": True}):
        y = torch.from_dlpack(x, **how)
        assert y.device == x.device and y.data_ptr() != x.data_ptr()
        assert y.tolist() == [0, 1, 2, 3]
    y = torch.from_dlpack(x, device="openreg:0")
    assert y.device.index == 0 and y.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="without copying"):
        torch.from_dlpack(x, device="openreg:0", copy=False)
