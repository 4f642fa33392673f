// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/capture.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "runtime/device_cache.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

// Capture::ended changes under this mutex. Lock it before a stream's mutex.
std::mutex& capturing_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

std::shared_ptr<Capture>& running() { // guarded by capturing_mutex()
  static auto* running = new std::shared_ptr<Capture>;
  return *running;
}

// Of the running capture. launch() reads them with a stream's mutex locked.
std::atomic<std::thread::id> running_thread{};
std::atomic<c10::DeviceIndex> running_device{-1};

void set_capture(StreamState& s, Capture* capture) {
  std::lock_guard<std::mutex> lock(s.mutex);
  s.private_pool = capture ? capture->pool : nullptr;
  s.capture = capture;
}

void fail_locked(Capture& c, const std::string& why) {
  if (c.failure.empty())
    c.failure = why;
}

// Throws. The graph of the capture is useless from now on.
[[noreturn]] void fail_capture(Capture& c, const std::string& why) {
  {
    std::lock_guard<std::mutex> lock(c.mutex);
    fail_locked(c, why);
  }
  TORCH_CHECK(false, why);
}

// The parts of a packet's bytes.
class View {
 public:
  explicit View(const Packet& packet)
      : bytes_(static_cast<const uint8_t*>(packet.data())) {
    std::memcpy(&op_, bytes_ + sizeof(openreg_packet), sizeof(op_));
    imms_ = openreg_packet_bytes(op_.ndim, op_.nops, 0, 0);
  }

  unsigned operands() const {
    return op_.nops;
  }
  uint64_t address(unsigned i) const {
    return word(openreg_packet_bytes(op_.ndim, i, 0, 0));
  }
  // The place of an immediate, in words from the packet's first byte.
  int64_t imm_at(unsigned i) const {
    return static_cast<int64_t>(imms_ / 8 + i);
  }
  uint64_t imm(unsigned i) const {
    return word(imms_ + 8 * i);
  }
  std::vector<openreg_instr> instrs() const {
    std::vector<openreg_instr> found(op_.ninstr);
    std::memcpy(
        found.data(), bytes_ + imms_ + 8 * op_.nimm, 8 * size_t{op_.ninstr});
    return found;
  }

 private:
  uint64_t word(size_t at) const {
    uint64_t value;
    std::memcpy(&value, bytes_ + at, 8);
    return value;
  }

  const uint8_t* bytes_;
  openreg_op op_;
  size_t imms_;
};

// The packet begins at the word first of the slots.
void note_draws(Capture& c, const View& packet, int64_t first) {
  for (const openreg_instr& in : packet.instrs()) {
    if (in.op != OPENREG_V_RANDOM)
      continue;
    const auto found = c.draws.find({packet.imm(in.a), packet.imm(in.b)});
    if (found == c.draws.end())
      continue; // a program with numbers of its own
    CapturedGenerator& generator = c.generators[found->second];
    generator.keys.insert(first + packet.imm_at(in.a));
    generator.counters.insert(first + packet.imm_at(in.b));
  }
}

void append(Capture& c, const Packet& packet) {
  const unsigned n = packet.slots();
  if (c.runs.empty() || c.runs.back().slots + n > OPENREG_LIST_SLOTS_MAX)
    c.runs.push_back({c.slots.size(), 0, 0});
  c.runs.back().slots += n;
  c.runs.back().packets++;
  c.slots.resize(c.slots.size() + n);
  std::memcpy(
      &c.slots[c.slots.size() - n], packet.data(), n * sizeof(Slot));
}

std::shared_ptr<Capture> running_capture() {
  std::lock_guard<std::mutex> lock(capturing_mutex());
  return running();
}

// The caller holds c.mutex.
void check_unused(const Capture& c, const c10::intrusive_ptr<RandomState>& state) {
  const bool used = std::any_of(
      c.generators.begin(), c.generators.end(), [&](const CapturedGenerator& generator) {
        return generator.state == state;
      });
  TORCH_CHECK(
      c.ended || !used,
      "a graph that is being captured on openreg:",
      static_cast<int>(c.device),
      " draws from this generator, so other streams can neither draw from it nor change "
      "it. Wait for the end of the capture, or give the other stream a torch.Generator "
      "of its own.");
}

// A thread that captures a graph of one card launches nothing on another card: the program
// expects that to be part of the graph.
void refuse_other_card(const StreamState& s) {
  const c10::DeviceIndex device = running_device;
  TORCH_CHECK(
      device < 0 || device == s.device || running_thread.load() != std::this_thread::get_id(),
      "a graph of openreg:",
      static_cast<int>(device),
      " is being captured, and an operator on openreg:",
      static_cast<int>(s.device),
      " cannot be part of it. Capture a graph for each card.");
}

} // namespace

std::atomic<bool> capture_running{false};

std::shared_ptr<Capture> capture_of(const StreamState& stream) {
  if (!stream.capture)
    return nullptr;
  std::lock_guard<std::mutex> lock(capturing_mutex());
  return stream.capture ? running() : nullptr;
}

bool captured_by_another_thread(const StreamState& stream) {
  return stream.capture && running_thread.load() != std::this_thread::get_id() &&
      !current_stream_state(stream.device).capture;
}

std::shared_ptr<Capture> begin_capture(StreamState& stream, c10::MempoolId_t pool) {
  check_fork();
  std::lock_guard<std::mutex> lock(capturing_mutex());
  TORCH_CHECK(
      !running(),
      "another graph is being captured on openreg:",
      static_cast<int>(running() ? running()->device : 0),
      ", and a process can capture only one graph at a time. End that capture first.");
  auto capture = std::make_shared<Capture>();
  capture->device = stream.device;
  capture->pool = &device_cache(stream.device).open_pool(pool, stream.device);
  capture->pool->capturing = true;
  capture->streams.push_back(&stream);
  running() = capture;
  running_thread = std::this_thread::get_id();
  running_device = stream.device;
  capture_running = true;
  set_capture(stream, capture.get());
  return capture;
}

void end_capture(Capture& capture) {
  std::lock_guard<std::mutex> lock(capturing_mutex());
  for (StreamState* s : capture.streams)
    set_capture(*s, nullptr);
  capture_running = false;
  running_device = -1;
  running() = nullptr;
  capture.pool->capturing = false;
  std::lock_guard<std::mutex> own(capture.mutex);
  capture.ended = true;
  // The capture draws no numbers: the replays do.
  for (CapturedGenerator& generator : capture.generators)
    generator.increment = generator.state->rewind(generator.begin);
  TORCH_CHECK(
      capture.failure.empty(),
      "the capture of the graph has failed, so the graph cannot be replayed: ",
      capture.failure);
}

void join_capture(const std::shared_ptr<Capture>& capture, StreamState& stream) {
  std::lock_guard<std::mutex> lock(capturing_mutex());
  TORCH_CHECK(
      !capture->ended,
      "the event was recorded while a graph was captured, and the capture has ended. "
      "Record an event after replay(), and wait for that.");
  if (stream.capture == capture.get())
    return;
  set_capture(stream, capture.get());
  std::lock_guard<std::mutex> own(capture->mutex);
  capture->streams.push_back(&stream);
}

bool capture_packet(StreamState& stream, const Packet& packet) {
  Capture* c = stream.capture;
  if (!c) {
    refuse_other_card(stream);
    return false;
  }
  const View view(packet);
  std::lock_guard<std::mutex> lock(c->mutex);
  for (unsigned i = 0; i < view.operands(); i++)
    if (c->addresses.insert(view.address(i)).second)
      device_cache(c->device).watch(view.address(i), *c->pool, c->watch);
  note_draws(
      *c, view, static_cast<int64_t>(c->slots.size() * sizeof(Slot) / 8));
  append(*c, packet);
  return true;
}

void refuse_captured(const c10::intrusive_ptr<RandomState>& state) {
  const auto c = running_capture();
  if (!c)
    return;
  std::lock_guard<std::mutex> lock(c->mutex);
  check_unused(*c, state);
}

PhiloxState capture_draw(
    c10::DeviceIndex index,
    const c10::intrusive_ptr<RandomState>& state,
    uint64_t streams) {
  const auto c = running_capture();
  if (!c)
    return state->advance(streams);
  const bool captured = current_stream_state(index).capture == c.get();
  std::lock_guard<std::mutex> lock(c->mutex);
  if (!captured) {
    check_unused(*c, state);
    return state->advance(streams);
  }
  const PhiloxState drawn = state->advance(streams);
  auto& all = c->generators;
  auto found = std::find_if(all.begin(), all.end(), [&](const auto& generator) {
    return generator.state == state;
  });
  if (found == all.end())
    found = all.insert(found, {state, drawn, 0, {}, {}});
  const auto n = static_cast<size_t>(found - all.begin());
  const auto entry = c->draws.try_emplace({drawn.seed, drawn.offset}, n).first;
  if (entry->second != n)
    fail_locked(
        *c,
        "two generators with the same seed and offset draw in it. Give them different "
        "seeds.");
  return drawn;
}

void refuse_capture(const StreamState& stream, const char* what, const char* advice) {
  if (C10_LIKELY(!stream.capture))
    return;
  if (const auto c = capture_of(stream))
    fail_capture(
        *c,
        c10::str(
            what,
            " cannot be part of the graph that is being captured on openreg:",
            static_cast<int>(stream.device),
            " stream ",
            stream.id,
            ". ",
            advice));
}

void refuse_wait(const StreamState& stream) {
  refuse_capture(
      stream,
      "waiting for a stream or an event, or reading a number from the card,",
      "Do it before or after the capture: captured packets run at replay().");
}

void refuse_capture_on(c10::DeviceIndex index, const char* what, const char* advice) {
  if (capture_runs())
    refuse_capture(current_stream_state(index), what, advice);
}

c10::MempoolId_t new_pool_id() {
  static std::atomic<uint64_t> last{0};
  return {0, ++last};
}

} // namespace openreg
