// SPDX-License-Identifier: BSD-3-Clause
// Operators that fill a tensor from a distribution: uniform_, normal_, log_normal_,
// cauchy_, exponential_, geometric_, random_ and bernoulli_. Core checks the arguments.
#define AT_PER_OPERATOR_HEADERS
#include <ATen/MemoryOverlap.h>
#include <ATen/native/DistributionTemplates.h>
#include <torch/library.h>

#include "aten/convention.h"
#include "aten/random.h"

namespace openreg {

namespace {

using at::Tensor;
namespace core = at::native::templates;

OpName uniform_name, normal_name, log_normal_name, cauchy_name,
    exponential_name, geometric_name, random_name, random_to_name,
    random_from_name, bernoulli_name;

// out = formula(p, draws), computed in the given type.
template <class Formula>
void fill(
    const OpName& name,
    const Tensor& out,
    const OptGenerator& generator,
    uint8_t type,
    Formula&& formula) {
  draw({name.id, generator, type, {out}}, [&](Program& p, Draws& draws) {
    p.store(0, formula(p, draws));
  });
}

void check_floating(const Tensor& self, const char* name) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      self.is_floating_point(),
      '"',
      name,
      "\" not implemented for '",
      self.scalar_type(),
      "'");
}

// The greatest number of type T that is less than x.
template <class T>
T below(T x) {
  if constexpr (sizeof(T) > 2) {
    return std::nextafter(x, -std::numeric_limits<T>::infinity());
  } else {
    if (x == T(0)) {
      return -std::numeric_limits<T>::denorm_min();
    }
    return T(static_cast<uint16_t>(x > T(0) ? x.x - 1 : x.x + 1), T::from_bits());
  }
}

// A range in numbers of the tensor's type: [from, last] has the same numbers as [from,
// to).
struct Range {
  double from, to, last;
};

Range range_of(const Tensor& out, double from, double to) {
  Range r{};
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, out.scalar_type(), "uniform_", [&] {
        const auto first = static_cast<scalar_t>(from);
        const auto end = static_cast<scalar_t>(to);
        const auto last = below(end);
        r = {first, end, first < last ? last : first};
      });
  return r;
}

// Core's templates need a kernel that is a class template over the generator's class.
template <class>
struct Uniform {
  void operator()(
      at::TensorIterator& iter,
      double from,
      double to,
      const OptGenerator& generator) {
    const Tensor& out = iter.tensor(0);
    const Range r = range_of(out, from, to);
    const uint8_t type = vector_type(out.scalar_type());
    fill(uniform_name, out, generator, type, [&](Program&, Draws& draws) {
      Value x = draws.uniform(type);
      if (r.from != 0 || r.to != 1) {
        x = x * (r.to - r.from) + r.from;
      } else if (out.element_size() > 2) {
        return x;
      }
      // Rounding in the sum or in the store must not give the end of the range.
      return min(x, r.last);
    });
  }
};

template <class>
struct Normal {
  void operator()(
      const Tensor& out,
      double mean,
      double std,
      const OptGenerator& generator) {
    check_floating(out, "normal_kernel_openreg");
    at::assert_no_internal_overlap(out);
    const uint8_t type = vector_type(out.scalar_type());
    fill(normal_name, out, generator, type, [&](Program&, Draws& draws) {
      const Value x = draws.normal(type);
      return mean == 0 && std == 1 ? x : x * std + mean;
    });
  }
};

template <class>
struct LogNormal {
  void operator()(
      at::TensorIterator& iter,
      double mean,
      double std,
      const OptGenerator& generator) {
    const Tensor& out = iter.tensor(0);
    check_floating(out, "log_normal_openreg");
    const uint8_t type = vector_type(out.scalar_type());
    fill(log_normal_name, out, generator, type, [&](Program&, Draws& draws) {
      return exp(draws.normal(type) * std + mean);
    });
  }
};

template <class>
struct Cauchy {
  void operator()(
      at::TensorIterator& iter,
      double median,
      double sigma,
      const OptGenerator& generator) {
    const Tensor& out = iter.tensor(0);
    const uint8_t type = vector_type(out.scalar_type());
    fill(cauchy_name, out, generator, type, [&](Program&, Draws& draws) {
      // Avoid -1/2, where the tangent has a pole. The range is then symmetric around 0.
      const double least = type == OPENREG_VT_F64 ? 0x1p-53 : 0x1p-24;
      const Value x = max(draws.uniform(type) - 0.5, least - 0.5);
      return tan(x * M_PI) * sigma + median;
    });
  }
};

template <class>
struct Exponential {
  void operator()(
      at::TensorIterator& iter,
      double lambda,
      const OptGenerator& generator) {
    const Tensor& out = iter.tensor(0);
    TORCH_CHECK(
        out.is_floating_point(),
        "Exponential distribution is a continuous probability distribution. "
        "dtype must be a floating point but you specified ",
        out.scalar_type());
    const uint8_t type = vector_type(out.scalar_type());
    fill(exponential_name, out, generator, type, [&](Program&, Draws& draws) {
      return log(draws.open_uniform(type)) * (-1 / lambda);
    });
  }
};

template <class>
struct Geometric {
  void operator()(
      at::TensorIterator& iter,
      double p,
      const OptGenerator& generator) {
    const Tensor& out = iter.tensor(0);
    TORCH_CHECK_NOT_IMPLEMENTED(
        out.scalar_type() != at::kBool,
        "\"geometric_openreg\" not implemented for 'Bool'");
    // Use F64 for integers: they can exceed F32's range of exact integers.
    const bool single = out.is_floating_point() && out.element_size() < 8;
    const uint8_t type = single ? OPENREG_VT_F32 : OPENREG_VT_F64;
    fill(geometric_name, out, generator, type, [&](Program&, Draws& draws) {
      return ceil(log(draws.open_uniform(type)) * (1 / std::log1p(-p)));
    });
  }
};

// Returns the upper 64 bits of the product of 64 random bits and range: a number in
// [0, range). All arithmetic is unsigned.
Value scale(Program& p, Value bits, uint64_t range) {
  const Value low_half = p.imm(int64_t{0xffffffff}, OPENREG_VT_I64);
  const Value half = p.imm(32, OPENREG_VT_I64);
  const auto low = [&](Value v) { return v & low_half; };
  const auto high = [&](Value v) { return (v >> half) & low_half; };
  const auto number = [&](uint64_t n) {
    return p.imm(static_cast<int64_t>(n), OPENREG_VT_I64);
  };
  const uint64_t range_high = range >> 32;
  const Value x0 = low(bits), x1 = high(bits);
  const Value r0 = number(range & 0xffffffff);
  const Value middle = x1 * r0 + high(x0 * r0);
  if (range_high == 0) {
    return high(middle);
  }
  const Value r1 = number(range_high);
  return x1 * r1 + high(middle) + high(x0 * r1 + low(middle));
}

// Fills with integers from base to base + range - 1. A range of 0 means 2^64.
void fill_whole(
    const OpName& name,
    const Tensor& out,
    uint64_t range,
    int64_t base,
    const OptGenerator& generator) {
  fill(name, out, generator, OPENREG_VT_I64, [&](Program& p, Draws& draws) {
    Value x = draws.bits(OPENREG_VT_I64);
    if (range != 0) {
      x = scale(p, x, range);
    }
    return base == 0 ? x : x + p.imm(base, OPENREG_VT_I64);
  });
}

template <class>
struct RandomFromTo {
  void operator()(
      at::TensorIterator& iter,
      uint64_t range,
      int64_t base,
      const OptGenerator& generator) {
    fill_whole(random_from_name, iter.tensor(0), range, base, generator);
  }
  void operator()(at::TensorIterator& iter, const OptGenerator& generator) {
    fill_whole(random_from_name, iter.tensor(0), 0, 0, generator);
  }
};

// The count of numbers for random_() without a range. For an integer type: all numbers
// that are not negative. For a floating-point type: the integers up to the last one below
// which the type has every integer.
uint64_t range_of_type(c10::ScalarType type) {
  uint64_t range = 0;
  AT_DISPATCH_ALL_TYPES_AND3(
      at::kHalf, at::kBFloat16, at::kBool, type, "random_", [&] {
        using limits = std::numeric_limits<scalar_t>;
        range = limits::is_integer
            ? static_cast<uint64_t>(limits::max()) + 1
            : (uint64_t{1} << limits::digits) + 1;
      });
  return range;
}

template <class>
struct Random {
  void operator()(at::TensorIterator& iter, const OptGenerator& generator) {
    const Tensor& out = iter.tensor(0);
    const uint64_t range = range_of_type(out.scalar_type());
    fill_whole(random_name, out, range, 0, generator);
  }
};

template <class>
struct Bernoulli {
  void operator()(
      const Tensor& out,
      double probability,
      const OptGenerator& generator) {
    fill(bernoulli_name, out, generator, OPENREG_VT_I32,
         [&](Program& p, Draws& draws) {
           return draw_bit(p, draws, probability);
         });
  }
};

// Core fills a complex tensor as twice as many real numbers.
bool real_on_card(const Tensor& t) {
  return type_on_card(c10::toRealValueType(t.scalar_type()));
}

Tensor& uniform_(Tensor& self, double from, double to, OptGenerator generator) {
  return real_on_card(self)
      ? core::uniform_impl_<Uniform, void>(self, from, to, generator)
      : fallback<Tensor&, Tensor&, double, double, OptGenerator>(
            uniform_name, self, from, to, generator);
}

Tensor& normal_(Tensor& self, double mean, double std, OptGenerator generator) {
  return real_on_card(self)
      ? core::normal_impl_<Normal, void>(self, mean, std, generator)
      : fallback<Tensor&, Tensor&, double, double, OptGenerator>(
            normal_name, self, mean, std, generator);
}

Tensor& log_normal_(Tensor& self, double mean, double std, OptGenerator generator) {
  return on_card(self)
      ? core::log_normal_impl_<LogNormal, void>(self, mean, std, generator)
      : fallback<Tensor&, Tensor&, double, double, OptGenerator>(
            log_normal_name, self, mean, std, generator);
}

Tensor& cauchy_(Tensor& self, double median, double sigma, OptGenerator generator) {
  return on_card(self)
      ? core::cauchy_impl_<Cauchy, void>(self, median, sigma, generator)
      : fallback<Tensor&, Tensor&, double, double, OptGenerator>(
            cauchy_name, self, median, sigma, generator);
}

Tensor& exponential_(Tensor& self, double lambda, OptGenerator generator) {
  return on_card(self)
      ? core::exponential_impl_<Exponential, void>(self, lambda, generator)
      : fallback<Tensor&, Tensor&, double, OptGenerator>(
            exponential_name, self, lambda, generator);
}

Tensor& geometric_(Tensor& self, double p, OptGenerator generator) {
  return on_card(self)
      ? core::geometric_impl_<Geometric, void>(self, p, generator)
      : fallback<Tensor&, Tensor&, double, OptGenerator>(
            geometric_name, self, p, generator);
}

Tensor& random_(Tensor& self, OptGenerator generator) {
  return on_card(self) ? core::random_impl<Random, void>(self, generator)
                       : fallback<Tensor&, Tensor&, OptGenerator>(
                             random_name, self, generator);
}

Tensor& random_from_(
    Tensor& self,
    int64_t from,
    std::optional<int64_t> to,
    OptGenerator generator) {
  return on_card(self)
      ? core::random_from_to_impl<RandomFromTo, void>(self, from, to, generator)
      : fallback<Tensor&, Tensor&, int64_t, std::optional<int64_t>, OptGenerator>(
            random_from_name, self, from, to, generator);
}

Tensor& random_to_(Tensor& self, int64_t to, OptGenerator generator) {
  return on_card(self) ? random_from_(self, 0, to, generator)
                       : fallback<Tensor&, Tensor&, int64_t, OptGenerator>(
                             random_to_name, self, to, generator);
}

Tensor& bernoulli_(Tensor& self, double p, OptGenerator generator) {
  return on_card(self)
      ? core::bernoulli_impl_<Bernoulli, void>(self, p, generator)
      : fallback<Tensor&, Tensor&, double, OptGenerator>(
            bernoulli_name, self, p, generator);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  uniform_name.set("uniform_");
  normal_name.set("normal_");
  log_normal_name.set("log_normal_");
  cauchy_name.set("cauchy_");
  exponential_name.set("exponential_");
  geometric_name.set("geometric_");
  random_name.set("random_");
  random_to_name.set("random_.to");
  random_from_name.set("random_.from");
  bernoulli_name.set("bernoulli_.float");
  m.impl("uniform_", uniform_);
  m.impl("normal_", normal_);
  m.impl("log_normal_", log_normal_);
  m.impl("cauchy_", cauchy_);
  m.impl("exponential_", exponential_);
  m.impl("geometric_", geometric_);
  m.impl("random_", random_);
  m.impl("random_.to", random_to_);
  m.impl("random_.from", random_from_);
  m.impl("bernoulli_.float", bernoulli_);
}

} // namespace openreg
