// SPDX-License-Identifier: BSD-3-Clause
// _scaled_mm and _scaled_mm_v2: products of float8 matrices with scales.
//
// Scales of tensors, rows and columns multiply the product of a MATMUL packet. With scales
// of blocks along k, the MATMUL packet itself multiplies by them.
#include "aten/convention.h"
#include "aten/matmul.h"
#include "aten/pointwise.h"

#include <ATen/BlasBackend.h>
#include <ATen/ceil_div.h>
#include <ATen/core/IListRef.h>
#include <ATen/ops/_scaled_mm_v2.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

namespace openreg {

namespace {

using at::IntArrayRef;
using at::Tensor;
using at::blas::ScalingType;
using at::blas::SwizzleType;
using OptTensor = std::optional<Tensor>;
using OptType = std::optional<c10::ScalarType>;

OpId v1_id, v2_id;

// The scales of one matrix. grid has a scale for each block of rows x k elements of the
// matrix with k as its last dimension. Its dtype is float32 or float8_e8m0fnu.
struct Scales {
  Tensor grid;
  bool blocks; // along k
};

std::string shape(int64_t rows, int64_t columns) {
  return "[" + std::to_string(rows) + ", " + std::to_string(columns) + "]";
}

bool has_shape(const Tensor& t, int64_t rows, int64_t columns) {
  return t.dim() == 2 && t.size(0) == rows && t.size(1) == columns;
}

// A matrix with k as its last dimension: a itself, or b transposed.
struct Side {
  const char* name; // of the scales
  Tensor matrix;
  bool is_b;

  int64_t rows() const {
    return matrix.size(0);
  }
  int64_t k() const {
    return matrix.size(1);
  }
};

void check_type(const Side& s, const Tensor& scale, c10::ScalarType type) {
  TORCH_CHECK_VALUE(
      scale.scalar_type() == type,
      s.name, " must be a ", type, " tensor for this kind of scales, but it has the dtype ",
      scale.scalar_type());
}

void check_divides(const Side& s, int64_t block) {
  TORCH_CHECK_VALUE(
      s.k() % block == 0,
      s.name, " has a scale for each ", block, " elements along k, so ", block,
      " must divide k, which is ", s.k());
}

// Each row of the grid serves `rows` rows of the matrix.
Tensor repeat_rows(const Side& s, const Tensor& grid, int64_t rows) {
  return grid.repeat_interleave(rows, 0).narrow(0, 0, s.rows());
}

Scales of_tensor(const Side& s, const Tensor& scale) {
  check_type(s, scale, at::kFloat);
  TORCH_CHECK_VALUE(
      scale.numel() == 1,
      s.name, " must have one element for a scale of the tensor, but it has ", scale.numel());
  return {scale.reshape({1, 1}), false};
}

Scales of_rows(const Side& s, const Tensor& scale) {
  check_type(s, scale, at::kFloat);
  const bool fits = s.is_b ? has_shape(scale, 1, s.rows()) : has_shape(scale, s.rows(), 1);
  TORCH_CHECK_VALUE(
      fits || (scale.dim() == 1 && scale.size(0) == s.rows()),
      s.name, " must have the shape ",
      s.is_b ? shape(1, s.rows()) : shape(s.rows(), 1),
      " for a scale of each ", s.is_b ? "column" : "row", ", but it has ", scale.sizes());
  return {scale.reshape({s.rows(), 1}), false};
}

Scales of_lines(const Side& s, const Tensor& scale, int64_t rows, int64_t columns) {
  check_type(s, scale, at::kFloat);
  check_divides(s, 128);
  TORCH_CHECK_VALUE(
      has_shape(scale, rows, columns),
      s.name, " must have the shape ", shape(rows, columns),
      " for scales of blocks of 1 x 128 elements, but it has ", scale.sizes());
  return {rows == s.rows() && columns == s.k() / 128 ? scale : scale.t(), true};
}

// The grid lies with k first; k may be padded to a multiple of 4 blocks.
Scales of_squares(const Side& s, const Tensor& scale) {
  const int64_t k = s.k() / 128, rows = at::ceil_div(s.rows(), int64_t{128});
  check_type(s, scale, at::kFloat);
  check_divides(s, 128);
  TORCH_CHECK_VALUE(
      has_shape(scale, k, rows) || has_shape(scale, at::ceil_div(k, int64_t{4}) * 4, rows),
      s.name, " must have the shape ", shape(k, rows),
      " for scales of blocks of 128 x 128 elements, but it has ", scale.sizes());
  return {repeat_rows(s, scale.narrow(0, 0, k).t(), 128), true};
}

// Scales of 32 elements along k. A swizzled grid is padded to tiles of 128 x 4 scales: row
// 32 * i + j of a tile and column c lie at j, i, c.
Scales of_mx(const Side& s, const Tensor& scale, bool swizzled) {
  const int64_t k = s.k() / 32, rows = s.rows();
  const int64_t down = at::ceil_div(rows, int64_t{128}), across = at::ceil_div(k, int64_t{4});
  const int64_t expected = swizzled ? down * 128 * across * 4 : rows * k;
  check_type(s, scale, at::kFloat8_e8m0fnu);
  check_divides(s, 32);
  TORCH_CHECK_VALUE(
      scale.numel() == expected,
      s.name, " must have ", expected, " elements for scales of blocks of 1 x 32 elements",
      swizzled ? " in the swizzle 32_4_4" : "", ", but it has ", scale.numel());
  if (!swizzled) {
    return {s.is_b && has_shape(scale, k, rows) && k != rows ? scale.t()
                                                             : scale.reshape({rows, k}),
            true};
  }
  const Tensor tiles =
      scale.reshape({down, across, 32, 4, 4}).permute({0, 3, 2, 1, 4}).reshape({down * 128, -1});
  return {tiles.narrow(0, 0, rows).narrow(1, 0, k), true};
}

// The kind of scales that the old operator means.
Scales guess(const Side& s, const Tensor& scale) {
  const int64_t rows = s.rows(), k = s.k() / 128;
  const Tensor grid = s.is_b && scale.dim() == 2 ? scale.t() : scale;
  if (scale.scalar_type() == at::kFloat8_e8m0fnu) {
    return of_mx(s, scale, scale.numel() != rows * (s.k() / 32));
  }
  if (scale.numel() == 1) {
    return of_tensor(s, scale);
  }
  if (has_shape(grid, rows, 1)) {
    return of_rows(s, scale);
  }
  if (has_shape(grid, rows, k)) {
    return of_lines(s, grid, rows, k);
  }
  if (has_shape(grid, at::ceil_div(rows, int64_t{128}), k)) {
    return of_squares(s, grid.t());
  }
  TORCH_CHECK_VALUE(
      false,
      s.name, " has the shape ", scale.sizes(), ", which is none of: one element (a scale of "
      "the tensor); ", s.is_b ? shape(1, rows) : shape(rows, 1), " (a scale of each ",
      s.is_b ? "column" : "row", "); ", s.is_b ? shape(k, rows) : shape(rows, k),
      " (blocks of 1 x 128); ",
      s.is_b ? shape(k, at::ceil_div(rows, int64_t{128}))
             : shape(at::ceil_div(rows, int64_t{128}), k),
      " (blocks of 128 x 128)");
}

Scales by_recipe(
    const Side& s,
    const at::ITensorListRef& scales,
    IntArrayRef recipes,
    IntArrayRef swizzles) {
  TORCH_CHECK_VALUE(
      scales.size() == 1 && recipes.size() == 1,
      s.name, " must be one tensor with one recipe for float8, but there are ",
      scales.size(), " tensors and ", recipes.size(), " recipes");
  const Tensor& scale = *scales.begin();
  const auto swizzle = swizzles.empty() ? int64_t{0} : swizzles[0];
  const bool mx = recipes[0] == static_cast<int64_t>(ScalingType::BlockWise1x32);
  TORCH_CHECK_VALUE(
      swizzle == static_cast<int64_t>(SwizzleType::NO_SWIZZLE) ||
          (mx && swizzle == static_cast<int64_t>(SwizzleType::SWIZZLE_32_4_4)),
      s.name, " must have the swizzle NO_SWIZZLE", mx ? " or SWIZZLE_32_4_4" : "");
  switch (static_cast<ScalingType>(recipes[0])) {
    case ScalingType::TensorWise:
      return of_tensor(s, scale);
    case ScalingType::RowWise:
      return of_rows(s, scale);
    case ScalingType::BlockWise1x32:
      return of_mx(s, scale, swizzle != 0);
    case ScalingType::BlockWise1x128:
      return of_lines(s, scale, s.rows(), s.k() / 128);
    case ScalingType::BlockWise128x128:
      return of_squares(s, scale);
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(
          false,
          s.name, ": the recipe must be TensorWise, RowWise, BlockWise1x32, BlockWise1x128 or "
          "BlockWise128x128; openreg has no float4");
  }
}

void check_matrices(const Tensor& a, const Tensor& b) {
  TORCH_CHECK_VALUE(a.dim() == 2, "mat_a must be a matrix, but it has ", a.dim(), " dimensions");
  TORCH_CHECK_VALUE(b.dim() == 2, "mat_b must be a matrix, but it has ", b.dim(), " dimensions");
  TORCH_CHECK_VALUE(
      a.size(1) == b.size(0),
      "mat_a and mat_b shapes cannot be multiplied (", a.size(0), "x", a.size(1), " and ",
      b.size(0), "x", b.size(1), ")");
  for (const Tensor& t : {a, b}) {
    TORCH_CHECK_VALUE(
        c10::isFloat8Type(t.scalar_type()) && t.scalar_type() != at::kFloat8_e8m0fnu,
        "mat_a and mat_b must be float8 matrices (e4m3fn, e5m2 or their fnuz forms), but one "
        "has the dtype ",
        t.scalar_type());
  }
}

void check_bias(const Tensor& bias, int64_t n) {
  TORCH_CHECK_VALUE(
      bias.numel() == n,
      "bias must have ", n, " elements, one for each column of the result, but it has ",
      bias.numel());
  TORCH_CHECK_VALUE(
      bias.is_floating_point() && card_dtype(bias.scalar_type()) != 0,
      "bias must have a float dtype of 16 bits or more, but it has ", bias.scalar_type());
}

// The grid with `groups` scales along k, for each row of the matrix.
Tensor spread(const Side& s, const Scales& scales, int64_t groups) {
  const int64_t blocks = scales.grid.size(1);
  const Tensor grid = blocks == 1 || blocks == groups
      ? scales.grid
      : scales.grid.repeat_interleave(groups / blocks, 1);
  return grid.expand({s.rows(), groups});
}

// out = (scales of a * a) @ (scales of b * b). k is not 0.
void multiply_blocks(
    OpId id,
    const Tensor& out,
    const Side& a,
    const Side& b,
    const Scales& by_a,
    const Scales& by_b) {
  // The blocks are 32, 128 or k elements, of which each divides the larger ones.
  const int64_t groups = std::max(by_a.grid.size(1), by_b.grid.size(1));
  multiply_scaled(
      id, out, a.matrix, b.matrix.t(), spread(a, by_a, groups), spread(b, by_b, groups).t(),
      a.k() / groups);
}

bool is_set(const OptTensor& t) {
  return t.has_value() && t->defined();
}

// out = product * rows of a's scales * columns of b's, plus bias, times scale_result
void finish(
    OpId id,
    Tensor& out,
    const Tensor& product,
    const std::vector<Tensor>& factors,
    const OptTensor& bias,
    const OptTensor& scale_result) {
  at::TensorIteratorConfig config;
  config.check_all_same_dtype(false).set_check_mem_overlap(true).add_output(out).add_const_input(
      product);
  for (const Tensor& f : factors) {
    config.add_owned_const_input(f);
  }
  const bool adds = is_set(bias);
  if (adds) {
    config.add_owned_const_input(bias->reshape({1, -1}));
  }
  const bool scales = is_set(scale_result);
  if (scales) {
    config.add_owned_const_input(scale_result->reshape({1, 1}));
  }
  const auto iter = config.build();
  Pointwise p(iter, at::kFloat);
  int next = 0;
  Value v = p.in(next++);
  for (size_t i = 0; i < factors.size(); i++) {
    v = v * p.in(next++);
  }
  if (adds) {
    v = v + p.in(next++);
  }
  if (scales) {
    v = v * p.in(next++);
  }
  p.out(0, v);
  launch(iter, p, id, Part::FURTHER);
}

// Can a MATMUL packet store its results in out, without a temporary?
bool takes_product(const Tensor& out, at::TensorList inputs) {
  const auto type = out.scalar_type();
  return (type == at::kFloat || type == at::kHalf || type == at::kBFloat16) &&
      out.is_non_overlapping_and_dense() &&
      std::none_of(
             inputs.begin(), inputs.end(), [&](const Tensor& t) { return out.is_alias_of(t); });
}

void run(
    OpId id,
    Tensor& out,
    const Side& a,
    const Side& b,
    const Scales& by_a,
    const Scales& by_b,
    const OptTensor& bias,
    const OptTensor& scale_result) {
  if (out.numel() == 0) {
    return;
  }
  if (is_set(bias)) {
    check_bias(*bias, b.rows());
  }
  const bool blocks = by_a.blocks || by_b.blocks;
  if (blocks && a.k() != 0 && !is_set(bias) && !is_set(scale_result) &&
      takes_product(out, {a.matrix, b.matrix, by_a.grid, by_b.grid})) {
    multiply_blocks(id, out, a, b, by_a, by_b);
    return;
  }
  const Tensor product = at::empty(out.sizes(), out.options().dtype(at::kFloat));
  std::vector<Tensor> factors;
  if (!blocks) {
    multiply(id, product, a.matrix, b.matrix.t());
    factors = {by_a.grid, by_b.grid.t()};
  } else if (a.k() != 0) {
    multiply_blocks(id, product, a, b, by_a, by_b);
  } else {
    product.zero_();
  }
  finish(id, out, product, factors, bias, scale_result);
}

c10::ScalarType result_type(const Tensor& a, const OptType& out_dtype) {
  const auto type = out_dtype.value_or(a.scalar_type());
  TORCH_CHECK_VALUE(
      c10::isFloatingType(type) && memory_dtype(type) != 0 && type != at::kDouble &&
          type != at::kFloat8_e8m0fnu,
      "out_dtype must be float32, float16, bfloat16 or a float8 dtype, but it is ", type);
  return type;
}

void prepare_out(Tensor& out, const Tensor& a, const Tensor& b, c10::ScalarType type) {
  TORCH_CHECK(
      out.scalar_type() == type, "out has the dtype ", out.scalar_type(),
      ", but out_dtype asks for ", type);
  TORCH_CHECK_NOT_IMPLEMENTED(
      memory_dtype(type) != 0, "_scaled_mm cannot store results as ", type,
      " on the card. Pass an out of float32, and convert it.");
  resize_out(out, {a.size(0), b.size(1)}, {}, out.options());
}

// Computes into out what both operators ask for. by_a and by_b return the scales of a side.
template <class ByA, class ByB>
Tensor& product(
    OpId id,
    const Tensor& a,
    const Tensor& b,
    const OptTensor& bias,
    const OptTensor& scale_result,
    OptType out_dtype,
    Tensor& out,
    ByA&& by_a,
    ByB&& by_b) {
  check_matrices(a, b);
  for (const Tensor& t : {b, out}) {
    check_tensor_device(t, a.device());
  }
  check_device(bias, a.device());
  prepare_out(out, a, b, out_dtype.value_or(out.scalar_type()));
  const Side left{"scale_a", a, false}, right{"scale_b", b.t(), true};
  run(id, out, left, right, by_a(left), by_b(right), bias, scale_result);
  return out;
}

Tensor empty_out(const Tensor& a, OptType out_dtype) {
  return at::empty({0}, a.options().dtype(result_type(a, out_dtype)));
}

Tensor& scaled_mm_out(
    const Tensor& a,
    const Tensor& b,
    const Tensor& scale_a,
    const Tensor& scale_b,
    const OptTensor& bias,
    const OptTensor& scale_result,
    OptType out_dtype,
    bool,
    Tensor& out) {
  for (const Tensor& t : {scale_a, scale_b}) {
    check_tensor_device(t, a.device());
  }
  check_device(scale_result, a.device());
  TORCH_CHECK_VALUE(
      !is_set(scale_result) ||
          (scale_result->numel() == 1 && scale_result->scalar_type() == at::kFloat),
      "scale_result must be a float32 tensor with one element");
  return product(
      v1_id, a, b, bias, c10::isFloat8Type(out.scalar_type()) ? scale_result : std::nullopt,
      out_dtype, out, [&](const Side& s) { return guess(s, scale_a); },
      [&](const Side& s) { return guess(s, scale_b); });
}

Tensor scaled_mm(
    const Tensor& a,
    const Tensor& b,
    const Tensor& scale_a,
    const Tensor& scale_b,
    const OptTensor& bias,
    const OptTensor& scale_result,
    OptType out_dtype,
    bool fast) {
  Tensor out = empty_out(a, out_dtype);
  return scaled_mm_out(a, b, scale_a, scale_b, bias, scale_result, out_dtype, fast, out);
}

Tensor& scaled_mm_v2_out(
    const Tensor& a,
    const Tensor& b,
    const at::ITensorListRef& scale_a,
    IntArrayRef recipe_a,
    IntArrayRef swizzle_a,
    const at::ITensorListRef& scale_b,
    IntArrayRef recipe_b,
    IntArrayRef swizzle_b,
    const OptTensor& bias,
    OptType out_dtype,
    IntArrayRef contraction,
    bool,
    Tensor& out) {
  // Without contraction_dim the product is that of mat_a's columns and mat_b's rows.
  TORCH_CHECK_VALUE(
      contraction.empty() || contraction.size() == 2,
      "contraction_dim must have two numbers, but it has ", contraction.size());
  const bool turns_a = !contraction.empty() && at::maybe_wrap_dim(contraction[0], a.dim()) == 0;
  const bool turns_b = !contraction.empty() && at::maybe_wrap_dim(contraction[1], b.dim()) == 1;
  for (const at::ITensorListRef* list : {&scale_a, &scale_b}) {
    for (const Tensor& t : *list) {
      check_tensor_device(t, a.device());
    }
  }
  return product(
      v2_id, turns_a ? a.t() : a, turns_b ? b.t() : b, bias, std::nullopt, out_dtype, out,
      [&](const Side& s) { return by_recipe(s, scale_a, recipe_a, swizzle_a); },
      [&](const Side& s) { return by_recipe(s, scale_b, recipe_b, swizzle_b); });
}

Tensor scaled_mm_v2(
    const Tensor& a,
    const Tensor& b,
    const at::ITensorListRef& scale_a,
    IntArrayRef recipe_a,
    IntArrayRef swizzle_a,
    const at::ITensorListRef& scale_b,
    IntArrayRef recipe_b,
    IntArrayRef swizzle_b,
    const OptTensor& bias,
    OptType out_dtype,
    IntArrayRef contraction,
    bool fast) {
  Tensor out = empty_out(a, out_dtype);
  return scaled_mm_v2_out(
      a, b, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, bias, out_dtype,
      contraction, fast, out);
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  v1_id = op_id("aten::_scaled_mm");
  v2_id = op_id("aten::_scaled_mm_v2");
  m.impl("_scaled_mm", scaled_mm);
  m.impl("_scaled_mm.out", scaled_mm_out);
  m.impl("_scaled_mm_v2", scaled_mm_v2);
  m.impl("_scaled_mm_v2.out", scaled_mm_v2_out);
}

} // namespace openreg
