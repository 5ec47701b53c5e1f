// SPDX-License-Identifier: Apache-2.0
// Errors of OpenCL's C++ bindings as the library's own.
#pragma once

#include "quarry/opencl/program.hpp"

namespace quarry::inline QUARRY_ABI::opencl {

[[noreturn]] inline void fail(cl::Error const& error) {
  throw opencl_error{std::string{error.what()} + " returned " + std::to_string(error.err())};
}

/// Calls `call`, and throws opencl_error for what OpenCL's C++ bindings throw.
template <class Call>
auto checked(Call const& call) {
  try {
    return call();
  } catch (cl::Error const& error) {
    fail(error);
  }
}

}  // namespace quarry::inline QUARRY_ABI::opencl
