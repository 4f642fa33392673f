// SPDX-License-Identifier: BSD-3-Clause
#include "runtime/plan.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/checks.h"
#include "runtime/device_cache.h"
#include "runtime/format.h"
#include "runtime/gil.h"
#include "runtime/interrupt.h"
#include "runtime/memory_ops.h"
#include "runtime/peer_memory.h"
#include "runtime/submit.h"

namespace openreg {
namespace {

constexpr size_t kSlotWords = OPENREG_SLOT_SIZE / 8;

uint64_t address_of(const void* p) {
  return reinterpret_cast<uint64_t>(p);
}

} // namespace

// The memory of a tensor of the capture.
struct Plan::Range {
  uint64_t begin;
  uint64_t end;
  uint64_t base; // of the tensor: its first element
};

Plan::~Plan() {
  if (in_bad_fork())
    return; // the parent owns the memory
  abandon();
}

void Plan::begin(c10::DeviceIndex device) {
  check_fork();
  TORCH_CHECK(!pool_, "a plan captures only once; make another one");
  const DeviceScope scope(device);
  StreamState& s = current_stream_state(device);
  capture_ = begin_capture(s, new_pool_id());
  device_ = device;
  stream_ = &s;
  pool_ = capture_->pool;
  pool_->parks = true;
}

void Plan::abandon() {
  if (const auto capture = std::exchange(capture_, nullptr)) {
    try {
      end_capture(*capture);
    } catch (const c10::Error&) {
      // The caller runs the function without a plan.
    }
  }
  if (pool_)
    device_cache(device_).close_pool(*pool_);
  pool_ = nullptr;
}

void Plan::end(std::vector<at::Tensor> inputs, std::vector<at::Tensor> outputs) {
  TORCH_CHECK(capture_, "this plan captures nothing; call begin() first");
  const auto capture = std::exchange(capture_, nullptr);
  end_capture(*capture);
  TORCH_CHECK(capture->streams.size() == 1, "a plan has the packets of one stream");
  std::vector<Range> ranges;
  const auto layout = [](const at::Tensor& t) {
    return Layout{t.scalar_type(), t.sizes().vec(), t.strides().vec()};
  };
  const auto range = [](const at::Tensor& t) {
    const uint64_t begin = address_of(t.storage().data());
    return Range{begin, begin + t.storage().nbytes(), begin};
  };
  for (const at::Tensor& t : inputs) {
    // The packets have the address of a packed matrix, or of its plain copy.
    usable_ &= !has_format(t);
    inputs_.push_back(layout(t));
    ranges.push_back(range(t));
    ranges.back().base = address_of(t.const_data_ptr());
  }
  std::vector<c10::StorageImpl*> storages;
  for (const at::Tensor& t : outputs) {
    c10::StorageImpl* storage = t.storage().unsafeGetStorageImpl();
    auto found = std::find(storages.begin(), storages.end(), storage);
    if (found == storages.end()) {
      found = storages.insert(found, storage);
      memory_.push_back(storage->nbytes());
      ranges.push_back(range(t));
    }
    outputs_.push_back(
        {layout(t), static_cast<size_t>(found - storages.begin()), t.storage_offset()});
    Output& o = outputs_.back();
    o.alone = t.is_non_overlapping_and_dense() && t.nbytes() == storage->nbytes();
    for (Output& other : outputs_)
      if (&other != &o && other.memory == o.memory)
        other.alone = o.alone = false;
  }
  find_places(*capture, ranges);
  slots_ = std::move(capture->slots);
  generators_ = std::move(capture->generators);
}

void Plan::find_places(const Capture& capture, const std::vector<Range>& ranges) {
  const auto* words = reinterpret_cast<const uint64_t*>(capture.slots.data());
  for (size_t at = 0; at < capture.slots.size(); at += packets_.back()) {
    const uint64_t* packet = words + at * kSlotWords;
    openreg_packet header;
    openreg_op op;
    std::memcpy(&header, packet, sizeof(header));
    std::memcpy(&op, packet + sizeof(header) / 8, sizeof(op));
    packets_.push_back(header.slots);
    for (unsigned i = 0; i < op.nops; i++) {
      const size_t word = openreg_packet_bytes(op.ndim, i, 0, 0) / 8;
      const uint64_t address = packet[word];
      const auto range = std::find_if(ranges.begin(), ranges.end(), [&](const Range& r) {
        return r.begin <= address && address < r.end;
      });
      if (range != ranges.end())
        places_.push_back(
            {at * kSlotWords + word,
             static_cast<size_t>(range - ranges.begin()),
             address - range->base});
      else
        device_cache(device_).watch(address, *pool_, watch_);
    }
  }
}

bool Plan::takes(c10::ArrayRef<at::Tensor> inputs) const {
  if (!usable_ || watch_->lost || &current_stream_state(device_) != stream_ || stream_->capture ||
      inputs.size() != inputs_.size())
    return false;
  for (size_t i = 0; i < inputs.size(); i++) {
    const Layout& l = inputs_[i];
    const at::Tensor& t = inputs[i];
    if (!t.is_privateuseone() || has_format(t) || t.get_device() != device_ || t.scalar_type() != l.type ||
        t.sizes() != l.size || t.strides() != l.stride)
      return false;
  }
  return true;
}

void Plan::draw_numbers() {
  auto* words = reinterpret_cast<uint64_t*>(slots_.data());
  for (CapturedGenerator& g : generators_) {
    const PhiloxState next = draw(device_, g.state, g.increment);
    for (const int64_t key : g.keys)
      words[key] += next.seed - g.begin.seed;
    for (const int64_t counter : g.counters)
      words[counter] += next.offset - g.begin.offset;
    g.begin = next;
  }
}

void Plan::submit() {
  const Slot* at = slots_.data();
  for (const uint8_t n : packets_) {
    check_operands(at);
    at += n;
  }
  at = slots_.data();
  for (const uint8_t n : packets_) {
    try {
      std::lock_guard<std::mutex> lock(stream_->mutex);
      submit_bytes_locked(*stream_, at, n, /*give_up=*/true);
    } catch (const LongWait& wait) {
      wait_interruptibly(wait.stream, wait.seq);
      std::lock_guard<std::mutex> lock(stream_->mutex);
      submit_bytes_locked(*stream_, at, n);
    }
    at += n;
  }
}

std::vector<at::Tensor> Plan::run(c10::ArrayRef<at::Tensor> inputs) {
  static const OpId op = op_id("openreg::compiled_plan");
  const LaunchStack stack;
  const c10::Device device = torch_device(device_);
  std::vector<at::Tensor> memory;
  std::vector<uint64_t> bases;
  bases.reserve(inputs.size() + memory_.size());
  for (const at::Tensor& t : inputs)
    bases.push_back(address_of(t.const_data_ptr()));
  memory.resize(memory_.size());
  std::vector<at::Tensor> results;
  results.reserve(outputs_.size());
  for (const Output& o : outputs_) {
    at::Tensor& whole = memory[o.memory];
    if (o.alone) {
      whole = empty(
          o.layout.size, o.layout.stride, at::TensorOptions(device).dtype(o.layout.type));
      results.push_back(whole);
      continue;
    }
    if (!whole.defined())
      whole = empty(
          {static_cast<int64_t>(memory_[o.memory])},
          {},
          at::TensorOptions(device).dtype(at::kByte));
    at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(whole.storage()),
        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
        c10::scalarTypeToTypeMeta(o.layout.type));
    t.unsafeGetTensorImpl()->set_sizes_and_strides(
        o.layout.size, o.layout.stride, o.offset);
    results.push_back(std::move(t));
  }
  for (const at::Tensor& t : memory)
    bases.push_back(address_of(t.const_data_ptr()));
  const SleepyLock lock(mutex_);
  auto* words = reinterpret_cast<uint64_t*>(slots_.data());
  for (const Place& p : places_)
    words[p.word] = bases[p.tensor] + p.offset;
  draw_numbers();
  submit();
  count_op(op);
  return results;
}

} // namespace openreg
