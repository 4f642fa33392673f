// SPDX-License-Identifier: BSD-3-Clause
// Trains a small convolutional network on the card from C++, without Python. The network
// distinguishes images that are brighter on the left from images brighter on the right.
#include <torch/torch.h>

#include <cstdio>

namespace {

struct Net : torch::nn::Module {
  Net() {
    register_module("conv", conv);
    register_module("out", out);
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv(x), 2));
    return torch::log_softmax(out(x.flatten(1)), 1);
  }

  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 8, 3).padding(1)};
  torch::nn::Linear out{8 * 8 * 8, 2};
};

// 16x16 images of noise, and their labels.
std::pair<torch::Tensor, torch::Tensor> batch(int64_t size) {
  const auto labels = torch::randint(0, 2, {size});
  auto images = torch::rand({size, 1, 16, 16});
  for (int64_t i = 0; i < size; i++) {
    const int64_t begin = labels[i].item<int64_t>() * 8;
    images[i].narrow(2, begin, 8).add_(0.5);
  }
  return {images, labels};
}

} // namespace

int main() {
  torch::manual_seed(1);
  const torch::Device card("openreg:0");
  Net net;
  net.to(card);
  torch::optim::SGD optimizer(
      net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < 60; step++) {
    const auto [images, labels] = batch(64);
    optimizer.zero_grad();
    const auto loss =
        torch::nll_loss(net.forward(images.to(card)), labels.to(card));
    loss.backward();
    optimizer.step();
    if (step % 20 == 0)
      std::printf("step %2d  loss %.3f\n", step, loss.item<double>());
  }
  const auto [images, labels] = batch(256);
  torch::NoGradGuard no_grad;
  const auto right =
      net.forward(images.to(card)).argmax(1).cpu().eq(labels).sum();
  std::printf("right: %d of 256\n", static_cast<int>(right.item<int64_t>()));
  return right.item<int64_t>() > 240 ? 0 : 1;
}
