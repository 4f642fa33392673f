// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/compiled.h"

#include <algorithm>
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
    const size_t end = c.kind == Kind::IMM ? p.imms.size()
        : c.kind == Kind::OFFSET           ? 1
                                           : p.size.size();
    TORCH_CHECK_VALUE(
        c.index < end && (!of_operand || c.operand < p.operands.size()),
        p.name,
        ": a number has no place in the packet");
  }
}

void patch(CompiledParts& parts, c10::ArrayRef<uint64_t> numbers) {
  for (const CompiledPatch& c : parts.patches) {
    const auto integer = static_cast<int64_t>(numbers[c.value]);
    switch (c.kind) {
      case CompiledPatch::Kind::SIZE:
        parts.size[c.index] = integer;
        break;
      case CompiledPatch::Kind::STRIDE:
        parts.operands[c.operand].stride[c.index] = integer;
        break;
      case CompiledPatch::Kind::OFFSET:
        parts.operands[c.operand].offset = integer;
        break;
      case CompiledPatch::Kind::IMM:
        parts.imms[c.index] = numbers[c.value];
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
  for (const CompiledOperand& o : parts_.operands) {
    ntensors_ = std::max(ntensors_, size_t{o.tensor} + 1);
  }
  for (const CompiledPatch& c : parts_.patches) {
    nnumbers_ = std::max(nnumbers_, size_t{c.value} + 1);
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
