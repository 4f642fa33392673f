// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/cross_copy.h"

#include <sys/mman.h>
#include <array>
#include <algorithm>

#include "runtime/strided_copy.h"

namespace openreg {
namespace {

constexpr size_t kHalf = size_t{1} << 20; // bytes

// Anonymous memory, registered with each card that takes part.
struct Bounce {
  std::mutex mutex;
  void* memory = MAP_FAILED;
  std::array<openreg_bo*, kMaxDevices> bos{};
};

Bounce& bounce() {
  static Bounce* bounce = new Bounce;
  return *bounce;
}

uint64_t bounce_address(Bounce& b, c10::DeviceIndex index) {
  if (b.memory == MAP_FAILED)
    b.memory = mmap(
        nullptr,
        2 * kHalf,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS,
        -1,
        0);
  if (b.memory == MAP_FAILED)
    fail("no memory for copies between cards", -ENOMEM);
  openreg_bo*& bo = b.bos[index];
  if (!bo) {
    const int error =
        openreg_mem_register(device(index).handle, b.memory, 2 * kHalf, 0, &bo);
    if (error)
      fail("memory for copies between cards cannot be registered", error);
  }
  return openreg_bo_address(bo);
}

uint64_t submit_bytes(
    StreamState& s,
    uint64_t to,
    uint64_t from,
    size_t bytes) {
  constexpr auto kByte = c10::ScalarType::Byte;
  std::lock_guard<std::mutex> lock(s.mutex);
  return submit_copy_locked(
      s,
      copy_shape(
          {static_cast<int64_t>(bytes)}, to, {1}, kByte, from, {1}, kByte));
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
  Bounce& b = bounce();
  std::lock_guard<std::mutex> lock(b.mutex);
  const uint64_t reader_base = bounce_address(b, from_device);
  const uint64_t writer_base = bounce_address(b, to_device);
  uint64_t written[2] = {0, 0};
  int half = 0;
  for (size_t at = 0; at < bytes; at += kHalf, half ^= 1) {
    const size_t n = std::min(kHalf, bytes - at);
    const size_t offset = half * kHalf;
    wait_seq(writer, written[half]);
    wait_seq(
        reader, submit_bytes(reader, reader_base + offset, from + at, n));
    written[half] =
        submit_bytes(writer, to + at, writer_base + offset, n);
  }
  // The memory is the next caller's.
  wait_seq(writer, std::max(written[0], written[1]));
}

} // namespace openreg
