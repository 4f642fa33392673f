// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/cross_copy.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "runtime/capture.h"
#include "runtime/interrupt.h"
#include "runtime/strided_copy.h"

namespace openreg {
namespace {

constexpr size_t kHalf = size_t{1} << 20; // bytes

// Anonymous memory, registered with a card at the card's first copy.
class Bounce {
 public:
  Bounce() {
    memory_ = mmap(
        nullptr,
        2 * kHalf,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS,
        -1,
        0);
    TORCH_CHECK(
        memory_ != MAP_FAILED,
        "no memory for copies between cards: ",
        std::strerror(errno));
  }
  ~Bounce() {
    for (openreg_bo* bo : bos_)
      openreg_bo_free(bo);
    munmap(memory_, 2 * kHalf);
  }
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;

  uint64_t address(c10::DeviceIndex index) {
    openreg_bo*& bo = bos_[index];
    if (!bo) {
      const int error = openreg_mem_register(
          device(index).handle, memory_, 2 * kHalf, 0, &bo);
      if (error)
        fail("memory for copies between cards cannot be registered", error);
    }
    return openreg_bo_address(bo);
  }

  // Keeps the memory until the packets that are now in flight on the stream complete.
  void used_on(StreamState& stream) {
    uses_.push_back({&stream, stream.last_seq.load(std::memory_order_acquire)});
  }
  bool in_use() const {
    return std::any_of(uses_.begin(), uses_.end(), [](const Use& use) {
      return !use.stream->done(use.seq);
    });
  }

 private:
  struct Use {
    StreamState* stream;
    uint64_t seq;
  };

  void* memory_;
  std::array<openreg_bo*, kMaxDevices> bos_{};
  std::vector<Use> uses_;
};

struct Bounces {
  std::mutex mutex;
  std::unique_ptr<Bounce> idle;
  // Memory of failed copies. A stream may still run their packets.
  std::vector<std::unique_ptr<Bounce>> left;
};

Bounces& bounces() {
  static Bounces* bounces = new Bounces;
  return *bounces;
}

std::unique_ptr<Bounce> take_locked(Bounces& all) {
  std::erase_if(all.left, [](const auto& b) { return !b->in_use(); });
  return all.idle ? std::move(all.idle) : std::make_unique<Bounce>();
}

Sent submit_bytes(StreamState& s, CopyShape shape) {
  std::lock_guard<std::mutex> lock(s.mutex);
  const uint64_t seq = submit_copy_locked(s, std::move(shape));
  return {seq, s.resets};
}

struct End {
  StreamState& stream;
  uint64_t addr;
  uint64_t bounce;
};

// The reader's card fills one half while the writer's card empties the other half.
void copy_halves(const End& writer, const End& reader, size_t bytes) {
  uint64_t written[2] = {0, 0};
  int half = 0;
  for (size_t at = 0; at < bytes; at += kHalf, half ^= 1) {
    const size_t n = std::min(kHalf, bytes - at);
    const size_t offset = half * kHalf;
    wait_seq(writer.stream, written[half]);
    wait_read(
        reader.stream,
        submit_bytes(
            reader.stream,
            bytes_shape(
                CopyWay::TO_HOST, reader.bounce + offset, reader.addr + at, n)));
    written[half] = submit_bytes(
        writer.stream,
        bytes_shape(
            CopyWay::FROM_HOST, writer.addr + at, writer.bounce + offset, n)).seq;
  }
  // Wait: the next caller reuses the memory.
  wait_seq(writer.stream, std::max(written[0], written[1]));
}

} // namespace

void cross_copy_bytes(
    uint64_t to,
    c10::DeviceIndex to_device,
    uint64_t from,
    c10::DeviceIndex from_device,
    size_t bytes) {
  StreamState& reader = current_stream_state(from_device);
  StreamState& writer = current_stream_state(to_device);
  for (const StreamState* s : {&reader, &writer})
    refuse_capture(
        *s,
        "a copy from one card to another",
        "Capture a graph for each card, and copy between the replays.");
  restartable([&] {
    Bounces& all = bounces();
    std::lock_guard<std::mutex> lock(all.mutex);
    std::unique_ptr<Bounce> b = take_locked(all);
    try {
      copy_halves(
          {writer, to, b->address(to_device)},
          {reader, from, b->address(from_device)},
          bytes);
    } catch (...) {
      b->used_on(reader);
      b->used_on(writer);
      all.left.push_back(std::move(b));
      throw;
    }
    all.idle = std::move(b);
  });
}

} // namespace openreg
