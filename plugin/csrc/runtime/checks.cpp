// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/checks.h"

#include <torch/csrc/profiler/combined_traceback.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "runtime/format.h"
#include "runtime/stream.h"
#include "runtime/submit.h"

namespace openreg {

std::atomic<bool> checks_on{false};

namespace {

constexpr size_t kStacks = 1 << 14; // of a stream; the oldest are lost
constexpr size_t kFindings = 1024; // that are kept

thread_local Context tls_stack;

struct Stack {
  uint64_t seq;
  Context context;
};

struct Checks {
  std::mutex mutex; // protects all fields; lock it last
  std::map<const StreamState*, std::deque<Stack>> stacks;
  std::vector<CheckFinding> found;
};

Checks& checks() {
  static auto* checks = new Checks;
  return *checks;
}

StreamState* stream_of(c10::DeviceIndex device, uint32_t queue) {
  for (StreamState* s : open_streams(device))
    if (openreg_queue_number(s->queue) == queue)
      return s;
  return nullptr;
}

Context stack_of(const StreamState* stream, uint64_t seq) {
  Checks& c = checks();
  const std::lock_guard<std::mutex> lock(c.mutex);
  const auto& stacks = c.stacks[stream];
  const auto found = std::lower_bound(
      stacks.begin(), stacks.end(), seq, [](const Stack& s, uint64_t n) {
        return s.seq < n;
      });
  return found != stacks.end() && found->seq == seq ? found->context : nullptr;
}

std::vector<std::string> lines_of(const Context& context) {
  std::vector<std::string> lines;
  auto* traceback = dynamic_cast<torch::CapturedTraceback*>(context.get());
  if (!traceback)
    return lines;
  const auto symbols = torch::symbolize({traceback});
  for (const uint64_t i : symbols.tracebacks.at(0)) {
    const auto& frame = symbols.all_frames.at(i);
    lines.push_back(
        "File \"" + frame.filename + "\", line " + std::to_string(frame.lineno) +
        ", in " + frame.funcname);
  }
  return lines;
}

CheckedAccess describe(c10::DeviceIndex device, const openreg_finding_access& a) {
  CheckedAccess found;
  const StreamState* stream = stream_of(device, a.queue);
  found.op = op_name(a.cookie);
  found.seq = a.seq;
  found.written = a.written;
  if (!stream)
    return found;
  found.stream = stream->id;
  found.stack = lines_of(stack_of(stream, a.seq));
  return found;
}

std::string name(const CheckedAccess& a) {
  return a.op + " on stream " + std::to_string(a.stream);
}

void add_stack(std::string& text, const std::string& what, const CheckedAccess& a) {
  text += "\n  " + what;
  if (a.stack.empty())
    text += "\n    (no Python frame is known)";
  for (const std::string& line : a.stack)
    text += "\n    " + line;
}

// Where the bytes are that an access outside of its block reaches.
std::string place_of(const openreg_finding& f) {
  const uint64_t end = f.block + f.block_bytes;
  if (f.addr <= end)
    return " outside of its ";
  return ", " + std::to_string(f.addr - end) + " bytes behind a ";
}

std::string text_of(const CheckFinding& f, const openreg_finding& raw) {
  const std::string bytes = std::to_string(f.bytes) + " bytes";
  const std::string block = "block of " + std::to_string(raw.block_bytes) + " bytes";
  const char* does = f.access.written ? " writes " : " reads ";
  std::string text = "openreg:" + std::to_string(f.device) + " ";
  if (f.kind == "race") {
    text += "race: " + name(f.access) + does + bytes + " that " + name(f.other) +
        (f.other.written ? " writes" : " reads") +
        ", and neither waits for the other. Call wait_stream() or wait_event() between "
        "them.";
    add_stack(text, f.access.op + " was called here:", f.access);
    add_stack(text, f.other.op + " was called here:", f.other);
    return text;
  }
  if (f.kind == "init")
    text += "uninitialised read: " + name(f.access) + " reads " + bytes + " of a " + block +
        " that no operator has written.";
  else
    text += "out of bounds: " + name(f.access) + does + bytes + place_of(raw) + block + ".";
  add_stack(text, f.access.op + " was called here:", f.access);
  add_stack(text, "The block was allocated here:", f.other);
  return text;
}

CheckFinding convert(c10::DeviceIndex device, const openreg_finding& raw) {
  CheckFinding f;
  f.kind = raw.kind == OPENREG_FINDING_RACE ? "race"
      : raw.kind == OPENREG_FINDING_INIT    ? "init"
                                            : "bounds";
  f.device = device;
  f.addr = raw.addr;
  f.bytes = raw.bytes;
  f.access = describe(device, raw.access);
  f.other = describe(device, raw.other);
  f.text = text_of(f, raw);
  return f;
}

std::array<std::atomic<uint64_t>, kMaxDevices> notes;

void launch_note(Packet& packet, c10::DeviceIndex index) {
  notes[index]++;
  launch(packet, index, Part::FURTHER);
}

void print(const CheckFinding& f) {
  const char* path = std::getenv("OPENREG_CHECK_LOG");
  FILE* file = path && *path ? std::fopen(path, "ae") : nullptr;
  std::fprintf(file ? file : stderr, "%s\n", f.text.c_str());
  if (file)
    std::fclose(file);
}

} // namespace

bool card_checks(const Device& device) {
  return device.info.packets >> OPENREG_OP_NOTE & 1;
}

void join_checks(const Device& device) {
  if (!card_checks(device))
    return;
  openreg_finding none;
  openreg_device_findings(device.handle, &none, 0); // the plugin prints them, not the library
  checks_on = true;
}

void note_block(uint64_t addr, size_t bytes, size_t red_zone, c10::DeviceIndex index) {
  static const OpId op = op_id("openreg::allocate");
  if (!card_checks(device(index)))
    return;
  Packet packet(OPENREG_OP_NOTE, op);
  packet.arg(0, OPENREG_NOTE_BLOCK);
  packet.operand(reinterpret_cast<void*>(addr), OPENREG_U8);
  packet.imm(static_cast<int64_t>(bytes));
  packet.imm(static_cast<int64_t>(red_zone));
  launch_note(packet, index);
}

void allow_unwritten(const c10::StorageImpl& storage) {
  static const OpId op = op_id("openreg::end_block");
  if (C10_LIKELY(!checks_on.load(std::memory_order_relaxed)) || !storage.nbytes())
    return;
  const c10::DeviceIndex index = storage.device().index();
  if (!card_checks(device(index)) || is_packed(storage))
    return;
  Packet packet(OPENREG_OP_NOTE, op);
  packet.arg(0, OPENREG_NOTE_UNBLOCK);
  packet.operand(storage.data_ptr().get(), OPENREG_U8);
  packet.imm(static_cast<int64_t>(storage.nbytes()));
  launch_note(packet, index);
}

uint64_t count_notes(c10::DeviceIndex index) {
  return notes[index];
}

void LaunchStack::enter() {
  entered_ = true;
  before_ = std::exchange(tls_stack, torch::CapturedTraceback::gather(true, false, false));
}

void LaunchStack::leave() {
  tls_stack = std::move(before_);
}

void keep_stack(StreamState& stream, uint64_t seq) {
  if (!tls_stack)
    return;
  Checks& c = checks();
  const std::lock_guard<std::mutex> lock(c.mutex);
  auto& stacks = c.stacks[&stream];
  if (stacks.size() == kStacks)
    stacks.pop_front();
  stacks.push_back({seq, tls_stack});
}

void report_findings() {
  constexpr size_t kPart = 16;
  Checks& c = checks();
  for (c10::DeviceIndex i = 0; i < kMaxDevices; i++) {
    if (!device_opened(i) || in_bad_fork() || !card_checks(device(i)))
      continue;
    openreg_finding raw[kPart];
    int64_t n;
    while ((n = openreg_device_findings(device(i).handle, raw, kPart)) > 0)
      for (int64_t at = 0; at < n; at++) {
        CheckFinding f = convert(i, raw[at]);
        print(f);
        const std::lock_guard<std::mutex> lock(c.mutex);
        if (c.found.size() < kFindings)
          c.found.push_back(std::move(f));
      }
  }
}

std::vector<CheckFinding> findings() {
  Checks& c = checks();
  const std::lock_guard<std::mutex> lock(c.mutex);
  return c.found;
}

} // namespace openreg
