// SPDX-License-Identifier: MIT
// Given: what your allocator is built on, and its operators for Python.
//
//   lab11::alloc(n) -> Tensor   n bytes (uint8) of the current card, for its current stream.
//                               Cache::free() is called when the last reference goes
//   lab11::record(t, n)         stream number n of the card uses the tensor too
//   lab11::empty()              Cache::empty()
#pragma once

#include "backend.hpp"

#include <c10/core/StorageImpl.h>

#include <mutex>
#include <unordered_map>

using openreg::StreamState;

// Memory of the card from the driver: a system call, and on a real card a slow one.
inline void* take_segment(c10::DeviceIndex device, size_t size);
// Returns it. The card faults if a packet that runs later names it.
inline void give_segment(void* segment);

class Cache {
 public:
  // At least size bytes for packets of this stream, at a multiple of 512. size may be 0.
  // Throws c10::OutOfMemoryError if the card has no such memory.
  void* alloc(size_t size, StreamState& stream);
  // The program does not use the block any more. Packets that are queued may.
  void free(void* block);
  // This stream uses the block too, from now on until free().
  void record(void* block, StreamState& stream);
  // Returns all segments without a block in use.
  void empty();

 private:
  struct State;
  State& state();
};

// The rest connects the functions above with the card and Python.

namespace lab11 {

struct Segments {
  std::mutex mutex;
  std::unordered_map<void*, openreg_bo*> all;
};

inline Segments& segments() {
  static auto* found = new Segments;
  return *found;
}

inline Cache& cache() {
  static auto* found = new Cache;
  return *found;
}

inline at::Tensor alloc(int64_t size) {
  const c10::DeviceIndex device = openreg::current_device();
  void* block = cache().alloc(static_cast<size_t>(size), openreg::current_stream_state(device));
  return at::for_blob(block, {size})
      .deleter([](void* at) { cache().free(at); })
      .options(at::TensorOptions().dtype(at::kByte).device(openreg::torch_device(device)))
      .target_device(openreg::torch_device(device))
      .make_tensor();
}

inline void record(const at::Tensor& tensor, int64_t stream) {
  cache().record(
      tensor.mutable_data_ptr(),
      openreg::stream_state(c10::Stream(c10::Stream::UNSAFE, tensor.device(), stream)));
}

inline void empty() {
  cache().empty();
}

} // namespace lab11

inline void* take_segment(c10::DeviceIndex device, size_t size) {
  openreg_bo* bo = nullptr;
  const int error =
      openreg_bo_alloc(openreg::device(device).handle, size, OPENREG_BO_VRAM, &bo);
  TORCH_CHECK_WITH(OutOfMemoryError, error == 0, "the card has no ", size, " bytes");
  auto* address = reinterpret_cast<void*>(openreg_bo_address(bo));
  std::lock_guard<std::mutex> lock(lab11::segments().mutex);
  lab11::segments().all[address] = bo;
  return address;
}

inline void give_segment(void* segment) {
  std::lock_guard<std::mutex> lock(lab11::segments().mutex);
  const auto found = lab11::segments().all.find(segment);
  TORCH_CHECK(found != lab11::segments().all.end(), segment, " is no segment");
  openreg_bo_free(found->second);
  lab11::segments().all.erase(found);
}

TORCH_LIBRARY(lab11, m) {
  m.def("alloc(int size) -> Tensor", &lab11::alloc);
  m.def("record(Tensor tensor, int stream) -> ()");
  m.def("empty() -> ()", &lab11::empty);
}
TORCH_LIBRARY_IMPL(lab11, PrivateUse1, m) {
  m.impl("record", &lab11::record);
}
