// SPDX-License-Identifier: Apache-2.0
// All of Quarry that needs nothing but a C++ compiler. A program that compiles kernels alone is
// compiled faster with quarry/heap.hpp, coalescing.hpp and containers.hpp.
#pragma once

#include "quarry/coalescing.hpp"
#include "quarry/containers.hpp"
#include "quarry/heap.hpp"
#include "quarry/host.hpp"
#include "quarry/simt/launch.hpp"
#include "quarry/version.hpp"
