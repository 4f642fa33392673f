// SPDX-License-Identifier: BSD-3-Clause
// Operators that core implements separately for each device, composed of other operators.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "aten/step.h"
#include "aten/structured.h"

#include <ATen/ops/linalg_cross_meta.h>
#include <ATen/ops/renorm_meta.h>

namespace openreg {

namespace {

using at::IntArrayRef;
using at::Scalar;
using at::Tensor;

bool equal(const Tensor& self, const Tensor& other) {
  check_tensor_device(other, self.device());
  return self.sizes() == other.sizes() &&
      (self.numel() == 0 || at::eq(self, other).all().item<bool>());
}

Tensor count_nonzero(const Tensor& self, IntArrayRef dims) {
  return at::ne(self, 0).sum(dims);
}

OpName trace_name;

Tensor trace(const Tensor& self) {
  trace_name.check_type(self.scalar_type());
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  return self.diagonal().sum();
}

// The sum over a batch of products is one product with longer rows.
Tensor& addbmm_out(
    const Tensor& self,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha,
    Tensor& out) {
  TORCH_CHECK(a.dim() == 3, "batch1 must be a 3D tensor");
  TORCH_CHECK(b.dim() == 3, "batch2 must be a 3D tensor");
  TORCH_CHECK(
      a.size(0) == b.size(0),
      "batch1 and batch2 must have same number of batches, got ",
      a.size(0),
      " and ",
      b.size(0));
  TORCH_CHECK(
      a.size(2) == b.size(1),
      "Incompatible matrix sizes for bmm (",
      a.size(1),
      "x",
      a.size(2),
      " and ",
      b.size(1),
      "x",
      b.size(2),
      ")");
  const int64_t inner = a.size(0) * a.size(2);
  const Tensor rows = a.transpose(0, 1).reshape({a.size(1), inner});
  const Tensor columns = b.reshape({inner, b.size(2)});
  const std::array<int64_t, 2> sizes{a.size(1), b.size(2)};
  if (out.is_same(self) && out.sizes() != IntArrayRef(sizes)) {
    // As on the CPU, self may broadcast. Compute the result before self is resized.
    const Tensor result = at::addmm(self, rows, columns, beta, alpha);
    out.resize_(sizes);
    return out.copy_(result);
  }
  return at::addmm_out(out, self, rows, columns, beta, alpha);
}

Tensor addbmm(
    const Tensor& self,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha) {
  Tensor out = empty({0}, {}, self.options());
  return addbmm_out(self, a, b, beta, alpha, out);
}

Tensor& addbmm_(
    Tensor& self,
    const Tensor& a,
    const Tensor& b,
    const Scalar& beta,
    const Scalar& alpha) {
  return addbmm_out(self, a, b, beta, alpha, self);
}

struct Cross {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& self, const Tensor& other, int64_t dim) const {
    const Tensor& out = op.maybe_get_output(0);
    const Tensor a = self.expand(out.sizes()), b = other.expand(out.sizes());
    Step s(id, out.select(dim, 0), out.scalar_type());
    std::array<uint8_t, 3> to{};
    for (int i = 0; i < 3; i++) {
      to[i] = s.add_written(out.select(dim, i));
    }
    std::vector<Value> x, y;
    for (int i = 0; i < 3; i++) {
      x.push_back(s.load(a.select(dim, i)));
      y.push_back(s.load(b.select(dim, i)));
    }
    for (int i = 0; i < 3; i++) {
      const int j = (i + 1) % 3, k = (i + 2) % 3;
      s.program.store(to[i], x[j] * y[k] - x[k] * y[j]);
    }
    s.run();
  }
};

// The factor that shortens each row with a norm greater than most; 1 for other rows.
Tensor shortening(const Tensor& norm, double most) {
  return at::where(norm > most, most / (norm + 1e-7), at::ones_like(norm));
}

struct Renorm {
  template <class Op>
  void operator()(OpId, Op& op, const Tensor& self, const Scalar& p, int64_t dim, const Scalar& most) const {
    Tensor out = op.maybe_get_output(0);
    at::DimVector others;
    for (int64_t i = 0; i < self.dim(); i++) {
      if (i != c10::maybe_wrap_dim(dim, self.dim())) {
        others.push_back(i);
      }
    }
    const bool half = self.element_size() == 2;
    const Tensor norm = at::linalg_vector_norm(
        self, p, others, true, half ? at::kFloat : self.scalar_type());
    at::mul_out(out, self, shortening(norm, most.toDouble()).to(self.scalar_type()));
  }
};

// Computes the norm of every row, and shortens only the rows that indices names.
Tensor& embedding_renorm_(Tensor& self, const Tensor& indices, double most, double p) {
  TORCH_CHECK(self.dim() == 2, "Expected 2-dimensional tensor, but got ", self.dim(), "-dimensional tensor for argument #1 'self'");
  TORCH_CHECK(
      indices.scalar_type() == at::kLong || indices.scalar_type() == at::kInt,
      "Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got ",
      indices.toString());
  const Tensor named = at::zeros({self.size(0)}, self.options().dtype(at::kBool));
  named.index_fill_(0, indices.reshape({-1}).to(at::kLong), true);
  const Tensor norm = at::linalg_vector_norm(self, p, at::IntArrayRef{1}, true);
  const Tensor by = shortening(norm, most);
  return self.mul_(at::where(named.unsqueeze(1), by, at::ones_like(by)));
}

Tensor channel_shuffle(const Tensor& self, int64_t groups) {
  TORCH_CHECK(
      self.dim() > 2,
      "channel_shuffle expects input with > 2 dims, but got input with sizes ",
      self.sizes());
  const int64_t channels = self.size(1);
  TORCH_CHECK(
      groups > 0,
      "Number of groups to divide channels in must be positive.",
      " Value of groups:",
      groups);
  TORCH_CHECK(
      channels % groups == 0,
      "Number of channels must be divisible by groups. Got ",
      channels,
      " channels and ",
      groups,
      " groups.");
  return self.unflatten(1, {groups, channels / groups})
      .transpose(1, 2)
      .clone(at::MemoryFormat::Contiguous)
      .flatten(1, 2);
}

using OptGenerator = std::optional<at::Generator>;

// Draws a slope for every element below zero, and stores the slopes in noise.
Tensor& rrelu_out(
    const Tensor& self,
    Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    bool training,
    OptGenerator generator,
    Tensor& out) {
  TORCH_CHECK(
      self.sym_sizes() == noise.sym_sizes(),
      "noise tensor shape must match self tensor shape. Got self.shape = ",
      self.sizes(),
      " noise.shape = ",
      noise.sizes());
  const double low = lower.toDouble(), high = upper.toDouble();
  if (!training) {
    return at::leaky_relu_out(out, self, (low + high) / 2);
  }
  TORCH_CHECK(low <= high, "Lower bound should be less than or equal to the upper bound");
  const Tensor drawn = at::empty_like(self).uniform_(low, high, generator);
  noise.copy_(at::where(self <= 0, drawn, at::ones_like(drawn)));
  return at::mul_out(out, self, noise);
}

Tensor rrelu(
    const Tensor& self,
    Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    bool training,
    OptGenerator generator) {
  Tensor out = at::empty_like(self);
  return rrelu_out(self, noise, lower, upper, training, generator, out);
}

Tensor& rrelu_(
    Tensor& self,
    Tensor& noise,
    const Scalar& lower,
    const Scalar& upper,
    bool training,
    OptGenerator generator) {
  return rrelu_out(self, noise, lower, upper, training, generator, self);
}

Tensor& narrow_copy_out(
    const Tensor& self, int64_t dim, c10::SymInt start, c10::SymInt length, Tensor& out) {
  const Tensor part = self.narrow(dim, start.expect_int(), length.expect_int());
  TORCH_CHECK(
      self.dtype() == out.dtype(),
      "Expected out tensor to have dtype ",
      self.dtype(),
      ", but got ",
      out.dtype(),
      " instead");
  at::native::resize_output(out, part.sizes());
  return out.copy_(part);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("equal", equal);
  m.impl("count_nonzero.dim_IntList", count_nonzero);
  trace_name.set("trace");
  m.impl("trace", trace);
  add_op<at::meta::structured_linalg_cross>(
      m, NamesWithoutInplace{"linalg_cross", "linalg_cross.out"}, Cross());
  add_op<at::meta::structured_renorm>(m, Names{"renorm", "renorm_", "renorm.out"}, Renorm());
  m.impl("embedding_renorm_", embedding_renorm_);
  m.impl("channel_shuffle", channel_shuffle);
  m.impl("rrelu_with_noise", rrelu);
  m.impl("rrelu_with_noise_", rrelu_);
  m.impl("rrelu_with_noise.out", rrelu_out);
  m.impl("narrow_copy.out", narrow_copy_out);
  m.impl("addbmm", addbmm);
  m.impl("addbmm_", addbmm_);
  m.impl("addbmm.out", addbmm_out);
}

} // namespace openreg
