// SPDX-License-Identifier: BSD-3-Clause
// torch.accelerator.Graph: captured packets in the card's memory. A replay is one LIST
// packet. If the graph draws random numbers, an INDEX packet before it adds to the offsets
// in the captured packets.
#include <ATen/core/GraphImplInterface.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <utility>

#include "runtime/allocator.h"
#include "runtime/capture.h"
#include "runtime/device_cache.h"
#include "runtime/event.h"
#include "runtime/gil.h"
#include "runtime/interrupt.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

c10::Stream stream_of(const StreamState& s) {
  return c10::Stream(c10::Stream::UNSAFE, torch_device(s.device), s.id);
}

// Immediates of the captured packets that one number is added to before each replay.
struct Moved {
  int64_t table = 0; // word of their places
  int64_t places = 0; // how many
  int64_t word = 0; // of the number
  uint64_t value = 0; // that the word has now
};

struct Random {
  c10::intrusive_ptr<RandomState> state;
  uint64_t increment;
  PhiloxState now; // in the captured packets
  Moved keys, counters;
};

class Graph final : public at::GraphImplInterface {
 public:
  explicit Graph(const at::GraphImplArgs& args) : keep_(args.keep_graph) {}

  ~Graph() override {
    if (in_bad_fork())
      return; // the parent owns the memory
    try {
      reset();
    } catch (const std::exception& e) {
      TORCH_WARN("a graph of openreg could not be released: ", e.what());
    }
  }

  // The mode says what other threads may do meanwhile. Here they may do anything: a
  // capture takes only the packets of its streams.
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode) override {
    check_fork();
    TORCH_CHECK(
        !pool_ && !capture_,
        "this graph has captured something already; call reset() before it captures again, "
        "or create another graph");
    StreamState& s = current_stream_state(current_device());
    TORCH_CHECK_NOT_IMPLEMENTED(
        device(s.device).info.packets >> OPENREG_OP_LIST & 1,
        "openreg:",
        static_cast<int>(s.device),
        " cannot replay graphs: its instruction set is older than 1.6. Start the VM with "
        "the device of this version of openreg.");
    id_ = pool == c10::MempoolId_t{0, 0} ? new_pool_id() : pool;
    capture_ = begin_capture(s, id_);
    device_ = s.device;
    pool_ = capture_->pool;
  }

  void capture_end() override {
    check_fork();
    TORCH_CHECK(
        capture_ && !captured_,
        "this graph captures nothing now; call capture_begin() first");
    const auto capture = std::exchange(capture_, nullptr);
    try {
      end_capture(*capture);
    } catch (...) {
      reset();
      throw;
    }
    take(*capture);
    captured_ = true;
    if (!keep_)
      instantiate();
  }

  void instantiate() override {
    check_fork();
    const SleepyLock lock(mutex_);
    load();
  }

  void replay() override {
    check_fork();
    const SleepyLock lock(mutex_);
    load();
    if (runs_.empty())
      return;
    const uint64_t lost = watch_->lost;
    TORCH_CHECK(
        !lost,
        "the graph cannot be replayed: the program has freed memory at ",
        reinterpret_cast<const void*>(lost),
        " of openreg:",
        static_cast<int>(device_),
        " that the captured operators read or write. Keep the tensors that they used, such "
        "as inputs and parameters, for as long as the graph; or capture it again.");
    StreamState& s = current_stream_state(device_);
    refuse_capture(
        s,
        "the replay of another graph",
        "Replay the graphs one after another, or call the operators in one capture.");
    follow(s);
    submit(s);
    count_op(lists_[0].op());
  }

  void reset() override {
    check_fork();
    if (capture_) {
      try {
        end_capture(*capture_);
      } catch (const c10::Error&) {
        // The program ends a capture that has failed.
      }
      capture_ = nullptr;
    }
    if (pool_)
      device_cache(device_).close_pool(*pool_);
    pool_ = nullptr;
    watch_ = nullptr;
    captured_ = false;
    random_.clear();
    runs_.clear();
    lists_.clear();
    host_ = memory_ = at::Tensor();
  }

  c10::MempoolId_t pool() const override {
    TORCH_CHECK(
        pool_, "this graph has no pool before its capture; call capture_begin() first");
    return id_;
  }

  void enable_debug_mode() override {}

  // Writes a line for each captured packet.
  void debug_dump(const std::string& path) override {
    check_captured();
    std::ofstream out(path);
    const auto* words = runs_.empty() ? nullptr : host_.const_data_ptr<int64_t>();
    for (const Run& run : runs_) {
      const int64_t* at = words + run.first * kSlotWords;
      for (uint32_t i = 0; i < run.packets; i++) {
        openreg_packet header;
        std::memcpy(&header, at, sizeof(header));
        out << op_name(header.cookie) << ": "
            << openreg_opcode_name(header.opcode) << ", "
            << static_cast<int>(header.slots) << " slots\n";
        at += header.slots * kSlotWords;
      }
    }
    TORCH_CHECK(out.flush(), "the graph cannot be written to ", path);
  }

 private:
  static constexpr size_t kSlotWords = OPENREG_SLOT_SIZE / 8;

  void check_captured() const {
    check_fork();
    TORCH_CHECK(
        captured_,
        "this graph has captured nothing; call capture_begin() and capture_end() first");
  }

  // Copies the packets to the card. The caller holds mutex_.
  void load() {
    check_captured();
    if (memory_.defined() || runs_.empty())
      return;
    const DeviceScope scope(device_);
    StreamState& s = current_stream_state(device_);
    memory_ = host_.to(torch_device(device_));
    last_ = &s;
    resets_ = s.resets;
    lists_.clear();
    for (const Run& run : runs_) {
      static const OpId op = op_id("openreg::graph_replay");
      Packet& list = lists_.emplace_back(OPENREG_OP_LIST, op);
      list.operand(at_word(static_cast<int64_t>(run.first * kSlotWords)), OPENREG_I64);
      list.imms({run.slots, run.packets});
    }
  }

  void* at_word(int64_t word) const {
    return static_cast<int64_t*>(memory_.mutable_data_ptr()) + word;
  }

  // Lays out the graph's memory: the packets, then the places and words of the generators.
  void take(Capture& capture) {
    watch_ = capture.watch;
    runs_ = std::move(capture.runs);
    if (runs_.empty())
      return;
    std::vector<int64_t> words(capture.slots.size() * kSlotWords);
    std::memcpy(words.data(), capture.slots.data(), words.size() * 8);
    slot_words_ = static_cast<int64_t>(words.size());
    const auto table = [&](const std::set<int64_t>& places) {
      Moved moved;
      moved.table = static_cast<int64_t>(words.size());
      moved.places = static_cast<int64_t>(places.size());
      words.insert(words.end(), places.begin(), places.end());
      moved.word = static_cast<int64_t>(words.size());
      words.push_back(0);
      return moved;
    };
    for (CapturedGenerator& g : capture.generators)
      random_.push_back(
          {g.state, g.increment, g.begin, table(g.keys), table(g.counters)});
    begins_.clear();
    for (const Random& r : random_)
      begins_.push_back(r.now);
    host_ = at::empty({static_cast<int64_t>(words.size())}, at::kLong);
    std::memcpy(host_.mutable_data_ptr(), words.data(), words.size() * 8);
    capture.slots = {};
    capture.generators.clear();
  }

  // Orders this replay behind the last one, which uses the same memory.
  void follow(StreamState& s) {
    const bool dropped = last_->resets != resets_;
    if (last_ != &s) {
      device_allocator().recordStream(memory_.storage().data_ptr(), stream_of(s));
      if (last_->capture) {
        // An event of that stream would make this one part of the capture.
        TORCH_CHECK(
            settle(*last_, last_->last()),
            "the last replay of this graph waits for a stream that has faulted. Call "
            "torch.openreg.reset() after the capture.");
      } else {
        const std::unique_ptr<Event, decltype(&destroy_event)> done(
            new_event(), &destroy_event);
        record_event(done.get(), stream_of(*last_), c10::EventFlag::PYTORCH_DEFAULT);
        block_event(done.get(), stream_of(s));
      }
    }
    if (dropped) {
      // The reset may have dropped packets that write the memory.
      memory_.copy_(host_);
      for (size_t i = 0; i < random_.size(); i++) {
        random_[i].now = begins_[i];
        random_[i].keys.value = random_[i].counters.value = 0;
      }
    }
    last_ = &s;
    resets_ = s.resets;
  }

  void submit(StreamState& s) {
    for (Random& r : random_) {
      const PhiloxState next = draw(device_, r.state, r.increment);
      // Note each move at once: the next one may throw.
      move(s, r.keys, next.seed - r.now.seed);
      r.now.seed = next.seed;
      move(s, r.counters, next.offset - r.now.offset);
      r.now.offset = next.offset;
    }
    for (const Packet& list : lists_)
      submit(s, list);
  }

  static void submit(StreamState& s, const Packet& packet) {
    try {
      std::lock_guard<std::mutex> lock(s.mutex);
      submit_locked(s, packet, /*give_up=*/true);
    } catch (const LongWait& wait) {
      wait_interruptibly(wait.stream, wait.seq);
      std::lock_guard<std::mutex> lock(s.mutex);
      submit_locked(s, packet);
    }
  }

  // Adds a number to the immediates.
  void move(StreamState& s, Moved& moved, uint64_t by) const {
    static const OpId op = op_id("openreg::graph_random");
    if (!by || !moved.places)
      return;
    if (moved.value != by) {
      Packet fill(OPENREG_OP_FILL, op);
      fill.space({1});
      fill.operand(at_word(moved.word), OPENREG_I64);
      fill.imms({by});
      submit(s, fill);
      moved.value = by;
    }
    const int64_t fixed = 0;
    Packet add(OPENREG_OP_INDEX, op);
    add.arg(0, OPENREG_INDEX_ADD);
    add.space({moved.places});
    add.operand(at_word(0), OPENREG_I64, &fixed);
    add.operand(at_word(moved.word), OPENREG_I64, &fixed);
    add.operand(at_word(moved.table), OPENREG_I64);
    add.imms({static_cast<uint64_t>(slot_words_), 1});
    submit(s, add);
  }

  const bool keep_;
  std::mutex mutex_; // of instantiate() and replay(); its holder may sleep
  std::shared_ptr<Capture> capture_; // while it runs
  bool captured_ = false;
  c10::DeviceIndex device_ = 0;
  c10::MempoolId_t id_{0, 0};
  PrivatePool* pool_ = nullptr;
  std::shared_ptr<Watch> watch_;
  std::vector<Run> runs_;
  std::vector<Random> random_;
  std::vector<PhiloxState> begins_; // of random_, at the capture
  int64_t slot_words_ = 0;
  at::Tensor host_; // the contents of memory_ after the capture
  at::Tensor memory_;
  std::vector<Packet> lists_;
  StreamState* last_ = nullptr; // of the last replay, or of the copy to memory_
  uint64_t resets_ = 0; // of last_, at that time
};

} // namespace
} // namespace openreg

namespace at {

// The name of the device in core's registry is in upper case.
REGISTER_GRAPH_IMPL(OPENREG, openreg::Graph)

} // namespace at
