// SPDX-License-Identifier: BSD-3-Clause
// The packets of a compiled function, kept to run again with other tensors: a call puts the
// addresses of its inputs and of new results into the packets and copies them to the ring.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <vector>

#include "runtime/capture.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

class Plan {
 public:
  ~Plan();

  // Captures the packets of the current stream until end() or abandon(). Meanwhile no two
  // tensors get the same memory, so that an address names a tensor.
  void begin(c10::DeviceIndex device);
  // The tensors that the packets read and write, and the new ones among the results.
  void end(std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs);
  void abandon();

  size_t packets() const {
    return packets_.size();
  }
  // Whether run() can take these tensors now.
  bool takes(c10::ArrayRef<at::Tensor> inputs) const;
  std::vector<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs);

 private:
  // A word of the packets that has an address in a tensor of the call.
  struct Place {
    size_t word;
    size_t tensor; // inputs, then memory of the results
    uint64_t offset;
  };
  struct Layout {
    c10::ScalarType type;
    std::vector<int64_t> size, stride;
  };
  struct Output {
    Layout layout;
    size_t memory;
    int64_t offset; // elements
    bool alone = true; // all of its memory is this tensor
  };

  struct Range;
  void find_places(const Capture& capture, const std::vector<Range>& ranges);
  void draw_numbers();
  void submit();

  c10::DeviceIndex device_ = 0;
  StreamState* stream_ = nullptr;
  std::shared_ptr<Capture> capture_; // while it runs
  PrivatePool* pool_ = nullptr;
  bool usable_ = true; // other tensors can replace the inputs
  std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();
  std::mutex mutex_; // of the words
  std::vector<Slot> slots_;
  std::vector<uint8_t> packets_; // their numbers of slots
  std::vector<Place> places_;
  std::vector<CapturedGenerator> generators_;
  std::vector<Layout> inputs_;
  std::vector<Output> outputs_;
  std::vector<size_t> memory_; // bytes of each memory of the results
};

} // namespace openreg
#pragma GCC visibility pop
