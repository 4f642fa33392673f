// SPDX-License-Identifier: BSD-3-Clause
#include "aten/space.h"

namespace openreg {

at::DimVector Space::broadcast(const at::TensorBase& t) const {
  const int64_t missing = ndim() - t.dim();
  TORCH_INTERNAL_ASSERT(missing >= 0);
  at::DimVector strides(size_.size(), 0);
  for (int64_t i = 0; i < t.dim(); i++) {
    if (t.size(i) != 1) {
      TORCH_CHECK(
          t.size(i) == size_[missing + i],
          "a tensor of shape ",
          t.sizes(),
          " cannot be expanded to ",
          c10::IntArrayRef(size_));
      strides[missing + i] = t.stride(i);
    }
  }
  return strides;
}

uint8_t Space::add(const at::TensorBase& t) {
  return add(t, broadcast(t));
}

uint8_t Space::add(const at::TensorBase& t, at::DimVector strides) {
  if (operand_.empty()) {
    t.mutable_data_ptr(); // a copy-on-write tensor gets memory of its own
  }
  return add_read(t, std::move(strides));
}

uint8_t Space::add_read(const at::TensorBase& t) {
  return add_read(t, broadcast(t));
}

uint8_t Space::add_read(const at::TensorBase& t, at::DimVector strides) {
  const uint8_t dtype = card_dtype(t.scalar_type());
  TORCH_CHECK(
      dtype != 0,
      "openreg: the card does not compute on ",
      t.scalar_type(),
      "; convert the tensor with .to()");
  operand_.push_back(
      {static_cast<char*>(const_cast<void*>(t.const_data_ptr())),
       dtype,
       static_cast<uint8_t>(t.element_size()),
       std::move(strides)});
  return static_cast<uint8_t>(operand_.size() - 1);
}

void Space::add_unit() {
  size_.push_back(1);
  for (Operand& o : operand_) {
    o.stride.push_back(0);
  }
}

uint8_t Space::kept(int which) const {
  uint8_t dim = 0;
  while (!keep_[dim] || which-- > 0) {
    dim++;
  }
  return dim;
}

bool Space::can_merge(int outer, int inner) const {
  if (keep_[outer] || keep_[inner] || reduced_[outer] != reduced_[inner]) {
    return false;
  }
  for (const Operand& o : operand_) {
    if (o.stride[outer] != o.stride[inner] * size_[inner]) {
      return false;
    }
  }
  return true;
}

void Space::merge(int outer, int inner) {
  size_[outer] *= size_[inner];
  for (Operand& o : operand_) {
    o.stride[outer] = o.stride[inner];
  }
}

void Space::move(int from, int to) {
  size_[to] = size_[from];
  keep_[to] = keep_[from];
  reduced_[to] = reduced_[from];
  for (Operand& o : operand_) {
    o.stride[to] = o.stride[from];
  }
}

void Space::swap(int a, int b) {
  std::swap(size_[a], size_[b]);
  const bool keep = keep_[a], reduced = reduced_[a];
  keep_[a] = keep_[b];
  reduced_[a] = reduced_[b];
  keep_[b] = keep;
  reduced_[b] = reduced;
  for (Operand& o : operand_) {
    std::swap(o.stride[a], o.stride[b]);
  }
}

void Space::sort_by_stride(uint8_t operand) {
  const auto& stride = operand_[operand].stride;
  for (int i = 1; i < ndim(); i++) {
    for (int j = i; j > 0 && stride[j - 1] < stride[j]; j--) {
      swap(j - 1, j);
    }
  }
}

void Space::coalesce() {
  const bool reduces = reduced_.any();
  int last = -1; // the last dimension of the result
  for (int i = 0; i < ndim(); i++) {
    if (size_[i] == 1 && !keep_[i]) {
      continue;
    }
    if (last >= 0 && can_merge(last, i)) {
      merge(last, i);
    } else {
      move(i, ++last);
    }
  }
  size_.resize(last + 1);
  for (Operand& o : operand_) {
    o.stride.resize(last + 1);
  }
  const Mask left(last < 0 ? 0 : ~uint64_t{0} >> (63 - last));
  keep_ &= left;
  reduced_ &= left;
  if (reduces && reduced_.none()) {
    reduced_.set(size_.size());
    add_unit();
  }
}

void Space::put(Packet& packet) const {
  check_work(size_, device_);
  packet.space(size_);
  for (const Operand& o : operand_) {
    packet.operand(o.addr, o.dtype, o.stride.data());
  }
}

int Space::dim_to_unroll() const {
  for (int i = 0; i < ndim(); i++) {
    if (!reduced_[i] && !keep_[i]) {
      return i;
    }
  }
  TORCH_CHECK(
      false,
      "openreg: more than ",
      OPENREG_DIMS_MAX,
      " dimensions that cannot be merged; make the tensor contiguous first");
}

Space Space::without(int dim, int64_t index) const {
  Space part(*this);
  part.size_.erase(part.size_.begin() + dim);
  for (Operand& o : part.operand_) {
    o.addr += index * o.stride[dim] * o.size;
    o.stride.erase(o.stride.begin() + dim);
  }
  for (int i = dim; i < ndim() - 1; i++) {
    part.keep_[i] = keep_[i + 1];
    part.reduced_[i] = reduced_[i + 1];
  }
  return part;
}

void launch(const Space& space, const Program& program, OpId op, Part part) {
  space.for_each_launchable([&](const Space& s) {
    Packet packet(OPENREG_OP_VECTOR, op);
    packet.arg(0, static_cast<uint8_t>(s.reduced().to_ulong()));
    s.put(packet);
    program.put(packet);
    launch(packet, s.device(), part);
    part = Part::FURTHER;
  });
}

} // namespace openreg
