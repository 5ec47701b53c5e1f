// SPDX-License-Identifier: Apache-2.0
// Coalesced allocation and interleaved arrays, for a program with its own kernels.
#pragma once

#include "quarry/device/coalescing/coalescing_heap.hpp"
#include "quarry/device/coalescing/lane_array.hpp"
