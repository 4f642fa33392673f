// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "runtime/submit.h"

namespace openreg {
namespace {

uint8_t bits_dtype(size_t bytes) {
  switch (bytes) {
    case 1:
      return OPENREG_U8;
    case 2:
      return OPENREG_I16;
    case 4:
      return OPENREG_I32;
    default:
      return OPENREG_I64;
  }
}

// Sorts the dimensions by dst's strides: the outermost dimension has the largest stride.
void sort_dims(CopyShape& s) {
  const auto before = [&](size_t a, size_t b) {
    return std::abs(s.dst.strides[a]) >= std::abs(s.dst.strides[b]);
  };
  for (size_t i = 1; i < s.sizes.size(); i++)
    for (size_t j = i; j > 0 && !before(j - 1, j); j--) {
      std::swap(s.sizes[j], s.sizes[j - 1]);
      std::swap(s.dst.strides[j], s.dst.strides[j - 1]);
      std::swap(s.src.strides[j], s.src.strides[j - 1]);
    }
}

void set_dims(CopyShape& s, size_t n) {
  s.sizes.resize(n);
  s.dst.strides.resize(n);
  s.src.strides.resize(n);
}

void coalesce(CopyShape& s) {
  size_t used = 0;
  for (size_t i = 0; i < s.sizes.size(); i++) {
    if (s.sizes[i] == 1)
      continue;
    const bool joins = used > 0 &&
        s.dst.strides[used - 1] == s.dst.strides[i] * s.sizes[i] &&
        s.src.strides[used - 1] == s.src.strides[i] * s.sizes[i];
    const size_t to = joins ? used - 1 : used++;
    s.sizes[to] = joins ? s.sizes[to] * s.sizes[i] : s.sizes[i];
    s.dst.strides[to] = s.dst.strides[i];
    s.src.strides[to] = s.src.strides[i];
  }
  set_dims(s, used);
}

bool can_widen(const CopySide& side, int64_t n, int64_t bytes) {
  return side.addr % bytes == 0 && side.strides.back() == 1 &&
      std::all_of(side.strides.begin(), side.strides.end() - 1, [n](int64_t stride) {
           return stride % n == 0;
         });
}

// Copies short rows in elements of two, four or eight times the size: the card's cost of
// a row is that of several elements.
void widen(CopyShape& s) {
  constexpr int64_t kShort = 16;
  if (s.dst.dtype != s.src.dtype || s.sizes.size() < 2 || s.sizes.back() > kShort)
    return;
  const int64_t size = openreg_dtype_size(s.dst.dtype);
  for (int64_t bytes = 8; bytes > size; bytes /= 2) {
    const int64_t n = bytes / size;
    if (s.sizes.back() % n || !can_widen(s.dst, n, bytes) || !can_widen(s.src, n, bytes))
      continue;
    s.sizes.back() /= n;
    for (CopySide* side : {&s.dst, &s.src}) {
      side->dtype = bits_dtype(bytes);
      for (size_t d = 0; d + 1 < side->strides.size(); d++)
        side->strides[d] /= n;
    }
    coalesce(s);
    return;
  }
}

// The profiler shows these names.
OpId op_of(CopyWay way) {
  static const std::array<OpId, 3> ops{
      op_id("Memcpy DtoD (aten::_copy_from)"),
      op_id("Memcpy HtoD (aten::_copy_from)"),
      op_id("Memcpy DtoH (aten::_copy_from)")};
  return ops[static_cast<size_t>(way)];
}

uint64_t submit_one(StreamState& stream, const CopyShape& s) {
  Packet packet(OPENREG_OP_COPY, op_of(s.way));
  packet.space(s.sizes);
  packet.operand(
      reinterpret_cast<void*>(s.dst.addr), s.dst.dtype, s.dst.strides.data());
  packet.operand(
      reinterpret_cast<void*>(s.src.addr), s.src.dtype, s.src.strides.data());
  return submit_locked(stream, packet);
}

// Returns the part [begin, begin + size) of the outermost dimension.
CopyShape part(const CopyShape& s, int64_t begin, int64_t size) {
  CopyShape p = s;
  p.sizes[0] = size;
  p.dst.addr +=
      begin * s.dst.strides[0] * int64_t{openreg_dtype_size(s.dst.dtype)};
  p.src.addr +=
      begin * s.src.strides[0] * int64_t{openreg_dtype_size(s.src.dtype)};
  return p;
}

uint64_t submit_parts(StreamState& stream, const CopyShape& s, int64_t limit) {
  int64_t count = 1;
  for (const int64_t size : s.sizes)
    count *= size;
  if (s.sizes.size() <= OPENREG_DIMS_MAX && count <= limit)
    return submit_one(stream, s);

  const int64_t outer = s.sizes[0];
  const int64_t step =
      s.sizes.size() > OPENREG_DIMS_MAX ? 1 : std::max<int64_t>(outer / 2, 1);
  uint64_t seq = 0;
  for (int64_t begin = 0; begin < outer; begin += step) {
    CopyShape p = part(s, begin, std::min(step, outer - begin));
    coalesce(p);
    seq = submit_parts(stream, p, limit);
  }
  return seq;
}

// Whether the copy has many rows of two elements, which widen() could not combine.
bool is_pairs(const CopyShape& s) {
  constexpr int64_t kMany = 1024;
  return s.sizes.size() > 1 && s.sizes.back() == 2 && s.dst.dtype == s.src.dtype &&
      c10::multiply_integers(s.sizes) >= 2 * kMany;
}

// Copies the first elements of all rows, then the second elements.
uint64_t submit_columns(StreamState& stream, const CopyShape& s, int64_t limit) {
  CopyShape column = s;
  set_dims(column, s.sizes.size() - 1);
  coalesce(column);
  submit_parts(stream, column, limit);
  const int64_t size = openreg_dtype_size(s.dst.dtype);
  column.dst.addr += s.dst.strides.back() * size;
  column.src.addr += s.src.strides.back() * size;
  return submit_parts(stream, column, limit);
}

} // namespace

bool card_copies(c10::ScalarType dst, c10::ScalarType src) {
  return dst == src || (memory_dtype(dst) && memory_dtype(src));
}

CopyShape copy_shape(
    c10::IntArrayRef sizes,
    uint64_t dst_addr,
    c10::IntArrayRef dst_strides,
    c10::ScalarType dst_type,
    uint64_t src_addr,
    c10::IntArrayRef src_strides,
    c10::ScalarType src_type) {
  CopyShape s;
  s.sizes.append(sizes.begin(), sizes.end());
  s.dst = {dst_addr, memory_dtype(dst_type), {}};
  s.src = {src_addr, memory_dtype(src_type), {}};
  s.dst.strides.append(dst_strides.begin(), dst_strides.end());
  s.src.strides.append(src_strides.begin(), src_strides.end());
  if (s.dst.dtype && s.src.dtype)
    return s;

  TORCH_INTERNAL_ASSERT(dst_type == src_type);
  const size_t bytes = c10::elementSize(dst_type);
  s.dst.dtype = s.src.dtype = bits_dtype(bytes);
  if (bytes == 16) {
    for (CopySide* side : {&s.dst, &s.src}) {
      for (int64_t& stride : side->strides)
        stride *= 2;
      side->strides.push_back(1);
    }
    s.sizes.push_back(2);
  }
  return s;
}

CopyShape bytes_shape(CopyWay way, uint64_t to, uint64_t from, size_t bytes) {
  constexpr auto kByte = c10::ScalarType::Byte;
  const auto n = static_cast<int64_t>(bytes);
  return on_way(way, copy_shape({n}, to, {1}, kByte, from, {1}, kByte));
}

uint64_t submit_copy_locked(StreamState& stream, CopyShape shape) {
  if (std::find(shape.sizes.begin(), shape.sizes.end(), 0) != shape.sizes.end())
    return stream.last_seq.load(std::memory_order_relaxed);
  sort_dims(shape);
  coalesce(shape);
  widen(shape);
  const uint32_t log2 = device(stream.device).info.max_work;
  const int64_t limit = int64_t{1} << std::min(log2, 62u);
  return is_pairs(shape) ? submit_columns(stream, shape, limit)
                         : submit_parts(stream, shape, limit);
}

} // namespace openreg
