// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/ipc.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>

#include "runtime/allocator.h"
#include "runtime/capture.h"
#include "runtime/copy.h"
#include "runtime/device_cache.h"
#include "runtime/format.h"
#include "runtime/peer_memory.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

// Makes the later work of a stream wait for the work so far of another one.
void order(StreamState& from, StreamState& to) {
  if (&from == &to)
    return;
  uint64_t seq, value;
  {
    std::lock_guard<std::mutex> lock(from.mutex);
    seq = signal_locked(from);
    value = from.signal_value;
  }
  std::lock_guard<std::mutex> lock(to.mutex);
  submit_wait_locked(to, from, seq, value);
}

// The streams that may use the block.
std::set<StreamState*> streams_of(const Block& block) {
  std::set<StreamState*> found{block.stream};
  for (const BlockUse& use : block.uses)
    found.insert(use.stream);
  return found;
}

// Throws if the block cannot be shared. Returns whether its storage has to move.
bool check_block(const Block* block) {
  constexpr const char* clone = " cannot go to another process. Send a clone() of it.";
  TORCH_CHECK(
      block,
      "a tensor in memory that openreg's allocator did not make",
      clone);
  TORCH_CHECK(
      !block->segment->received,
      "a tensor that came from another process",
      clone);
  TORCH_CHECK(!block->owner, "a tensor in the memory of a graph", clone);
  bool watched = false;
  for (const auto& watch : block->watches)
    watched = watched || watch.use_count() > 1;
  TORCH_CHECK(
      block->segment->shared || !watched,
      "a graph uses this tensor at its present address, and sending it moves it. Send it "
      "before the capture, or send a clone() of it.");
  return !block->segment->shared;
}

// Moves the storage to a BO of its own, in the order of all streams that use it.
void move(const c10::Storage& storage, const std::set<StreamState*>& users) {
  const c10::DeviceIndex index = storage.device().index();
  StreamState& now = current_stream_state(index);
  for (const StreamState* user : users)
    TORCH_CHECK(
        !user->capture.load(),
        "a stream that uses this tensor is being captured. Send it before the capture "
        "begins, or after it ends.");
  c10::DataPtr to = allocate_shared(storage.nbytes(), index);
  for (StreamState* user : users)
    order(*user, now);
  copy_device_bytes(to.get(), storage.data(), storage.nbytes(), index);
  move_between_blocks(storage.data(), to.get(), index);
  for (StreamState* user : users)
    order(now, *user);
  storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(to));
}

int export_bo(openreg_bo* bo, uint32_t flags) {
  const int fd = openreg_bo_export(bo, flags);
  if (fd < 0)
    fail("memory of openreg cannot be shared", fd);
  return fd;
}

openreg_bo* import_bo(int fd, c10::DeviceIndex index) {
  openreg_bo* bo = nullptr;
  const int error = openreg_bo_import(device(index).handle, fd, &bo);
  if (error)
    fail("memory of another process cannot be used", error);
  return bo;
}

std::atomic<UseOfStorage> other_use{nullptr};

struct ClockWord final : ForeignWord {
  ClockWord(std::shared_ptr<const ForeignClocks> clocks, uint64_t offset)
      : clocks(std::move(clocks)), offset(offset) {}
  uint64_t addr() const override {
    return clocks->addr(offset);
  }
  uint64_t value() const override {
    return clocks->value(offset);
  }
  bool abandoned() const override {
    return clocks->abandoned();
  }
  std::string loss() const override {
    return lost_work(clocks->process());
  }

  std::shared_ptr<const ForeignClocks> clocks;
  uint64_t offset;
};

} // namespace

void set_other_use(UseOfStorage use) {
  other_use = use;
}

int share_storage(const c10::Storage& storage) {
  static auto* one_at_a_time = new std::mutex; // two threads must not move one storage
  check_fork();
  std::lock_guard<std::mutex> lock(*one_at_a_time);
  const c10::DeviceIndex index = storage.device().index();
  refuse_capture_on(
      index,
      "sending a tensor to another process",
      "Send it before the capture begins, or after replay().");
  // No other process knows the format.
  if (make_plain(storage.unsafeGetStorageImpl()))
    count_conversion("ipc");
  void* address = storage.mutable_data(); // copies a copy-on-write storage
  TORCH_CHECK(
      owns(storage.data_ptr()),
      "a tensor in memory that belongs to another storage or library cannot go to another "
      "process. Send a clone() of it.");
  DeviceCache& cache = device_cache(index);
  std::set<StreamState*> users;
  const bool moves =
      cache.inspect(reinterpret_cast<uint64_t>(address), [&](const Block* block) {
        const bool moves = check_block(block);
        users = streams_of(*block);
        return moves;
      });
  if (moves) {
    const UseOfStorage use = other_use;
    TORCH_CHECK(
        !use || !use(storage),
        "a collective that nothing has waited for uses this tensor, and sharing it the first "
        "time moves it. Call wait() of the collective's work first.");
    move(storage, users);
  }
  return share_block(storage.data(), index);
}

int share_block(const void* address, c10::DeviceIndex index) {
  return device_cache(index).inspect(
      reinterpret_cast<uint64_t>(address),
      [](const Block* block) { return export_bo(block->segment->bo, 0); });
}

c10::Storage receive_storage(int fd, size_t bytes, c10::DeviceIndex index) {
  openreg_bo* bo = import_bo(fd, index);
  if (!(openreg_bo_flags(bo) & OPENREG_BO_VRAM) || openreg_bo_size(bo) < bytes) {
    openreg_bo_free(bo);
    TORCH_CHECK(
        false,
        "the sender's memory is not memory of openreg:",
        static_cast<int>(index),
        ", or is smaller than the tensor. The sender and the receiver must use the same "
        "version of openreg.");
  }
  return c10::Storage(
      c10::Storage::use_byte_size_t(),
      bytes,
      receive_block(bo, bytes, index),
      /*allocator=*/nullptr,
      /*resizable=*/false);
}

void collect_shared() {
  check_fork();
  collect_peer_memory();
  for (c10::DeviceIndex i = 0; i < kMaxDevices; i++)
    if (device_opened(i))
      device_cache(i).collect();
}

int share_clocks(c10::DeviceIndex index) {
  return export_bo(stream_words(index), OPENREG_BO_READONLY);
}

SharedPoint share_point(c10::DeviceIndex index) {
  StreamState& s = current_stream_state(index);
  const uint64_t base = openreg_bo_address(stream_words(index));
  std::lock_guard<std::mutex> lock(s.mutex);
  signal_locked(s);
  return {s.signal_addr - base, s.signal_value};
}

ForeignClocks::ForeignClocks(
    int fd,
    int connection,
    std::string process,
    c10::DeviceIndex index)
    : process_(std::move(process)) {
  bo_ = import_bo(fd, index);
  void* words = nullptr;
  const int error = openreg_bo_map(bo_, &words);
  if (error) {
    openreg_bo_free(bo_);
    fail("the clocks of another process cannot be mapped", error);
  }
  words_ = static_cast<const char*>(words);
  connection_ = fcntl(connection, F_DUPFD_CLOEXEC, 0);
}

ForeignClocks::~ForeignClocks() {
  if (connection_ >= 0)
    close(connection_);
  if (!in_bad_fork())
    openreg_bo_free(bo_);
}

bool ForeignClocks::abandoned() const {
  pollfd p{connection_, 0, 0};
  return poll(&p, 1, 0) > 0;
}

uint64_t ForeignClocks::value(uint64_t offset) const {
  return __atomic_load_n(
      reinterpret_cast<const uint64_t*>(words_ + offset), __ATOMIC_ACQUIRE);
}

uint64_t ForeignClocks::addr(uint64_t offset) const {
  return openreg_bo_address(bo_) + offset;
}

void ForeignClocks::check(uint64_t offset) const {
  TORCH_CHECK(
      offset % sizeof(uint64_t) == 0 &&
          offset < openreg_bo_size(bo_) - sizeof(uint64_t),
      "the other process has no clock at ",
      offset);
}

void wait_point(
    const std::shared_ptr<const ForeignClocks>& clocks,
    const SharedPoint& point,
    c10::DeviceIndex index) {
  clocks->check(point.offset);
  if (clocks->value(point.offset) >= point.value)
    return;
  StreamState& s = current_stream_state(index);
  refuse_capture(
      s,
      "receiving a tensor of another process",
      "Receive it before the capture begins.");
  auto word = std::make_shared<const ClockWord>(clocks, point.offset);
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    submit_wait_locked(s, std::move(word), point.value);
  }
  check_reachable(s, s.last());
}

} // namespace openreg
