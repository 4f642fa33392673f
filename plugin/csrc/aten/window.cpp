// SPDX-License-Identifier: BSD-3-Clause
#include "aten/window.h"

#include <algorithm>

namespace openreg {

Windows::Three Windows::expand(
    at::IntArrayRef values,
    int64_t dims,
    int64_t filler,
    const Three& otherwise) {
  return values.empty() ? otherwise : expand(values, dims, filler);
}

Windows::Three Windows::expand(at::IntArrayRef values, int64_t dims, int64_t filler) {
  Three three;
  three.fill(filler);
  for (int64_t d = 0; d < dims; d++) {
    three[3 - dims + d] = values.size() == 1 ? values[0] : values[d];
  }
  return three;
}

Windows::Three Windows::sizes(const at::Tensor& t, int64_t dims) {
  return expand(t.sizes().slice(t.dim() - dims), dims, 1);
}

void Windows::put(Packet& packet) const {
  for (const Three* three : {&kernel, &input, &stride, &padding, &dilation}) {
    for (const int64_t value : *three) {
      packet.imm(value);
    }
  }
}

int64_t Windows::largest() const {
  int64_t most = 0;
  for (const Three* three : {&kernel, &input, &stride, &padding, &dilation}) {
    most = std::max(most, *std::max_element(three->begin(), three->end()));
  }
  return most;
}

void put_space_strides(int64_t* to, const at::Tensor& t, int64_t dims) {
  const auto strides = t.strides().slice(t.dim() - dims);
  std::fill(to, to + 3 - dims, 1); // missing dimensions have size 1
  std::copy(strides.begin(), strides.end(), to + 3 - dims);
}

} // namespace openreg
