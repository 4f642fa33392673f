// SPDX-License-Identifier: BSD-3-Clause
// The part of an event that other processes have too: one page of system memory.
//
// Every record of the event, by any process, has a number. A SIGNAL stores the number into a
// word that later records use again. So records that end out of order do no harm.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/stream.h"

namespace openreg {

class SharedEvent : public std::enable_shared_from_this<SharedEvent> {
 public:
  explicit SharedEvent(c10::DeviceIndex index);
  // fd: a descriptor of another process's event; the caller closes it.
  SharedEvent(int fd, c10::DeviceIndex index);
  ~SharedEvent();
  SharedEvent(const SharedEvent&) = delete;
  SharedEvent& operator=(const SharedEvent&) = delete;

  int share() const;
  // The number of the newest record, or 0.
  uint64_t latest() const;
  bool done(uint64_t number) const;
  // Returns the number of a new record. signal_locked() or cancel() must follow.
  uint64_t begin();
  // Submits the SIGNAL of a record. The caller holds stream.mutex.
  void signal_locked(StreamState& stream, uint64_t number);
  // No SIGNAL will come: nobody may wait for it.
  void cancel(uint64_t number);
  // Sleeps until the record is done. Signal handlers run meanwhile.
  void wait(uint64_t number) const;
  // The word of the record, for a stream that waits.
  std::shared_ptr<const ForeignWord> word(uint64_t number);

 private:
  struct Page;
  struct Word;

  struct Signal {
    StreamState* stream;
    uint64_t seq;
  };

  void map();
  static void free_after(openreg_bo* bo, std::vector<Signal> signals);
  bool abandoned(uint64_t number) const;
  std::string recorder(uint64_t number) const;

  openreg_bo* bo_ = nullptr;
  Page* page_ = nullptr;
  std::mutex mutex_; // lock it after a stream's mutex
  std::vector<Signal> signals_; // the last one on each stream
};

} // namespace openreg
