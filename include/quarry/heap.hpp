// SPDX-License-Identifier: Apache-2.0
// Heaps for a program with its own kernels: the owner, its refs, faults, and `replace_malloc`.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/errors.hpp"
#include "quarry/device/clock_alignment.hpp"
#include "quarry/device/heap.hpp"
#include "quarry/device/recorded_heap.hpp"
#include "quarry/device/replace_malloc.hpp"
