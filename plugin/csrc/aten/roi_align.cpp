// SPDX-License-Identifier: BSD-3-Clause
// torchvision's roi_align. A region's samples lie on a grid, so two products compute its
// means: the samples' weights along y times the image rows around them, and the weights
// along x times the columns.
#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/convention.h"
#include "aten/index.h"
#include "aten/matmul.h"
#include "aten/parts.h"

namespace openreg {

namespace {

using at::Tensor;

OpName forward_name, backward_name;

constexpr int64_t kMost = 1 << 24; // most elements of a region, and of all weights

// Whether a region's samples and all weights are small enough.
bool fits(const Tensor& x, const Tensor& rois, double height, double width, double samples) {
  const double channels = static_cast<double>(x.size(1)), bins = std::max(height, width);
  return 4 * samples * samples * height * width * channels <= kMost &&
      2 * samples * bins * bins * static_cast<double>(rois.size(0)) <= kMost;
}

// Whether the card can run the call. The CPU reports bad arguments, and runs calls
// without a number of samples: it chooses the number for each region.
bool serves(const Tensor& x, const Tensor& rois, int64_t height, int64_t width, int64_t samples) {
  return x.dim() == 4 && rois.dim() == 2 && rois.size(1) == 5 && samples > 0 && height > 0 &&
      width > 0 && x.scalar_type() == rois.scalar_type() && x.device() == rois.device() &&
      (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble) &&
      fits(x, rois, static_cast<double>(height), static_cast<double>(width),
           static_cast<double>(samples));
}

// One axis: the two places around each sample, [regions, taps], and their weights in each
// bin's mean, [regions, bins, taps].
struct Axis {
  Tensor place, weight;
};

Axis axis_of(const Tensor& begin, const Tensor& end, int64_t size, int64_t bins, int64_t samples, bool aligned) {
  Tensor length = end - begin;
  if (!aligned) {
    length.clamp_min_(1);
  }
  const Tensor bin = length.div(static_cast<double>(bins)).view({-1, 1, 1});
  const Tensor at = at::arange(bins, bin.options()).view({1, bins, 1});
  const Tensor within = at::arange(samples, bin.options()).add_(0.5).view({1, 1, samples});
  Tensor x = begin.view({-1, 1, 1}) + at * bin + within * bin / static_cast<double>(samples);
  const Tensor inside = x.ge(-1.0).logical_and_(x.le(static_cast<double>(size)));
  x = x.clamp(0, static_cast<double>(size - 1));
  const Tensor low = x.floor(), beyond = x - low;
  const Tensor share = inside.to(x.scalar_type()).div_(static_cast<double>(samples));
  const Tensor first = low.to(at::kInt);
  const int64_t taps = bins * samples * 2;
  const Tensor place =
      at::stack({first, first.add(1).clamp_max_(size - 1)}, -1).view({-1, taps});
  const Tensor weight = at::stack({(1 - beyond).mul_(share), beyond.mul(share)}, -1);
  const Tensor all = at::zeros({x.size(0), bins, bins, 2 * samples}, x.options());
  all.diagonal(0, 1, 2).copy_(weight.view({-1, bins, 2 * samples}).transpose(1, 2));
  return {place, all.view({-1, bins, taps})};
}

// The samples of regions, in images with channels as the last dimension.
class Regions {
 public:
  Regions(
      const Tensor& rois,
      double scale,
      at::IntArrayRef image,
      int64_t height,
      int64_t width,
      int64_t samples,
      bool aligned)
      : image_(rois.select(1, 0).to(at::kInt)) {
    const Tensor at = rois.narrow(1, 1, 4).mul(scale).sub_(aligned ? 0.5 : 0.0);
    x_ = axis_of(at.select(1, 0), at.select(1, 2), image[3], width, samples, aligned);
    y_ = axis_of(at.select(1, 1), at.select(1, 3), image[2], height, samples, aligned);
  }

  // Gathers the image elements around the samples of some regions, or adds to them.
  Part between(OpId id, uint8_t mode, const Tensor& taps, const Tensor& images, int64_t first, Part part) const {
    const bool gets = mode == OPENREG_INDEX_GET;
    const at::DimVector indirect{0, 0, 0, 1}, direct(taps.strides());
    IndexSpace space(
        mode,
        Negative::BAD,
        taps.sizes(),
        gets ? taps : images,
        gets ? direct : indirect,
        gets ? images : taps,
        gets ? indirect : direct);
    const int64_t n = taps.size(0);
    const Tensor image = image_.narrow(0, first, n), x = x_.place.narrow(0, first, n),
                 y = y_.place.narrow(0, first, n);
    space.choose(image, {image.stride(0), 0, 0, 0}, images.size(0), images.stride(0));
    space.choose(y, {y.stride(0), y.stride(1), 0, 0}, images.size(1), images.stride(1));
    space.choose(x, {x.stride(0), 0, x.stride(1), 0}, images.size(2), images.stride(2));
    return space.launch(id, part);
  }

  int64_t taps() const {
    return x_.place.size(1) * y_.place.size(1);
  }
  Tensor x_weight(int64_t first, int64_t n) const {
    return x_.weight.narrow(0, first, n);
  }
  Tensor y_weight(int64_t first, int64_t n) const {
    return y_.weight.narrow(0, first, n);
  }
  int64_t x_taps() const {
    return x_.place.size(1);
  }
  int64_t y_taps() const {
    return y_.place.size(1);
  }

 private:
  Tensor image_;
  Axis x_, y_;
};

Tensor forward(
    const Tensor& input,
    const Tensor& rois,
    double scale,
    int64_t height,
    int64_t width,
    int64_t samples,
    bool aligned) {
  if (!serves(input, rois, height, width, samples)) {
    return fallback<Tensor, const Tensor&, const Tensor&, double, int64_t, int64_t, int64_t, bool>(
        forward_name, input, rois, scale, height, width, samples, aligned);
  }
  const OpId id = forward_name.id;
  const int64_t channels = input.size(1);
  const Tensor out = at::empty({rois.size(0), channels, height, width}, input.options());
  if (out.numel() == 0 || input.numel() == 0) {
    return out.zero_();
  }
  const Tensor images = input.permute({0, 2, 3, 1}).contiguous();
  const Regions regions(rois, scale, input.sizes(), height, width, samples, aligned);
  const int64_t x_taps = regions.x_taps(), y_taps = regions.y_taps();
  Part part = Part::FIRST;
  in_parts(rois.size(0), regions.taps() * channels, [&](int64_t first, int64_t n) {
    const Tensor taps = at::empty({n, y_taps, x_taps, channels}, images.options());
    part = regions.between(id, OPENREG_INDEX_GET, taps, images, first, part);
    const Tensor rows = at::empty({n, height, x_taps, channels}, images.options());
    multiply_batches(id, rows.flatten(2), regions.y_weight(first, n), taps.flatten(2));
    multiply_batches(
        id,
        out.narrow(0, first, n).permute({0, 2, 3, 1}),
        regions.x_weight(first, n).unsqueeze(1).expand({n, height, width, x_taps}),
        rows);
  });
  return out;
}

Tensor backward(
    const Tensor& grad,
    const Tensor& rois,
    double scale,
    int64_t height,
    int64_t width,
    int64_t batch,
    int64_t channels,
    int64_t image_height,
    int64_t image_width,
    int64_t samples,
    bool aligned) {
  if (!serves(grad, rois, height, width, samples)) {
    return fallback<
        Tensor,
        const Tensor&,
        const Tensor&,
        double,
        int64_t,
        int64_t,
        int64_t,
        int64_t,
        int64_t,
        int64_t,
        int64_t,
        bool>(
        backward_name,
        grad,
        rois,
        scale,
        height,
        width,
        batch,
        channels,
        image_height,
        image_width,
        samples,
        aligned);
  }
  const OpId id = backward_name.id;
  const Tensor images = at::zeros({batch, image_height, image_width, channels}, grad.options());
  if (grad.numel() > 0 && images.numel() > 0) {
    const std::array<int64_t, 4> sizes{batch, channels, image_height, image_width};
    const Regions regions(rois, scale, sizes, height, width, samples, aligned);
    const int64_t x_taps = regions.x_taps(), y_taps = regions.y_taps();
    in_parts(rois.size(0), regions.taps() * channels, [&](int64_t first, int64_t n) {
      const Tensor rows = at::empty({n, height, x_taps, channels}, images.options());
      multiply_batches(
          id,
          rows,
          regions.x_weight(first, n).mT().unsqueeze(1).expand({n, height, x_taps, width}),
          grad.narrow(0, first, n).permute({0, 2, 3, 1}),
          1,
          first == 0 ? Part::FIRST : Part::FURTHER);
      const Tensor taps = at::empty({n, y_taps, x_taps, channels}, images.options());
      multiply_batches(id, taps.flatten(2), regions.y_weight(first, n).mT(), rows.flatten(2));
      regions.between(id, OPENREG_INDEX_ADD, taps, images, first, Part::FURTHER);
    });
  }
  return images.permute({0, 3, 1, 2}).contiguous();
}

} // namespace

// The kernels become active when torchvision defines its operators.
TORCH_LIBRARY_IMPL(torchvision, PrivateUse1, m) {
  forward_name.set("torchvision::roi_align");
  backward_name.set("torchvision::_roi_align_backward");
  m.impl("roi_align", forward);
  m.impl("_roi_align_backward", backward);
}

} // namespace openreg
