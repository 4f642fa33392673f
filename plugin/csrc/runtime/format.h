// SPDX-License-Identifier: BSD-3-Clause
// Formats: how the memory of a tensor holds its values. "plain" is that of all tensors of
// torch. "packed" is the card's own order of a matrix, which products read faster.
//
// The values of a packed tensor are those of a plain tensor of the same shape. Its storage
// has a description, and the same number of bytes as a plain one. Its address is that of
// the packed matrix with one bit cleared: no card and no CPU can access it, so code that
// does not know formats cannot misread the memory. Its tensors have kFormatKey, by which
// the dispatcher calls format_ops.cpp before any kernel.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <optional>

#include "runtime/launch.h"

#pragma GCC visibility push(default) // csrc/python calls it
namespace openreg {

// Core keeps this key for backends outside of it, and uses it for no tensor.
constexpr c10::DispatchKey kFormatKey = c10::DispatchKey::CustomRNGKeyId;

// Describes a packed storage: the contiguous matrix that it holds.
struct PackedMatrix {
  int64_t rows, columns;
  c10::ScalarType type;

  bool operator==(const PackedMatrix&) const = default;
};

// Whether the dispatcher calls format_ops.cpp for this tensor. The test costs a load.
inline bool has_format(const at::TensorBase& t) {
  return t.key_set().has(kFormatKey);
}
constexpr uint64_t kAccessible = uint64_t{1} << OPENREG_ADDR_FIXED_BIT;

// Whether the storage is packed. A tensor with kFormatKey may have become plain.
inline bool is_packed(const c10::StorageImpl& storage) {
  const auto address = reinterpret_cast<uint64_t>(storage.data());
  return !(address & kAccessible) && OPENREG_ADDR_IS_VALID(address | kAccessible);
}
inline bool is_packed(const at::TensorBase& t) {
  return has_format(t) && is_packed(*t.storage().unsafeGetStorageImpl());
}
// The description of a storage; none if it is plain, as another thread may have made it.
std::optional<PackedMatrix> packed_matrix(const c10::StorageImpl& storage);
// The address of a block, whether or not its storage is packed.
void* real_address(const void* address);

// Returns a packed copy of a contiguous matrix, or a plain copy of a packed tensor with
// the same view of its storage.
at::Tensor pack(const at::Tensor& plain);
at::Tensor unpack(const at::Tensor& packed);
// Writes a contiguous matrix to the memory of a packed tensor of the same shape.
void pack_into(const at::Tensor& packed, const at::Tensor& plain);
// A packed copy of a packed tensor.
at::Tensor copy_packed(const at::Tensor& packed);
// Makes the storage plain, in place, and returns whether it was packed. Two threads may
// call it at once, as two operators may change a tensor at once.
bool make_plain(c10::StorageImpl* storage);
bool can_pack(c10::DeviceIndex index);
// Makes the storage of a plain tensor packed, in place. Returns false if its size is not
// that of the matrix, or if it holds another packed matrix. A storage of torch.empty() that
// other tensors share stays plain.
bool make_packed(const at::Tensor& t, const PackedMatrix& matrix);
// Gives a tensor kFormatKey if its storage is packed, else takes the key away.
void update_format_key(const at::Tensor& t);

// The packed matrix if the tensor is the whole of it, or its transpose; else NULL.
const void* whole_matrix(const at::TensorBase& t);
const void* transposed_matrix(const at::TensorBase& t);

void check_format(const std::string& format);
std::string format_of(const at::Tensor& t);
void count_conversion(const std::string& op);
std::vector<std::pair<std::string, uint64_t>> conversion_counts();
void reset_conversion_counts();

} // namespace openreg
#pragma GCC visibility pop
