// SPDX-License-Identifier: BSD-3-Clause
// Products of integers, products with weights of 8 or 4 bits that have scales, and products
// of float8 with scales of blocks. Each takes one MATMUL packet, or several if the work
// exceeds a packet's limit.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/convention.h"
#include "aten/matmul.h"
#include "aten/step.h"
#include "runtime/device.h"
#include "runtime/launch.h"

namespace openreg {

namespace {

using at::Tensor;

struct Product {
  OpId id;
  Tensor out; // [m, n]
  Tensor a; // [m, k]
  Tensor b; // [k, n]; of pairs [k / 2, n]
  int64_t k;
  uint8_t how = OPENREG_MATMUL_B;
  Tensor scale{}, zero{}; // [groups, n]
  int64_t group = 0;
  Tensor scale_a{}; // [m, groups]
};

using Strides = std::array<int64_t, 4>;

Strides along_k(const Tensor& t) {
  return {0, 0, t.stride(1), t.stride(0)};
}

void launch_one(const Product& p, Part part) {
  Packet packet(OPENREG_OP_MATMUL, p.id);
  const auto add = [&](const Tensor& t, Strides strides) {
    packet.operand(t.const_data_ptr(), memory_dtype(t.scalar_type()), strides.data());
  };
  packet.arg(0, p.how);
  packet.space({1, p.out.size(0), p.out.size(1), p.k});
  packet.operand(
      p.out.mutable_data_ptr(),
      card_dtype(p.out.scalar_type()),
      Strides{0, p.out.stride(0), p.out.stride(1), 0}.data());
  add(p.a, {0, p.a.stride(0), 0, p.a.stride(1)});
  add(p.b, along_k(p.b));
  if (p.scale_a.defined()) {
    add(p.scale_a, {0, p.scale_a.stride(0), 0, p.scale_a.stride(1)});
  }
  if (p.scale.defined()) {
    add(p.scale, along_k(p.scale));
  }
  if (p.zero.defined()) {
    add(p.zero, along_k(p.zero));
  }
  packet.imm(1.0);
  packet.imm(0.0);
  if (p.how != OPENREG_MATMUL_B) {
    packet.imm(p.group);
  }
  launch(packet, p.out.get_device(), part);
}

Product rows(Product p, int64_t begin, int64_t count) {
  p.out = p.out.narrow(0, begin, count);
  p.a = p.a.narrow(0, begin, count);
  if (p.scale_a.defined()) {
    p.scale_a = p.scale_a.narrow(0, begin, count);
  }
  return p;
}

Product columns(Product p, int64_t begin, int64_t count) {
  for (Tensor* t : {&p.out, &p.b, &p.scale, &p.zero}) {
    if (t->defined()) {
      *t = t->narrow(1, begin, count);
    }
  }
  return p;
}

void launch_parts(const Product& p, Part part) {
  const int64_t m = p.out.size(0), n = p.out.size(1);
  const double work = static_cast<double>(m) * static_cast<double>(n) *
      static_cast<double>(p.k);
  if (work <= max_work(p.out.get_device()) || (m == 1 && n == 1)) {
    launch_one(p, part);
    return;
  }
  const auto cut = m > n ? rows : columns;
  const int64_t whole = m > n ? m : n, half = whole / 2;
  launch_parts(cut(p, 0, half), part);
  launch_parts(cut(p, half, whole - half), Part::FURTHER);
}

void run(const Product& p) {
  if (p.k == 0) {
    p.out.zero_();
  } else if (p.out.numel() != 0) {
    launch_parts(p, Part::FIRST);
  }
}

bool is_short_float(const Tensor& t) {
  return t.scalar_type() == at::kFloat || t.scalar_type() == at::kHalf ||
      t.scalar_type() == at::kBFloat16;
}

void check_activation(const char* name, const Tensor& a) {
  TORCH_CHECK(
      is_short_float(a),
      name, " : expect A to be either 32-bit or 16-bit float tensor, but got ", a.dtype());
  TORCH_CHECK(
      a.dim() == 2,
      name, " : expect A to be 2D tensor, but got ", a.dim(),
      "D; flatten its first dimensions");
}

void check_scales(const char* name, const char* what, const Tensor& self, const Tensor& t) {
  check_tensor_device(t, self.device());
  TORCH_CHECK(
      is_short_float(t),
      name, " : expect ", what, " to be float32, float16 or bfloat16, but got ", t.dtype());
}

void check_int_mm(const Tensor& self, const Tensor& mat2) {
  constexpr const char* name = "_int_mm";
  check_tensor_device(mat2, self.device());
  TORCH_CHECK(
      self.dim() == 2, name, ": Expected self to be of dimension 2 but got ", self.dim());
  TORCH_CHECK(
      mat2.dim() == 2, name, ": Expected mat2 to be of dimension 2 but got ", mat2.dim());
  TORCH_CHECK(
      self.size(1) == mat2.size(0),
      name, ": self.size(1) needs to match mat2.size(0) but got ", self.size(1), " and ",
      mat2.size(0));
  TORCH_CHECK(
      self.scalar_type() == at::kChar || self.scalar_type() == at::kByte,
      name, ": Expected self dtype to be of type int8 or uint8 but got ", self.dtype());
  TORCH_CHECK(
      mat2.scalar_type() == at::kChar,
      name, ": Expected mat2 dtype to be of type int8 but got ", mat2.dtype());
}

OpId int_mm_id, int8_id, int4_id, pack_id;

Tensor& int_mm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  constexpr const char* name = "_int_mm";
  check_int_mm(self, mat2);
  check_tensor_device(out, self.device());
  TORCH_CHECK(
      out.scalar_type() == at::kInt,
      name, ": Expected result dtype to be of type kInt but got ", out.dtype());
  TORCH_CHECK(
      out.dim() == 2, name, ": Expected result to be of dimension 2 but got ", out.dim());
  TORCH_CHECK(
      out.size(0) == self.size(0),
      name, ": Expected result.size(0) to be ", self.size(0), " but got ", out.size(0));
  TORCH_CHECK(
      out.size(1) == mat2.size(1),
      name, ": Expected result.size(1) to be ", mat2.size(1), " but got ", out.size(1));
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mat2);
  run({.id = int_mm_id, .out = out, .a = self, .b = mat2, .k = self.size(1)});
  return out;
}

Tensor int_mm(const Tensor& self, const Tensor& mat2) {
  check_int_mm(self, mat2);
  Tensor out = at::empty({self.size(0), mat2.size(1)}, self.options().dtype(at::kInt));
  return int_mm_out(self, mat2, out);
}

Tensor int8pack_mm(const Tensor& a, const Tensor& b, const Tensor& scales) {
  constexpr const char* name = "_weight_int8pack_mm";
  check_activation(name, a);
  check_tensor_device(b, a.device());
  TORCH_CHECK(
      b.scalar_type() == at::kChar,
      name, " : expect B to be int8 tensor, but got ", b.dtype());
  TORCH_CHECK(b.dim() == 2, name, " : expect B to be 2D tensor, but got ", b.dim(), "D");
  TORCH_CHECK(
      b.size(1) == a.size(1),
      name, " : expect B.size(1) == ", a.size(1), ", but got ", b.size(1));
  check_scales(name, "scales", a, scales);
  TORCH_CHECK(
      scales.dim() == 1 && scales.size(0) == b.size(0),
      name, " : expect scales to be 1d tensor with size ", b.size(0), ", but got ",
      scales.sizes());
  Tensor out = at::empty({a.size(0), b.size(0)}, a.options());
  run({.id = int8_id,
       .out = out,
       .a = a,
       .b = b.t(),
       .k = a.size(1),
       .how = OPENREG_MATMUL_SCALED_I8,
       .scale = scales.unsqueeze(0),
       .group = a.size(1)});
  return out;
}

// The sizes are those that core's shape function gives: n in pieces of 8, k in pieces of 16.
// The memory is [n, k / 2]: a byte has two neighbours along k, as MATMUL takes them.
Tensor convert_to_int4pack(const Tensor& self, int64_t inner) {
  constexpr const char* name = "_convert_weight_to_int4pack";
  TORCH_CHECK(
      self.dim() == 2, name, " : expect weight to be 2D tensor, but got ", self.dim(), "D");
  TORCH_CHECK(
      self.scalar_type() == at::kByte,
      name, " : expect weight to be kByte, with two values in a byte, but got ",
      self.dtype());
  TORCH_CHECK(
      inner == 2 || inner == 4 || inner == 8,
      name, " : innerKTiles needs to be 2, 4, or 8, but got ", inner);
  const int64_t n = self.size(0), k = self.size(1) * 2;
  TORCH_CHECK(
      n % 8 == 0, name, " : expect N to be dividable by 8, but got ", n,
      "; pad the weight with rows of zeros");
  TORCH_CHECK(
      k % (inner * 16) == 0,
      name, " : expect K to be dividable by innerKTiles * 16 = ", inner * 16, ", but got ", k,
      "; pad the weight with columns of zeros, or take fewer innerKTiles");
  Tensor out = at::empty(
      {n / 8, k / (inner * 16), 32, inner / 2}, self.options().dtype(at::kInt));
  // Torch has the first value in the upper bits, as 0 to 15 for -8 to 7.
  Step p(pack_id, self, at::kInt);
  const Value byte = p.load(self);
  const auto number = [&](int64_t i) { return p.program.imm(i, OPENREG_VT_I32); };
  const Value swapped = (byte >> number(4)) | ((byte << number(4)) & number(0xf0));
  p.store(out.view(at::kByte).view(self.sizes()), swapped ^ number(0x88));
  p.run();
  return out;
}

Tensor int4pack_mm(
    const Tensor& a,
    const Tensor& b,
    int64_t group,
    const Tensor& scales) {
  constexpr const char* name = "_weight_int4pack_mm";
  check_activation(name, a);
  check_tensor_device(b, a.device());
  TORCH_CHECK(
      b.scalar_type() == at::kInt && b.dim() == 4,
      name, " : expect B to be 4D int32 tensor of _convert_weight_to_int4pack, but got ",
      b.dim(), "D ", b.dtype());
  TORCH_CHECK(b.is_contiguous(), name, " : expect B to be contiguous");
  const int64_t n = b.size(0) * 8, k = a.size(1);
  TORCH_CHECK(
      b.size(2) == 32 && b.size(1) * b.size(3) * 32 == k,
      name, " : expect B to be made from a weight with K = ", k, ", as A has it, but its K is ",
      b.size(1) * b.size(3) * 32);
  TORCH_CHECK(
      group == 32 || group == 64 || group == 128 || group == 256,
      name, " : expect qGroupSize to be 32, 64, 128 or 256, got ", group);
  TORCH_CHECK(
      k % group == 0,
      name, " : expect K to be divisible by qGroupSize, got K:", k, ", qGroupSize:", group);
  check_scales(name, "qScaleAndZeros", a, scales);
  TORCH_CHECK(
      scales.dim() == 3 && scales.size(0) == k / group && scales.size(1) == n &&
          scales.size(2) == 2,
      name, " : expect qScaleAndZeros to be 3d tensor with sizes [", k / group, ", ", n,
      ", 2], but got ", scales.sizes());
  Tensor out = at::empty({a.size(0), n}, a.options());
  run({.id = int4_id,
       .out = out,
       .a = a,
       .b = b.view(at::kByte).view({n, k / 2}).t(),
       .k = k,
       .how = OPENREG_MATMUL_SCALED_I4,
       .scale = scales.select(2, 0),
       .zero = scales.select(2, 1),
       .group = group});
  return out;
}

} // namespace

void multiply_scaled(
    OpId id,
    const Tensor& out,
    const Tensor& a,
    const Tensor& b,
    const Tensor& scale_a,
    const Tensor& scale_b,
    int64_t group) {
  constexpr uint32_t kNeeded = 1 << 16 | 9;
  TORCH_CHECK_NOT_IMPLEMENTED(
      device(out.get_device()).info.isa_version >= kNeeded,
      "openreg:", static_cast<int>(out.get_device()),
      " cannot multiply with scales of blocks: its ISA is older than 1.9. Convert the "
      "matrices to float32, and multiply them by their scales.");
  run({.id = id,
       .out = out,
       .a = a,
       .b = b,
       .k = a.size(1),
       .how = OPENREG_MATMUL_SCALED_F8,
       .scale = scale_b,
       .group = group,
       .scale_a = scale_a});
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  int_mm_id = op_id("aten::_int_mm");
  int8_id = op_id("aten::_weight_int8pack_mm");
  int4_id = op_id("aten::_weight_int4pack_mm");
  pack_id = op_id("aten::_convert_weight_to_int4pack");
  m.impl("_int_mm", int_mm);
  m.impl("_int_mm.out", int_mm_out);
  m.impl("_weight_int8pack_mm", int8pack_mm);
  m.impl("_weight_int4pack_mm", int4pack_mm);
  m.impl("_convert_weight_to_int4pack", convert_to_int4pack);
}

} // namespace openreg
