// SPDX-License-Identifier: MIT
// Given: torch's headers. They are compiled once, and not again with each of your files.
#pragma once

#include <ATen/ATen.h>
#include <ATen/TensorIterator.h>
#include <torch/library.h>
