// SPDX-License-Identifier: BSD-3-Clause
// torch.openreg.profiler.emit_ranges(): a range for each operator and record_function().
// Core calls push() when a profile with the state PRIVATEUSE1 begins, and removes the
// callback at its end.
#include <torch/csrc/profiler/standalone/privateuse1_observer.h>
#include <torch/csrc/profiler/util.h>

#include <memory>
#include <sstream>
#include <utility>

#include "runtime/trace_marker.h"

namespace openreg {
namespace {

using torch::profiler::impl::ActiveProfilerType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerStateBase;

struct State final : ProfilerStateBase {
  using ProfilerStateBase::ProfilerStateBase;

  ActiveProfilerType profilerType() override {
    return ActiveProfilerType::PRIVATEUSE1;
  }
  void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
};

// As the ranges of torch.autograd.profiler.emit_nvtx.
std::string name_of(const at::RecordFunction& function) {
  std::ostringstream name;
  name << function.name();
  if (function.seqNr() >= 0)
    name << ", seq = " << function.seqNr();
  if (!function.needsInputs())
    return name.str();
  name << ", sizes = [";
  const char* comma = "";
  for (const auto& sizes : torch::profiler::impl::inputSizes(function)) {
    name << std::exchange(comma, ", ") << c10::IntArrayRef(sizes);
  }
  name << "]";
  return name.str();
}

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  trace_begin(name_of(function));
  return nullptr;
}

void leave(const at::RecordFunction&, at::ObserverContext*) {
  trace_end();
}

void push(
    const ProfilerConfig& config,
    const std::unordered_set<at::RecordScope>& scopes) {
  ProfilerStateBase::push(std::make_shared<State>(config));
  ProfilerStateBase::getTLS()->setCallbackHandle(
      at::addThreadLocalCallback(at::RecordFunctionCallback(enter, leave)
                                     .needsInputs(config.report_input_shapes)
                                     .scopes(scopes)));
}

const torch::profiler::impl::RegisterPRIVATEUSE1Observer registered(&push);

} // namespace
} // namespace openreg
