// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"

namespace quarry::inline QUARRY_ABI {

/// Throws `resource_failed`. In a build without CUDA, every function that needs CUDA calls it.
[[noreturn]] inline void refuse_without_cuda(char const* user) {
  throw resource_failed{
      user, "Quarry was built without CUDA; use the CPU, or build Quarry with -DQUARRY_CUDA=ON"};
}

}  // namespace quarry::inline QUARRY_ABI
