// SPDX-License-Identifier: BSD-3-Clause
// where, clamp, lerp, addcmul, addcdiv, addr and masked_fill.
#include "aten/structured.h"
#include "runtime/overlap.h"

#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/addcdiv_meta.h>
#include <ATen/ops/addcmul_meta.h>
#include <ATen/ops/clamp_max_meta.h>
#include <ATen/ops/clamp_meta.h>
#include <ATen/ops/clamp_min_meta.h>
#include <ATen/ops/lerp_meta.h>
#include <ATen/ops/result_type.h>

#include <array>
#include <utility>

namespace openreg {

namespace {

using at::Scalar;
using at::Tensor;
using OptScalar = std::optional<Scalar>;
using OptTensor = std::optional<Tensor>;

struct where_meta : at::TensorIteratorBase, ComputesInResultType {
  void meta(const Tensor& condition, const Tensor& self, const Tensor& other) {
    TORCH_CHECK(
        condition.scalar_type() == at::kBool ||
            condition.scalar_type() == at::kByte,
        "where expected condition to be a boolean tensor, but got a tensor with dtype ",
        condition.scalar_type());
    const Tensor& out = maybe_get_output(0);
    const auto type = at::result_type(self, other);
    TORCH_CHECK(
        !out.defined() || out.scalar_type() == type,
        "Expected out type to be ",
        type,
        " but got ",
        out.scalar_type());
    inputs_ = {condition, self, other};
    move_numbers();
    build(at::TensorIteratorConfig()
              .check_all_same_dtype(false)
              .allow_cpu_scalars(true)
              .declare_static_dtype(type)
              .add_borrowed_output(out)
              .add_borrowed_const_input(inputs_[0])
              .add_borrowed_const_input(inputs_[1])
              .add_borrowed_const_input(inputs_[2]));
  }

 private:
  // Moves numbers from the CPU to the card: a TensorIterator accepts only one CPU scalar.
  void move_numbers() {
    std::optional<c10::Device> card;
    const std::array<const Tensor*, 4> given{
        &maybe_get_output(0), &inputs_[0], &inputs_[1], &inputs_[2]};
    for (const Tensor* t : given) {
      if (t->defined() && !t->is_cpu()) {
        card = t->device();
      }
    }
    bool first = true;
    for (Tensor& t : inputs_) {
      if (t.is_cpu() && t.dim() == 0 && !std::exchange(first, false)) {
        t = t.to(*card);
      }
    }
  }

  std::array<Tensor, 3> inputs_;
};

struct addr_meta : at::TensorIteratorBase {
  void meta(
      const Tensor& self,
      const Tensor& vec1,
      const Tensor& vec2,
      const Scalar& beta,
      const Scalar& alpha) {
    TORCH_CHECK(vec1.dim() == 1, "addr: Expected 1-D argument vec1, but got ", vec1.dim(), "-D");
    TORCH_CHECK(vec2.dim() == 1, "addr: Expected 1-D argument vec2, but got ", vec2.dim(), "-D");
    self_ = at::expand_size(self, {vec1.size(0), vec2.size(0)}, "addr");
    column_ = vec1.unsqueeze(1);
    build(at::TensorIteratorConfig()
              .set_check_mem_overlap(true)
              .allow_cpu_scalars(true)
              .promote_inputs_to_common_dtype(true)
              .cast_common_dtype_to_outputs(true)
              .enforce_safe_casting_to_output(true)
              .add_output(maybe_get_output(0))
              .add_borrowed_const_input(*self_)
              .add_borrowed_const_input(column_)
              .add_borrowed_const_input(vec2));
    check_scalar(beta, "beta");
    check_scalar(alpha, "alpha");
  }

 private:
  void check_scalar(const Scalar& s, const char* name) const {
    TORCH_CHECK(
        !s.isBoolean() || common_dtype() == at::kBool,
        "Boolean ",
        name,
        " only supported for Boolean results.");
    TORCH_CHECK(
        c10::isFloatingType(common_dtype()) || c10::isComplexType(common_dtype()) ||
            s.isIntegral(/*includeBool=*/true),
        "For integral input tensors, argument ",
        name,
        " must not be a floating point number.");
  }

  c10::MaybeOwned<Tensor> self_;
  Tensor column_;
};

struct masked_fill_meta : at::TensorIteratorBase, ComputesInResultType {
  // value is null for a number. A value tensor on the CPU is treated as a number.
  void begin(const Tensor& self, const Tensor& mask, const Tensor* value) {
    TORCH_CHECK(
        mask.scalar_type() == at::kBool,
        "masked_fill_ only supports boolean masks, but got mask with dtype ",
        mask.scalar_type());
    at::TensorIteratorConfig config;
    config.check_all_same_dtype(false)
        .allow_cpu_scalars(true)
        .declare_static_dtype(self.scalar_type())
        .add_borrowed_output(maybe_get_output(0))
        .add_borrowed_const_input(self)
        .add_borrowed_const_input(mask);
    if (value != nullptr) {
      TORCH_CHECK(
          value->dim() == 0,
          "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
          value->dim(),
          " dimension(s).");
      const Tensor& out = maybe_get_output(0);
      own_value_ = out.defined() && out.is_alias_of(*value) ? value->clone() : *value;
      if (!own_value_.is_cpu()) {
        config.add_borrowed_const_input(own_value_);
      }
    }
    build(config);
  }

 private:
  Tensor own_value_;
};

struct masked_fill_scalar_meta : masked_fill_meta {
  void meta(const Tensor& self, const Tensor& mask, const Scalar&) {
    begin(self, mask, nullptr);
  }
};

struct masked_fill_tensor_meta : masked_fill_meta {
  void meta(const Tensor& self, const Tensor& mask, const Tensor& value) {
    begin(self, mask, &value);
  }
};

// Converts a number to the tensor's type. Throws if the type cannot hold the number.
Value element(Pointwise& p, const Scalar& value) {
  return AT_DISPATCH_ALL_TYPES_AND3(
      at::kHalf, at::kBFloat16, at::kBool, p.compute(), "masked_fill", [&] {
        const auto x = value.to<scalar_t>();
        return is_float(p.type()) ? p.imm(static_cast<double>(x), p.type())
                                  : p.imm(static_cast<int64_t>(x), p.type());
      });
}

Value element(Pointwise& p, const Tensor& value) {
  if (value.is_cpu()) {
    return element(p, value.item());
  }
  return p.compute() == at::kBool ? p.in_as(2, value.scalar_type()) != 0.0
                                  : p.in(2);
}

// Like the CPU, accepts an expanded tensor with a warning. Fills a shared element if any
// of its masks selects it.
template <class Form, class Number>
Tensor& fill_masked_(Tensor& self, const Tensor& mask, const Number& value) {
  if (at::has_internal_overlap(self) != at::MemOverlap::Yes) {
    return Form::call(self, mask, value);
  }
  TORCH_WARN(
      "Use of masked_fill_ on expanded tensors is deprecated. "
      "Please clone() the tensor before performing this operation. "
      "This also applies to advanced indexing e.g. tensor[mask] = scalar");
  Tensor once = without_repeats(self);
  std::vector<int64_t> repeated;
  for (int64_t d = 0; d < self.dim(); d++) {
    if (once.size(d) != self.size(d)) {
      repeated.push_back(d);
    }
  }
  Form::call(once, mask.expand_as(self).any(repeated, /*keepdim=*/true), value);
  return self;
}

Value mix(Value a, Value b, Value w) {
  // Start from the nearer end, so that weights of 0 and 1 are exact.
  const Value d = b - a;
  return select(abs(w) < 0.5, a + w * d, b - d * (1.0 - w));
}

Value mix(Pointwise& p, Value a, Value b, const Scalar& weight) {
  const double w = weight.toDouble();
  const Value d = b - a;
  return std::abs(w) < 0.5 ? a + p(w) * d : b - d * p(1.0 - w);
}

Value clamp(Pointwise& p, const OptScalar& lower, const OptScalar& upper) {
  Value x = p.in(0);
  x = lower ? max(x, p(*lower)) : x;
  return upper ? min(x, p(*upper)) : x;
}

Value clamp(Pointwise& p, const OptTensor& lower, const OptTensor& upper) {
  const bool low = lower.has_value() && lower->defined();
  const bool high = upper.has_value() && upper->defined();
  Value x = p.in(0);
  x = low ? max(x, p.in(1)) : x;
  return high ? min(x, p.in(low ? 2 : 1)) : x;
}

void add_clamps(torch::Library& m) {
  add_pointwise<at::meta::structured_clamp>(
      m,
      Names{"clamp", "clamp_", "clamp.out"},
      [](Pointwise& p, const Tensor&, const OptScalar& lo, const OptScalar& hi) {
        return clamp(p, lo, hi);
      });
  add_pointwise<at::meta::structured_clamp_Tensor>(
      m,
      Names{"clamp.Tensor", "clamp_.Tensor", "clamp.Tensor_out"},
      [](Pointwise& p, const Tensor&, const OptTensor& lo, const OptTensor& hi) {
        if (lo.has_value() && lo->defined() && hi.has_value() && hi->defined()) {
          refuse_bool("clamp", p.compute());
        }
        return clamp(p, lo, hi);
      });
  add_pointwise<at::meta::structured_clamp_min>(
      m,
      Names{"clamp_min", "clamp_min_", "clamp_min.out"},
      [](Pointwise& p, const Tensor&, const Scalar& s) {
        return max(p.in(0), p(s));
      });
  add_pointwise<at::meta::structured_clamp_max>(
      m,
      Names{"clamp_max", "clamp_max_", "clamp_max.out"},
      [](Pointwise& p, const Tensor&, const Scalar& s) {
        return min(p.in(0), p(s));
      });
  add_pointwise<at::meta::structured_clamp_min_Tensor>(
      m,
      Names{"clamp_min.Tensor", "clamp_min_.Tensor", "clamp_min.Tensor_out"},
      [](Pointwise& p, const Tensor&, const Tensor&) {
        return max(p.in(0), p.in(1));
      });
  add_pointwise<at::meta::structured_clamp_max_Tensor>(
      m,
      Names{"clamp_max.Tensor", "clamp_max_.Tensor", "clamp_max.Tensor_out"},
      [](Pointwise& p, const Tensor&, const Tensor&) {
        return min(p.in(0), p.in(1));
      });
}

void add_mixtures(torch::Library& m) {
  add_pointwise<at::meta::structured_lerp_Scalar>(
      m,
      Names{"lerp.Scalar", "lerp_.Scalar", "lerp.Scalar_out"},
      [](Pointwise& p, const Tensor&, const Tensor&, const Scalar& weight) {
        return mix(p, p.in(0), p.in(1), weight);
      });
  add_pointwise<at::meta::structured_lerp_Tensor>(
      m,
      Names{"lerp.Tensor", "lerp_.Tensor", "lerp.Tensor_out"},
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&) {
        return mix(p.in(0), p.in(1), p.in(2));
      });
  add_pointwise<at::meta::structured_addcmul>(
      m,
      Names{"addcmul", "addcmul_", "addcmul.out"},
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&, const Scalar& s) {
        // Rounds once: the product alone may be out of range.
        return fma(p(s) * p.in(1), p.in(2), p.in(0));
      },
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&, const Scalar& s) {
        return p.in_complex(0) + p.complex(s) * p.in_complex(1) * p.in_complex(2);
      });
  add_pointwise<at::meta::structured_addcdiv>(
      m,
      Names{"addcdiv", "addcdiv_", "addcdiv.out"},
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&, const Scalar& s) {
        return p.in(0) + p(s) * p.in(1) / p.in(2);
      },
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&, const Scalar& s) {
        return p.in_complex(0) + p.complex(s) * p.in_complex(1) / p.in_complex(2);
      });
}

Complex fma(Complex a, Complex b, Complex c) {
  return a * b + c;
}

// If beta is 0, ignores self, which may be NaN. Rounds the sum once: the product alone may
// be out of range.
template <class Number>
Number rank_one(
    const Scalar& beta,
    const Scalar& alpha,
    Number self,
    Number factor,
    Number a,
    Number b,
    Number by) {
  const Number scaled = alpha.equal(1) ? a : factor * a;
  if (beta.equal(0)) {
    return scaled * b;
  }
  return fma(scaled, b, beta.equal(1) ? self : by * self);
}

void add_rank_one(torch::Library& m) {
  add_pointwise<addr_meta>(
      m,
      Names{"addr", "addr_", "addr.out"},
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&, const Scalar& beta, const Scalar& alpha) {
        if (p.compute() == at::kBool) {
          const Value product = (p.in(1) & p.in(2)) & p(alpha.toBool());
          return beta.toBool() ? p.in(0) | product : product;
        }
        return rank_one(beta, alpha, p.in(0), p(alpha), p.in(1), p.in(2), p(beta));
      },
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&, const Scalar& beta, const Scalar& alpha) {
        return rank_one(
            beta, alpha, p.in_complex(0), p.complex(alpha), p.in_complex(1), p.in_complex(2), p.complex(beta));
      });
}

struct FillNumber {
  template <class Fill>
  Value operator()(Pointwise& p, const Tensor&, const Tensor&, const Fill& value) const {
    return select(p.in_as(1, at::kBool), element(p, value), p.in(0));
  }
};
struct FillComplex {
  Complex operator()(Pointwise& p, const Tensor&, const Tensor&, const Scalar& value) const {
    return select(p.in_as(1, at::kBool), p.complex(value), p.in_complex(0));
  }
};

// A new result is contiguous, whatever strides self has.
template <class Meta, class Fill, class Kernel>
void add_masked_fill(torch::Library& m, Names names, Kernel) {
  using Forms = FormsOf<Meta, Kernel, 1>;
  using Into = typename Forms::OutForm;
  add_form<Into>(m, names.out);
  Forms::InplaceForm::name.set(names.inplace);
  m.impl(
      names.inplace,
      &fill_masked_<typename Forms::InplaceForm, std::remove_cvref_t<Fill>>);
  m.impl(names.functional, [](const Tensor& self, const Tensor& mask, Fill value) {
    Tensor out = empty(at::infer_size(self.sizes(), mask.sizes()), {}, self.options());
    return Into::call(self, mask, value, out);
  });
}

void add_choices(torch::Library& m) {
  add_pointwise<where_meta>(
      m,
      NamesWithoutInplace{"where.self", "where.self_out"},
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&) {
        return select(p.in_as(0, at::kBool), p.in(1), p.in(2));
      },
      [](Pointwise& p, const Tensor&, const Tensor&, const Tensor&) {
        return select(p.in_as(0, at::kBool), p.in_complex(1), p.in_complex(2));
      });
  add_masked_fill<masked_fill_scalar_meta, const Scalar&>(
      m,
      {"masked_fill.Scalar", "masked_fill_.Scalar", "masked_fill.Scalar_out"},
      ElementwiseOfPairs<FillNumber, FillComplex>());
  add_masked_fill<masked_fill_tensor_meta, const Tensor&>(
      m,
      {"masked_fill.Tensor", "masked_fill_.Tensor", "masked_fill.Tensor_out"},
      Elementwise<FillNumber>());
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_clamps(m);
  add_mixtures(m);
  add_rank_one(m);
  add_choices(m);
}

} // namespace openreg
