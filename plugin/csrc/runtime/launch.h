// SPDX-License-Identifier: BSD-3-Clause
// How an operator reaches the card: build a Packet, then launch() it.
//
//   static const OpId kOp = op_id("aten::add.Tensor");
//   Packet p(OPENREG_OP_VECTOR, kOp);
//   p.space(sizes);                          // row-major, at most 8 dims
//   p.operand(out_ptr, OPENREG_F32, strides); // elements, not bytes
//   p.operand(in_ptr, OPENREG_F32, strides);
//   auto two = p.imm(2.0);
//   p.instr(OPENREG_V_LOAD, OPENREG_VT_F32, 0, 0, 0, 0, 1);
//   ...
//   launch(p, device_index);
//
// Add the parts in the order of the packet's layout in openreg_isa.h: space, operands,
// immediates, instructions. A Packet allocates no memory.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <cstring>

#include "openreg_isa.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// The id names an operator in statistics and in fault messages; it is the packet's
// cookie. The name must live as long as the process. op_id() is slow: keep the result in
// a static.
using OpId = uint32_t;
OpId op_id(const char* name);

// Returns an enum openreg_dtype, or 0 for a type that the ISA lacks.
inline uint8_t card_dtype(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float:
      return OPENREG_F32;
    case c10::ScalarType::Double:
      return OPENREG_F64;
    case c10::ScalarType::Half:
      return OPENREG_F16;
    case c10::ScalarType::BFloat16:
      return OPENREG_BF16;
    case c10::ScalarType::Char:
      return OPENREG_I8;
    case c10::ScalarType::Byte:
      return OPENREG_U8;
    case c10::ScalarType::Short:
      return OPENREG_I16;
    case c10::ScalarType::Int:
      return OPENREG_I32;
    case c10::ScalarType::Long:
      return OPENREG_I64;
    case c10::ScalarType::Bool:
      return OPENREG_BOOL;
    default:
      return 0;
  }
}

class Packet {
 public:
  Packet(uint8_t opcode, OpId op) {
    header_ = {opcode, 0, 0, op, 0};
    op_ = {};
    used_ = sizeof(header_) + sizeof(op_);
  }

  // The meaning depends on the opcode: axis and flags of SOFTMAX, dims mask of a
  // reduction...
  void arg(int index, uint8_t value) {
    op_.arg[index] = value;
  }

  void space(c10::IntArrayRef sizes) {
    TORCH_INTERNAL_ASSERT(sizes.size() <= OPENREG_DIMS_MAX);
    op_.ndim = static_cast<uint8_t>(sizes.size());
    put(sizes.data(), sizes.size() * sizeof(int64_t));
  }

  // Returns the operand's index. strides has ndim entries, in elements.
  uint8_t operand(const void* addr, uint8_t dtype, const int64_t* strides) {
    int64_t* dst = operand(addr, dtype);
    std::memcpy(dst, strides, op_.ndim * sizeof(int64_t));
    return static_cast<uint8_t>(op_.nops - 1);
  }

  // Returns the operand's ndim strides, which the caller fills in.
  int64_t* operand(const void* addr, uint8_t dtype) {
    const openreg_operand head = {
        reinterpret_cast<uint64_t>(addr), dtype, {0, 0, 0, 0, 0, 0, 0}};
    put(&head, sizeof(head));
    TORCH_INTERNAL_ASSERT(op_.nops < OPENREG_OPERANDS_MAX);
    op_.nops++;
    return static_cast<int64_t*>(room(op_.ndim * sizeof(int64_t)));
  }

  // Returns the immediate's index.
  uint16_t imm(double value) {
    return put_imm(&value);
  }
  uint16_t imm(int64_t value) {
    return put_imm(&value);
  }

  void instr(
      uint8_t op,
      uint8_t type,
      uint8_t dst,
      uint8_t a = 0,
      uint8_t b = 0,
      uint8_t c = 0,
      uint16_t aux = 0) {
    const openreg_instr word = {op, type, dst, a, b, c, aux};
    put(&word, sizeof(word));
    TORCH_INTERNAL_ASSERT(op_.ninstr < OPENREG_INSTRS_MAX);
    op_.ninstr++;
  }

  // Writes the header and so completes the packet. Returns the number of its slots.
  unsigned finish() {
    header_.slots = static_cast<uint8_t>(
        (used_ + OPENREG_SLOT_SIZE - 1) / OPENREG_SLOT_SIZE);
    std::memcpy(data_, &header_, sizeof(header_));
    std::memcpy(data_ + sizeof(header_), &op_, sizeof(op_));
    return header_.slots;
  }

  const void* data() const {
    return data_;
  }
  OpId op() const {
    return header_.cookie;
  }

 private:
  void* room(size_t bytes) {
    TORCH_CHECK(
        used_ + bytes <= sizeof(data_),
        "openreg: a packet would be longer than ",
        sizeof(data_),
        " bytes; use fewer operands, dimensions or instructions");
    void* at = data_ + used_;
    used_ += bytes;
    return at;
  }

  void put(const void* from, size_t bytes) {
    std::memcpy(room(bytes), from, bytes);
  }

  uint16_t put_imm(const void* value) {
    TORCH_INTERNAL_ASSERT(op_.nimm < OPENREG_IMMS_MAX);
    put(value, sizeof(uint64_t));
    return op_.nimm++;
  }

  openreg_packet header_;
  openreg_op op_;
  size_t used_;
  alignas(OPENREG_SLOT_SIZE)
      uint8_t data_[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
};

// An operator with several packets passes FURTHER from the second packet on, so that
// the statistics count one operator.
enum class Part { FIRST, FURTHER };

// Submits the packet to the calling thread's current stream of the device and does not
// wait for it. Makes no system call unless the ring is full or the card is asleep. If the
// stream's queue has faulted, throws a c10::Error with the packet, operand and address of
// the fault.
void launch(Packet& packet, c10::DeviceIndex device, Part part = Part::FIRST);

} // namespace openreg
#pragma GCC visibility pop
