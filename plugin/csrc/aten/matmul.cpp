// SPDX-License-Identifier: BSD-3-Clause
// mm, addmm, bmm, baddbmm, addmv and dot. Each takes one MATMUL packet, or several if the
// work exceeds a packet's limit.
#include "aten/matmul.h"

#include "aten/reduction.h"
#include "aten/structured.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/addmm_meta.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/baddbmm_meta.h>
#include <ATen/ops/bmm_meta.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm_meta.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>

#include "runtime/device.h"
#include "runtime/format.h"

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;

// A tensor as a batch of matrices; missing dimensions have size 1.
struct Matrices {
  const Tensor& tensor;
  int64_t batch, row, col; // strides
  int64_t offset = 0; // of the first element
};

// t has the dimensions batch, row, col, or row, col.
Matrices matrices(const Tensor& t) {
  const int64_t n = t.dim();
  return {t, n == 3 ? t.stride(0) : 0, t.stride(n - 2), t.stride(n - 1)};
}
Matrices row_vector(const Tensor& t) {
  return {t, 0, 0, t.stride(0)};
}
Matrices col_vector(const Tensor& t) {
  return {t, 0, t.stride(0), 0};
}
// Core's meta functions leave this check to the kernel. expand() throws core's error.
void check_broadcasts(const Tensor& t, const Tensor& result) {
  if (C10_UNLIKELY(!at::is_expandable_to(t.sizes(), result.sizes())))
    t.expand(result.sizes());
}
// Broadcasts t to the result's shape.
Matrices broadcast(const Tensor& t, const Tensor& result) {
  check_broadcasts(t, result);
  const auto stride = [&](int64_t from_end) {
    const int64_t d = t.dim() - from_end;
    return d >= 0 && t.size(d) != 1 ? t.stride(d) : 0;
  };
  return {t, result.dim() == 3 ? stride(3) : 0, stride(2), stride(1)};
}

struct Product {
  int64_t batch, m, n, k;
  Matrices d, a, b;
  std::optional<Matrices> c;
  double alpha = 1, beta = 0;
  const void* packed = nullptr; // b as a packed matrix
};

void put(Packet& packet, const Product& p) {
  const auto type = p.d.tensor.scalar_type();
  bool first = true; // the result
  const auto check_type = [&](const Matrices& x) {
    const auto own = x.tensor.scalar_type();
    TORCH_CHECK(
        own == type || c10::isFloat8Type(own),
        "expected m1 and m2 to have the same dtype, but got: ",
        p.d.tensor.dtype(),
        " != ",
        x.tensor.dtype());
  };
  const auto put_one = [&](const Matrices& x, std::array<int64_t, 4> strides) {
    check_type(x);
    const auto* data = static_cast<const char*>(
        std::exchange(first, false) ? x.tensor.mutable_data_ptr()
                                    : x.tensor.const_data_ptr());
    packet.operand(
        data + x.offset * static_cast<int64_t>(x.tensor.element_size()),
        memory_dtype(x.tensor.scalar_type()),
        strides.data());
  };
  packet.space({p.batch, p.m, p.n, p.k});
  put_one(p.d, {p.d.batch, p.d.row, p.d.col, 0});
  put_one(p.a, {p.a.batch, p.a.row, 0, p.a.col});
  if (C10_UNLIKELY(p.packed != nullptr)) {
    static constexpr std::array<int64_t, 4> run{0, 0, 1, 0};
    check_type(p.b);
    packet.arg(3, OPENREG_MATMUL_PACKED_B);
    packet.operand(p.packed, memory_dtype(type), run.data());
  } else {
    put_one(p.b, {p.b.batch, 0, p.b.col, p.b.row});
  }
  if (p.c && p.beta != 0) {
    put_one(*p.c, {p.c->batch, p.c->row, p.c->col, 0});
  }
  packet.imm(p.alpha);
  packet.imm(p.beta);
}

// Whether the result overlaps an operand that is still to be read. C may be the result
// itself: each element of C is read just before the same element of the result is
// written.
bool result_overlaps(const Product& p) {
  const Tensor& out = p.d.tensor;
  const auto overlaps = [&](const Tensor& t) {
    return out.is_alias_of(t) &&
        at::get_overlap_status(out, t) != at::MemOverlapStatus::No;
  };
  if (overlaps(p.a.tensor) || overlaps(p.b.tensor)) {
    return true;
  }
  if (!p.c || p.beta == 0) {
    return false;
  }
  const Tensor& c = p.c->tensor;
  const bool same = c.const_data_ptr() == out.const_data_ptr() &&
      c.sizes() == out.sizes() && c.strides() == out.strides();
  return !same && overlaps(c);
}

bool one_packet_does(const Product& p) {
  const uint32_t log2 = device(p.d.tensor.get_device()).info.max_work;
  int64_t work = p.batch;
  const bool overflows = __builtin_mul_overflow(work, p.m, &work) ||
      __builtin_mul_overflow(work, p.n, &work) ||
      __builtin_mul_overflow(work, p.k, &work);
  return !overflows && work <= int64_t{1} << std::min(log2, 62u);
}

using Size = int64_t Product::*;
using Stride = int64_t Matrices::*;

// Leaves half of a dimension in p, and returns the other half. A null stride means that
// the operand lacks the dimension.
Product halve(Product& p, Size size, Stride in_d, Stride in_a, Stride in_b) {
  Product rest = p;
  const int64_t kept = p.*size / 2;
  p.*size = kept;
  rest.*size -= kept;
  const auto skip = [&](Matrices& x, Stride stride) {
    x.offset += stride != nullptr ? kept * (x.*stride) : 0;
  };
  skip(rest.d, in_d);
  skip(rest.a, in_a);
  skip(rest.b, in_b);
  if (rest.c) {
    skip(*rest.c, in_d);
  }
  return rest;
}

Product halve(Product& p) {
  constexpr Stride batch = &Matrices::batch, row = &Matrices::row,
                   col = &Matrices::col;
  if (p.batch > 1) {
    return halve(p, &Product::batch, batch, batch, batch);
  }
  if (p.m > 1 && (p.m >= p.n || p.packed != nullptr)) {
    return halve(p, &Product::m, row, row, nullptr);
  }
  return halve(p, &Product::n, col, nullptr, col);
}

void launch_parts(OpId id, Product p, Part& part) {
  const bool one_sum = p.batch == 1 && p.m == 1 && p.n == 1;
  if (!one_sum && !one_packet_does(p)) {
    const Product rest = halve(p);
    launch_parts(id, p, part);
    launch_parts(id, rest, part);
    return;
  }
  Packet packet(OPENREG_OP_MATMUL, id);
  put(packet, p);
  launch(packet, p.d.tensor.get_device(), part);
  part = Part::FURTHER;
}

void run(OpId id, const Product& p) {
  const Tensor& out = p.d.tensor;
  TORCH_CHECK_NOT_IMPLEMENTED(
      out.scalar_type() != at::kBool, "matrix product not implemented for 'Bool'");
  if (p.batch == 0 || p.m == 0 || p.n == 0) {
    return;
  }
  if (p.k == 0 && !(p.c && p.beta != 0)) {
    out.zero_();
    return;
  }
  if (result_overlaps(p)) {
    const Tensor fresh = at::empty_like(out);
    const Matrices d = fresh.dim() == 2 || fresh.dim() == 3 ? matrices(fresh)
        : p.packed != nullptr                               ? row_vector(fresh)
                                                            : col_vector(fresh);
    run(id, {p.batch, p.m, p.n, p.k, d, p.a, p.b, p.c, p.alpha, p.beta, p.packed});
    out.copy_(fresh);
    return;
  }
  Part part = Part::FIRST;
  launch_parts(id, p, part);
}

// One batch dimension of a product. A packet has only one batch dimension.
struct Batch {
  int64_t size;
  std::array<int64_t, 3> stride; // of D, A, B
};

// Returns the batch dimensions without those of size 1. Merges contiguous dimensions, and
// puts the largest dimension last.
c10::SmallVector<Batch, 4> batches(const Tensor& d, const Tensor& a, const Tensor& b) {
  c10::SmallVector<Batch, 4> all;
  for (int64_t i = 0; i < d.dim() - 2; i++) {
    const Batch fresh{d.size(i), {d.stride(i), a.stride(i), b.stride(i)}};
    if (fresh.size == 1) {
      continue;
    }
    const auto continues = [&](const Batch& outer) {
      for (int j = 0; j < 3; j++) {
        if (outer.stride[j] != fresh.stride[j] * fresh.size) {
          return false;
        }
      }
      return true;
    };
    if (!all.empty() && continues(all.back())) {
      all.back() = {all.back().size * fresh.size, fresh.stride};
    } else {
      all.push_back(fresh);
    }
  }
  if (all.empty()) {
    all.push_back({1, {0, 0, 0}});
  }
  const auto largest = std::max_element(
      all.begin(), all.end(), [](const Batch& x, const Batch& y) { return x.size < y.size; });
  std::swap(*largest, all.back());
  return all;
}

// The base of kernels for real and complex numbers. The CPU reports errors for complex
// halves, which have no product, and for complex numbers beside real tensors.
struct OfBoth {
  static constexpr bool pairs = true;
  template <class... Args>
  static bool serves(const Tensor& first, const Args&... args) {
    return first.scalar_type() != at::kComplexHalf &&
        (first.is_complex() || (is_real(args) && ...));
  }

 private:
  template <class T>
  static bool is_real(const T& value) {
    if constexpr (std::is_same_v<T, Scalar>) {
      return !value.isComplex();
    } else {
      return !value.is_complex();
    }
  }
};

struct Multiply : OfBoth {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a, const Tensor& b) const {
    const Tensor& out = op.maybe_get_output(0);
    out.is_complex() ? multiply_complex(id, out, a, b) : multiply(id, out, a, b);
  }
};

struct MultiplyAndAdd : OfBoth {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& c,
      const Tensor& a,
      const Tensor& b,
      const Scalar& beta,
      const Scalar& alpha) const {
    const Tensor& out = op.maybe_get_output(0);
    if (out.is_complex()) {
      check_broadcasts(c, out);
      multiply_complex(id, out, a, b, &c, alpha, beta);
    } else {
      multiply(id, out, a, b, &c, alpha.toDouble(), beta.toDouble());
    }
  }
};

struct MultiplyVector : OfBoth {
  template <class Op>
  void operator()(
      OpId id,
      Op& op,
      const Tensor& c,
      const Tensor& a,
      const Tensor& v,
      const Scalar& beta,
      const Scalar& alpha) const {
    const Tensor& out = op.maybe_get_output(0);
    check_broadcasts(c, out);
    const bool one = c.dim() == 0 || c.size(0) == 1;
    // An empty result has c's sizes, as in core and in traces of compilers.
    if (out.numel() == 0 && one && beta.toComplexDouble() != 0.0) {
      at::mul_out(const_cast<Tensor&>(out), c, at::scalar_tensor(beta, c.scalar_type()));
      return;
    }
    if (out.is_complex()) {
      const Tensor column = c.dim() == 0 ? c : c.unsqueeze(1);
      multiply_complex(id, out.unsqueeze(1), a, v.unsqueeze(1), &column, alpha, beta);
      return;
    }
    if (const void* packed = whole_matrix(a)) {
      // Only B can be packed: the result and the vector are rows of a product with a^T.
      run(
          id,
          {1, 1, a.size(0), a.size(1), row_vector(out), row_vector(v), matrices(a),
           Matrices{c, 0, 0, one ? 0 : c.stride(0)}, alpha.toDouble(), beta.toDouble(),
           packed});
      return;
    }
    run(
        id,
        {1, a.size(0), 1, a.size(1), col_vector(out), matrices(a),
         col_vector(v), Matrices{c, 0, one ? 0 : c.stride(0), 0},
         alpha.toDouble(), beta.toDouble()});
  }
};

// dot is not structured in core.
struct dot_meta : at::impl::MetaBase {
  void meta(const Tensor& self, const Tensor& other) {
    TORCH_CHECK(
        self.dim() == 1 && other.dim() == 1,
        "1D tensors expected, but got ",
        self.dim(),
        "D and ",
        other.dim(),
        "D tensors");
    TORCH_CHECK(
        self.scalar_type() == other.scalar_type(),
        "dot : expected both vectors to have same dtype, but found ",
        self.scalar_type(),
        " and ",
        other.scalar_type());
    TORCH_CHECK(
        self.numel() == other.numel(),
        "inconsistent tensor size, expected tensor [",
        self.numel(),
        "] and src [",
        other.numel(),
        "] to have the same number of elements, but got ",
        self.numel(),
        " and ",
        other.numel(),
        " elements respectively");
    set_output_raw_strided(0, {}, {}, self.options());
  }
};

// The dot product of two vectors. Conjugate takes the conjugate of the first vector.
template <bool Conjugate>
struct Dot : OfBoth {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a, const Tensor& b) const {
    const Tensor& out = op.maybe_get_output(0);
    if (out.is_complex()) {
      dot_complex(id, out, a, b, Conjugate);
      return;
    }
    // Use a reduction: all workers share its single sum. MATMUL only divides results
    // among workers.
    if (a.numel() != 0 && a.scalar_type() != at::kBool) {
      reduce(
          {.id = id,
           .op = OPENREG_V_RED_SUM,
           .dims = 1,
           .compute = a.scalar_type(),
           .value = out.view({1})},
          {a, b},
          [](Reducer& p) { return p.in(0) * p.in(1); });
      return;
    }
    run(
        id,
        {1, 1, 1, a.size(0), Matrices{out, 0, 0, 0}, row_vector(a), col_vector(b),
         std::nullopt});
  }
};

} // namespace

void multiply(
    OpId id,
    const Tensor& out,
    const Tensor& a,
    const Tensor& b,
    const Tensor* c,
    double alpha,
    double beta) {
  const int64_t batch = out.dim() == 3 ? out.size(0) : 1;
  run(
      id,
      {batch,
       a.size(-2),
       b.size(-1),
       a.size(-1),
       matrices(out),
       matrices(a),
       matrices(b),
       c != nullptr ? std::optional(broadcast(*c, out)) : std::nullopt,
       alpha,
       beta,
       transposed_matrix(b)});
}

void multiply_batches(
    OpId id,
    const Tensor& out,
    const Tensor& a,
    const Tensor& b,
    double alpha,
    Part part) {
  if (out.numel() == 0) {
    return;
  }
  const auto all = batches(out, a, b);
  const Batch& inner = all.back();
  int64_t products = 1;
  for (size_t d = 0; d + 1 < all.size(); d++) {
    products *= all[d].size;
  }
  for (int64_t i = 0; i < products; i++) {
    std::array<int64_t, 3> offset{};
    int64_t rest = i;
    for (size_t d = 0; d + 1 < all.size(); d++) {
      for (int j = 0; j < 3; j++) {
        offset[j] += rest % all[d].size * all[d].stride[j];
      }
      rest /= all[d].size;
    }
    const auto one = [&](const Tensor& t, int j) {
      return Matrices{t, inner.stride[j], t.stride(-2), t.stride(-1), offset[j]};
    };
    const Product p{
        inner.size, out.size(-2), out.size(-1), a.size(-1),
        one(out, 0), one(a, 1), one(b, 2), std::nullopt, alpha};
    launch_parts(id, p, part);
  }
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured_mm>(m, NamesWithoutInplace{"mm", "mm.out"}, Multiply());
  add_op<at::meta::structured_bmm>(m, NamesWithoutInplace{"bmm", "bmm.out"}, Multiply());
  add_op<at::meta::structured_addmm>(
      m, Names{"addmm", "addmm_", "addmm.out"}, MultiplyAndAdd());
  add_op<at::meta::structured_baddbmm>(
      m, Names{"baddbmm", "baddbmm_", "baddbmm.out"}, MultiplyAndAdd());
  add_op<at::meta::structured_addmv>(
      m, Names{"addmv", "addmv_", "addmv.out"}, MultiplyVector());
  add_op<dot_meta>(m, FunctionalName{"dot"}, Dot<false>());
  add_op<dot_meta>(m, FunctionalName{"vdot"}, Dot<true>());
}

} // namespace openreg
