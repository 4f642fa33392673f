// SPDX-License-Identifier: MIT
// Given: the headers of the backend (plugin/csrc) that the C++ labs use.
//
//   runtime/launch.h   Packet, launch(), op_id(), card_dtype()
//   aten/program.h     Program: a VECTOR program, written as a formula
//   runtime/stream.h   StreamState, current_stream_state(), reached(), settle()
//   runtime/device.h   device(), current_device()
#pragma once

#include "torch.hpp"

#include "aten/program.h"
#include "runtime/device.h"
#include "runtime/launch.h"
#include "runtime/stream.h"
