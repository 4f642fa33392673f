// SPDX-License-Identifier: BSD-3-Clause
// Process groups: their communicators, and their end.
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <numeric>
#include <set>

#include "distributed/arguments.h"
#include "distributed/launch_row.h"
#include "distributed/process_group.h"
#include "distributed/symmetric_memory.h"
#include "distributed/window.h"
#include "runtime/gil.h"
#include "runtime/ipc.h"

namespace openreg {
namespace {

constexpr const char* kName = "occl";

// All groups of the process, for drain_all().
struct Groups {
  std::mutex mutex;
  std::set<ProcessGroupOCCL*> all;
};

Groups& groups() {
  static auto* groups = new Groups;
  return *groups;
}

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

int64_t elements(const Tensors& tensors) {
  int64_t n = 0;
  for (const at::Tensor& tensor : tensors)
    n += tensor.numel();
  return n;
}

// Traces name the ranks of a group by the first one and a stride, or not at all.
int stride_of(const std::vector<int64_t>& ranks) {
  const int64_t stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;
  for (size_t n = 1; n < ranks.size(); n++)
    if (ranks[n] - ranks[n - 1] != stride)
      return -1;
  return static_cast<int>(stride);
}

// Tools that read traces know these names.
const char* core_name(c10d::OpType type) {
  using c10d::OpType;
  switch (type) {
    case OpType::BROADCAST:
      return "broadcast";
    case OpType::ALLREDUCE:
      return "allreduce";
    case OpType::ALLREDUCE_COALESCED:
      return "allreduce_coalesced";
    case OpType::REDUCE:
      return "reduce";
    case OpType::ALLGATHER:
      return "all_gather";
    case OpType::_ALLGATHER_BASE:
      return "_allgather_base";
    case OpType::ALLGATHER_COALESCED:
      return "allgather_coalesced";
    case OpType::ALLGATHER_INTO_TENSOR_COALESCED:
      return "allgather_into_tensor_coalesced";
    case OpType::GATHER:
      return "gather";
    case OpType::SCATTER:
      return "scatter";
    case OpType::REDUCE_SCATTER:
      return "reduce_scatter";
    case OpType::_REDUCE_SCATTER_BASE:
      return "_reduce_scatter_base";
    case OpType::REDUCE_SCATTER_TENSOR_COALESCED:
      return "reduce_scatter_tensor_coalesced";
    case OpType::ALLTOALL:
    case OpType::ALLTOALL_BASE:
      return "all_to_all";
    case OpType::BARRIER:
      return "barrier";
    default:
      return "unknown";
  }
}

} // namespace

c10::intrusive_ptr<c10d::Backend::Options> OptionsOCCL::clone() const {
  return c10::make_intrusive<OptionsOCCL>(*this);
}

ProcessGroupOCCL::ProcessGroupOCCL(
    c10::intrusive_ptr<c10d::Store> store,
    int rank,
    int size,
    c10::intrusive_ptr<OptionsOCCL> options)
    : Backend(rank, size), store_(std::move(store)), options_(std::move(options)) {
  TORCH_CHECK_VALUE(
      size <= OPENREG_COMM_RANKS_MAX,
      "a process group of the backend occl can have ",
      OPENREG_COMM_RANKS_MAX,
      " ranks, not ",
      size);
  init();
  std::lock_guard<std::mutex> lock(groups().mutex);
  groups().all.insert(this);
}

ProcessGroupOCCL::~ProcessGroupOCCL() {
  {
    std::lock_guard<std::mutex> lock(groups().mutex);
    groups().all.erase(this);
  }
  if (in_bad_fork())
    return;
  const WithoutGil unlocked; // another thread may need it to finish
  for (const auto& c : communicators())
    c->close();
}

const std::string ProcessGroupOCCL::getBackendName() const {
  return kName;
}

auto ProcessGroupOCCL::getBackendOptions() -> c10::intrusive_ptr<Options> {
  return options_;
}

bool ProcessGroupOCCL::supportsSplitting() const {
  return true;
}

bool ProcessGroupOCCL::supportsCoalescing() const {
  return true;
}

void ProcessGroupOCCL::setTimeout(Milliseconds timeout) {
  std::lock_guard<std::mutex> lock(mutex_);
  options_->timeout = timeout;
}

void ProcessGroupOCCL::addEphemeralTimeout(const Milliseconds& timeout) {
  std::lock_guard<std::mutex> lock(mutex_);
  ephemeral_ += timeout;
}

auto ProcessGroupOCCL::timeout_of(Milliseconds given) -> Milliseconds {
  std::lock_guard<std::mutex> lock(mutex_);
  const Milliseconds base = given == c10d::kUnsetTimeout ? options_->timeout : given;
  return base + std::exchange(ephemeral_, Milliseconds{0});
}

void ProcessGroupOCCL::eagerConnectSingleDevice(at::Device device) {
  communicator(device.index());
}

// The options number the ranks of the job; a split has none of these for the whole group.
std::vector<int64_t> ProcessGroupOCCL::global_ranks(const std::vector<int>& ranks) const {
  const auto& all = options_->global_ranks_in_group;
  std::vector<int64_t> found;
  for (const int rank : ranks)
    found.push_back(
        all.size() == static_cast<size_t>(size_) ? static_cast<int64_t>(all[rank]) : rank);
  return found;
}

std::shared_ptr<Communicator> ProcessGroupOCCL::connect(
    c10::DeviceIndex index,
    const std::string& name,
    const std::vector<int>& ranks,
    Milliseconds timeout) {
  const auto me = std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin();
  const std::string group =
      options_->group_name.empty() ? pg_uid_ : options_->group_name;
  auto made = std::make_shared<Communicator>(
      Communicator::Options{
          .device = index,
          .rank = static_cast<uint32_t>(me),
          .size = static_cast<uint32_t>(ranks.size()),
          .name = name,
          .group = "process group " + (group.empty() ? kName : group),
          .ranks = global_ranks(ranks),
          .timeout = timeout,
          .high_priority = options_->is_high_priority_stream,
      },
      *store_);
  add_job_source(made);
  return made;
}

// The ranks meet at the first collective, or in init_process_group(device_id=).
std::shared_ptr<Communicator> ProcessGroupOCCL::communicator(
    c10::DeviceIndex index,
    bool guessed) {
  check_fork();
  std::unique_lock<std::mutex> lock(mutex_);
  check_device_locked(index);
  if (!guessed)
    used_ = index;
  connected_.wait(lock, [this] { return !connecting_; });
  auto& known = guessed ? guessed_ : communicators_[index];
  if (known)
    return known;
  check_open_locked();
  const std::string name = guessed ? "barrier" : "all." + std::to_string(created_++);
  const Milliseconds timeout = options_->timeout;
  const auto made = without_mutex(
      lock, [&] { return connect(index, name, all_ranks(size_), timeout); });
  check_open_locked();
  return known = made;
}

std::shared_ptr<Communicator> ProcessGroupOCCL::window_communicator(
    c10::DeviceIndex index) {
  check_fork();
  std::unique_lock<std::mutex> lock(mutex_);
  check_device_locked(index);
  connected_.wait(lock, [this] { return !connecting_; });
  check_open_locked();
  const std::string name = "window." + std::to_string(created_windows_++);
  const Milliseconds timeout = options_->timeout;
  const auto made = without_mutex(
      lock, [&] { return connect(index, name, all_ranks(size_), timeout); });
  check_open_locked();
  std::erase_if(windows_, [](const auto& window) { return window.expired(); });
  windows_.push_back(made);
  return made;
}

auto ProcessGroupOCCL::window_work(
    const std::shared_ptr<Communicator>& communicator,
    const Collective& collective,
    Milliseconds timeout,
    const Tensors& tensors) -> WorkPtr {
  std::vector<CollectiveWork::Part> parts{
      {communicator,
       communicator->launch(collective, timeout_of(timeout), tensors, timing_)}};
  return c10::make_intrusive<CollectiveWork>(
      rank_, c10d::OpType::UNKNOWN, sequence_, group_name(), std::move(parts), tensors);
}

bool ProcessGroupOCCL::supportsWindow() const {
  return true;
}

auto ProcessGroupOCCL::new_window(const std::optional<at::Tensor>& tensor)
    -> c10::intrusive_ptr<c10d::Window> {
  auto window = c10::make_intrusive<WindowOCCL>(
      c10::intrusive_ptr<ProcessGroupOCCL>::unsafe_reclaim_from_nonowning(this));
  if (tensor)
    window->tensor_register(*tensor);
  return window;
}

void ProcessGroupOCCL::check_device_locked(c10::DeviceIndex index) const {
  TORCH_CHECK(
      !bound_device_id_ || bound_device_id_->index() == index,
      "the process group is bound to ",
      *bound_device_id_,
      ", so it cannot use tensors of openreg:",
      static_cast<int>(index));
}

void ProcessGroupOCCL::check_open_locked() const {
  if (!closed_.empty())
    C10_THROW_ERROR(DistBackendError, closed_);
}

std::vector<std::shared_ptr<Communicator>> ProcessGroupOCCL::communicators() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::shared_ptr<Communicator>> all;
  for (const auto& [index, c] : communicators_)
    all.push_back(c);
  all.push_back(guessed_);
  for (const auto& [ranks, pair] : pairs_) {
    all.push_back(pair.up);
    all.push_back(pair.down);
  }
  for (const auto& window : windows_)
    all.push_back(window.lock());
  std::erase(all, nullptr);
  return all;
}

auto ProcessGroupOCCL::run(Call call) -> WorkPtr {
  const CallScope scope(this);
  const at::Tensor first = call.inputs.empty() ? call.outputs.at(0) : call.inputs[0];
  for (const Tensors& tensors : {call.inputs, call.outputs})
    check_one_device(call.name, tensors, first);
  const c10::DeviceIndex index = first.device().index();
  const auto comm = communicator(index, call.guessed);
  const uint64_t sequence = ++sequence_;
  const auto ranks = global_ranks(all_ranks(size_));
  const auto start = static_cast<int>(ranks[0]);
  const int stride = stride_of(ranks);
  const LaunchRow row(call.name, call.inputs);
  RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(
      std::make_tuple(static_cast<int64_t>(sequence), false),
      group_name(),
      call.inputs,
      call.outputs,
      rank_,
      core_name(call.type),
      elements(call.inputs),
      elements(call.outputs),
      first.scalar_type(),
      std::vector<int64_t>(),
      std::vector<int64_t>(),
      start,
      stride,
      size_,
      call.asynchronous);
  Tensors tensors = call.inputs;
  tensors.insert(tensors.end(), call.outputs.begin(), call.outputs.end());
  std::vector<CollectiveWork::Part> parts{
      {comm,
       comm->launch(
           call.collective, timeout_of(call.timeout), std::move(tensors), timing_)}};
  return finish(call.type, std::move(parts), std::move(call.outputs));
}

auto ProcessGroupOCCL::finish(
    c10d::OpType type,
    std::vector<CollectiveWork::Part> parts,
    Tensors results) -> WorkPtr {
  if (coalesces()) {
    coalesced_.insert(coalesced_.end(), parts.begin(), parts.end());
    coalesced_results_.insert(coalesced_results_.end(), results.begin(), results.end());
  }
  return c10::make_intrusive<CollectiveWork>(
      rank_, type, sequence_, group_name(), std::move(parts), std::move(results));
}

auto ProcessGroupOCCL::options_for(const c10::intrusive_ptr<Options>& given) const
    -> c10::intrusive_ptr<OptionsOCCL> {
  if (!given)
    return c10::make_intrusive<OptionsOCCL>(*options_);
  auto* const own = dynamic_cast<OptionsOCCL*>(given.get());
  TORCH_CHECK_TYPE(
      own,
      "pg_options of the backend occl must be torch.distributed.ProcessGroupOCCL.Options");
  return c10::intrusive_ptr<OptionsOCCL>::reclaim_copy(own);
}

auto ProcessGroupOCCL::split(
    const c10::intrusive_ptr<c10d::Store>& store,
    const std::vector<int>& ranks,
    const c10::intrusive_ptr<Options>& options) -> c10::intrusive_ptr<Backend> {
  auto own = options_for(options);
  splits_++;
  const auto me = std::find(ranks.begin(), ranks.end(), rank_);
  if (me == ranks.end())
    return nullptr;
  const auto names = global_ranks(ranks);
  own->global_ranks_in_group.assign(names.begin(), names.end());
  auto group = c10::make_intrusive<ProcessGroupOCCL>(
      c10::make_intrusive<c10d::PrefixStore>(
          "split." + std::to_string(splits_) + "." + own->group_name, store),
      static_cast<int>(me - ranks.begin()),
      static_cast<int>(ranks.size()),
      own);
  group->setBoundDeviceId(bound_device_id_);
  return group;
}

auto ProcessGroupOCCL::merge(
    const c10::intrusive_ptr<c10d::Store>& store,
    const c10::intrusive_ptr<Options>& options,
    const int& rank,
    const int& size) -> c10::intrusive_ptr<Backend> {
  auto own = options_for(options);
  own->global_ranks_in_group.clear();
  auto group = c10::make_intrusive<ProcessGroupOCCL>(
      c10::make_intrusive<c10d::PrefixStore>("merge." + own->group_name, store),
      rank,
      size,
      own);
  group->setBoundDeviceId(bound_device_id_);
  return group;
}

c10d::ErrorType ProcessGroupOCCL::getError() {
  for (const auto& c : communicators())
    if (const auto type = c->error_type(); type != c10d::ErrorType::SUCCESS)
      return type;
  return c10d::ErrorType::SUCCESS;
}

void ProcessGroupOCCL::registerAbortHook(int64_t id, c10d::AbortHook hook) {
  std::lock_guard<std::mutex> lock(mutex_);
  abort_hooks_[id] = std::move(hook);
}

void ProcessGroupOCCL::unregisterAbortHook(int64_t id) {
  std::lock_guard<std::mutex> lock(mutex_);
  abort_hooks_.erase(id);
}

void ProcessGroupOCCL::enableCollectivesTiming() {
  timing_ = true;
}

void ProcessGroupOCCL::waitForPendingWorks() {
  for (const auto& c : communicators())
    c->drain(options_->timeout);
}

uint64_t ProcessGroupOCCL::getSequenceNumberForGroup() {
  return sequence_;
}

void ProcessGroupOCCL::abort() {
  std::map<int64_t, c10d::AbortHook> hooks;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    hooks = abort_hooks_;
    closed_ = "the process group was aborted; create a new one";
  }
  for (const auto& [id, hook] : hooks)
    hook();
  for (const auto& c : communicators()) {
    c->abort("the process group was aborted; create a new one");
    c->close();
  }
}

// Other ranks may still need what this rank has queued.
void ProcessGroupOCCL::shutdown() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = "the process group has been destroyed; create a new one";
  }
  for (const auto& c : communicators()) {
    c->drain(options_->timeout);
    c->close();
  }
}

namespace {

std::vector<std::shared_ptr<Communicator>> all_communicators() {
  std::vector<std::shared_ptr<Communicator>> all;
  std::lock_guard<std::mutex> lock(groups().mutex);
  for (ProcessGroupOCCL* group : groups().all)
    for (auto& c : group->communicators())
      all.push_back(std::move(c));
  return all;
}

const bool watches_moves = [] {
  set_other_use([](const c10::Storage& storage) {
    const auto all = all_communicators();
    return std::any_of(
        all.begin(), all.end(), [&](const auto& c) { return c->uses(storage); });
  });
  return true;
}();

} // namespace

void drain_all(std::chrono::milliseconds timeout) {
  for (const auto& c : all_communicators())
    c->drain(timeout);
  drain_signals(timeout);
}

} // namespace openreg
