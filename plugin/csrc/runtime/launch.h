// SPDX-License-Identifier: BSD-3-Clause
// How an operator reaches the card: build a Packet, then launch() it.
//
//   static const OpId kOp = op_id("aten::add.Tensor");
//   Packet p(OPENREG_OP_VECTOR, kOp);
//   p.space(sizes);                          // row-major, at most 8 dims
//   p.operand(out_ptr, OPENREG_F32, strides); // elements, not bytes
//   p.operand(in_ptr, OPENREG_F32, strides);
//   program.put(p);                          // a Program of aten/program.h
//   launch(p, device_index);
//
// Add the parts in the order of the packet's layout in openreg_isa.h: space, operands,
// immediates, instructions. After each part the packet is whole. A Packet allocates no
// memory.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>

#include "openreg.h"

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

// As card_dtype(), with float8, which VECTOR, COPY, FILL, MATMUL, PLACES and INDEX with GET
// or PUT take. SOFTMAX, CONV, POOL, SORT, SCAN, PACK and the other modes of INDEX fault with
// DTYPE: their operators use card_dtype().
inline uint8_t memory_dtype(c10::ScalarType type) {
  switch (type) {
    case c10::ScalarType::Float8_e4m3fn:
      return OPENREG_F8E4M3FN;
    case c10::ScalarType::Float8_e5m2:
      return OPENREG_F8E5M2;
    case c10::ScalarType::Float8_e4m3fnuz:
      return OPENREG_F8E4M3FNUZ;
    case c10::ScalarType::Float8_e5m2fnuz:
      return OPENREG_F8E5M2FNUZ;
    case c10::ScalarType::Float8_e8m0fnu:
      return OPENREG_F8E8M0FNU;
    default:
      return card_dtype(type);
  }
}

class Packet {
 public:
  Packet(uint8_t opcode, OpId op) : op_(op) {
    openreg_encode(data_, opcode, op);
  }

  // The meaning depends on the opcode: axis and flags of SOFTMAX, dims mask of a
  // reduction...
  void arg(int index, uint8_t value) {
    openreg_encode_arg(data_, index, value);
  }

  void space(c10::IntArrayRef sizes) {
    TORCH_INTERNAL_ASSERT(sizes.size() <= OPENREG_DIMS_MAX);
    openreg_encode_space(data_, static_cast<unsigned>(sizes.size()), sizes.data());
  }

  // strides has an entry for each dimension, in elements.
  void operand(const void* addr, uint8_t dtype, const int64_t* strides = nullptr) {
    TORCH_INTERNAL_ASSERT(operands_++ < OPENREG_OPERANDS_MAX);
    openreg_encode_operand(data_, reinterpret_cast<uint64_t>(addr), dtype, strides);
  }

  void imm(double value) {
    imms({openreg_imm_f64(value)});
  }
  void imm(int64_t value) {
    imms({openreg_imm_i64(value)});
  }
  void imms(c10::ArrayRef<uint64_t> bits) {
    openreg_encode_imm(data_, bits.data(), static_cast<unsigned>(bits.size()));
  }

  void instrs(c10::ArrayRef<openreg_instr> program) {
    openreg_encode_instr(
        data_, program.data(), static_cast<unsigned>(program.size()));
  }

  unsigned slots() const {
    return data_[offsetof(openreg_packet, slots)];
  }
  const void* data() const {
    return data_;
  }
  OpId op() const {
    return op_;
  }

 private:
  OpId op_;
  int operands_ = 0;
  alignas(OPENREG_SLOT_SIZE)
      uint8_t data_[OPENREG_PACKET_SLOTS_MAX * OPENREG_SLOT_SIZE];
};

// The most elements that a packet may visit.
double max_work(c10::DeviceIndex device);
// Throws if a space has more elements: the packet would fault and stop its stream.
void check_work(c10::IntArrayRef sizes, c10::DeviceIndex device);

// An operator with several packets passes FURTHER from the second packet on, so that
// the statistics count one operator.
enum class Part { FIRST, FURTHER };

// Submits the packet to the calling thread's current stream of the device and does not
// wait for it. Makes no system call unless the ring is full or the card is asleep. If the
// stream's queue has faulted, throws a c10::Error with the packet, operand and address of
// the fault.
void launch(const Packet& packet, c10::DeviceIndex device, Part part = Part::FIRST);

} // namespace openreg
#pragma GCC visibility pop
