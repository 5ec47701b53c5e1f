// SPDX-License-Identifier: Apache-2.0
// All of the library quarry::quarry that needs only a C++ compiler. Programs that link
// quarry::trace also include quarry/trace.hpp or quarry/heap_trace.hpp. A program that contains
// only kernels compiles faster if it includes quarry/heap.hpp, coalescing.hpp and containers.hpp
// instead.
#pragma once

#include "quarry/coalescing.hpp"
#include "quarry/containers.hpp"
#include "quarry/heap.hpp"
#include "quarry/host.hpp"
#include "quarry/simt/launch.hpp"
#include "quarry/version.hpp"
