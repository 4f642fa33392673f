// SPDX-License-Identifier: BSD-3-Clause
// The call of a collective, as a row of the CPU in a profile: "occl:all_reduce".
#pragma once

#include <ATen/record_function.h>

#include <string>
#include <vector>

#include "distributed/communicator.h"

namespace openreg {

// The row lasts until the end of the scope. It is asynchronous, as those of torch's own
// backends: it is no parent of operators.
class LaunchRow {
 public:
  LaunchRow(const char* name, const Tensors& inputs) {
    if (C10_LIKELY(!row_.isActive()))
      return;
    name_ = std::string("occl:") + name;
    inputs_.assign(inputs.begin(), inputs.end());
    row_._setAsync();
    row_.before(name_, &inputs_);
  }
  LaunchRow(const LaunchRow&) = delete;
  LaunchRow& operator=(const LaunchRow&) = delete;

 private:
  std::string name_;
  std::vector<c10::IValue> inputs_;
  at::RecordFunction row_{at::RecordScope::FUNCTION}; // ends before its name
};

} // namespace openreg
