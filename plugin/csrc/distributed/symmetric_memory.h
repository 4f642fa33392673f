// SPDX-License-Identifier: BSD-3-Clause
// Symmetric memory: tensors of all ranks of a group that each rank reads and writes.
//
// The ranks exchange descriptors over the communicator of their process group. After that
// they do not need it: signals are SIGNAL packets of the current stream into the memory of
// the other rank, and waits are WAIT packets on the memory of this rank.
#pragma once

#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "runtime/peer_memory.h"

namespace openreg {

// The memory of one symmetric tensor. The allocator gets it back when all streams of the
// device have drained.
class LocalBuffer {
 public:
  LocalBuffer(size_t bytes, c10::DeviceIndex index);
  ~LocalBuffer();
  LocalBuffer(const LocalBuffer&) = delete;
  LocalBuffer& operator=(const LocalBuffer&) = delete;

  void* get() const {
    return data_.get();
  }
  size_t bytes() const {
    return bytes_;
  }
  c10::DeviceIndex device() const {
    return device_;
  }

 private:
  c10::DataPtr data_;
  const size_t bytes_; // as the program has asked for them
  const c10::DeviceIndex device_;
};

// A symmetric tensor of a group: the memory of all ranks, and their signals.
class Rendezvous : public std::enable_shared_from_this<Rendezvous> {
 public:
  // Waits for the other ranks of the communicator.
  Rendezvous(
      std::shared_ptr<const LocalBuffer> local,
      const std::shared_ptr<Communicator>& communicator);
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const {
    return static_cast<int>(options_.rank);
  }
  int size() const {
    return static_cast<int>(options_.size);
  }
  const LocalBuffer& local() const {
    return *local_;
  }
  // Null once the group is destroyed: its streams must not stay for the tensor.
  std::shared_ptr<Communicator> communicator() const {
    return communicator_.lock();
  }
  uint64_t buffer(int rank) const;
  uint64_t signal_pad(int rank) const {
    return ranks_.at(rank).words->addr();
  }
  // As the program numbers the ranks.
  const std::vector<int>& global_ranks() const {
    return global_ranks_;
  }

  // All of these queue packets on the current stream of the device. A timeout of 0 is that
  // of the group.
  void barrier(int channel, size_t timeout_ms);
  void put_signal(int rank, int channel, size_t timeout_ms);
  void wait_signal(int rank, int channel, size_t timeout_ms);

  // Whether the process of a rank has ended.
  bool ended(int rank) const;

 private:
  // The word of a kind counts these events. Only one rank raises each word.
  enum Kind { SENT, TAKEN, BARRIER, kKinds };
  struct Word;
  struct Rank {
    std::shared_ptr<PeerMemory> buffer; // null for this rank
    std::shared_ptr<PeerMemory> words; // the signal pad, then the words
  };
  // How often this rank has signalled to another one, or waited for it.
  struct Counts {
    uint64_t sent = 0, taken = 0, barriers = 0;
  };

  void meet(Communicator& communicator);
  bool signals_are_lost();
  void check(const char* name, int channel);
  uint64_t offset(Kind kind, int channel, int from) const;
  void signal(Kind kind, int channel, int to);
  void wait(Kind kind, int channel, int from, uint64_t value, size_t timeout_ms);
  // The number of the next event.
  uint64_t count(uint64_t Counts::* events, int channel, int rank);
  template <class F>
  void whole(F queue);
  std::string name_of(int rank) const;

  const std::shared_ptr<const LocalBuffer> local_;
  const std::weak_ptr<Communicator> communicator_;
  const Communicator::Options options_;
  const size_t pad_bytes_;
  const int channels_;
  std::vector<int> global_ranks_;
  std::vector<Rank> ranks_;
  std::shared_ptr<const Processes> processes_;
  volatile uint64_t* mapped_ = nullptr; // the words of this rank
  // A wait was given up, or not all signals were queued: the ranks may have counted
  // different ones.
  mutable std::atomic<bool> broken_{false};
  std::mutex mutex_; // guards the following
  std::vector<Counts> counts_; // by channel and rank
  // The last signal of each stream.
  struct Sent {
    uint64_t seq, resets;
  };
  std::map<StreamState*, Sent> sent_;
};

// Waits until the signals of this process have run: other ranks may need them after its end.
void drain_signals(std::chrono::milliseconds timeout);

class SymmetricMemoryOCCL final : public c10d::symmetric_memory::SymmetricMemory {
 public:
  // offset: of the tensor in its memory.
  SymmetricMemoryOCCL(std::shared_ptr<Rendezvous> ranks, size_t offset);

  std::vector<void*> get_buffer_ptrs() override;
  std::vector<void*> get_signal_pad_ptrs() override;
  void** get_buffer_ptrs_dev() override;
  void** get_signal_pad_ptrs_dev() override;
  size_t get_buffer_size() override;
  size_t get_offset() override;
  bool has_multicast_support() override;
  void* get_multicast_ptr() override;
  void barrier(int channel, size_t timeout_ms) override;
  void put_signal(int dst_rank, int channel, size_t timeout_ms) override;
  void wait_signal(int src_rank, int channel, size_t timeout_ms) override;
  int get_rank() override;
  int get_world_size() override;
  c10::Device get_device() override;
  const std::vector<int>& get_rank_to_global_rank() override;
  bool world_within_direct_access() override;

 private:
  const std::shared_ptr<Rendezvous> ranks_;
  const size_t offset_;
};

} // namespace openreg
