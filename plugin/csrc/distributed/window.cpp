// SPDX-License-Identifier: BSD-3-Clause
#include "distributed/window.h"

#include <ATen/ops/from_blob.h>

#include <array>

#include "distributed/arguments.h"
#include "distributed/launch_row.h"
#include "distributed/shared_descriptors.h"
#include "runtime/ipc.h"

namespace openreg {

WindowOCCL::WindowOCCL(c10::intrusive_ptr<ProcessGroupOCCL> group)
    : group_(std::move(group)) {}

void WindowOCCL::tensor_register(const at::Tensor& tensor, bool owning) {
  TORCH_CHECK(
      !registered_, "the window has a tensor already: call tensor_deregister() first");
  const at::Tensor real = checked_contiguous("tensor_register", tensor);
  TORCH_CHECK_VALUE(bytes(real) > 0, "tensor_register: the tensor has no elements");
  const c10::Device device = real.device();
  if (!communicator_)
    communicator_ = group_->window_communicator(device.index());
  TORCH_CHECK_VALUE(
      communicator_->options().device == device.index(),
      "the window uses openreg:",
      static_cast<int>(communicator_->options().device),
      ", not ",
      device);
  const Descriptor memory(share_storage(real.storage()));
  // A put does not wait for this rank: what its streams have done before comes first.
  synchronize_stream(current_stream_state(device.index()));
  const uint64_t offset = real.storage_offset() * real.element_size();
  communicator_->call([&](openreg_comm* comm) {
    return openreg_comm_window(comm, memory.fd, offset, bytes(real));
  });
  try {
    map_all(memory.fd, offset, bytes(real), tensor.scalar_type());
  } catch (...) {
    mapped_.clear();
    end();
    throw;
  }
  sizes_ = tensor.sizes().vec();
  registered_ = true;
  if (owning)
    tensor_ = tensor;
}

void WindowOCCL::end() {
  communicator_->call(
      [](openreg_comm* comm) { return openreg_comm_window(comm, -1, 0, 0); });
}

// A window of the library ends at tensor_deregister(). Tensors keep this mapping.
void WindowOCCL::map_all(
    int fd,
    uint64_t offset,
    uint64_t bytes,
    c10::ScalarType type) {
  const SharedDescriptors all(
      *communicator_,
      {fd, fd},
      {offset, bytes, static_cast<uint64_t>(type)});
  mapped_.clear();
  on_all_ranks(*communicator_, "use the memory of the other ranks", [&] {
    for (int r = 0; r < group_->getSize(); r++) {
      const bool own = r == group_->getRank();
      const auto [begin, length, dtype] = all.words(r);
      mapped_.push_back(
          {PeerMemory::import(
               own ? fd : all[r].fds[0], communicator_->options().device, begin + length),
           begin,
           length,
           static_cast<c10::ScalarType>(dtype)});
    }
  });
}

void WindowOCCL::tensor_deregister() {
  TORCH_CHECK(registered_, "the window has no tensor: call tensor_register() first");
  end();
  registered_ = false;
  tensor_.reset();
  mapped_.clear();
}

void WindowOCCL::check_registered(const char* name, int64_t rank) const {
  TORCH_CHECK(
      registered_, name, ": the window has no tensor: call tensor_register() first");
  check_root(name, rank, group_->getSize());
}

c10::intrusive_ptr<c10d::Work> WindowOCCL::launch(
    const char* name,
    const Tensors& tensors,
    bool asynchronous,
    std::chrono::milliseconds timeout,
    std::function<int64_t(openreg_comm*)> queue) {
  Collective collective;
  collective.queue = std::move(queue);
  const LaunchRow row(name, tensors);
  auto work = group_->window_work(communicator_, collective, timeout, tensors);
  if (!asynchronous)
    work->synchronize();
  return work;
}

c10::intrusive_ptr<c10d::Work> WindowOCCL::put(
    const at::Tensor& tensor,
    int64_t rank,
    int64_t offset,
    bool asynchronous,
    const c10d::PutOptions& opts) {
  check_registered("put", rank);
  const at::Tensor real = checked_contiguous("put", tensor);
  TORCH_CHECK_VALUE(offset >= 0, "put: the offset ", offset, " is negative");
  TORCH_CHECK_VALUE(
      real.device().index() == communicator_->options().device,
      "put: the tensor is on ",
      real.device(),
      ", but the window uses openreg:",
      static_cast<int>(communicator_->options().device));
  uint64_t at;
  TORCH_CHECK_VALUE(
      !__builtin_mul_overflow(
          static_cast<uint64_t>(offset), tensor.element_size(), &at),
      "put: no window has an element ",
      offset);
  return launch("put", {real}, asynchronous, opts.timeout, [=](openreg_comm* comm) {
    return openreg_comm_put(
        comm, static_cast<uint32_t>(rank), at, address(real), bytes(real));
  });
}

at::Tensor WindowOCCL::map_remote_tensor(int64_t rank) {
  check_registered("map_remote_tensor", rank);
  const Mapped& its = mapped_[rank];
  const Mapped& own = mapped_[group_->getRank()];
  const auto esize = c10::elementSize(its.type);
  const bool alike = its.bytes == own.bytes && its.type == own.type;
  const std::vector<int64_t> flat{static_cast<int64_t>(its.bytes / esize)};
  const uint64_t at = its.memory->addr() + its.offset;
  TORCH_CHECK_VALUE(
      at % esize == 0,
      "map_remote_tensor: the tensor of rank ",
      rank,
      " is not aligned to elements of ",
      esize,
      " bytes");
  const c10::Device device = torch_device(communicator_->options().device);
  return at::for_blob(reinterpret_cast<void*>(at), alike ? sizes_ : flat)
      .options(at::TensorOptions(device).dtype(its.type))
      .target_device(device)
      .deleter([memory = its.memory](void*) {})
      .make_tensor();
}

c10::intrusive_ptr<c10d::Work> WindowOCCL::signal(
    int64_t rank,
    bool asynchronous,
    const c10d::SignalOptions& opts) {
  check_registered("signal", rank);
  return launch("signal", {}, asynchronous, opts.timeout, [=](openreg_comm* comm) {
    return openreg_comm_signal(comm, static_cast<uint32_t>(rank));
  });
}

c10::intrusive_ptr<c10d::Work> WindowOCCL::wait_signal(
    int64_t rank,
    bool asynchronous,
    const c10d::WaitSignalOptions& opts) {
  check_registered("wait_signal", rank);
  return launch("wait_signal", {}, asynchronous, opts.timeout, [=](openreg_comm* comm) {
    return openreg_comm_wait_signal(comm, static_cast<uint32_t>(rank));
  });
}

// A put writes the tensor itself.
c10d::WindowAttr WindowOCCL::get_attr(int64_t rank) {
  check_registered("get_attr", rank);
  return {c10d::WindowAccessType::UNIFIED};
}

} // namespace openreg
