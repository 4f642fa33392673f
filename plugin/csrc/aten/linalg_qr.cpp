// SPDX-License-Identifier: BSD-3-Clause
// QR, by Householder reflections in compact form.
#include "aten/linalg.h"
#include "aten/structured.h"

#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/linalg_qr_meta.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace openreg {

namespace {

using at::Tensor;

// The first columns of I - V T V^T.
Tensor make_q(const Tensor& v, const Tensor& t, int64_t count) {
  const int64_t batch = v.size(0), m = v.size(1);
  const Tensor q = at::eye(m, count, v.options()).expand({batch, m, count}).contiguous();
  q.baddbmm_(v, t.bmm(v.narrow(1, 0, count).mT()), 1, -1);
  return q;
}

void write_r(const Tensor& work, const Tensor& r) {
  const Tensor upper = rows(work, 0, r.size(-2)).triu();
  r.copy_(upper.view(r.sizes()));
}

struct Qr : OfLapack {
  template <class Op>
  void operator()(OpId id, Op& op, const Tensor& a, c10::string_view mode) const {
    const Tensor &q = op.maybe_get_output(0), &r = op.maybe_get_output(1);
    const bool wants_q = std::get<0>(at::native::_parse_qr_mode(mode));
    const int64_t m = a.size(-2), n = a.size(-1), k = std::min(m, n);
    if (a.numel() == 0) { // complete mode still has a Q
      if (q.numel() != 0) {
        q.copy_(at::eye(m, q.size(-1), q.options()).expand_as(q));
      }
      return;
    }
    // Products would come in its type.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
    const Tensor work = batch_copy(a), left = columns(work, 0, k);
    const Tensor t = factor_qr(id, left), v = reflectors(left);
    if (k < n) {
      const Tensor right = columns(work, k, n);
      right.baddbmm_(v, t.mT().bmm(v.mT().bmm(right)), 1, -1);
    }
    write_r(work, r);
    if (wants_q) {
      q.copy_(make_q(v, t, q.size(-1)).view(q.sizes()));
    }
  }
};

} // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  add_op<at::meta::structured_linalg_qr, 2>(
      m, NamesWithoutInplace{"linalg_qr", "linalg_qr.out"}, Qr());
}

} // namespace openreg
