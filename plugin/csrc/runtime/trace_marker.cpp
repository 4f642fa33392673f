// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/trace_marker.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace openreg {
namespace {

constexpr size_t kLongestName = 900; // the kernel cuts a line at 1 KiB

std::atomic<int> marker{-1};

// One write() a line, so that the lines of threads and processes do not mix.
void write_line(char kind, std::string_view name) {
  const int fd = marker.load(std::memory_order_relaxed);
  if (fd < 0)
    return;
  std::string line{kind};
  line += "|" + std::to_string(getpid());
  if (kind != 'E')
    line.append("|").append(name.substr(0, kLongestName));
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  if (write(fd, line.data(), line.size()) < 0) {
    TORCH_WARN_ONCE("a range was not emitted: ", std::strerror(errno));
  }
}

} // namespace

void open_trace_marker(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  TORCH_CHECK(
      fd >= 0,
      "ranges cannot be emitted to ",
      path,
      ": ",
      std::strerror(errno),
      ". The file is the kernel's trace_marker, which only root may write, or the one that "
      "OPENREG_TRACE_MARKER names.");
  // Threads may be using the old number, so keep it.
  int old = -1;
  if (marker.compare_exchange_strong(old, fd))
    return;
  dup3(fd, old, O_CLOEXEC);
  close(fd);
}

void trace_begin(std::string_view name) {
  write_line('B', name);
}

void trace_end() {
  write_line('E', {});
}

void trace_mark(std::string_view name) {
  write_line('I', name);
}

} // namespace openreg
