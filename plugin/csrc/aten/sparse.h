// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <torch/library.h>

namespace openreg {

// Registers the products of sparse matrices with dense ones. first: also sets their
// names, which must happen only once.
void add_sparse_products(torch::Library& m, bool first);
// Registers the products that only compressed layouts have.
void add_sampled_products(torch::Library& m);

} // namespace openreg
