// SPDX-License-Identifier: BSD-3-Clause
// randperm and multinomial.
#include <ATen/ATen.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/multinomial_native.h>
#include <torch/library.h>

#include "aten/convention.h"
#include "aten/random.h"
#include "aten/sort.h"

namespace openreg {

namespace {

using at::Tensor;

OpName randperm_name, multinomial_name, multinomial_out_name;

// A random permutation: draws 64 random bits for each element and sorts them. If two are
// equal, the earlier element comes first.
Tensor& randperm_out(int64_t n, OptGenerator generator, Tensor& out) {
  if (!on_card(out) || n > OPENREG_SORT_ROW_MAX) {
    return fallback<Tensor&, int64_t, OptGenerator, Tensor&>(
        randperm_name, n, generator, out);
  }
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  randperm_name.check_type(out.scalar_type());
  at::native::check_supported_max_int_with_precision(n, out);
  out.resize_({n});
  if (n == 0) {
    return out;
  }
  const auto options = out.options().dtype(at::kLong);
  const Tensor keys = at::empty({n}, options), sorted = at::empty({n}, options);
  draw({randperm_name.id, generator, OPENREG_VT_I64, {keys}}, [](Program& p, Draws& draws) {
    p.store(0, draws.bits(OPENREG_VT_I64));
  });
  const bool direct = out.scalar_type() == at::kLong;
  const Tensor order = direct ? out : at::empty({n}, options);
  sort_rows(randperm_name.id, sorted, order, keys, 0, {0, n}, Part::FURTHER);
  return direct ? out : out.copy_(order);
}

// Checks the caller's distribution with a single read from the card. Throws the errors of
// core's CPU kernel.
void check_distribution(const Tensor& p, const Tensor& largest) {
  const Tensor good =
      at::stack({(p >= 0).all(), at::isfinite(p).all(), (largest > 0).all()})
          .cpu();
  const bool* ok = good.const_data_ptr<bool>();
  TORCH_CHECK(
      ok[0],
      "invalid multinomial distribution (encountering probability entry < 0)");
  TORCH_CHECK(
      ok[1],
      "invalid multinomial distribution (encountering probability entry = infinity or NaN)");
  TORCH_CHECK(
      ok[2],
      "invalid multinomial distribution (sum of probabilities <= 0)");
}

// Finds the place of a uniform number among the cumulative sums. Rounding must not let a
// sum grow where the probability is 0.
void with_replacement(
    Tensor& result,
    const Tensor& self,
    int64_t samples,
    OptGenerator generator) {
  const Tensor p = (self.dim() == 1 ? self.unsqueeze(0) : self).to(at::kDouble);
  TORCH_CHECK(
      p.size(1) > 0, "invalid multinomial distribution (sum of probabilities <= 0)");
  const Tensor largest = at::amax(p, {1}, true);
  check_distribution(p, largest);
  // Divide by the largest probability, so that no sum overflows or rounds to 0.
  const Tensor sums = at::cumsum(p / largest, 1);
  const Tensor steps = std::get<0>(at::cummax(sums.masked_fill(p == 0, 0), 1));
  Tensor points = at::empty({p.size(0), samples}, p.options());
  points.uniform_(0, 1, generator);
  points.mul_(steps.narrow(1, p.size(1) - 1, 1));
  result.copy_(at::searchsorted(steps, points, false, true).view(result.sizes()));
}

Tensor& multinomial_out(
    const Tensor& self,
    int64_t samples,
    bool replacement,
    OptGenerator generator,
    Tensor& out) {
  return on_card(self) && on_card(out)
      ? at::native::multinomial_out(self, samples, replacement, generator, out)
      : fallback<Tensor&, const Tensor&, int64_t, bool, OptGenerator, Tensor&>(
            multinomial_out_name, self, samples, replacement, generator, out);
}

Tensor multinomial(
    const Tensor& self,
    int64_t samples,
    bool replacement,
    OptGenerator generator) {
  return on_card(self)
      ? at::native::multinomial(self, samples, replacement, generator)
      : fallback<Tensor, const Tensor&, int64_t, bool, OptGenerator>(
            multinomial_name, self, samples, replacement, generator);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  randperm_name.set("randperm.generator_out");
  multinomial_name.set("multinomial");
  multinomial_out_name.set("multinomial.out");
  m.impl("randperm.generator_out", randperm_out);
  m.impl("multinomial", multinomial);
  m.impl("multinomial.out", multinomial_out);
}

} // namespace openreg

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(multinomial_with_replacement_stub, &openreg::with_replacement)
} // namespace at::native
