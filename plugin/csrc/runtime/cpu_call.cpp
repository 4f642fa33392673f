// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/cpu_call.h"

#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>

#include <optional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "runtime/checks.h"
#include "runtime/copy.h"
#include "runtime/device.h"
#include "runtime/overlap.h"
#include "runtime/stream.h"

namespace openreg {
namespace {

using at::Tensor;

bool is_coordinate(const Tensor& t) {
  return t.layout() == at::kSparse;
}

bool is_sparse(const Tensor& t) {
  return t.defined() && (is_coordinate(t) || at::sparse_csr::is_sparse_compressed(t));
}

at::SparseTensorImpl& coordinate(const Tensor& t) {
  return *static_cast<at::SparseTensorImpl*>(t.unsafeGetTensorImpl());
}

at::SparseCsrTensorImpl& compressed(const Tensor& t) {
  return *static_cast<at::SparseCsrTensorImpl*>(t.unsafeGetTensorImpl());
}

// The dense member tensors of a sparse tensor; empty for a dense tensor.
std::vector<Tensor> parts_of(const Tensor& t) {
  if (!is_sparse(t))
    return {};
  if (is_coordinate(t))
    return {coordinate(t).indices(), coordinate(t).values()};
  const at::SparseCsrTensorImpl& c = compressed(t);
  return {c.compressed_indices(), c.plain_indices(), c.values()};
}

// Do not pin larger copies: the cache of pinned memory never shrinks.
constexpr size_t kPinnedBytes = size_t{64} << 20;

// CPU memory with t's order of elements. Pinned if possible, so that the card copies
// from and to the memory directly.
Tensor host_memory(const Tensor& t) {
  const at::TensorOptions options = t.options().device(at::kCPU);
  if (t.nbytes() != 0 && t.nbytes() <= kPinnedBytes) {
    try {
      return at::empty_like(t, options.pinned_memory(true));
    } catch (const c10::Error&) {
    }
  }
  return at::empty_like(t, options);
}

// Returns a CPU tensor for t, with t's elements if the operator reads them. The copy may
// still be in flight on return. Elements that share memory in t share memory here too.
Tensor host_of(const Tensor& t, bool read) {
  const Tensor once = without_repeats(t), host = host_memory(once);
  if (read)
    copy_tensor(host, once, /*non_blocking=*/true);
  return host.sizes() == t.sizes() ? host : host.expand(t.sizes());
}

Tensor move(const Tensor& t, c10::Device device) {
  if (!t.defined() || t.device() == device)
    return t;
  std::vector<Tensor> parts = parts_of(t);
  if (parts.empty())
    return device.is_cpu() ? host_of(t, true) : t.to(device);
  // Core's CPU kernels assume that the memory of indices is contiguous.
  for (Tensor& part : parts)
    part = part.to(device).contiguous();
  at::sparse_csr::CheckSparseTensorInvariants unchecked(false);
  const at::TensorOptions options = t.options().device(device);
  if (!is_coordinate(t))
    return at::_sparse_compressed_tensor_unsafe(
        parts[0], parts[1], parts[2], t.sizes(), options);
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      t.sparse_dim(), t.dense_dim(), t.sizes(), parts[0], parts[1], options,
      t.is_coalesced());
}

// An argument on the card, and its copy on the CPU.
class Moved {
 public:
  // read: the operator may read the argument. If false, the operator only overwrites it.
  Moved(const Tensor& card, bool read)
      : card_(card),
        host_(read ? move(card, at::kCPU) : host_of(card, false)),
        given_(parts_of(host_)) {
    // Some operators skip results that no gradient needs.
    host_.set_requires_grad(card.requires_grad());
  }

  const Tensor& card() const {
    return card_;
  }

  const Tensor& host() const {
    return host_;
  }

  // Gives the tensor on the card the sizes and strides of the one on the CPU. That may be a
  // part of a larger matrix, as the solution of linalg.lstsq.
  void resize_like_host() const {
    if (host_.numel() == 0 || at::has_internal_overlap(host_) == at::MemOverlap::Yes) {
      card_.resize_(host_.sizes());
      return;
    }
    int64_t extent = 1;
    for (int64_t d = 0; d < host_.dim(); d++)
      extent += (host_.size(d) - 1) * host_.stride(d);
    card_.resize_({extent});
    card_.unsafeGetTensorImpl()->set_sizes_and_strides(host_.sizes(), host_.strides());
  }

  // Copies the operator's result to the card. A part of a sparse tensor that the operator
  // wrote in place is written in place here too: other tensors may share its memory.
  void bring_back() const {
    if (given_.empty()) {
      if (host_.sizes() != card_.sizes()) {
        resize_like_host();
      }
      // Do not call the dispatcher: it would resolve the conjugate and the negative bit
      // with a clone, and write to the clone.
      copy_tensor(without_repeats(card_), without_repeats(host_), true);
      return;
    }
    const std::vector<Tensor> written = parts_of(host_);
    std::vector<Tensor> parts = parts_of(card_);
    bool replaced = host_.sizes() != card_.sizes() || host_.layout() != card_.layout();
    for (size_t i = 0; i < parts.size(); i++) {
      if (written[i].is_same(given_[i]) && written[i].sizes() == parts[i].sizes()) {
        parts[i].copy_(written[i]);
      } else {
        parts[i] = written[i].to(card_.device());
        replaced = true;
      }
    }
    if (replaced)
      put(parts);
    if (is_coordinate(host_) && host_.is_coalesced() != card_.is_coalesced())
      coordinate(card_).set_coalesced(host_.is_coalesced());
  }

 private:
  void put(const std::vector<Tensor>& parts) const {
    if (is_coordinate(card_)) {
      coordinate(card_).raw_resize_(
          host_.sparse_dim(), host_.dense_dim(), host_.sizes());
      coordinate(card_).set_indices_and_values_unsafe(parts[0], parts[1]);
      return;
    }
    compressed(card_).set_layout(host_.layout());
    compressed(card_).set_member_tensors(
        parts[0], parts[1], parts[2], host_.sizes());
  }

  Tensor card_;
  Tensor host_;
  std::vector<Tensor> given_;
};

// One call of an operator.
class Call {
 public:
  Call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
      : op_(op), stack_(stack), device_(find_device()) {}

  void run() {
    const c10::OptionalDeviceGuard guard(device_);
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto& arguments = op_.schema().arguments();
    for (size_t i = 0; i < arguments.size(); i++) {
      c10::IValue& value = torch::jit::peek(*stack_, i, arguments.size());
      if (value.isDevice())
        value = c10::Device(at::kCPU);
      else
        each_tensor(value, [&](const Tensor& t) {
          return to_cpu(t, arguments[i]);
        });
    }
    wait_for_arguments();
    refuse_overlap();
    op_.redispatchBoxed(c10::DispatchKeySet(key_), stack_);
    for (size_t i : written_)
      moved_[i].bring_back();
    const size_t returns = op_.schema().returns().size();
    for (size_t i = 0; i < returns; i++)
      each_tensor(
          torch::jit::peek(*stack_, i, returns),
          [&](const Tensor& t) { return to_card(t); });
  }

 private:
  static bool is_written(const c10::Argument& argument) {
    return argument.alias_info() && argument.alias_info()->isWrite();
  }

  // Core computes mv() by addmv_() on an empty tensor.
  bool adds_to_none(const c10::Argument& argument) const {
    const auto& schema = op_.schema();
    if (schema.name() != "aten::addmv_" || !is_written(argument))
      return false;
    const auto beta = schema.argumentIndexWithName("beta");
    return beta &&
        torch::jit::peek(*stack_, *beta, schema.arguments().size()).toScalar().equal(0);
  }

  // Whether the operator overwrites the argument: out=, or what a random operator fills.
  bool overwrites(const c10::Argument& argument) const {
    static const std::set<std::string> fill{
        "aten::bernoulli_", "aten::cauchy_", "aten::exponential_", "aten::geometric_",
        "aten::log_normal_", "aten::normal_", "aten::random_", "aten::uniform_"};
    return argument.is_out() || argument.name() == "noise" || adds_to_none(argument) ||
        (is_written(argument) && fill.count(op_.schema().name()));
  }

  // Whether the operator never reads out=. True if core derives the form without out=
  // from this form: the derived form passes uninitialized memory as out=.
  bool reads_no_results() {
    if (!reads_no_results_) {
      const auto form = c10::Dispatcher::singleton().findSchema({op_.operator_name().name, ""});
      reads_no_results_ = form &&
          form->hasKernelForDispatchKey(
              c10::DispatchKey::CompositeExplicitAutogradNonFunctional);
    }
    // The rule holds only for kernels of dense tensors.
    return *reads_no_results_ && key_ == c10::DispatchKey::CPU;
  }

  template <class F>
  static void each_tensor(c10::IValue& value, F f) {
    if (value.isTensor()) {
      value = f(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& t : value.toTensorVector())
        list.push_back(f(t));
      value = c10::IValue(list);
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (const std::optional<Tensor>& t : value.toOptionalTensorVector())
        list.push_back(t.has_value() ? std::optional<Tensor>(f(*t)) : std::nullopt);
      value = c10::IValue(list);
    }
  }

  // The device that the call names, else the device of the first tensor on a card. The
  // first tensor of all may be a number on the CPU.
  c10::Device find_device() {
    std::optional<c10::Device> named, found;
    const size_t arguments = op_.schema().arguments().size();
    for (size_t i = 0; i < arguments; i++) {
      c10::IValue& value = torch::jit::peek(*stack_, i, arguments);
      if (value.isDevice())
        named = value.toDevice();
      else
        each_tensor(value, [&](const Tensor& t) {
          if (!found && t.defined() && t.is_privateuseone())
            found = t.device();
          return t;
        });
    }
    return named       ? *named
        : found        ? *found
                       : torch_device(current_device());
  }

  void raise_key(const Tensor& t) {
    if (!is_sparse(t))
      return;
    if (!is_coordinate(t))
      key_ = c10::DispatchKey::SparseCsrCPU;
    else if (key_ == c10::DispatchKey::CPU)
      key_ = c10::DispatchKey::SparseCPU;
  }

  Tensor to_cpu(const Tensor& t, const c10::Argument& argument) {
    raise_key(t);
    if (!t.defined() || t.is_cpu())
      return t;
    size_t i = 0;
    while (i < moved_.size() && !moved_[i].card().is_same(t))
      i++;
    if (i == moved_.size()) {
      const bool read = !argument.is_out() || is_sparse(t) || !reads_no_results();
      if (read)
        resets_.try_emplace(
            t.get_device(), current_stream_state(t.get_device()).resets);
      if (read && overwrites(argument))
        for (const Tensor& part : is_sparse(t) ? parts_of(t) : std::vector<Tensor>{t})
          allow_unwritten(*part.storage().unsafeGetStorageImpl());
      moved_.emplace_back(t, read);
    }
    if (is_written(argument))
      written_.push_back(i);
    return moved_[i].host();
  }

  // Core's in-place kernels refuse operands that overlap. Check the overlap here: on the
  // CPU each operand has memory of its own.
  void refuse_overlap() const {
    const auto& arguments = op_.schema().arguments();
    if (written_.size() != 1 || !is_written(arguments[0]))
      return;
    const Tensor& self = moved_[written_[0]].card();
    for (const Moved& m : moved_)
      if (!is_sparse(self) && !is_sparse(m.card()))
        at::assert_no_partial_overlap(self, m.card());
  }

  void wait_for_arguments() {
    for (const auto& [card, resets] : resets_) {
      StreamState& s = current_stream_state(card);
      const uint64_t last = s.last();
      wait_interruptibly(s, last);
      wait_read(s, {last, resets});
    }
  }

  Tensor to_card(const Tensor& t) const {
    for (const Moved& m : moved_)
      if (t.defined() && m.host().is_same(t))
        return m.card();
    return move(t, device_);
  }

  const c10::OperatorHandle& op_;
  torch::jit::Stack* stack_;
  c10::Device device_;
  c10::DispatchKey key_ = c10::DispatchKey::CPU;
  std::vector<Moved> moved_;
  std::vector<size_t> written_;
  std::optional<bool> reads_no_results_;
  // The count of resets of each card's stream, taken before the copies of arguments.
  std::map<c10::DeviceIndex, uint64_t> resets_;
};

} // namespace

void call_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call(op, stack).run();
}

} // namespace openreg
