// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/format.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/clone.h>

#include <array>
#include <map>
#include <mutex>
#include <tuple>

#include "runtime/allocator.h"
#include "runtime/copy.h"
#include "runtime/device.h"
#include "runtime/gil.h"

namespace openreg {
namespace {

uint64_t bits(const void* address) {
  return reinterpret_cast<uint64_t>(address);
}

// The storage of all tensors on openreg.
struct Storage final : c10::StorageImpl {
  using StorageImpl::StorageImpl;

  // Guards the description, and the data while the format changes. Lock it with
  // SleepyLock: its holder may allocate.
  std::mutex mutex;
  std::optional<PackedMatrix> packed;
};

c10::intrusive_ptr<c10::StorageImpl> create_storage(
    c10::StorageImpl::use_byte_size_t use,
    c10::SymInt bytes,
    c10::DataPtr data,
    c10::Allocator* allocator,
    bool resizable) {
  // Without data the storage allocates its memory.
  return data.device().type() == kDeviceType
      ? c10::make_intrusive<Storage>(use, std::move(bytes), std::move(data), allocator, resizable)
      : c10::make_intrusive<Storage>(use, bytes, allocator, resizable);
}

[[maybe_unused]] const bool registered = [] {
  c10::SetStorageImplCreate(kDeviceType, &create_storage);
  return true;
}();

// Gives access to the keys of any tensor.
struct Keys : c10::TensorImpl {
  static void set(c10::TensorImpl* impl, c10::DispatchKeySet keys) {
    impl->*(&Keys::key_set_) = keys;
  }
};

c10::ScalarType matrix_type(const at::Tensor& t) {
  const auto type = t.scalar_type();
  TORCH_CHECK_VALUE(
      t.dim() == 2 && t.numel() > 0 &&
          (type == at::kFloat || type == at::kHalf || type == at::kBFloat16),
      "the format 'packed' is for matrices of float32, float16 and bfloat16, not for a ",
      t.dim(),
      "-dimensional tensor of ",
      type,
      " with ",
      t.numel(),
      " elements");
  return type;
}

// MATMUL's B is the transposed matrix, as in a linear layer: k is a column.
void put_space(Packet& p, const PackedMatrix& m) {
  p.space({m.columns, m.rows});
}
void put_packed(Packet& p, const PackedMatrix& m, uint64_t address) {
  static constexpr std::array<int64_t, 2> run{0, 1};
  p.operand(reinterpret_cast<void*>(address), card_dtype(m.type), run.data());
}
void put_plain(Packet& p, const PackedMatrix& m, const void* address) {
  const std::array<int64_t, 2> strides{1, m.columns};
  p.operand(address, card_dtype(m.type), strides.data());
}

size_t ask_size(const PackedMatrix& m, c10::DeviceIndex index) {
  static const OpId op = op_id("openreg::format_cast");
  TORCH_CHECK_NOT_IMPLEMENTED(
      can_pack(index),
      "openreg:",
      static_cast<int>(index),
      " has no packed matrices: its ISA is older than 1.8. Keep the tensor plain.");
  const c10::DataPtr word = allocate(8, index);
  Packet p(OPENREG_OP_PACK, op);
  p.arg(0, OPENREG_PACK_SIZE);
  put_space(p, m);
  static constexpr std::array<int64_t, 2> one{0, 0};
  p.operand(word.get(), OPENREG_I64, one.data());
  p.operand(word.get(), card_dtype(m.type), one.data());
  launch(p, index);
  int64_t bytes = 0;
  read_device_bytes(&bytes, word.get(), sizeof(bytes), index);
  return static_cast<size_t>(bytes);
}

// The card chooses the size of a packed matrix. Asks it once for each shape.
size_t packed_bytes(const PackedMatrix& m, c10::DeviceIndex index) {
  using Key = std::tuple<c10::DeviceIndex, c10::ScalarType, int64_t, int64_t>;
  static std::mutex mutex;
  static auto* known = new std::map<Key, size_t>;
  const Key key{index, m.type, m.rows, m.columns};
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = known->find(key); found != known->end())
      return found->second;
  }
  const size_t bytes = ask_size(m, index);
  const std::lock_guard<std::mutex> lock(mutex);
  return known->emplace(key, bytes).first->second;
}

void launch_copy(
    openreg_pack_kind kind,
    const PackedMatrix& m,
    uint64_t packed,
    const void* plain,
    c10::DeviceIndex index) {
  static const OpId op = op_id("openreg::format_cast");
  Packet p(OPENREG_OP_PACK, op);
  p.arg(0, static_cast<uint8_t>(kind));
  put_space(p, m);
  if (kind == OPENREG_PACK_PACK)
    put_packed(p, m, packed);
  put_plain(p, m, plain);
  if (kind == OPENREG_PACK_UNPACK)
    put_packed(p, m, packed);
  launch(p, index);
}

// The data of a packed storage: the block, at an address that nothing can access.
c10::DataPtr hide(c10::DataPtr block) {
  const c10::Device where = block.device();
  const auto deleter = block.get_deleter();
  void* hidden = reinterpret_cast<void*>(bits(block.get()) & ~kAccessible);
  return {hidden, block.release_context(), deleter, where};
}

uint64_t packed_address(const c10::StorageImpl& storage) {
  return bits(storage.data()) | kAccessible;
}

Storage* ours(c10::StorageImpl* storage) {
  return dynamic_cast<Storage*>(storage);
}

size_t plain_bytes(const PackedMatrix& m) {
  return static_cast<size_t>(m.rows * m.columns) * c10::elementSize(m.type);
}

// A tensor of the storage, with the shape, the strides and the type of t.
at::Tensor view_of(c10::intrusive_ptr<c10::StorageImpl> storage, const at::Tensor& t) {
  const bool packed = is_packed(*storage);
  auto keys = (t.key_set() - c10::python_ks).remove(kFormatKey);
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(std::move(storage)), packed ? keys.add(kFormatKey) : keys, t.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(
      t.sizes(), t.strides(), t.storage_offset());
  return view;
}

c10::intrusive_ptr<c10::StorageImpl> new_storage(size_t bytes, c10::DataPtr data) {
  return c10::make_intrusive<Storage>(
      c10::StorageImpl::use_byte_size_t(),
      static_cast<int64_t>(bytes),
      std::move(data),
      &device_allocator(),
      /*resizable=*/true);
}

c10::intrusive_ptr<c10::StorageImpl> new_packed(const PackedMatrix& m, c10::DeviceIndex index) {
  auto storage =
      new_storage(plain_bytes(m), hide(allocate(packed_bytes(m, index), index)));
  ours(storage.get())->packed = m;
  return storage;
}

// The bytes of a packed storage as plain memory. The caller holds the mutex.
c10::DataPtr plain_copy(const Storage& storage) {
  const c10::DeviceIndex index = storage.device().index();
  c10::DataPtr plain = allocate(storage.nbytes(), index);
  launch_copy(
      OPENREG_PACK_UNPACK,
      *storage.packed,
      packed_address(storage),
      plain.get(),
      index);
  return plain;
}

} // namespace

bool can_pack(c10::DeviceIndex index) {
  return device(index).info.packets >> OPENREG_OP_PACK & 1;
}

std::optional<PackedMatrix> packed_matrix(const c10::StorageImpl& storage) {
  auto* s = ours(const_cast<c10::StorageImpl*>(&storage));
  if (s == nullptr)
    return std::nullopt;
  const SleepyLock lock(s->mutex);
  return s->packed;
}

void* real_address(const void* address) {
  return address == nullptr ? nullptr : reinterpret_cast<void*>(bits(address) | kAccessible);
}

at::Tensor pack(const at::Tensor& plain) {
  const c10::ScalarType type = matrix_type(plain);
  const PackedMatrix m{plain.size(0), plain.size(1), type};
  const at::Tensor packed = view_of(new_packed(m, plain.get_device()), plain);
  pack_into(packed, plain);
  return packed;
}

void pack_into(const at::Tensor& packed, const at::Tensor& plain) {
  Storage* s = ours(packed.storage().unsafeGetStorageImpl());
  const SleepyLock lock(s->mutex);
  if (s->packed) {
    launch_copy(
        OPENREG_PACK_PACK,
        *s->packed,
        packed_address(*s),
        plain.const_data_ptr(),
        plain.get_device());
    return;
  }
  // Another thread has made it plain.
  copy_device_bytes(s->mutable_data(), plain.const_data_ptr(), s->nbytes(), plain.get_device());
}

at::Tensor unpack(const at::Tensor& packed) {
  Storage* s = ours(packed.storage().unsafeGetStorageImpl());
  const SleepyLock lock(s->mutex);
  if (!s->packed)
    return view_of(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(s), packed);
  return view_of(new_storage(s->nbytes(), plain_copy(*s)), packed);
}

at::Tensor copy_packed(const at::Tensor& packed) {
  Storage* s = ours(packed.storage().unsafeGetStorageImpl());
  const c10::DeviceIndex index = packed.get_device();
  const SleepyLock lock(s->mutex);
  if (!s->packed)
    return at::clone(view_of(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(s), packed));
  auto copy = new_packed(*s->packed, index);
  copy_device_bytes(
      real_address(copy->data()),
      real_address(s->data()),
      packed_bytes(*s->packed, index),
      index);
  return view_of(std::move(copy), packed);
}

bool make_plain(c10::StorageImpl* storage) {
  Storage* s = ours(storage);
  if (s == nullptr)
    return false;
  const SleepyLock lock(s->mutex);
  if (!s->packed)
    return false;
  c10::DataPtr plain = plain_copy(*s);
  move_between_blocks(real_address(s->data()), plain.get(), s->device().index());
  s->set_data_ptr_noswap(std::move(plain));
  s->packed.reset();
  return true;
}

namespace {

// torch.empty() and .to() make storages without a description, which only a copy can have.
// Other tensors of the storage would not see later writes to the copy: they keep it plain.
void replace_storage(const at::Tensor& t, const PackedMatrix& m) {
  const c10::DeviceIndex index = t.get_device();
  if (t.storage().use_count() != 1)
    return;
  auto packed = new_packed(m, index);
  void* block = real_address(packed->data());
  launch_copy(OPENREG_PACK_PACK, m, bits(block), t.storage().data(), index);
  move_between_blocks(t.storage().mutable_data(), block, index);
  t.unsafeGetTensorImpl()->set_storage_keep_dtype(c10::Storage(std::move(packed)));
  update_format_key(t);
}

} // namespace

bool make_packed(const at::Tensor& t, const PackedMatrix& m) {
  Storage* s = ours(t.storage().unsafeGetStorageImpl());
  const c10::DeviceIndex index = t.get_device();
  if (t.storage().nbytes() != plain_bytes(m))
    return false;
  if (s == nullptr) {
    replace_storage(t, m);
    return true;
  }
  const SleepyLock lock(s->mutex);
  if (s->packed && *s->packed != m)
    return false;
  if (!s->packed) {
    c10::DataPtr block = allocate(packed_bytes(m, index), index);
    launch_copy(OPENREG_PACK_PACK, m, bits(block.get()), s->data(), index);
    move_between_blocks(s->data(), block.get(), index);
    s->set_data_ptr_noswap(hide(std::move(block)));
    s->packed = m;
  }
  update_format_key(t);
  return true;
}

void update_format_key(const at::Tensor& t) {
  const bool packed = is_packed(*t.storage().unsafeGetStorageImpl());
  const c10::DispatchKeySet keys = t.key_set();
  if (packed != keys.has(kFormatKey))
    Keys::set(
        t.unsafeGetTensorImpl(), packed ? keys.add(kFormatKey) : keys.remove(kFormatKey));
}

namespace {

const void* matrix_if(const at::TensorBase& t, bool transposed) {
  if (C10_LIKELY(!has_format(t)) || !is_packed(t))
    return nullptr;
  const c10::StorageImpl& storage = *t.storage().unsafeGetStorageImpl();
  const auto found = packed_matrix(storage);
  if (!found)
    return nullptr;
  const PackedMatrix& m = *found;
  if (t.dim() != 2 || t.scalar_type() != m.type || t.storage_offset() != 0)
    return nullptr;
  const int row = transposed ? 1 : 0;
  const bool whole = t.size(row) == m.rows && t.size(1 - row) == m.columns &&
      (m.rows == 1 || t.stride(row) == m.columns) &&
      (m.columns == 1 || t.stride(1 - row) == 1);
  return whole ? real_address(storage.data()) : nullptr;
}

} // namespace

const void* whole_matrix(const at::TensorBase& t) {
  return matrix_if(t, false);
}

const void* transposed_matrix(const at::TensorBase& t) {
  return matrix_if(t, true);
}

void check_format(const std::string& format) {
  TORCH_CHECK_VALUE(
      format == "plain" || format == "packed",
      "openreg has no format '",
      format,
      "'. Its formats are 'plain' and 'packed'.");
}

std::string format_of(const at::Tensor& t) {
  return t.is_privateuseone() && t.has_storage() && is_packed(t) ? "packed" : "plain";
}

namespace {

struct Counts {
  std::mutex mutex;
  std::map<std::string, uint64_t> by_name;
};

Counts& counts() {
  static auto* counts = new Counts;
  return *counts;
}

} // namespace

void count_conversion(const std::string& op) {
  const std::lock_guard<std::mutex> lock(counts().mutex);
  counts().by_name[op]++;
}

std::vector<std::pair<std::string, uint64_t>> conversion_counts() {
  const std::lock_guard<std::mutex> lock(counts().mutex);
  return {counts().by_name.begin(), counts().by_name.end()};
}

void reset_conversion_counts() {
  const std::lock_guard<std::mutex> lock(counts().mutex);
  counts().by_name.clear();
}

} // namespace openreg
