// SPDX-License-Identifier: BSD-3-Clause
// The backend "occl" for torch.distributed.
#include "python/bindings.h"

#ifdef USE_DISTRIBUTED
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "distributed/process_group.h"

namespace py = pybind11;

namespace openreg {
namespace {

using c10d::Backend;

// The group's own arguments replace those of its options, as with NCCL.
c10::intrusive_ptr<ProcessGroupOCCL> create(
    const c10d::DistributedBackendOptions& given,
    const std::optional<c10::intrusive_ptr<OptionsOCCL>>& wanted) {
  auto options = wanted ? c10::make_intrusive<OptionsOCCL>(**wanted)
                        : c10::make_intrusive<OptionsOCCL>();
  options->timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(given.timeout);
  options->group_name = given.group_id;
  options->global_ranks_in_group.assign(
      given.global_ranks_in_group.begin(), given.global_ranks_in_group.end());
  auto group = c10::make_intrusive<ProcessGroupOCCL>(
      given.store, given.group_rank, given.group_size, options);
  if (given.process_group)
    group->setBoundDeviceId(given.process_group->getBoundDeviceId());
  return group;
}

} // namespace

// The base classes must be bound first: torch.distributed does that at its import.
void bind_distributed(py::module_& m) {
  m.def("bind_process_group", [m]() mutable {
    if (py::hasattr(m, "ProcessGroupOCCL"))
      return;
    py::class_<ProcessGroupOCCL, Backend, c10::intrusive_ptr<ProcessGroupOCCL>> group(
        m, "ProcessGroupOCCL");
    py::class_<OptionsOCCL, Backend::Options, c10::intrusive_ptr<OptionsOCCL>>(
        group, "Options")
        .def(py::init<bool>(), py::arg("is_high_priority_stream") = false)
        .def_readwrite("is_high_priority_stream", &OptionsOCCL::is_high_priority_stream);
    group
        .def(
            py::init<
                c10::intrusive_ptr<c10d::Store>,
                int,
                int,
                c10::intrusive_ptr<OptionsOCCL>>(),
            py::arg("store").none(false),
            py::arg("rank"),
            py::arg("size"),
            py::arg("options").none(false),
            Unlocked())
        .def_static("create", &create, Unlocked())
        .def("comm_split_count", &ProcessGroupOCCL::split_count)
        // Nothing to do: members of a new group meet through the store.
        .def("perform_nocolor_split", [](ProcessGroupOCCL&, const at::Device&) {});
  });
  m.def("drain_process_groups", [](int64_t ms) {
    drain_all(std::chrono::milliseconds(ms));
  }, Unlocked());
}

} // namespace openreg
#else
namespace openreg {

void bind_distributed(pybind11::module_&) {}

} // namespace openreg
#endif
