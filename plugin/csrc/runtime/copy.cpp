// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/copy.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/view_as_real.h>

#include <algorithm>
#include <cstring>

#include "runtime/blocking.h"
#include "runtime/capture.h"
#include "runtime/checks.h"
#include "runtime/cross_copy.h"
#include "runtime/fallback.h"
#include "runtime/host_allocator.h"
#include "runtime/interrupt.h"
#include "runtime/staging.h"
#include "runtime/strided_copy.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

uint64_t address(const at::Tensor& t) {
  return reinterpret_cast<uint64_t>(t.const_data_ptr());
}

// The address of a tensor that the copy writes. A copy-on-write tensor gets memory of its
// own here.
uint64_t written(const at::Tensor& t) {
  return reinterpret_cast<uint64_t>(t.mutable_data_ptr());
}

void count_copy() {
  static const OpId op = op_id("aten::_copy_from");
  count_op(op);
}

bool same_layout(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.strides() == b.strides() &&
      a.is_non_overlapping_and_dense();
}

// A dense tensor with dst's shape and order of elements, on another device or of another
// type.
at::Tensor packed_like(
    const at::Tensor& dst,
    c10::Device where,
    c10::ScalarType type) {
  return at::empty_like(dst, dst.options().device(where).dtype(type));
}

Sent submit_copy(StreamState& s, const CopyShape& shape) {
  Sent sent;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    sent.seq = submit_copy_locked(s, shape);
    sent.resets = s.resets;
  }
  block_launch(s, sent.seq);
  return sent;
}

void copy_on_card(const at::Tensor& dst, const at::Tensor& src) {
  at::assert_no_partial_overlap(dst, src);
  StreamState& s = current_stream_state(dst.get_device());
  const CopyShape shape = copy_shape(
      dst.sizes(),
      written(dst),
      dst.strides(),
      dst.scalar_type(),
      address(src),
      src.strides(),
      src.scalar_type());
  restartable([&] { submit_copy(s, shape); });
}

// Copies between pinned memory and the card with one packet.
void copy_pinned(
    const at::Tensor& dst,
    uint64_t dst_addr,
    const at::Tensor& src,
    uint64_t src_addr,
    bool non_blocking) {
  const at::Tensor& card = dst.is_cpu() ? src : dst;
  const at::Tensor& host = dst.is_cpu() ? dst : src;
  const c10::DeviceIndex index = card.get_device();
  StreamState& s = current_stream_state(index);
  if (!non_blocking)
    note_sync();
  // Record the use before anything that can throw: the submitted packet stays in flight.
  const bool kept = record_pinned_use(host.storage(), current_stream(index));
  const Sent sent = submit_copy(
      s,
      on_way(
          dst.is_cpu() ? CopyWay::TO_HOST : CopyWay::FROM_HOST,
          copy_shape(
              dst.sizes(),
              dst_addr,
              dst.strides(),
              dst.scalar_type(),
              src_addr,
              src.strides(),
              src.scalar_type())));
  // Without a record the allocator may reuse the memory at once: wait for the packet.
  if (kept && !non_blocking)
    wait_interruptibly(s, sent.seq);
  if (!non_blocking || !kept)
    dst.is_cpu() ? wait_read(s, sent) : wait_seq(s, sent.seq);
}

std::optional<uint64_t> pinned_address(
    const at::Tensor& host,
    c10::DeviceIndex index) {
  const auto found = find_pinned(host.const_data_ptr());
  // The card needs aligned elements.
  if (!found || found->device != index || found->addr % host.element_size())
    return std::nullopt;
  return found->addr;
}

// restartable() may call f twice. That is safe: the second run submits the same packets.
template <class F>
void with_staging(StreamState& s, F f) {
  restartable([&] {
    std::lock_guard<std::mutex> lock(s.staging_mutex);
    f(Staging::of(s));
  });
}

// src is dense. Its type is dst's, or one that the card can cast to dst's.
void upload_small(const at::Tensor& dst, const at::Tensor& src) {
  StreamState& s = current_stream_state(dst.get_device());
  with_staging(s, [&](Staging& staging) {
    const auto piece = staging.take(s, src.nbytes());
    std::memcpy(piece.host, src.const_data_ptr(), src.nbytes());
    const Sent sent = submit_copy(
        s,
        on_way(
            CopyWay::FROM_HOST,
            copy_shape(
                dst.sizes(),
                written(dst),
                dst.strides(),
                dst.scalar_type(),
                piece.addr,
                src.strides(),
                src.scalar_type())));
    staging.used(piece, sent.seq);
  });
}


// The size of the parts of a staged copy. The CPU and the card work on two neighbouring
// parts at a time. Shorter parts need more packets. With longer parts, the CPU and the
// card each wait one part at an end of the copy, which costs most if the parts are few.
size_t part_of(size_t bytes) {
  return std::clamp(bytes / 8 / 4096 * 4096, Staging::kPiece / 4, Staging::kPiece);
}

// The CPU fills the next part while the card copies the one before.
void upload_bytes(uint64_t to, const void* from, size_t bytes, int index) {
  const size_t part = part_of(bytes);
  StreamState& s = current_stream_state(static_cast<c10::DeviceIndex>(index));
  with_staging(s, [&](Staging& staging) {
    for (size_t at = 0; at < bytes; at += part) {
      const size_t n = std::min(part, bytes - at);
      const auto piece = staging.take(s, n);
      std::memcpy(piece.host, static_cast<const char*>(from) + at, n);
      const CopyShape shape = bytes_shape(CopyWay::FROM_HOST, to + at, piece.addr, n);
      staging.used(piece, submit_copy(s, shape).seq);
    }
  });
}

// The card copies the next part while the CPU empties the one before.
void download_bytes(void* to, uint64_t from, size_t bytes, int index) {
  note_sync();
  const size_t part = part_of(bytes);
  StreamState& s = current_stream_state(static_cast<c10::DeviceIndex>(index));
  with_staging(s, [&](Staging& staging) {
    Staging::Piece last{};
    Sent last_sent{};
    size_t last_at = 0, last_n = 0;
    const auto finish = [&] {
      if (!last_n)
        return;
      wait_read(s, last_sent);
      std::memcpy(static_cast<char*>(to) + last_at, last.host, last_n);
    };
    for (size_t at = 0; at < bytes; at += part) {
      const size_t n = std::min(part, bytes - at);
      const auto piece = staging.take(s, n);
      const Sent sent = submit_copy(
          s, bytes_shape(CopyWay::TO_HOST, piece.addr, from + at, n));
      staging.used(piece, sent.seq);
      finish();
      last = piece;
      last_sent = sent;
      last_at = at;
      last_n = n;
    }
    finish();
  });
}

// A graph would read or write the host's memory as it is at the replay, not at the capture.
void refuse_host(c10::DeviceIndex index) {
  refuse_capture_on(
      index,
      "a copy between the host and the card",
      "Copy before or after the capture: a graph reads its inputs from tensors on the "
      "card, and leaves its results in tensors on the card.");
}

void upload(const at::Tensor& dst, at::Tensor src, bool non_blocking) {
  refuse_host(dst.get_device());
  if (!card_copies(dst.scalar_type(), src.scalar_type()))
    src = src.to(dst.scalar_type());
  if (const auto addr = pinned_address(src, dst.get_device())) {
    copy_pinned(dst, written(dst), src, *addr, non_blocking);
    return;
  }
  if (!src.is_non_overlapping_and_dense())
    src = src.contiguous();
  if (src.nbytes() <= Staging::kPiece) {
    upload_small(dst, src);
  } else if (same_layout(dst, src)) {
    upload_bytes(
        written(dst), src.const_data_ptr(), src.nbytes(), dst.get_device());
  } else {
    at::Tensor packed = packed_like(src, dst.device(), src.scalar_type());
    upload(packed, src, non_blocking);
    copy_on_card(dst, packed);
  }
}

void download_small(const at::Tensor& dst, const at::Tensor& src) {
  note_sync();
  StreamState& s = current_stream_state(src.get_device());
  with_staging(s, [&](Staging& staging) {
    const auto piece = staging.take(s, dst.nbytes());
    const Sent sent = submit_copy(
        s,
        on_way(
            CopyWay::TO_HOST,
            copy_shape(
                dst.sizes(),
                piece.addr,
                dst.strides(),
                dst.scalar_type(),
                address(src),
                src.strides(),
                src.scalar_type())));
    staging.used(piece, sent.seq);
    wait_read(s, sent);
    std::memcpy(dst.mutable_data_ptr(), piece.host, dst.nbytes());
  });
}

void download(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  refuse_host(src.get_device());
  if (!card_copies(dst.scalar_type(), src.scalar_type())) {
    at::Tensor host = packed_like(src, at::kCPU, src.scalar_type());
    download(host, src, false);
    dst.copy_(host);
    return;
  }
  if (const auto addr = pinned_address(dst, src.get_device())) {
    copy_pinned(dst, *addr, src, address(src), non_blocking);
    return;
  }
  if (!dst.is_non_overlapping_and_dense()) {
    at::Tensor host = packed_like(dst, at::kCPU, dst.scalar_type());
    download(host, src, false);
    dst.copy_(host);
  } else if (dst.nbytes() <= Staging::kPiece) {
    download_small(dst, src);
  } else if (same_layout(dst, src)) {
    download_bytes(
        dst.mutable_data_ptr(), address(src), dst.nbytes(), src.get_device());
  } else {
    at::Tensor packed = packed_like(dst, src.device(), dst.scalar_type());
    copy_on_card(packed, src);
    download(dst, packed, false);
  }
}

// Whether a complex cast works on the real and imaginary parts separately. A cast to Bool
// does not: the result depends on both parts.
bool casts_by_parts(c10::ScalarType dst, c10::ScalarType src) {
  return (c10::isComplexType(dst) || c10::isComplexType(src)) &&
      card_copies(c10::toRealValueType(dst), c10::toRealValueType(src)) &&
      dst != c10::ScalarType::Bool;
}

void cast_by_parts(const at::Tensor& dst, const at::Tensor& src) {
  if (!dst.is_complex()) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
    copy_on_card(dst, at::view_as_real(src).select(-1, 0));
    return;
  }
  const at::Tensor parts = at::view_as_real(dst);
  if (src.is_complex()) {
    copy_on_card(parts, at::view_as_real(src));
    return;
  }
  copy_on_card(parts.select(-1, 0), src);
  parts.select(-1, 1).zero_();
}

// Casts on the CPU if the card lacks one of the types. Counts as a fallback.
void cast_on_cpu(const at::Tensor& dst, const at::Tensor& src) {
  count_fallback("aten::_copy_from");
  at::Tensor host = packed_like(src, at::kCPU, src.scalar_type());
  download(host, src, false);
  upload(dst, host.to(dst.scalar_type()), false);
}

void copy_between_cards(const at::Tensor& dst, const at::Tensor& src) {
  if (!card_copies(dst.scalar_type(), src.scalar_type())) {
    cast_on_cpu(dst, src);
    return;
  }
  // Only dense bytes cross between cards: cast and pack before, spread after.
  at::Tensor from = src;
  if (src.scalar_type() != dst.scalar_type() ||
      !src.is_non_overlapping_and_dense()) {
    from = packed_like(src, src.device(), dst.scalar_type());
    copy_on_card(from, src);
  }
  at::Tensor to = dst;
  if (!same_layout(dst, from))
    to = at::empty_strided(
        from.sizes(), from.strides(), from.options().device(dst.device()));
  cross_copy_bytes(
      written(to), dst.get_device(), address(from), src.get_device(),
      from.nbytes());
  if (!to.is_same(dst))
    copy_on_card(dst, to);
}

void copy_plain(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  if (src.is_cpu())
    upload(dst, src, non_blocking);
  else if (dst.is_cpu())
    download(dst, src, non_blocking);
  else if (src.get_device() != dst.get_device())
    copy_between_cards(dst, src);
  else if (card_copies(dst.scalar_type(), src.scalar_type()))
    copy_on_card(dst, src);
  else if (casts_by_parts(dst.scalar_type(), src.scalar_type()))
    cast_by_parts(dst, src);
  else
    cast_on_cpu(dst, src);
}

} // namespace

void copy_tensor(
    const at::Tensor& dst,
    const at::Tensor& given,
    bool non_blocking) {
  at::Tensor src =
      given.sizes() == dst.sizes() ? given : given.expand(dst.sizes());
  if (dst.numel() == 0)
    return;
  at::assert_no_internal_overlap(dst);
  count_copy();
  const LaunchStack stack;

  const bool negate = src.is_neg() != dst.is_neg();
  const bool conjugate = src.is_conj() != dst.is_conj();
  at::Tensor to = dst;
  if (C10_UNLIKELY(src.is_neg()))
    src = src._neg_view();
  if (C10_UNLIKELY(src.is_conj()))
    src = src.conj();
  if (C10_UNLIKELY(to.is_neg()))
    to = to._neg_view();
  if (C10_UNLIKELY(to.is_conj()))
    to = to.conj();
  copy_plain(to, src, non_blocking && !negate && !conjugate);
  if (C10_UNLIKELY(negate))
    (to.is_complex() ? at::view_as_real(to) : to).neg_();
  if (C10_UNLIKELY(conjugate && to.is_complex()))
    at::view_as_real(to).select(-1, 1).neg_();
}

void copy_device_bytes(
    void* to,
    const void* from,
    size_t bytes,
    c10::DeviceIndex index) {
  submit_copy(
      current_stream_state(index),
      bytes_shape(
          CopyWay::ON_CARD,
          reinterpret_cast<uint64_t>(to),
          reinterpret_cast<uint64_t>(from),
          bytes));
}

void copy_bytes(void* to, const void* from, size_t bytes) {
  const LaunchStack stack;
  const c10::DeviceIndex writer = device_of_pointer(to);
  const c10::DeviceIndex reader = device_of_pointer(from);
  if (writer == reader)
    copy_device_bytes(to, from, bytes, writer);
  else
    cross_copy_bytes(
        reinterpret_cast<uint64_t>(to),
        writer,
        reinterpret_cast<uint64_t>(from),
        reader,
        bytes);
}

void read_device_bytes(
    void* to,
    const void* from,
    size_t bytes,
    c10::DeviceIndex index) {
  refuse_host(index);
  const LaunchStack stack;
  download_bytes(to, reinterpret_cast<uint64_t>(from), bytes, index);
}

} // namespace openreg
