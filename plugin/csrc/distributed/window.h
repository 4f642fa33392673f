// SPDX-License-Identifier: BSD-3-Clause
// Windows of the backend "occl": tensors that the other ranks of a group write.
#pragma once

#include <torch/csrc/distributed/c10d/Window.hpp>

#include "distributed/process_group.h"
#include "runtime/peer_memory.h"

namespace openreg {

// A window has a communicator of its own: a put does not wait for collectives. It waits for
// earlier wait_signal()s of this window.
class WindowOCCL final : public c10d::Window {
 public:
  explicit WindowOCCL(c10::intrusive_ptr<ProcessGroupOCCL> group);

  // Moves the tensor to memory of its own, which the other ranks can write.
  void tensor_register(const at::Tensor& tensor, bool owning = true) override;
  void tensor_deregister() override;
  c10::intrusive_ptr<c10d::Work> put(
      const at::Tensor& tensor,
      int64_t rank,
      int64_t offset,
      bool asynchronous,
      const c10d::PutOptions& opts = {}) override;
  // The tensor has the other rank's type. It has the sizes of this rank's tensor if both
  // have as many elements of one type, else one dimension. It keeps the memory.
  at::Tensor map_remote_tensor(int64_t rank) override;
  c10::intrusive_ptr<c10d::Work> signal(
      int64_t rank,
      bool asynchronous,
      const c10d::SignalOptions& opts = {}) override;
  c10::intrusive_ptr<c10d::Work> wait_signal(
      int64_t rank,
      bool asynchronous,
      const c10d::WaitSignalOptions& opts = {}) override;
  c10d::WindowAttr get_attr(int64_t rank) override;

 private:
  // The tensor of a rank, as this rank's card reaches it.
  struct Mapped {
    std::shared_ptr<PeerMemory> memory;
    uint64_t offset, bytes;
    c10::ScalarType type;
  };

  void map_all(int fd, uint64_t offset, uint64_t bytes, c10::ScalarType type);
  // The library's window. All ranks call this.
  void end();
  void check_registered(const char* name, int64_t rank) const;
  c10::intrusive_ptr<c10d::Work> launch(
      const char* name,
      const Tensors& tensors,
      bool asynchronous,
      std::chrono::milliseconds timeout,
      std::function<int64_t(openreg_comm*)> queue);

  const c10::intrusive_ptr<ProcessGroupOCCL> group_;
  std::shared_ptr<Communicator> communicator_;
  bool registered_ = false;
  at::Tensor tensor_; // if the window owns it
  std::vector<Mapped> mapped_; // by rank
  std::vector<int64_t> sizes_; // of this rank's tensor
};

} // namespace openreg
