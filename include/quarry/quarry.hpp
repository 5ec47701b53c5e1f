// SPDX-License-Identifier: Apache-2.0
// Everything that a program with its own kernels needs.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/device/heap.hpp"
