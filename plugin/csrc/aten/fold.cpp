// SPDX-License-Identifier: BSD-3-Clause
// im2col and col2im, composed of strided copies and sums, and max_unpool, a scatter.
#include "aten/convention.h"

#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <ATen/native/im2col_shape_check.h>
#include <torch/library.h>

namespace openreg {

namespace {

using at::IntArrayRef;
using at::Tensor;

OpName im2col_name, unpool2_name, unpool3_name;

void check_pair(IntArrayRef pair, const char* name) {
  TORCH_CHECK(
      pair.size() == 2, "It is expected ", name, " equals to 2, but got size ", pair.size());
}

struct Sliding {
  Sliding(IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride)
      : kernel(kernel), dilation(dilation), padding(padding), stride(stride) {
    check_pair(kernel, "kernel_size");
    check_pair(dilation, "dilation");
    check_pair(padding, "padding");
    check_pair(stride, "stride");
  }

  int64_t count(int64_t size, int d) const {
    return at::native::sliding_window_count(size, padding[d], dilation[d], kernel[d], stride[d]);
  }

  IntArrayRef kernel, dilation, padding, stride;
};

Tensor windows(const Tensor& self, const Sliding& w) {
  at::native::im2col_shape_check(
      self, Tensor(), w.kernel[0], w.kernel[1], w.dilation[0], w.dilation[1],
      w.padding[0], w.padding[1], w.stride[0], w.stride[1]);
  im2col_name.check_type(self.scalar_type());
  const bool batched = self.dim() == 4;
  const Tensor images = batched ? self : self.unsqueeze(0);
  const int64_t rows = w.count(images.size(2), 0), cols = w.count(images.size(3), 1);
  const int64_t n = images.size(0), channels = images.size(1);
  const Tensor padded =
      at::constant_pad_nd(images, {w.padding[1], w.padding[1], w.padding[0], w.padding[0]}, 0);
  const auto s = padded.strides();
  const Tensor all = padded.as_strided(
      {n, channels, w.kernel[0], w.kernel[1], rows, cols},
      {s[0], s[1], s[2] * w.dilation[0], s[3] * w.dilation[1], s[2] * w.stride[0], s[3] * w.stride[1]},
      padded.storage_offset());
  const Tensor columns =
      all.reshape({n, channels * w.kernel[0] * w.kernel[1], rows * cols});
  return batched ? columns : columns.squeeze(0);
}

Tensor sum_of_windows(const Tensor& self, IntArrayRef output_size, const Sliding& w) {
  check_pair(output_size, "output_size");
  at::native::col2im_shape_check(
      self, Tensor(), output_size[0], output_size[1], w.kernel[0], w.kernel[1],
      w.dilation[0], w.dilation[1], w.padding[0], w.padding[1], w.stride[0], w.stride[1]);
  const bool batched = self.dim() == 3;
  const Tensor columns = batched ? self : self.unsqueeze(0);
  const int64_t rows = w.count(output_size[0], 0), cols = w.count(output_size[1], 1);
  const int64_t n = columns.size(0);
  const int64_t channels = columns.size(1) / (w.kernel[0] * w.kernel[1]);
  const Tensor all = columns.reshape({n, channels, w.kernel[0], w.kernel[1], rows, cols});
  const Tensor padded = at::zeros(
      {n, channels, output_size[0] + 2 * w.padding[0], output_size[1] + 2 * w.padding[1]},
      columns.options());
  for (int64_t i = 0; i < w.kernel[0]; i++) {
    const int64_t top = i * w.dilation[0];
    const Tensor band = padded.slice(2, top, top + w.stride[0] * (rows - 1) + 1, w.stride[0]);
    for (int64_t j = 0; j < w.kernel[1]; j++) {
      const int64_t left = j * w.dilation[1];
      band.slice(3, left, left + w.stride[1] * (cols - 1) + 1, w.stride[1])
          .add_(all.select(2, i).select(2, j));
    }
  }
  const Tensor image = padded.narrow(2, w.padding[0], output_size[0])
                           .narrow(3, w.padding[1], output_size[1])
                           .contiguous();
  return batched ? image : image.squeeze(0);
}

Tensor& put(Tensor& out, const Tensor& result) {
  TORCH_CHECK(
      out.scalar_type() == result.scalar_type(),
      "Expected out tensor to have dtype ",
      result.scalar_type(),
      ", but got ",
      out.scalar_type(),
      " instead");
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

Tensor im2col(const Tensor& self, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride) {
  return windows(self, {kernel, dilation, padding, stride});
}

Tensor& im2col_out(
    const Tensor& self, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  return put(out, windows(self, {kernel, dilation, padding, stride}));
}

Tensor col2im(
    const Tensor& self, IntArrayRef output_size, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride) {
  return sum_of_windows(self, output_size, {kernel, dilation, padding, stride});
}

Tensor& col2im_out(
    const Tensor& self,
    IntArrayRef output_size,
    IntArrayRef kernel,
    IntArrayRef dilation,
    IntArrayRef padding,
    IntArrayRef stride,
    Tensor& out) {
  return put(out, sum_of_windows(self, output_size, {kernel, dilation, padding, stride}));
}

void check_unpool(const Tensor& self, const Tensor& indices, IntArrayRef output_size, size_t dims) {
  TORCH_CHECK(
      indices.scalar_type() == at::kLong,
      "elements in indices should be type int64 but got: ",
      indices.scalar_type());
  if (dims == 2) {
    TORCH_CHECK(
        output_size.size() == 2,
        "There should be exactly two elements (height, width) in output_size, but got ",
        output_size.size(),
        " elements.");
  } else {
    TORCH_CHECK(
        output_size.size() == 3,
        "There should be exactly three elements (depth, height, width) in output_size, but got ",
        output_size.size(),
        " elements.");
  }
  TORCH_CHECK(
      self.dim() == static_cast<int64_t>(dims) + 1 || self.dim() == static_cast<int64_t>(dims) + 2,
      "Input to max_unpooling",
      dims,
      "d should be a ",
      dims + 1,
      "d or ",
      dims + 2,
      "d Tensor, but got a tensor with ",
      self.dim(),
      " dimensions.");
  TORCH_CHECK(
      self.sizes() == indices.sizes(),
      "Expected shape of indices to be same as that of the input tensor (",
      self.sizes(),
      ") but got indices tensor with shape: ",
      indices.sizes());
  for (int64_t i = 1; i < self.dim(); i++) {
    TORCH_CHECK(
        self.size(i) > 0,
        "max_unpooling",
        dims,
        "d(): Expected input to have non-zero size for non-batch dimensions, but got ",
        self.sizes(),
        " with dimension ",
        i,
        " being empty.");
  }
}

// Puts every plane's elements at the places from which pooling took them.
Tensor unpool(const Tensor& self, const Tensor& indices, IntArrayRef output_size, size_t dims) {
  check_unpool(self, indices, output_size, dims);
  if (self.numel() != 0) {
    (dims == 2 ? unpool2_name : unpool3_name).check_type(self.scalar_type());
  }
  const auto planes = self.sizes().slice(0, self.dim() - dims);
  at::DimVector shape(planes);
  shape.append(output_size.begin(), output_size.end());
  const int64_t n = c10::multiply_integers(planes);
  Tensor out = at::zeros({n, c10::multiply_integers(output_size)}, self.options());
  if (self.numel() != 0) {
    out.scatter_(1, indices.reshape({n, -1}), self.reshape({n, -1}));
  }
  return out.view(shape);
}

Tensor unpool2(const Tensor& self, const Tensor& indices, IntArrayRef output_size) {
  return unpool(self, indices, output_size, 2);
}

Tensor& unpool2_out(const Tensor& self, const Tensor& indices, IntArrayRef output_size, Tensor& out) {
  return put(out, unpool(self, indices, output_size, 2));
}

void check_positive(IntArrayRef stride, IntArrayRef padding) {
  TORCH_CHECK(
      stride.size() == 3,
      "There should be exactly three elements (depth, height, width) in stride, but got: ",
      stride.size(),
      " elements.");
  TORCH_CHECK(
      padding.size() == 3,
      "There should be exactly three elements (depth, height, width) in padding, but got: ",
      padding.size(),
      " elements.");
  TORCH_CHECK(
      stride[0] > 0 && stride[1] > 0 && stride[2] > 0,
      "strides should be greater than zero, but got stride: ",
      stride);
}

Tensor unpool3(
    const Tensor& self, const Tensor& indices, IntArrayRef output_size, IntArrayRef stride, IntArrayRef padding) {
  check_positive(stride, padding);
  return unpool(self, indices, output_size, 3);
}

Tensor& unpool3_out(
    const Tensor& self,
    const Tensor& indices,
    IntArrayRef output_size,
    IntArrayRef stride,
    IntArrayRef padding,
    Tensor& out) {
  check_positive(stride, padding);
  return put(out, unpool(self, indices, output_size, 3));
}

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  im2col_name.set("im2col");
  unpool2_name.set("max_unpool2d");
  unpool3_name.set("max_unpool3d");
  m.impl("im2col", im2col);
  m.impl("im2col.out", im2col_out);
  m.impl("col2im", col2im);
  m.impl("col2im.out", col2im_out);
  m.impl("max_unpool2d", unpool2);
  m.impl("max_unpool2d.out", unpool2_out);
  m.impl("max_unpool3d", unpool3);
  m.impl("max_unpool3d.out", unpool3_out);
}

} // namespace openreg
