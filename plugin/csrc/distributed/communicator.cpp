// SPDX-License-Identifier: BSD-3-Clause
#include "distributed/communicator.h"

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <thread>
#include <utility>

#include "distributed/store.h"
#include "openreg_packet.h"
#include "runtime/capture.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

int64_t ns(milliseconds ms) {
  return std::chrono::nanoseconds(ms).count();
}

// The library numbers the ranks of a communicator. The program knows others.
std::string renumber(const std::string& text, const std::vector<int64_t>& ranks) {
  static const std::string word = "rank ";
  std::string out;
  size_t at = 0;
  for (;;) {
    const size_t found = text.find(word, at);
    if (found == std::string::npos)
      return out + text.substr(at);
    size_t end = found + word.size();
    size_t n = 0;
    out += text.substr(at, end - at);
    at = end;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])))
      n = n * 10 + static_cast<size_t>(text[end++] - '0');
    if (end > at && n < ranks.size()) {
      out += std::to_string(ranks[n]);
      at = end;
    }
  }
}

// Programs look for these words of torch's other backends.
constexpr const char* kLate = "caught collective operation timeout";

// Another rank may be the first to find the late one. Then its text comes.
std::string with_words(const std::string& why) {
  return why.find(" is late: ") == std::string::npos ? why : c10::str(kLate, ": ", why);
}

constexpr const char* kNext =
    ". To go on, call destroy_process_group(), then create a new group";

constexpr const char* kDestroyed =
    "the process group has been destroyed; create a new one";

// High priority is a privilege. A group with normal priority is still correct.
bool may_have_high_priority(Device& dev) {
  openreg_queue_attr attr = OPENREG_QUEUE_ATTR_DEFAULT;
  attr.priority = 1;
  openreg_queue* queue = nullptr;
  if (openreg_queue_create(dev.handle, &attr, &queue))
    return false;
  openreg_queue_destroy(queue);
  return true;
}

c10d::ErrorType type_of(int error) {
  return error == -ETIME ? c10d::ErrorType::TIMEOUT
      : error == -ECONNRESET ? c10d::ErrorType::REMOTE_ERROR
                             : c10d::ErrorType::COMM_ERROR;
}

} // namespace

int spare_descriptor() {
  static const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  return fd;
}

Processes::~Processes() {
  for (const int fd : fds)
    if (fd >= 0)
      ::close(fd);
}

Communicator::Communicator(Options options, c10d::Store& store)
    : options_(std::move(options)) {
  check_fork();
  spare_descriptor();
  Device& dev = device(options_.device);
  StoreAdapter adapter(store);
  const openreg_comm_store callbacks = adapter.callbacks();
  openreg_comm_attr attr{};
  attr.rank = options_.rank;
  attr.size = options_.size;
  attr.name = options_.name.c_str();
  attr.timeout_ns = ns(options_.timeout);
  attr.priority = options_.high_priority && may_have_high_priority(dev) ? 1 : 0;
  const int error = openreg_comm_create(dev.handle, &attr, &callbacks, &comm_);
  adapter.delete_keys();
  if (error) {
    const std::string why = text(openreg_comm_last_error());
    adapter.rethrow();
    C10_THROW_ERROR(DistBackendError, why);
  }
  try {
    side_ = SideStream::take(options_.device);
  } catch (...) {
    openreg_comm_destroy(comm_);
    throw;
  }
}

Communicator::~Communicator() {
  if (!in_bad_fork())
    close();
}

std::string Communicator::text(const std::string& what) const {
  return options_.group + ": " + renumber(what, options_.ranks);
}

void Communicator::check_locked() const {
  if (error_)
    std::rethrow_exception(error_);
}

void Communicator::call(const std::function<int64_t(openreg_comm*)>& function) {
  check_fork();
  std::unique_lock<std::mutex> lock(mutex_);
  wait_for_call(lock);
  check_locked();
  calling_ = true;
  lock.unlock();
  const int64_t result = function(comm_);
  const std::string why =
      result < 0 ? text(with_words(openreg_comm_last_error())) : std::string();
  lock.lock();
  calling_ = false;
  called_.notify_all();
  check_locked();
  TORCH_CHECK_VALUE(result != -EINVAL, why);
  if (result >= 0)
    return;
  openreg_comm_abort(comm_); // the other ranks may have succeeded
  break_locked(static_cast<int>(result), why);
  std::rethrow_exception(error_);
}

void Communicator::wait_for_call(std::unique_lock<std::mutex>& lock) {
  called_.wait(lock, [this] { return !calling_; });
}

std::shared_ptr<const Processes> Communicator::keep(
    std::shared_ptr<const Processes> processes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!processes_)
    processes_ = std::move(processes);
  return processes_;
}

void Communicator::check() {
  std::lock_guard<std::mutex> lock(mutex_);
  check_locked();
}

std::exception_ptr Communicator::error() {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_;
}

c10d::ErrorType Communicator::error_type() {
  std::lock_guard<std::mutex> lock(mutex_);
  return error_type_;
}

// Passes a result of the library on, or throws.
int64_t Communicator::checked_locked(int64_t result) {
  if (result >= 0)
    return result;
  const std::string why = text(with_words(openreg_comm_last_error()));
  TORCH_CHECK_VALUE(result != -EINVAL, why);
  break_locked(static_cast<int>(result), why);
  std::rethrow_exception(error_);
}

// Makes the communicator's queue and the side stream wait for what the stream has now. The
// list of the side stream's WAITs makes a fault of the stream an error of the collective.
void Communicator::wait_for_locked(StreamState& stream) {
  if (&stream != &side() && reached(stream, stream.last()))
    return;
  uint64_t seq, value;
  {
    std::lock_guard<std::mutex> lock(stream.mutex);
    seq = signal_locked(stream);
    value = stream.signal_value;
  }
  if (&stream != &side()) {
    std::lock_guard<std::mutex> lock(side().mutex);
    submit_wait_locked(side(), stream, seq, value);
  }
  const int error = openreg_push_wait(
      openreg_comm_queue(comm_), stream.signal_addr, OPENREG_WAIT_GE, value);
  if (error)
    late_locked(options_.timeout);
}

std::shared_ptr<Pending> Communicator::launch(
    const Collective& collective,
    milliseconds timeout,
    Tensors tensors,
    bool timed) {
  check_fork();
  StreamState& caller = current_stream_state(options_.device);
  refuse_capture(
      caller,
      "a collective",
      "Run collectives between graphs: capture the parts of the program before and after.");
  auto pending = std::make_shared<Pending>();
  std::vector<Tensors> unused; // freed without the mutex
  std::unique_lock<std::mutex> lock(mutex_);
  wait_for_call(lock);
  check_locked();
  unused.swap(unused_);
  wait_for_locked(caller);
  if (timed) {
    pending->begin = c10::Event(kDeviceType, c10::EventFlag::BACKEND_DEFAULT);
    pending->end = c10::Event(kDeviceType, c10::EventFlag::BACKEND_DEFAULT);
    pending->timed = true;
    pending->begin.record(stream());
  }
  if (collective.before) {
    {
      const StreamScope scope(stream());
      collective.before();
    }
    wait_for_locked(side());
  }
  openreg_queue* queue = openreg_comm_queue(comm_);
  const bool logged = log_ && log_->on() && openreg_queue_submit(queue) >= 0;
  if (C10_UNLIKELY(logged))
    log_->begin(queue);
  const int64_t last = checked_locked(collective.queue(comm_));
  if (C10_UNLIKELY(logged))
    log_->end(static_cast<uint64_t>(last));
  int64_t seq = openreg_push_signal(
      queue, side_->address(), OPENREG_SIGNAL_SET, side_->value() + 1);
  if (!seq)
    seq = openreg_queue_submit(queue);
  if (seq < 0)
    late_locked(options_.timeout);
  pending->seq = seq;
  pending->side_seq = side_->wait_for_next();
  pending->began = Clock::now();
  pending->timeout = timeout;
  pending->tensors = std::move(tensors);
  pending_.push_back(pending);
  watch(shared_from_this()); // also if after() throws
  const StreamScope scope(stream());
  if (collective.after)
    collective.after();
  pending->end.record(stream());
  return pending;
}

void Communicator::begin_log() {
  std::unique_lock<std::mutex> lock(mutex_);
  wait_for_call(lock);
  if (!comm_ || error_)
    return;
  if (!log_)
    log_.emplace(side());
  log_->start(openreg_comm_queue(comm_));
}

void Communicator::end_log() {
  std::unique_lock<std::mutex> lock(mutex_);
  wait_for_call(lock);
  if (log_)
    log_->stop(comm_ && !error_ ? openreg_comm_queue(comm_) : nullptr);
}

bool Communicator::uses(const c10::Storage& storage) {
  std::lock_guard<std::mutex> lock(mutex_);
  return std::any_of(pending_.begin(), pending_.end(), [&](const auto& pending) {
    std::lock_guard<std::mutex> lock(pending->mutex);
    return std::any_of(
        pending->tensors.begin(), pending->tensors.end(), [&](const at::Tensor& tensor) {
          return tensor.storage().is_alias_of(storage);
        });
  });
}

void Communicator::finish_locked(const std::shared_ptr<Pending>& pending) {
  std::lock_guard<std::mutex> lock(pending->mutex);
  pending->done = true;
  pending->error = error_;
  // After an error the card is stopped, or about to be: then close() frees the tensors.
  if (!pending->tensors.empty())
    unused_.push_back(std::move(pending->tensors));
  pending->tensors.clear();
  if (pending->on_done)
    finished_.push_back(pending);
}

void Communicator::tell_finished(std::unique_lock<std::mutex>& lock) {
  std::vector<std::shared_ptr<Pending>> finished;
  finished.swap(finished_);
  lock.unlock();
  for (const auto& pending : finished) {
    std::function<void(Pending&)> on_done;
    {
      std::lock_guard<std::mutex> guard(pending->mutex);
      on_done.swap(pending->on_done);
    }
    on_done(*pending);
  }
}

void Communicator::break_locked(int error, const std::string& why) {
  if (error_)
    return;
  // The results of collectives that have completed are right.
  while (!pending_.empty() && side().done(pending_.front()->side_seq)) {
    finish_locked(pending_.front());
    pending_.pop_front();
  }
  const std::string all = error == -ECANCELED ? why : why + kNext;
  error_ = std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, all));
  error_type_ = type_of(error);
  side_->break_with(all);
  for (const auto& pending : pending_)
    finish_locked(pending);
  pending_.clear();
}

// The library has broken the communicator in call(), in another thread, which knows why.
bool Communicator::call_reports(int error) const {
  return calling_ && error == -EIO;
}

// The library finds the rank that is late. The queue may not take packets any more, so that
// the last collective stands for one that could not be queued.
void Communicator::break_late_locked(milliseconds waited) {
  const int64_t seq = pending_.empty() ? 0 : pending_.front()->seq;
  const int error = openreg_comm_wait_timeout(comm_, seq, 0);
  if (!error || call_reports(error)) // or it has just completed
    return;
  const std::string why = openreg_comm_last_error();
  break_locked(
      error,
      text(
          error == -ETIME ? c10::str(kLate, " after ", waited.count(), " ms: ", why)
                          : with_words(why)));
}

void Communicator::late_locked(milliseconds waited) {
  break_late_locked(waited);
  break_locked(-EIO, text("the queue of the process group does not take packets"));
  std::rethrow_exception(error_);
}

bool Communicator::poll() {
  std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock)
    return true;
  bool busy = false;
  while (!pending_.empty() && !error_ && !busy) {
    const std::shared_ptr<Pending> oldest = pending_.front();
    const int result = openreg_comm_query(comm_, oldest->seq);
    const auto waited =
        std::chrono::duration_cast<milliseconds>(Clock::now() - oldest->began);
    if ((!result && waited < oldest->timeout) || call_reports(result)) {
      busy = true;
    } else if (!result) {
      break_late_locked(waited);
    } else if (result < 0) {
      break_locked(result, text(with_words(openreg_comm_last_error())));
    } else {
      pending_.pop_front();
      finish_locked(oldest);
    }
  }
  tell_finished(lock);
  return busy;
}

bool Communicator::drain(milliseconds timeout) {
  const auto end = Clock::now() + timeout;
  while (poll()) {
    if (Clock::now() >= end)
      return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return !error();
}

void Communicator::give_up(milliseconds waited) {
  std::unique_lock<std::mutex> lock(mutex_);
  check_locked();
  break_late_locked(waited);
  break_locked(-EIO, text("the collective is late"));
  const auto error = error_;
  tell_finished(lock);
  std::rethrow_exception(error);
}

void Communicator::abort(const std::string& why) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (calling_)
    openreg_comm_abort(comm_);
  break_locked(-ECANCELED, text(why));
  tell_finished(lock);
}

void Communicator::close() {
  std::vector<Tensors> unused;
  std::unique_lock<std::mutex> lock(mutex_);
  if (calling_) {
    openreg_comm_abort(comm_);
    break_locked(-ECANCELED, text(kDestroyed));
  }
  wait_for_call(lock);
  if (!comm_)
    return;
  if (log_)
    log_->stop(error_ ? nullptr : openreg_comm_queue(comm_));
  openreg_comm_destroy(std::exchange(comm_, nullptr));
  if (!error_)
    error_ = std::make_exception_ptr(C10_BUILD_ERROR(DistBackendError, text(kDestroyed)));
  for (const auto& pending : pending_)
    finish_locked(pending);
  pending_.clear();
  unused.swap(unused_);
  side_->release();
  tell_finished(lock);
}

} // namespace openreg
