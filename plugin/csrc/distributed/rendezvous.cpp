// SPDX-License-Identifier: BSD-3-Clause
// How ranks meet for a symmetric tensor, and their signals.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "distributed/shared_descriptors.h"
#include "distributed/symmetric_memory.h"
#include "runtime/allocator.h"
#include "runtime/capture.h"
#include "runtime/device_cache.h"
#include "runtime/interrupt.h"
#include "runtime/ipc.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr size_t kLongestMs = size_t{365} * 24 * 3600 * 1000;

// The last signal of each stream of the process.
struct Signals {
  std::mutex mutex;
  std::map<StreamState*, uint64_t> last;
};

Signals& signals() {
  static auto* signals = new Signals;
  return *signals;
}

size_t round_up(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

} // namespace

LocalBuffer::LocalBuffer(size_t bytes, c10::DeviceIndex index)
    : data_(allocate_shared(std::max<size_t>(bytes, 1), index)),
      bytes_(bytes),
      device_(index) {}

// Core's tensor does not record the streams that use it.
LocalBuffer::~LocalBuffer() {
  if (in_bad_fork()) {
    data_.release_context();
    return;
  }
  for (StreamState* stream : open_streams(device_))
    device_cache(device_).record(reinterpret_cast<uint64_t>(data_.get()), stream);
}

// A word of this rank that another rank raises.
struct Rendezvous::Word final : ForeignWord {
  Word(std::shared_ptr<const Rendezvous> ranks, Kind kind, int channel, int from)
      : ranks(std::move(ranks)), kind(kind), channel(channel), from(from) {}
  // A stream may drop the word while it holds any lock.
  ~Word() override {
    drop_later(std::move(ranks));
  }
  uint64_t addr() const override {
    return ranks->ranks_[ranks->rank()].words->addr() + ranks->offset(kind, channel, from);
  }
  uint64_t value() const override {
    return ranks->mapped_[ranks->offset(kind, channel, from) / sizeof(uint64_t)];
  }
  bool holds_tensor() const override {
    return true;
  }
  bool abandoned() const override {
    // A reset drops the stream's packets, also its signals to the other ranks.
    if (stream->resets != resets)
      ranks->broken_ = true;
    return ranks->broken_ || ranks->ended(from) || Clock::now() >= deadline;
  }
  std::string loss() const override {
    const bool late = Clock::now() >= deadline;
    ranks->broken_ = true;
    static constexpr std::array kNames{
        "wait_signal() for", "put_signal() to", "barrier() with"};
    return c10::str(
        kNames[kind],
        " ",
        ranks->name_of(from),
        " on channel ",
        channel,
        " of symmetric memory: ",
        ranks->name_of(from),
        ranks->ended(from) ? " has ended."
            : late         ? c10::str(" is late, after ", timeout.count(), " ms.")
                           : " was given up, as an earlier wait failed.");
  }

  std::shared_ptr<const Rendezvous> ranks;
  Kind kind;
  int channel, from;
  const StreamState* stream = nullptr;
  uint64_t resets = 0;
  milliseconds timeout{};
  Clock::time_point deadline;
};

Rendezvous::Rendezvous(
    std::shared_ptr<const LocalBuffer> local,
    const std::shared_ptr<Communicator>& communicator)
    : local_(std::move(local)),
      communicator_(communicator),
      options_(communicator->options()),
      pad_bytes_(c10d::symmetric_memory::get_signal_pad_size()),
      channels_(std::max(static_cast<int>(pad_bytes_ / sizeof(uint32_t)) / size(), 1)),
      ranks_(size()),
      counts_(static_cast<size_t>(channels_) * size()) {
  for (const int64_t rank : options_.ranks)
    global_ranks_.push_back(static_cast<int>(rank));
  meet(*communicator);
}

void Rendezvous::meet(Communicator& communicator) {
  const c10::DeviceIndex index = local_->device();
  Rank& own = ranks_[rank()];
  std::optional<Descriptor> buffer, words;
  on_all_ranks(communicator, "make symmetric memory", [&] {
    own.words = PeerMemory::allocate(offset(kKinds, 0, 0), index);
    mapped_ = own.words->map();
    buffer.emplace(share_block(local_->get(), index));
    words.emplace(own.words->share());
  });
  SharedDescriptors all(
      communicator, {buffer->fd, words->fd}, {local_->bytes(), pad_bytes_, 0});
  // All ranks see the same numbers, so that all raise the same error.
  for (int r = 1; r < size(); r++)
    for (const size_t word : {0, 1})
      TORCH_CHECK_VALUE(
          all.words(r)[word] == all.words(0)[word],
          "rendezvous: the ",
          word ? "signal pad" : "tensor",
          " of ",
          name_of(0),
          " has ",
          all.words(0)[word],
          " bytes, and that of ",
          name_of(r),
          " has ",
          all.words(r)[word],
          word ? ". Call set_signal_pad_size() on all ranks"
               : ". Allocate the same shape and dtype on all ranks");
  on_all_ranks(communicator, "use the memory of the other ranks", [&] {
    for (int r = 0; r < size(); r++) {
      if (r == rank())
        continue;
      ranks_[r].buffer = PeerMemory::import(all[r].fds[0], index, local_->bytes());
      ranks_[r].words = PeerMemory::import(all[r].fds[1], index, offset(kKinds, 0, 0));
    }
    processes_ = communicator.keep(all.take_processes(size()));
  });
}

uint64_t Rendezvous::buffer(int rank) const {
  const Rank& its = ranks_.at(rank);
  return its.buffer ? its.buffer->addr() : reinterpret_cast<uint64_t>(local_->get());
}

uint64_t Rendezvous::offset(Kind kind, int channel, int from) const {
  const size_t number = (static_cast<size_t>(kind) * channels_ + channel) * size() + from;
  return round_up(pad_bytes_, sizeof(uint64_t)) + number * sizeof(uint64_t);
}

std::string Rendezvous::name_of(int rank) const {
  return "rank " + std::to_string(global_ranks_.at(rank));
}

bool Rendezvous::ended(int rank) const {
  pollfd p{processes_->fds.at(rank), POLLIN, 0};
  return p.fd >= 0 && poll(&p, 1, 0) > 0;
}

// Whether a reset of a stream has dropped signals of this rank.
bool Rendezvous::signals_are_lost() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [stream, sent] : sent_) {
    const uint64_t resets = stream->resets - sent.resets;
    if (resets > 1 || (resets && sent.seq > stream->completed_at_reset))
      return true;
    sent.resets += resets;
  }
  return false;
}

void Rendezvous::check(const char* name, int channel) {
  TORCH_CHECK_VALUE(
      channel >= 0 && channel < channels_,
      name,
      ": channel ",
      channel,
      " does not exist. A signal pad of ",
      pad_bytes_,
      " bytes has ",
      channels_,
      " channels for ",
      size(),
      " ranks; call set_signal_pad_size() before the rendezvous");
  if (signals_are_lost())
    broken_ = true;
  TORCH_CHECK(
      !broken_,
      name,
      ": a reset may have dropped signals of this tensor, or a wait for it was given up, so "
      "that the ranks may have counted different signals. Allocate a new symmetric tensor on "
      "all ranks; for an operator of core that has a workspace, make a new group");
  check_fork();
  collect_peer_memory();
  refuse_capture_on(
      local_->device(),
      "a signal of symmetric memory",
      "Signal before and after the capture.");
}

// Adds: the streams of a rank may signal on one channel in any order.
void Rendezvous::signal(Kind kind, int channel, int to) {
  static const OpId op = op_id("openreg::symmetric_signal");
  const uint64_t word = ranks_[to].words->addr() + offset(kind, channel, rank());
  Packet packet(OPENREG_OP_SIGNAL, op);
  packet.arg(0, OPENREG_SIGNAL_ADD);
  packet.operand(reinterpret_cast<void*>(word), OPENREG_I64);
  packet.imm(int64_t{1});
  StreamState& stream = current_stream_state(local_->device());
  const uint64_t resets = stream.resets;
  launch(packet, local_->device(), Part::FURTHER);
  const uint64_t seq = stream.last();
  {
    std::lock_guard<std::mutex> lock(signals().mutex);
    signals().last[&stream] = seq;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  sent_[&stream] = {seq, resets};
}

void Rendezvous::wait(
    Kind kind,
    int channel,
    int from,
    uint64_t value,
    size_t timeout_ms) {
  auto word = std::make_shared<Word>(shared_from_this(), kind, channel, from);
  word->timeout = timeout_ms ? milliseconds(std::min<size_t>(timeout_ms, kLongestMs))
                             : options_.timeout;
  word->deadline = Clock::now() + word->timeout;
  StreamState& stream = current_stream_state(local_->device());
  word->stream = &stream;
  restartable([&] {
    std::lock_guard<std::mutex> lock(stream.mutex);
    word->resets = stream.resets;
    submit_wait_locked(stream, word, value);
  });
}

uint64_t Rendezvous::count(uint64_t Counts::* events, int channel, int rank) {
  std::lock_guard<std::mutex> lock(mutex_);
  return ++(counts_[static_cast<size_t>(channel) * size() + rank].*events);
}

// The other ranks count what this rank has queued: a part of it is of no use.
template <class F>
void Rendezvous::whole(F queue) {
  try {
    queue();
  } catch (...) {
    broken_ = true;
    throw;
  }
}

void Rendezvous::barrier(int channel, size_t timeout_ms) {
  check("barrier", channel);
  std::vector<uint64_t> numbers(size());
  for (int r = 0; r < size(); r++)
    numbers[r] = count(&Counts::barriers, channel, r);
  whole([&] {
    for (int r = 0; r < size(); r++)
      if (r != rank())
        signal(BARRIER, channel, r);
    for (int r = 0; r < size(); r++)
      if (r != rank())
        wait(BARRIER, channel, r, numbers[r], timeout_ms);
  });
}

// As in core's backends a signal waits until the other rank has taken the one before.
void Rendezvous::put_signal(int to, int channel, size_t timeout_ms) {
  check("put_signal", channel);
  c10d::symmetric_memory::check_rank(to, size());
  const uint64_t number = count(&Counts::sent, channel, to);
  whole([&] {
    if (number > 1)
      wait(TAKEN, channel, to, number - 1, timeout_ms);
    signal(SENT, channel, to);
  });
}

void Rendezvous::wait_signal(int from, int channel, size_t timeout_ms) {
  check("wait_signal", channel);
  c10d::symmetric_memory::check_rank(from, size());
  const uint64_t number = count(&Counts::taken, channel, from);
  whole([&] {
    wait(SENT, channel, from, number, timeout_ms);
    signal(TAKEN, channel, from);
  });
}

void drain_signals(milliseconds timeout) {
  if (in_bad_fork())
    return;
  const auto end = Clock::now() + timeout;
  std::map<StreamState*, uint64_t> all;
  {
    std::lock_guard<std::mutex> lock(signals().mutex);
    all = signals().last;
  }
  for (const auto& [stream, seq] : all) {
    try {
      while (!query_seq(*stream, seq) && Clock::now() < end)
        std::this_thread::sleep_for(milliseconds(1));
    } catch (const std::exception&) { // the stream has faulted
    }
  }
}

} // namespace openreg
