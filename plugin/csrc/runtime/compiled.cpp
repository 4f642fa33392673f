// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/compiled.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "runtime/format.h"
#include "runtime/memory_ops.h"

namespace openreg {
namespace {

// Names live as long as the process. A process that compiles more programs than this
// counts the others under one name.
constexpr size_t kMaxNames = 1024;

OpId id_of(const std::string& name) {
  static std::mutex mutex;
  static auto* names = new std::unordered_set<std::string>;
  std::lock_guard<std::mutex> lock(mutex);
  if (names->size() >= kMaxNames && !names->count(name)) {
    return op_id("openreg::compiled");
  }
  return op_id(names->insert(name).first->c_str());
}

template <typename T>
T compute(uint8_t op, T a, T b) {
  switch (op) {
    case OPENREG_V_ADD:
      return a + b;
    case OPENREG_V_SUB:
      return a - b;
    case OPENREG_V_MUL:
      return a * b;
    case OPENREG_V_DIV:
      return a / b;
    case OPENREG_V_POW:
      return std::pow(a, b);
    case OPENREG_V_NEG:
      return -a;
    case OPENREG_V_RECIP:
      return 1 / a;
    case OPENREG_V_SQRT:
      return std::sqrt(a);
    default:
      TORCH_CHECK_VALUE(false, "a call cannot compute operation ", static_cast<int>(op));
  }
}

void check_limits(const CompiledParts& p) {
  TORCH_CHECK_VALUE(
      p.size.size() <= OPENREG_DIMS_MAX &&
          p.operands.size() <= OPENREG_OPERANDS_MAX &&
          p.imms.size() <= OPENREG_IMMS_MAX &&
          p.instrs.size() <= OPENREG_INSTRS_MAX,
      p.name,
      " is beyond the limits of a packet");
  for (const CompiledOperand& o : p.operands) {
    TORCH_CHECK_VALUE(
        o.stride.size() == p.size.size(),
        p.name,
        ": an operand needs a stride for each dimension");
  }
  for (const CompiledPatch& c : p.patches) {
    using Kind = CompiledPatch::Kind;
    const bool of_operand = c.kind == Kind::STRIDE || c.kind == Kind::OFFSET;
    const bool of_scalar = c.kind == Kind::SCALAR;
    const size_t end = of_scalar || c.kind == Kind::IMM ? p.imms.size()
        : c.kind == Kind::OFFSET                        ? 1
                                                        : p.size.size();
    TORCH_CHECK_VALUE(
        c.index < end && (!of_operand || c.operand < p.operands.size()) &&
            (!of_scalar || c.value < p.scalars.size()),
        p.name,
        ": a number has no place in the packet");
  }
}

bool is_unary(uint8_t op) {
  return op == OPENREG_V_NEG || op == OPENREG_V_RECIP || op == OPENREG_V_SQRT;
}

void check_scalars(const CompiledParts& p) {
  using Kind = CompiledScalar::Arg::Kind;
  for (size_t i = 0; i < p.scalars.size(); i++) {
    const CompiledScalar& s = p.scalars[i];
    TORCH_CHECK_VALUE(
        s.type == OPENREG_VT_F32 || s.type == OPENREG_VT_F64,
        p.name,
        ": a call computes floating-point numbers only");
    TORCH_CHECK_VALUE(
        s.args.size() == (is_unary(s.op) ? 1 : 2),
        p.name,
        ": a number has too many or too few arguments");
    for (const CompiledScalar::Arg& a : s.args) {
      TORCH_CHECK_VALUE(
          a.kind != Kind::SCALAR || a.index < i,
          p.name,
          ": a number is used before it is computed");
    }
    compute<double>(s.op, 1, 1); // refuses operations that it lacks
  }
}

double double_of(uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

std::vector<uint64_t> compute_scalars(
    const CompiledParts& parts,
    c10::ArrayRef<uint64_t> numbers) {
  using Kind = CompiledScalar::Arg::Kind;
  std::vector<uint64_t> found;
  for (const CompiledScalar& s : parts.scalars) {
    double x[2] = {};
    for (size_t i = 0; i < s.args.size(); i++) {
      const CompiledScalar::Arg& a = s.args[i];
      x[i] = a.kind == Kind::CONSTANT ? a.constant
          : a.kind == Kind::NUMBER    ? double_of(numbers[a.index])
                                      : double_of(found[a.index]);
    }
    found.push_back(openreg_imm_f64(
        s.type == OPENREG_VT_F64 ? compute<double>(s.op, x[0], x[1])
                                 : compute<float>(s.op, x[0], x[1])));
  }
  return found;
}

void patch(CompiledParts& parts, c10::ArrayRef<uint64_t> numbers) {
  const std::vector<uint64_t> scalars = compute_scalars(parts, numbers);
  for (const CompiledPatch& c : parts.patches) {
    const auto integer = [&] { return static_cast<int64_t>(numbers[c.value]); };
    switch (c.kind) {
      case CompiledPatch::Kind::SIZE:
        parts.size[c.index] = integer();
        break;
      case CompiledPatch::Kind::STRIDE:
        parts.operands[c.operand].stride[c.index] = integer();
        break;
      case CompiledPatch::Kind::OFFSET:
        parts.operands[c.operand].offset = integer();
        break;
      case CompiledPatch::Kind::IMM:
        parts.imms[c.index] = numbers[c.value];
        break;
      case CompiledPatch::Kind::SCALAR:
        parts.imms[c.index] = scalars[c.value];
        break;
    }
  }
}

// Memory that a program can access: the tensor made plain if the program writes it, else
// a plain copy.
at::TensorBase plain_operand(const at::TensorBase& given, bool written, const std::string& name) {
  const at::Tensor t(given);
  if (!is_packed(t))
    return t;
  count_conversion(name);
  if (!written)
    return unpack(t);
  make_plain(t.storage().unsafeGetStorageImpl());
  return t;
}

bool has_points(const CompiledParts& parts) {
  for (size_t d = 0; d < parts.size.size(); d++) {
    if (parts.size[d] == 0 && !(parts.folded >> d & 1)) {
      return false;
    }
  }
  return true;
}

} // namespace

at::Tensor compiled_empty(
    c10::IntArrayRef size,
    c10::IntArrayRef stride,
    c10::ScalarType type,
    c10::DeviceIndex device) {
  const c10::Device on(c10::DeviceType::PrivateUse1, device);
  return empty(size, stride, at::TensorOptions(on).dtype(type));
}

CompiledProgram::CompiledProgram(CompiledParts parts)
    : parts_(std::move(parts)), op_(id_of(parts_.name)) {
  check_limits(parts_);
  check_scalars(parts_);
  for (const CompiledOperand& o : parts_.operands) {
    ntensors_ = std::max(ntensors_, size_t{o.tensor} + 1);
  }
  for (const CompiledPatch& c : parts_.patches) {
    if (c.kind != CompiledPatch::Kind::SCALAR) {
      nnumbers_ = std::max(nnumbers_, size_t{c.value} + 1);
    }
  }
  for (const CompiledScalar& s : parts_.scalars) {
    for (const CompiledScalar::Arg& a : s.args) {
      if (a.kind == CompiledScalar::Arg::Kind::NUMBER) {
        nnumbers_ = std::max(nnumbers_, size_t{a.index} + 1);
      }
    }
  }
}

void CompiledProgram::launch_with(
    const CompiledParts& parts,
    c10::ArrayRef<at::TensorBase> tensors) const {
  if (!has_points(parts)) {
    return;
  }
  const c10::Device device = tensors[parts.operands.at(0).tensor].device();
  Packet packet(OPENREG_OP_VECTOR, op_);
  packet.arg(0, parts.folded);
  packet.space(parts.size);
  c10::SmallVector<at::TensorBase, 1> plain; // copies live until the launch
  for (const CompiledOperand& o : parts.operands) {
    const at::TensorBase& t = tensors[o.tensor];
    TORCH_CHECK(
        t.device() == device && t.is_privateuseone() &&
            memory_dtype(t.scalar_type()) == o.dtype,
        parts.name,
        " was compiled for another tensor than argument ",
        static_cast<int>(o.tensor),
        ", ",
        t.toString(),
        " on ",
        t.device());
    if (C10_UNLIKELY(has_format(t))) {
      plain.push_back(plain_operand(t, o.written, parts.name));
    }
    const at::TensorBase& x = C10_UNLIKELY(has_format(t)) ? plain.back() : t;
    const char* base = static_cast<const char*>(
        o.written ? x.mutable_data_ptr() : x.const_data_ptr());
    packet.operand(
        base + o.offset * static_cast<int64_t>(t.element_size()),
        o.dtype,
        o.stride.data());
  }
  packet.imms(parts.imms);
  packet.instrs(parts.instrs);
  check_work(parts.size, device.index());
  launch(packet, device.index(), parts.counted ? Part::FIRST : Part::FURTHER);
}

void CompiledProgram::run(
    c10::ArrayRef<at::TensorBase> tensors,
    c10::ArrayRef<uint64_t> numbers) const {
  TORCH_CHECK_VALUE(
      tensors.size() >= ntensors_ && numbers.size() >= nnumbers_,
      parts_.name,
      " takes ",
      ntensors_,
      " tensors and ",
      nnumbers_,
      " numbers");
  if (parts_.patches.empty()) {
    launch_with(parts_, tensors);
    return;
  }
  CompiledParts parts = parts_;
  patch(parts, numbers);
  launch_with(parts, tensors);
}

} // namespace openreg
