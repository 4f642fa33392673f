// SPDX-License-Identifier: BSD-3-Clause
// Memory functions of torch.openreg: statistics, limits and snapshots. A snapshot has the
// same form as one of torch.cuda, so that pytorch.org/memory_viz opens it.
#include <ATen/core/CachingHostAllocator.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <mutex>
#include <unordered_map>

#include "runtime/allocator.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace openreg {
namespace {

using c10::CachingDeviceAllocator::BlockInfo;

// Converts stacks to lists of {filename, line, name}. Symbolizes each stack once.
class Frames {
 public:
  void want(const Context& context) {
    auto* stack = dynamic_cast<torch::CapturedTraceback*>(context.get());
    if (stack && known_.emplace(stack, wanted_.size()).second)
      wanted_.push_back(stack);
  }

  void look_up() {
    if (wanted_.empty())
      return;
    const auto found = torch::symbolize(wanted_);
    std::vector<py::dict> frames;
    for (const auto& frame : found.all_frames)
      frames.push_back(py::dict(
          py::arg("filename") = frame.filename,
          py::arg("line") = frame.lineno,
          py::arg("name") = frame.funcname));
    for (const auto& stack : found.tracebacks) {
      py::list list;
      for (const uint64_t index : stack)
        list.append(frames[index]);
      stacks_.push_back(list);
    }
  }

  py::list of(const Context& context) const {
    auto* stack = dynamic_cast<torch::CapturedTraceback*>(context.get());
    const auto at = known_.find(stack);
    return at == known_.end() ? py::list() : stacks_[at->second];
  }

 private:
  std::unordered_map<torch::CapturedTraceback*, size_t> known_;
  std::vector<torch::CapturedTraceback*> wanted_;
  std::vector<py::list> stacks_;
};

py::tuple no_pool() {
  return py::make_tuple(0, 0);
}

int64_t stream_id(void* stream) {
  return reinterpret_cast<int64_t>(stream);
}

py::dict to_dict(const BlockInfo& block, size_t addr, const Frames& frames) {
  py::dict d;
  d["address"] = addr;
  d["size"] = block.size;
  d["requested_size"] = block.requested_size;
  d["state"] = block.allocated ? "active_allocated"
      : block.active           ? "active_awaiting_free"
                               : "inactive";
  d["frames"] = frames.of(block.context_when_allocated);
  return d;
}

py::dict to_dict(const SegmentInfo& segment, const Frames& frames) {
  py::dict d;
  d["device"] = static_cast<int>(segment.device);
  d["address"] = segment.address;
  d["total_size"] = segment.total_size;
  d["allocated_size"] = segment.allocated_size;
  d["active_size"] = segment.active_size;
  d["requested_size"] = segment.requested_size;
  d["stream"] = stream_id(segment.stream);
  d["segment_type"] = segment.is_large ? "large" : "small";
  d["segment_pool_id"] = no_pool();
  d["is_expandable"] = false;
  d["frames"] = frames.of(segment.context_when_allocated);
  py::list blocks;
  size_t addr = segment.address;
  for (const BlockInfo& block : segment.blocks) {
    blocks.append(to_dict(block, addr, frames));
    addr += block.size;
  }
  d["blocks"] = blocks;
  return d;
}

const char* action_name(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return "alloc";
    case TraceEntry::FREE_REQUESTED:
      return "free_requested";
    case TraceEntry::FREE_COMPLETED:
      return "free_completed";
    case TraceEntry::SEGMENT_ALLOC:
      return "segment_alloc";
    case TraceEntry::SEGMENT_FREE:
      return "segment_free";
    case TraceEntry::SNAPSHOT:
      return "snapshot";
    case TraceEntry::OOM:
      return "oom";
    default:
      return "unknown";
  }
}

using ToUnixTime = std::function<c10::time_t(c10::approx_time_t)>;

py::dict to_dict(
    const TraceEntry& entry,
    const Frames& frames,
    const ToUnixTime& to_unix) {
  py::dict d;
  d["action"] = action_name(entry.action_);
  d[entry.action_ == TraceEntry::OOM ? "device_free" : "addr"] = entry.addr_;
  d["size"] = entry.size_;
  d["stream"] = stream_id(entry.stream_);
  d["pool_id"] = no_pool();
  d["segment_pool_id"] = no_pool();
  d["time_us"] = to_unix(entry.time_.approx_t_) / 1000;
  d["compile_context"] = entry.compile_context_;
  d["user_metadata"] = entry.user_metadata_;
  d["frames"] = frames.of(entry.context_);
  return d;
}

std::vector<MemorySnapshot> snapshots_of_all(bool traces) {
  py::gil_scoped_release unlocked;
  std::vector<MemorySnapshot> all;
  for (c10::DeviceIndex i = 0; i < device_count(); i++)
    all.push_back(memory_snapshot(i, traces));
  return all;
}

Frames frames_of(const std::vector<MemorySnapshot>& all) {
  Frames frames;
  for (const MemorySnapshot& one : all) {
    for (const SegmentInfo& segment : one.segments) {
      frames.want(segment.context_when_allocated);
      for (const BlockInfo& block : segment.blocks)
        frames.want(block.context_when_allocated);
    }
    for (const TraceEntry& entry : one.trace)
      frames.want(entry.context_);
  }
  frames.look_up();
  return frames;
}

py::dict memory_snapshot_dict(bool with_traces) {
  const auto all = snapshots_of_all(with_traces);
  const Frames frames = frames_of(all);
  const ToUnixTime to_unix = to_unix_time();
  py::list segments, traces;
  for (const MemorySnapshot& one : all) {
    for (const SegmentInfo& segment : one.segments)
      segments.append(to_dict(segment, frames));
    py::list trace;
    for (const TraceEntry& entry : one.trace)
      trace.append(to_dict(entry, frames, to_unix));
    traces.append(trace);
  }
  py::dict settings;
  settings["expandable_segments"] = false;
  py::dict d;
  d["segments"] = segments;
  d["device_traces"] = traces;
  d["allocator_settings"] = settings;
  d["external_annotations"] = py::list();
  return d;
}

RecordContext context_level(const std::string& name) {
  if (name == "state")
    return RecordContext::STATE;
  if (name == "alloc")
    return RecordContext::ALLOC;
  if (name == "all")
    return RecordContext::ALL;
  return RecordContext::NEVER;
}

// torch_openreg/_memory.py documents the arguments and has checked them.
void record_history(
    const std::string& enabled,
    const std::string& context,
    bool native_frames,
    size_t max_entries,
    bool clear) {
  HistoryOptions options;
  options.trace = enabled == "all";
  options.context = enabled.empty() ? RecordContext::NEVER : context_level(context);
  options.native_frames = native_frames;
  options.max_entries = max_entries;
  set_history(options);
  for (c10::DeviceIndex i = 0; clear && i < device_count(); i++)
    clear_history(i);
}

template <typename S>
py::dict to_dict(const S& stat) {
  py::dict d;
  d["current"] = stat.current;
  d["peak"] = stat.peak;
  d["allocated"] = stat.allocated;
  d["freed"] = stat.freed;
  return d;
}

py::dict duration_dict(const c10::CachingAllocator::DurationStat& stat) {
  py::dict d;
  d["total"] = stat.total;
  d["max"] = stat.max;
  d["min"] = stat.min;
  d["count"] = stat.count;
  d["avg"] = stat.count ? stat.total / stat.count : 0;
  return d;
}

at::HostAllocator& host_allocator() {
  return *at::getHostAllocator(kDeviceType);
}

py::dict host_memory_stats() {
  const at::HostStats stats = host_allocator().get_stats();
  py::dict d;
  d["active_requests"] = to_dict(stats.active_requests);
  d["active_bytes"] = to_dict(stats.active_bytes);
  d["allocations"] = to_dict(stats.allocations);
  d["allocated_bytes"] = to_dict(stats.allocated_bytes);
  d["host_alloc_time"] = duration_dict(stats.host_alloc_time);
  d["host_free_time"] = duration_dict(stats.host_free_time);
  d["num_host_alloc"] = stats.num_host_alloc;
  d["num_host_free"] = stats.num_host_free;
  return d;
}

py::dict device_memory_stats(int64_t index) {
  const auto stats = device_allocator().getDeviceStats(to_index(index));
  py::dict d;
  d["oversize_allocations"] = to_dict(stats.oversize_allocations);
  d["oversize_segments"] = to_dict(stats.oversize_segments);
  return d;
}

// Blocks without a tensor, for programs that work with addresses.
struct RawBlocks {
  std::mutex mutex;
  std::unordered_map<int64_t, c10::DataPtr> held;
};

RawBlocks& raw_blocks() {
  static auto* blocks = new RawBlocks;
  return *blocks;
}

int64_t raw_alloc(size_t bytes, int64_t index) {
  TORCH_CHECK_VALUE(bytes > 0, "a block of memory has at least one byte");
  c10::DataPtr block = allocate(bytes, to_index(index));
  const auto addr = reinterpret_cast<int64_t>(block.get());
  RawBlocks& raw = raw_blocks();
  std::lock_guard<std::mutex> lock(raw.mutex);
  raw.held.emplace(addr, std::move(block));
  return addr;
}

void raw_free(int64_t addr) {
  RawBlocks& raw = raw_blocks();
  c10::DataPtr block; // declared before the lock: frees the block after unlocking
  std::lock_guard<std::mutex> lock(raw.mutex);
  const auto at = raw.held.find(addr);
  TORCH_CHECK_VALUE(
      at != raw.held.end(),
      "caching_allocator_alloc() did not return the address ",
      addr,
      ", or the block was freed already");
  block = std::move(at->second);
  raw.held.erase(at);
}

} // namespace

void bind_memory(py::module_& m) {
  m.def("empty_cache", [] { device_allocator().emptyCache(); }, Unlocked());
  m.def(
      "memory_info",
      [](int64_t i) { return device_allocator().getMemoryInfo(to_index(i)); },
      Unlocked());
  m.def("memory_snapshot", &memory_snapshot_dict);
  m.def("record_memory_history", &record_history);
  m.def(
      "set_memory_fraction",
      [](int64_t i, double f) { set_memory_fraction(to_index(i), f); });
  m.def("memory_fraction", [](int64_t i) { return memory_fraction(to_index(i)); });
  m.def("oversize_stats", &device_memory_stats);
  m.def("host_memory_stats", &host_memory_stats);
  m.def("reset_accumulated_host_stats", [] {
    host_allocator().reset_accumulated_stats();
  });
  m.def("reset_peak_host_stats", [] { host_allocator().reset_peak_stats(); });
  m.def("raw_alloc", &raw_alloc, Unlocked());
  m.def("raw_free", &raw_free, Unlocked());
}

} // namespace openreg
