// SPDX-License-Identifier: BSD-3-Clause
// A stream that stands for the queue of a communicator. The queue raises a word at the end of
// each collective, and the stream waits for it. Events, futures and allocations that belong
// to a collective use the stream. The stream outlives the communicator, whose queue does not
// survive an error, and serves the next one.
#pragma once

#include <memory>
#include <string>

#include "runtime/stream.h"

namespace openreg {

class SideStream {
 public:
  // One that no communicator uses, or a new one.
  static std::shared_ptr<SideStream> take(c10::DeviceIndex index);

  StreamState& state() const {
    return *state_;
  }
  c10::Stream stream() const;
  // The word, and the value of the collective that was begun last.
  uint64_t address() const;
  uint64_t value() const {
    return value_;
  }
  // Makes the stream wait until the word has the next value. Returns the WAIT's number.
  uint64_t wait_for_next();
  // Nothing will raise the word any more: everything that waits for the stream raises
  // the text as an error, until release().
  void break_with(const std::string& text);
  // Lets the stream run on.
  void release();

 private:
  explicit SideStream(c10::DeviceIndex index);

  StreamState* state_ = nullptr;
  openreg_bo* bo_ = nullptr;
  volatile uint64_t* word_ = nullptr;
  uint64_t value_ = 0;
};

// Makes a stream the calling thread's current stream of its device during the scope.
class StreamScope {
 public:
  explicit StreamScope(const c10::Stream& stream) : before_(exchange_stream(stream)) {}
  ~StreamScope() {
    exchange_stream(before_);
  }
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  c10::Stream before_;
};

} // namespace openreg
