// SPDX-License-Identifier: BSD-3-Clause
// searchsorted and bucketize. All searches run in parallel, by bisection. Core checks the
// arguments.
#include <ATen/ATen.h>
#include <ATen/native/BucketizationUtils.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "aten/convention.h"
#include "aten/index.h"
#include "aten/step.h"

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;
using OptSide = std::optional<std::string_view>;
using OptTensor = std::optional<Tensor>;

OpName search_out_name;

struct Search {
  OpId id;
  Tensor input; // like the other tensors, at least one dimension
  Tensor sequence; // a row for each row of input, or one row for all
  Tensor sorter; // undefined: the sequence is sorted
  bool right;
};

// out = the elements at places of the sequence, in the sorter's order.
void look_up(const Search& s, const Tensor& out, const Tensor& places) {
  Tensor order = places;
  if (s.sorter.defined()) {
    order = at::empty(places.sizes(), places.options());
    index_points(s.id, OPENREG_INDEX_GET, order, s.sorter, -1, places, Part::FURTHER);
  }
  index_points(s.id, OPENREG_INDEX_GET, out, s.sequence, -1, order, Part::FURTHER);
}

// found has the number of elements that are known to lie before each input. The search
// tries `step` more elements. probe receives the place of the last of these.
void aim(const Search& s, const Tensor& found, const Tensor& probe, int64_t step) {
  Step p(s.id, found, at::kLong);
  const Value next = p.load(found) + p.program.imm(step - 1, OPENREG_VT_I64);
  const Value last = p.program.imm(s.sequence.size(-1) - 1, OPENREG_VT_I64);
  p.store(probe, min(next, last));
  p.run(Part::FURTHER);
}

// Takes the step if the element at probe lies before the input. A NaN lies after all
// numbers.
void take(const Search& s, const Tensor& found, const Tensor& seen, int64_t step) {
  Step p(s.id, found, s.input.scalar_type());
  const auto operand = p.add(found);
  const Value old = p.program.load(operand, OPENREG_VT_I64);
  const Value next = old + p.program.imm(step, OPENREG_VT_I64);
  const Value x = p.load(s.input), y = p.load(seen);
  const Value stays = s.right ? y > x : y >= x;
  const Value behind = next > p.program.imm(s.sequence.size(-1), OPENREG_VT_I64);
  p.program.store(operand, select(stays | behind, old, next));
  p.run(Part::FURTHER);
}

Tensor search(const Search& s) {
  const auto options = s.input.options();
  const Tensor found = at::zeros(s.input.sizes(), options.dtype(at::kLong));
  const int64_t n = s.sequence.size(-1);
  if (n == 0 || found.numel() == 0) {
    return found;
  }
  const Tensor probe = at::empty_like(found);
  const Tensor seen = at::empty(s.input.sizes(), options);
  int64_t step = 1;
  while (step <= n / 2) {
    step *= 2;
  }
  for (; step > 0; step /= 2) {
    aim(s, found, probe, step);
    look_up(s, seen, probe);
    take(s, found, seen, step);
  }
  return found;
}

// Expands t to a row for each row of input, if it has one row for all.
Tensor rows_for(const Tensor& input, const Tensor& t) {
  if (!t.defined() || t.dim() == input.dim()) {
    return t;
  }
  at::DimVector sizes(input.sizes());
  sizes.back() = t.size(-1);
  return t.expand(sizes);
}

bool all_on_card(const Tensor& sequence, const Tensor& input, const Tensor& out) {
  return on_card(sequence) && on_card(input) && on_card(out);
}

void search_into(
    const OpName& name,
    const Tensor& sequence,
    const Tensor& input,
    bool int32,
    bool right,
    OptSide side,
    const OptTensor& sorter_opt,
    const Tensor& out) {
  const Tensor sorter = sorter_opt.value_or(Tensor());
  at::native::searchsorted_pre_check(
      sequence, input, out, int32, right, side, sorter);
  at::native::resize_output(out, input.sizes());
  const auto type = at::result_type(sequence, input);
  if (input.numel() != 0) {
    name.check_type(type);
  }
  const Tensor x = with_dim(input.to(type));
  out.copy_(search({name.id,
                    x,
                    rows_for(x, sequence.to(type)),
                    rows_for(x, sorter),
                    right || (side && *side == "right")})
                .view(out.sizes()));
}

Tensor result_for(const Tensor& sequence, bool int32) {
  return at::empty({0}, sequence.options().dtype(int32 ? at::kInt : at::kLong));
}

Tensor& search_out(
    const Tensor& sequence,
    const Tensor& input,
    bool int32,
    bool right,
    OptSide side,
    const OptTensor& sorter,
    Tensor& out) {
  TORCH_CHECK(
      out.device() == sequence.device(),
      "searchsorted: out is on ",
      out.device(),
      " and the sequence on ",
      sequence.device(),
      ": both must be on the same device");
  if (!all_on_card(sequence, input, out)) {
    return fallback<Tensor&, const Tensor&, const Tensor&, bool, bool, OptSide,
                    const OptTensor&, Tensor&>(
        search_out_name, sequence, input, int32, right, side, sorter, out);
  }
  search_into(
      search_out_name, sequence, input, int32, right, side, sorter, out);
  return out;
}

Tensor search_tensor(
    const Tensor& sequence,
    const Tensor& input,
    bool int32,
    bool right,
    OptSide side,
    const OptTensor& sorter) {
  Tensor out = result_for(sequence, int32);
  return search_out(sequence, input, int32, right, side, sorter, out);
}

Tensor& search_scalar_out(
    const Tensor& sequence,
    const Scalar& input,
    bool int32,
    bool right,
    OptSide side,
    const OptTensor& sorter,
    Tensor& out) {
  const Tensor x =
      at::native::searchsorted_scalar_tensor(input, sequence.device());
  return search_out(sequence, x, int32, right, side, sorter, out);
}

Tensor search_scalar(
    const Tensor& sequence,
    const Scalar& input,
    bool int32,
    bool right,
    OptSide side,
    const OptTensor& sorter) {
  Tensor out = result_for(sequence, int32);
  return search_scalar_out(sequence, input, int32, right, side, sorter, out);
}

Tensor& buckets_out(
    const Tensor& self,
    const Tensor& boundaries,
    bool int32,
    bool right,
    Tensor& out) {
  TORCH_CHECK(
      boundaries.dim() == 1,
      "boundaries tensor must be 1 dimension, but got dim(",
      boundaries.dim(),
      ")");
  return search_out(boundaries, self, int32, right, {}, {}, out);
}

Tensor buckets(
    const Tensor& self,
    const Tensor& boundaries,
    bool int32,
    bool right) {
  Tensor out = result_for(boundaries, int32);
  return buckets_out(self, boundaries, int32, right, out);
}

Tensor buckets_scalar(
    const Scalar& self,
    const Tensor& boundaries,
    bool int32,
    bool right) {
  return buckets(
      at::native::searchsorted_scalar_tensor(self, boundaries.device()),
      boundaries,
      int32,
      right);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  search_out_name.set("searchsorted.Tensor_out");
  m.impl("searchsorted.Tensor", search_tensor);
  m.impl("searchsorted.Tensor_out", search_out);
  m.impl("searchsorted.Scalar", search_scalar);
  m.impl("searchsorted.Scalar_out", search_scalar_out);
  m.impl("bucketize.Tensor", buckets);
  m.impl("bucketize.Tensor_out", buckets_out);
  m.impl("bucketize.Scalar", buckets_scalar);
}

} // namespace openreg
