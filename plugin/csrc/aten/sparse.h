// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/library.h>

namespace openreg {

// Registers the products of sparse matrices with dense ones; names them once.
void add_sparse_products(torch::Library& m, bool first);
// What the compressed layouts have alone.
void add_sampled_products(torch::Library& m);

} // namespace openreg
