// SPDX-License-Identifier: BSD-3-Clause
#include "distributed/side_stream.h"

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/submit.h"

namespace openreg {
namespace {

constexpr uint32_t kRingSlots = 4096;
constexpr uint64_t kBytes = 4096;

struct Idle {
  std::mutex mutex;
  std::array<std::vector<SideStream*>, kMaxDevices> streams;
};

Idle& idle() {
  static auto* idle = new Idle;
  return *idle;
}

openreg_queue* new_queue(Device& dev) {
  openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
  attr.slots = std::min(kRingSlots, dev.info.max_ring_slots);
  attr.full_timeout_ns = kWaitSliceNs;
  openreg_queue* queue = nullptr;
  const int error = openreg_queue_create(dev.handle, &attr, &queue);
  if (error)
    fail("cannot create a queue for a process group", error);
  return queue;
}

void give_back(SideStream* side) {
  Idle& i = idle();
  std::lock_guard<std::mutex> lock(i.mutex);
  i.streams[side->state().device].push_back(side);
}

SideStream* take_idle(c10::DeviceIndex index) {
  Idle& i = idle();
  std::lock_guard<std::mutex> lock(i.mutex);
  auto& streams = i.streams[index];
  if (streams.empty())
    return nullptr;
  SideStream* side = streams.back();
  streams.pop_back();
  return side;
}

} // namespace

SideStream::SideStream(c10::DeviceIndex index) {
  Device& dev = device(index);
  void* word = nullptr;
  int error = openreg_bo_alloc(dev.handle, kBytes, OPENREG_BO_VRAM, &bo_);
  if (!error)
    error = openreg_bo_map(bo_, &word);
  if (error) {
    openreg_bo_free(bo_);
    fail("no device memory for a process group", error);
  }
  word_ = static_cast<uint64_t*>(word);
  openreg_queue* queue = nullptr;
  try {
    queue = new_queue(dev);
    state_ = &stream_state(external_stream(index, queue));
  } catch (...) {
    openreg_queue_destroy(queue);
    openreg_bo_free(bo_);
    throw;
  }
}

std::shared_ptr<SideStream> SideStream::take(c10::DeviceIndex index) {
  SideStream* side = take_idle(index);
  return {side ? side : new SideStream(index), [](SideStream* s) {
            s->release();
            give_back(s);
          }};
}

c10::Stream SideStream::stream() const {
  return c10::Stream(c10::Stream::UNSAFE, torch_device(state_->device), state_->id);
}

uint64_t SideStream::address() const {
  return openreg_bo_address(bo_);
}

uint64_t SideStream::wait_for_next() {
  static const OpId op = op_id("openreg::wait_for_collective");
  Packet packet(OPENREG_OP_WAIT, op);
  packet.arg(0, OPENREG_WAIT_GE);
  packet.operand(reinterpret_cast<void*>(address()), OPENREG_I64);
  packet.imm(static_cast<int64_t>(value_ + 1));
  std::lock_guard<std::mutex> lock(state_->mutex);
  value_++;
  return submit_locked(*state_, packet);
}

// The old text may be in use in another thread, so it stays.
void SideStream::break_with(const std::string& text) {
  state_->broken.store(new std::string(text), std::memory_order_release);
}

void SideStream::release() {
  *word_ = value_;
  state_->broken.store(nullptr, std::memory_order_release);
}

} // namespace openreg
