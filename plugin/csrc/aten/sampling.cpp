// SPDX-License-Identifier: BSD-3-Clause
// Operators with a distribution for each element: bernoulli and normal with tensors as
// parameters.
#define AT_PER_OPERATOR_HEADERS
#include <ATen/native/DistributionTemplates.h>
#include <torch/library.h>

#include "aten/convention.h"
#include "aten/random.h"

namespace openreg {

namespace {

using at::Tensor;
namespace core = at::native::templates;

OpName bernoulli_name, bernoulli_out_name;

// Draws, and returns whether all parameters were valid. The caller waits for that flag,
// as in core's kernels for other devices.
template <class Formula>
bool draw_checked(DrawingCall call, Formula&& formula) {
  call.flag = empty({}, {}, call.outputs[0].options().dtype(at::kBool));
  const size_t flag = call.outputs.size() + call.inputs.size();
  draw(call, [&](Program& p, Draws& draws) {
    const Value good = formula(p, draws);
    p.reduce({OPENREG_V_RED_AND, static_cast<uint8_t>(flag)}, good);
  });
  return call.flag.item<bool>();
}

template <class>
struct BernoulliOf {
  void operator()(
      const Tensor& out,
      const Tensor& probability,
      const OptGenerator& generator) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        probability.is_floating_point(),
        "\"bernoulli_tensor_openreg_p_\" not implemented for '",
        probability.scalar_type(),
        "'");
    Tensor chance = probability.to(out.device());
    at::assert_no_partial_overlap(out, chance);
    chance = *at::expand_inplace(out, chance);
    const uint8_t type = vector_type(chance.scalar_type());
    const bool good = draw_checked(
        {bernoulli_name.id, generator, type, {out}, {chance}},
        [&](Program& p, Draws& draws) {
          const Value x = p.load(1, type);
          p.store(0, draws.uniform(type) < x);
          return (x >= 0.0) & (x <= 1.0);
        });
    TORCH_CHECK(good, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
  }
};

Tensor& bernoulli_(Tensor& self, const Tensor& p, OptGenerator generator) {
  return on_card(self) && on_card(p)
      ? core::bernoulli_impl_<BernoulliOf, void>(self, p, generator)
      : fallback<Tensor&, Tensor&, const Tensor&, OptGenerator>(
            bernoulli_name, self, p, generator);
}

Tensor& bernoulli_out(const Tensor& self, OptGenerator generator, Tensor& out) {
  return on_card(self) && on_card(out)
      ? core::bernoulli_out_impl<BernoulliOf, void>(out, self, generator)
      : fallback<Tensor&, const Tensor&, OptGenerator, Tensor&>(
            bernoulli_out_name, self, generator, out);
}

// A parameter of a normal distribution: a number or a tensor.
struct Parameter {
  explicit Parameter(double number) : number(number) {}
  explicit Parameter(const Tensor& t) : tensor(t) {}

  bool is_tensor() const {
    return tensor.defined();
  }
  at::IntArrayRef sizes() const {
    return is_tensor() ? tensor.sizes() : at::IntArrayRef();
  }
  // Moves a number on the CPU to out's device. Checks that other tensors are already
  // there.
  void move_to(const Tensor& out) {
    if (!is_tensor()) {
      return;
    }
    if (tensor.device().is_cpu() && tensor.dim() == 0) {
      tensor = tensor.to(out.device());
    }
    check_tensor_device(tensor, out.device());
    at::assert_no_partial_overlap(out, tensor);
  }
  Value value(Program& p, uint8_t* operand) const {
    return is_tensor() ? p.load((*operand)++, p.type())
                       : p.imm(number, p.type());
  }

  double number = 0;
  Tensor tensor;
};

void check_std(const Parameter& std) {
  if (std.is_tensor()) {
    TORCH_CHECK(
        !std.tensor.is_complex(),
        "normal expects standard deviation to be non-complex");
  } else {
    TORCH_CHECK(
        std.number >= 0.0,
        "normal expects std >= 0.0, but found std ",
        std.number);
  }
}

void draw_normal(
    OpId id,
    Parameter mean,
    Parameter std,
    const OptGenerator& generator,
    const Tensor& out) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      out.is_floating_point(),
      "\"normal_kernel_openreg\" not implemented for '",
      out.scalar_type(),
      "'");
  if (out.numel() == 0) {
    return;
  }
  at::assert_no_internal_overlap(out);
  DrawingCall call{id, generator, vector_type(out.scalar_type()), {out}};
  for (Parameter* parameter : {&mean, &std}) {
    parameter->move_to(out);
    if (parameter->is_tensor()) {
      call.inputs.push_back(parameter->tensor);
    }
  }
  const auto formula = [&](Program& p, Draws& draws) {
    uint8_t operand = 1;
    const Value m = mean.value(p, &operand), s = std.value(p, &operand);
    p.store(0, draws.normal(p.type()) * s + m);
    return s >= 0.0;
  };
  if (!std.is_tensor()) {
    draw(call, [&](Program& p, Draws& draws) { formula(p, draws); });
    return;
  }
  TORCH_CHECK(
      draw_checked(call, formula), "normal expects all elements of std >= 0.0");
}

Tensor new_normal(
    OpId id,
    const Parameter& mean,
    const Parameter& std,
    const OptGenerator& generator) {
  check_std(std);
  const Tensor& first = mean.is_tensor() ? mean.tensor : std.tensor;
  const Tensor& there =
      first.is_privateuseone() || !std.is_tensor() ? first : std.tensor;
  const Tensor out = empty(
      at::infer_size(mean.sizes(), std.sizes()),
      {},
      first.options().device(there.device()));
  draw_normal(id, mean, std, generator, out);
  return out;
}

void normal_out(
    OpId id,
    const Parameter& mean,
    const Parameter& std,
    const OptGenerator& generator,
    const Tensor& out) {
  check_std(std);
  // If std is a number, out keeps its shape, and mean expands to it.
  const bool keeps = !std.is_tensor() && out.numel() != 0;
  at::native::resize_output(
      out, at::infer_size(mean.sizes(), keeps ? out.sizes() : std.sizes()));
  draw_normal(id, mean, std, generator, out);
}

// The forms of normal with tensors. Mean and Std are the types in the schema.
template <class Mean, class Std>
struct NormalOf {
  static inline OpName name, out_name;

  static Tensor functional(Mean mean, Std std, OptGenerator generator) {
    return on_card(mean) && on_card(std)
        ? new_normal(name.id, Parameter(mean), Parameter(std), generator)
        : fallback<Tensor, Mean, Std, OptGenerator>(name, mean, std, generator);
  }
  static Tensor& out(Mean mean, Std std, OptGenerator generator, Tensor& out) {
    if (!on_card(mean) || !on_card(std) || !on_card(out)) {
      return fallback<Tensor&, Mean, Std, OptGenerator, Tensor&>(
          out_name, mean, std, generator, out);
    }
    normal_out(out_name.id, Parameter(mean), Parameter(std), generator, out);
    return out;
  }
  static void add(torch::Library& m, const char* functional_form, const char* out_form) {
    name.set(functional_form);
    out_name.set(out_form);
    m.impl(functional_form, functional);
    m.impl(out_form, out);
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  bernoulli_name.set("bernoulli_.Tensor");
  bernoulli_out_name.set("bernoulli.out");
  m.impl("bernoulli_.Tensor", bernoulli_);
  m.impl("bernoulli.out", bernoulli_out);
  NormalOf<const Tensor&, double>::add(
      m, "normal.Tensor_float", "normal.Tensor_float_out");
  NormalOf<double, const Tensor&>::add(
      m, "normal.float_Tensor", "normal.float_Tensor_out");
  NormalOf<const Tensor&, const Tensor&>::add(
      m, "normal.Tensor_Tensor", "normal.Tensor_Tensor_out");
}

} // namespace openreg
