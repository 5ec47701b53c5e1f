// SPDX-License-Identifier: Apache-2.0
// Coalesced allocation over any heap, and interleaved arrays, for a program with its own kernels.
#pragma once

#include "quarry/device/coalescing/coalescing_heap.hpp"
#include "quarry/device/coalescing/dynamic_coalescing.hpp"
#include "quarry/device/coalescing/lane_array.hpp"
#include "quarry/device/coalescing/lane_span.hpp"
#include "quarry/device/coalescing/packed_coalescing.hpp"
#include "quarry/device/coalescing/reserved_coalescing.hpp"
#include "quarry/device/coalescing/static_coalescing.hpp"
