// SPDX-License-Identifier: BSD-3-Clause
// fill_, zero_, arange, linspace, eye, triu and tril.
#include "aten/step.h"
#include "aten/convention.h"
#include "aten/structured.h"
#include "runtime/overlap.h"

#include <ATen/Dispatch.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/tril_meta.h>
#include <ATen/ops/triu_meta.h>
#include <ATen/ops/view_as_real.h>

#include <cmath>

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;

OpName fill_name, zero_name, arange_name, linspace_name, logspace_name, eye_name;

// Whether a number may be too large for a half or an 8-bit float. Elsewhere it is an error.
enum class TooLarge { REFUSE, ROUND };

template <class T>
T narrowed(const Scalar& value, TooLarge large) {
  if constexpr (!std::is_arithmetic_v<T>) {
    if (large == TooLarge::ROUND) {
      return static_cast<T>(static_cast<float>(value.toDouble()));
    }
  }
  return value.to<T>();
}

// Returns the bits of a number as an element of the type.
int64_t pattern(const Scalar& value, c10::ScalarType type, TooLarge large) {
  int64_t bits = 0;
  AT_DISPATCH_V2(
      type,
      "fill_",
      AT_WRAP([&] {
        const auto element = narrowed<scalar_t>(value, large);
        std::memcpy(&bits, &element, sizeof(element));
      }),
      AT_EXPAND(AT_ALL_TYPES),
      AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
      AT_EXPAND(AT_FLOAT8_TYPES),
      at::kHalf,
      at::kBFloat16,
      at::kBool);
  return bits;
}

// Views t's memory as a type that the card has.
Tensor as_bits(const Tensor& t) {
  if (on_card(t)) {
    return t;
  }
  if (t.is_complex()) {
    return at::view_as_real(t);
  }
  switch (t.element_size()) {
    case 1:
      return t.view(at::kByte);
    case 2:
      return t.view(at::kShort);
    case 4:
      return t.view(at::kInt);
    default:
      return t.view(at::kLong);
  }
}

// One worker runs a FILL packet; all workers share a VECTOR packet, which is faster from
// this size on.
constexpr size_t kSharedBytes = 1 << 20;

void fill_bits(OpId id, const Tensor& self, int64_t bits, Part part) {
  const Tensor once = without_repeats(self);
  if (once.element_size() >= 4 && once.nbytes() >= kSharedBytes) {
    const Tensor words = once.view(once.element_size() == 4 ? at::kInt : at::kLong);
    Step s(id, words, words.scalar_type());
    s.store(words, s.program.imm(bits, s.program.type()));
    s.run(part);
    return;
  }
  Space space(once.sizes(), once.get_device());
  space.add(once);
  space.sort_by_stride(0);
  space.coalesce();
  space.for_each_launchable([&](const Space& s) {
    Packet packet(OPENREG_OP_FILL, id);
    s.put(packet);
    packet.imm(bits);
    launch(packet, s.device(), part);
    part = Part::FURTHER;
  });
}

void fill(
    OpId id,
    const Tensor& self,
    const Scalar& value,
    TooLarge large,
    Part part = Part::FIRST) {
  if (self.numel() == 0) {
    return;
  }
  if (self.is_complex()) {
    const Tensor parts = at::view_as_real(self);
    const auto number = value.toComplexDouble();
    fill(id, parts.select(-1, 0), number.real(), large, part);
    fill(id, parts.select(-1, 1), number.imag(), large, Part::FURTHER);
    return;
  }
  fill_bits(id, as_bits(self), pattern(value, self.scalar_type(), large), part);
}

// Zero has all bits clear in every type.
Tensor& zero_(Tensor& self) {
  if (self.numel() > 0) {
    fill_bits(zero_name.id, as_bits(self), 0, Part::FIRST);
  }
  return self;
}

Tensor& fill_scalar_(Tensor& self, const Scalar& value) {
  // As on the CPU: its kernel for a single element differs from that for more.
  const bool rounds = (self.numel() == 1) != self.is_complex();
  fill(fill_name.id, self, value, rounds ? TooLarge::ROUND : TooLarge::REFUSE);
  return self;
}

Tensor& fill_tensor_(Tensor& self, const Tensor& value) {
  TORCH_CHECK(
      value.dim() == 0,
      "fill_ only supports 0-dimension value tensor but got tensor with ",
      value.dim(),
      " dimensions.");
  if (value.device() != self.device() || !on_card<true>(self) || !on_card<true>(value)) {
    return self.fill_(value.item()); // self may be on the CPU
  }
  const Tensor one = self.is_alias_of(value) ? value.clone() : value;
  const Tensor once = without_repeats(self);
  once.copy_(one.expand(once.sizes()));
  return self;
}

// out.flatten()[i] = formula(i), where i is an I64.
template <class Formula>
void by_position(OpId id, const Tensor& out, Formula&& formula) {
  if (out.numel() == 0) {
    return;
  }
  if (!out.is_contiguous()) {
    const Tensor dense = empty(out.sizes(), {}, out.options());
    by_position(id, dense, formula);
    out.copy_(dense);
    return;
  }
  Space space({out.numel()}, out.get_device());
  space.add(out, {1});
  Program p(vector_type(out.scalar_type()));
  p.store(0, formula(p, p.index(0)));
  launch(space, p, id);
}

// Computes like core: in double, or in 64-bit integers if all arguments are integers.
int64_t arange_size(const Scalar& start, const Scalar& end, const Scalar& step) {
  const double from = start.toDouble(), to = end.toDouble(), by = step.toDouble();
  TORCH_CHECK(by != 0, "step must be nonzero");
  TORCH_CHECK(
      std::isfinite(from) && std::isfinite(to),
      "unsupported range: ",
      from,
      " -> ",
      to);
  TORCH_CHECK(
      (by > 0 && to >= from) || (by < 0 && to <= from),
      "upper bound and lower bound inconsistent with step sign");
  if (start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true)) {
    const int64_t s = step.toLong(), span = end.toLong() - start.toLong();
    return (span + s - (s > 0 ? 1 : -1)) / s;
  }
  return static_cast<int64_t>(std::ceil((to - from) / by));
}

Tensor& arange_out(const Scalar& start, const Scalar& end, const Scalar& step, Tensor& out) {
  if (!on_card(out)) {
    return fallback<Tensor&, const Scalar&, const Scalar&, const Scalar&, Tensor&>(
        arange_name, start, end, step, out);
  }
  arange_name.check_type(out.scalar_type());
  const int64_t n = arange_size(start, end, step);
  TORCH_CHECK(n >= 0, "invalid size, possible overflow?");
  if (out.numel() != n) {
    if (out.numel() > 0) {
      TORCH_WARN(
          "The number of elements in the out tensor of shape ",
          out.sizes(),
          " is ",
          out.numel(),
          " which does not match the computed number of elements ",
          n,
          ". Note that this may occur as a result of rounding error. "
          "The out tensor will be resized to a tensor of shape (",
          n,
          ",).");
    }
    out.resize_({n});
  }
  by_position(arange_name.id, out, [&](Program& p, Value i) {
    if (!is_float(p.type())) {
      return i * p.imm(step.toLong(), OPENREG_VT_I64) +
          p.imm(start.toLong(), OPENREG_VT_I64);
    }
    // Compute in double, so that position times step is rounded only once.
    const Value x = p.convert(i, OPENREG_VT_F64);
    return p.convert(x * step.toDouble() + start.toDouble(), p.type());
  });
  return out;
}

// Returns the number after conversion to the type.
double element(const Scalar& value, c10::ScalarType type) {
  return AT_DISPATCH_ALL_TYPES_AND3(
      at::kHalf, at::kBFloat16, at::kBool, type, "linspace", [&] {
        return static_cast<double>(value.to<scalar_t>());
      });
}

Tensor& linspace_out(const Scalar& start, const Scalar& end, int64_t steps, Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (!on_card(out)) {
    return fallback<Tensor&, const Scalar&, const Scalar&, int64_t, Tensor&>(
        linspace_name, start, end, steps, out);
  }
  if (steps > 1) {
    linspace_name.check_type(out.scalar_type());
  }
  if (out.numel() != steps) {
    out.resize_({steps});
  }
  const double from = element(start, out.scalar_type());
  const double to = element(end, out.scalar_type());
  const double step = steps > 1 ? (to - from) / static_cast<double>(steps - 1) : 0;
  by_position(linspace_name.id, out, [&](Program& p, Value i) {
    // Start from the nearer end, so that both ends are exact.
    const Value x = p.convert(i, OPENREG_VT_F64);
    const Value up = x * step + from;
    const Value down = to - (static_cast<double>(steps - 1) - x) * step;
    // As in core, a single element is the start.
    return select(i < static_cast<double>(steps > 1 ? steps / 2 : 1), up, down);
  });
  return out;
}

Tensor& logspace_out(const Scalar& start, const Scalar& end, int64_t steps, double base, Tensor& out) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  // Not for integers: a power that is rounded just below an integer would be truncated.
  if (!on_card(out) || !out.is_floating_point()) {
    return fallback<Tensor&, const Scalar&, const Scalar&, int64_t, double, Tensor&>(
        logspace_name, start, end, steps, base, out);
  }
  if (out.numel() != steps) {
    out.resize_({steps});
  }
  // If steps is 1, core does not round start to the type before taking the power.
  const double from = steps == 1 ? start.toDouble() : element(start, out.scalar_type());
  const double to = element(end, out.scalar_type());
  const double step = steps > 1 ? (to - from) / static_cast<double>(steps - 1) : 0;
  const double half = static_cast<double>(steps > 1 ? steps / 2 : 1);
  by_position(logspace_name.id, out, [&](Program& p, Value i) {
    const Value x = p.convert(i, OPENREG_VT_F64);
    const Value up = x * step + from;
    const Value down = to - (static_cast<double>(steps - 1) - x) * step;
    return pow(base, select(x < half, up, down));
  });
  return out;
}

Tensor& eye_m_out(int64_t n, int64_t m, Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  if (!on_card(out)) {
    return fallback<Tensor&, int64_t, int64_t, Tensor&>(eye_name, n, m, out);
  }
  out.resize_({n, m});
  at::assert_no_internal_overlap(out);
  if (out.numel() == 0) {
    return out;
  }
  Space space(out.sizes(), out.get_device());
  space.add(out, at::DimVector(out.strides()));
  Program p(OPENREG_VT_I32);
  p.store(0, p.index(0) == p.index(1));
  launch(space, p, eye_name.id);
  return out;
}

Tensor& eye_out(int64_t n, Tensor& out) {
  return eye_m_out(n, n, out);
}

// Keeps the elements on one side of a diagonal, and sets the others to 0.
template <bool Upper>
struct Triangle {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self, int64_t diagonal) const {
    const Tensor& out = op.maybe_get_output(0);
    if (out.numel() == 0) {
      return;
    }
    Space space(out.sizes(), out.get_device());
    space.add(out);
    space.add(self);
    const int rows = space.ndim() - 2;
    space.keep(rows);
    space.keep(rows + 1);
    space.coalesce();
    Part part = Part::FIRST;
    space.for_each_launchable([&](const Space& s) {
      Program p(vector_type(self.scalar_type()));
      const Value x = p.load(1, p.type());
      const Value offset = p.index(s.kept(1)) - p.index(s.kept(0));
      const Value limit = p.imm(diagonal, OPENREG_VT_I64);
      const Value inside = Upper ? offset >= limit : offset <= limit;
      p.store(0, select(inside, x, 0.0));
      launch(s, p, id, part);
      part = Part::FURTHER;
    });
  }
};

// triu_ and tril_ of an expanded tensor: a shared element becomes 0 if it would be 0 at
// any of its places.
template <class Form, bool Upper>
Tensor& triangle_(Tensor& self, int64_t diagonal) {
  Tensor once = without_repeats(self);
  if (self.dim() >= 2) {
    const auto repeats = [&](int64_t dim) { return self.size(dim) - once.size(dim); };
    diagonal += Upper ? repeats(-2) : -repeats(-1);
  }
  Form::call(once, diagonal);
  return self;
}

template <class Meta, bool Upper>
void add_triangle(torch::Library& m, NamesWithoutInplace names, const char* inplace) {
  add_op<Meta>(m, names, Triangle<Upper>());
  using Form = typename FormsOf<Meta, Triangle<Upper>, 1>::InplaceForm;
  Form::name.set(inplace);
  m.impl(inplace, triangle_<Form, Upper>);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  fill_name.set("fill_.Scalar");
  zero_name.set("zero_");
  arange_name.set("arange.start_out");
  linspace_name.set("linspace.out");
  logspace_name.set("logspace.out");
  eye_name.set("eye.m_out");
  m.impl("fill_.Scalar", fill_scalar_);
  m.impl("fill_.Tensor", fill_tensor_);
  m.impl("zero_", zero_);
  m.impl("arange.start_out", arange_out);
  m.impl("linspace.out", linspace_out);
  m.impl("logspace.out", logspace_out);
  m.impl("eye.out", eye_out);
  m.impl("eye.m_out", eye_m_out);
  add_triangle<at::meta::structured_triu, true>(m, {"triu", "triu.out"}, "triu_");
  add_triangle<at::meta::structured_tril, false>(m, {"tril", "tril.out"}, "tril_");
}

} // namespace openreg
