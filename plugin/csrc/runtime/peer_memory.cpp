// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/peer_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "runtime/device_cache.h"
#include "runtime/stream.h"
#include "runtime/submit.h"

namespace openreg {

std::atomic<int> peer_segments{0};

namespace {

constexpr size_t kSegments = size_t{1} << OPENREG_ADDR_SEG_BITS;

using Segments = std::array<std::atomic<int>, kSegments>;

// How many PeerMemory of the address's segment there are, if it is a PEER segment.
std::atomic<int>& users_of(uint64_t addr) {
  static auto* all = new std::array<Segments, kMaxDevices>{};
  return (*all)[OPENREG_ADDR_CARD(addr) % kMaxDevices][OPENREG_ADDR_SEG(addr)];
}

// Memory of this card is a VRAM segment, whichever process has made it.
bool is_peer(const openreg_bo* bo) {
  return !(openreg_bo_flags(bo) & OPENREG_BO_VRAM);
}

struct Use {
  StreamState* stream;
  uint64_t seq;
};

// A BO that streams may still use.
struct Leaving {
  openreg_bo* bo;
  std::vector<Use> uses;
};

struct AllLeaving {
  std::mutex mutex;
  std::vector<Leaving> list;
  std::mutex dropped_mutex; // its holder takes no other lock
  std::vector<std::shared_ptr<const void>> dropped;
};

AllLeaving& leaving() {
  static auto* all = new AllLeaving;
  return *all;
}

void free_bo(openreg_bo* bo) {
  if (is_peer(bo) && users_of(openreg_bo_address(bo))-- == 1)
    peer_segments--;
  openreg_bo_free(bo);
}

bool is_used(const Leaving& memory) {
  for (const Use& use : memory.uses)
    if (!reached(*use.stream, use.seq))
      return true;
  return false;
}

} // namespace

PeerMemory::PeerMemory(openreg_bo* bo, c10::DeviceIndex index) : bo_(bo), index_(index) {}

std::shared_ptr<PeerMemory> PeerMemory::allocate(size_t bytes, c10::DeviceIndex index) {
  collect_peer_memory();
  openreg_bo* bo = nullptr;
  const auto allocate = [&] {
    return openreg_bo_alloc(device(index).handle, bytes, OPENREG_BO_VRAM, &bo);
  };
  int error = allocate();
  if (error == -ENOSPC || error == -ENOMEM) {
    device_cache(index).empty();
    error = allocate();
  }
  if (error)
    fail("no device memory for other processes", error);
  return std::shared_ptr<PeerMemory>(new PeerMemory(bo, index));
}

std::shared_ptr<PeerMemory> PeerMemory::import(
    int fd,
    c10::DeviceIndex index,
    size_t bytes) {
  collect_peer_memory();
  openreg_bo* bo = nullptr;
  const int error = openreg_bo_import(device(index).handle, fd, &bo);
  if (error)
    fail("memory of another process cannot be used", error);
  if (is_peer(bo) && users_of(openreg_bo_address(bo))++ == 0)
    peer_segments++;
  const std::shared_ptr<PeerMemory> made(new PeerMemory(bo, index));
  TORCH_CHECK(
      openreg_bo_size(bo) >= bytes,
      "the memory of another process has ",
      openreg_bo_size(bo),
      " bytes, not ",
      bytes,
      ". All ranks must use the same version of openreg");
  return made;
}

PeerMemory::~PeerMemory() {
  if (in_bad_fork())
    return;
  Leaving mine{bo_, {}};
  for (StreamState* stream : open_streams(index_))
    mine.uses.push_back({stream, stream->last()});
  {
    std::lock_guard<std::mutex> lock(leaving().mutex);
    leaving().list.push_back(std::move(mine));
  }
  collect_peer_memory();
}

uint64_t PeerMemory::addr() const {
  return openreg_bo_address(bo_);
}

int PeerMemory::share() const {
  const int fd = openreg_bo_export(bo_, 0);
  if (fd < 0)
    fail("memory of openreg cannot be shared", fd);
  return fd;
}

volatile uint64_t* PeerMemory::map() const {
  void* words = nullptr;
  const int error = openreg_bo_map(bo_, &words);
  if (error)
    fail("device memory cannot be mapped", error);
  return static_cast<uint64_t*>(words);
}

void drop_later(std::shared_ptr<const void> reference) {
  std::lock_guard<std::mutex> lock(leaving().dropped_mutex);
  leaving().dropped.push_back(std::move(reference));
}

namespace {

bool holds_tensor(StreamState* stream) {
  const auto waits = waits_behind(*stream, 0);
  return std::any_of(waits.begin(), waits.end(), [](const PendingWait& wait) {
    return wait.foreign && wait.foreign->holds_tensor();
  });
}

void finish(StreamState* stream) {
  const uint64_t last = stream->last();
  if (settle(*stream, last))
    reached(*stream, last); // forgets the WAITs
}

} // namespace

bool finish_peer_memory(c10::DeviceIndex index) {
  if (in_bad_fork())
    return false;
  try {
    for (StreamState* stream : open_streams(index))
      if (holds_tensor(stream))
        finish(stream);
  } catch (const c10::Error&) { // the card is gone; the caller has an error of its own
  }
  return collect_peer_memory();
}

bool collect_peer_memory() {
  if (in_bad_fork())
    return false;
  std::vector<std::shared_ptr<const void>> dropped;
  {
    std::lock_guard<std::mutex> lock(leaving().dropped_mutex);
    dropped.swap(leaving().dropped);
  }
  const bool any = !dropped.empty();
  dropped.clear(); // may add to the list
  std::vector<Leaving> unused;
  {
    std::lock_guard<std::mutex> lock(leaving().mutex);
    std::erase_if(leaving().list, [&](Leaving& memory) {
      if (is_used(memory))
        return false;
      unused.push_back(std::move(memory));
      return true;
    });
  }
  for (const Leaving& memory : unused)
    free_bo(memory.bo);
  return any || !unused.empty();
}

namespace {

// Reads a packet in the layout of openreg_isa.h.
class PacketReader {
 public:
  explicit PacketReader(const void* packet)
      : header_(static_cast<const openreg_packet*>(packet)),
        op_(reinterpret_cast<const openreg_op*>(header_ + 1)) {}

  const openreg_packet& header() const {
    return *header_;
  }
  const openreg_op& op() const {
    return *op_;
  }
  const int64_t* sizes() const {
    return reinterpret_cast<const int64_t*>(op_ + 1);
  }
  const openreg_operand& operand(unsigned i) const {
    const auto* first = reinterpret_cast<const char*>(sizes() + op_->ndim);
    return *reinterpret_cast<const openreg_operand*>(first + i * operand_bytes());
  }
  const openreg_instr& instr(unsigned i) const {
    const auto* imms = reinterpret_cast<const char*>(&operand(0)) +
        op_->nops * operand_bytes();
    return reinterpret_cast<const openreg_instr*>(imms + size_t{8} * op_->nimm)[i];
  }
  // The bytes from the first element to the end of the last one.
  uint64_t reach(unsigned i) const {
    const auto* strides = reinterpret_cast<const int64_t*>(&operand(i) + 1);
    uint64_t elements = 1;
    for (unsigned d = 0; d < op_->ndim; d++) {
      if (!sizes()[d])
        return 0;
      elements += static_cast<uint64_t>(sizes()[d] - 1) *
          static_cast<uint64_t>(strides[d] < 0 ? -strides[d] : strides[d]);
    }
    return elements * openreg_dtype_size(operand(i).dtype);
  }
  // Whether the program of a VECTOR writes the operand.
  bool writes(unsigned i) const {
    for (unsigned n = 0; n < op_->ninstr; n++) {
      const openreg_instr& in = instr(n);
      if (in.op == OPENREG_V_STORE && in.aux == i)
        return true;
      if (in.op >= OPENREG_V_RED_SUM && (in.aux == i || in.b == i))
        return true;
    }
    return false;
  }

 private:
  size_t operand_bytes() const {
    return sizeof(openreg_operand) + size_t{8} * op_->ndim;
  }

  const openreg_packet* header_;
  const openreg_op* op_;
};

bool takes_any_segment(uint8_t opcode) {
  switch (opcode) {
    case OPENREG_OP_COPY:
    case OPENREG_OP_FILL:
    case OPENREG_OP_WAIT:
    case OPENREG_OP_SIGNAL:
    case OPENREG_OP_TIMESTAMP:
    case OPENREG_OP_LIST:
    case OPENREG_OP_TRACE:
    case OPENREG_OP_NOTE:
      return true;
    default:
      return false;
  }
}

} // namespace

bool in_peer_memory(uint64_t addr) {
  return OPENREG_ADDR_IS_VALID(addr) && users_of(addr).load(std::memory_order_relaxed);
}

void check_peer_operands(const void* packet) {
  const PacketReader p(packet);
  if (p.header().opcode == OPENREG_OP_NOP || takes_any_segment(p.header().opcode))
    return;
  uint64_t bytes = 0;
  for (unsigned i = 0; i < p.op().nops; i++) {
    if (!in_peer_memory(p.operand(i).addr))
      continue;
    TORCH_CHECK(
        p.header().opcode == OPENREG_OP_VECTOR,
        op_name(p.header().cookie),
        ": this operator cannot use the memory of another card. Copy the tensor first: "
        "clone(), or copy_() to a tensor of this card.");
    TORCH_CHECK(
        !p.writes(i),
        op_name(p.header().cookie),
        ": only copies write the memory of another card. Compute in a tensor of this card, "
        "then copy_() it there.");
    bytes += p.reach(i) + 63;
    TORCH_CHECK(
        bytes <= OPENREG_PEER_BYTES_MAX,
        op_name(p.header().cookie),
        ": an operator reads at most ",
        OPENREG_PEER_BYTES_MAX >> 20,
        " MiB of other cards' memory. Copy the tensor first: clone(), or copy_() to a "
        "tensor of this card.");
  }
}

} // namespace openreg
