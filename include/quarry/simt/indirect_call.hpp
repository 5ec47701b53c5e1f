// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/simt/host_lane.hpp"

#include <type_traits>
#include <utility>

namespace quarry::inline QUARRY_ABI::simt {

#ifndef __CUDA_ARCH__
/// Calls `function`. The lanes of the warp that call it together also leave it together; see
/// `host_lane::returns_together`.
template <class Result, class... Parameters>
Result call_and_meet(host_lane& lane, Result (*function)(Parameters...),
                     std::type_identity_t<Parameters>... arguments) {
  std::uint64_t const call = lane.call_together(reinterpret_cast<void const*>(function));
  if constexpr (std::is_void_v<Result>) {
    function(std::forward<Parameters>(arguments)...);
    lane.return_together(call);
  } else {
    Result const result = function(std::forward<Parameters>(arguments)...);
    lane.return_together(call);
    return result;
  }
}
#endif

/// Calls `function` so that its registers do not add to the caller's.
///
/// CUDA's assembler gives the functions of a call chain separate registers. Therefore a slow path,
/// although it rarely runs, costs every kernel that may enter it the registers of all functions of
/// the chain. A function whose address is taken must follow the calling convention: it saves the
/// registers that it needs, and the kernel pays only for the largest function. The call itself
/// stays direct. So the assembler knows the maximum depth of the stack, and the driver gives a
/// kernel the stack that its own locals and this chain need. This requires that no function calls
/// itself, directly or through other functions. Rejected: __noinline__ alone (208 registers for a
/// kernel with one malloc), and -maxrregcount (a header cannot set it). Calls by address are
/// rejected, too: the depth of the stack is unknown, so a kernel overruns it.
template <class Result, class... Parameters>
QUARRY_HD Result indirect_call(Result (*function)(Parameters...),
                               std::type_identity_t<Parameters>... arguments) {
#ifdef __CUDA_ARCH__
  asm volatile("" ::"l"(function));  // takes the address
#else
  if (current_lane != nullptr && current_lane->returns_together())
    return call_and_meet(*current_lane, function, std::forward<Parameters>(arguments)...);
#endif
  return function(std::forward<Parameters>(arguments)...);
}

/// Calls a lambda without arguments. The lambda is passed by value.
template <class Lambda>
QUARRY_SLOW std::invoke_result_t<Lambda&> call_lambda(Lambda lambda) {
  return lambda();
}

/// Calls a lambda in the same way, so that the code of a slow path stands in the function that uses
/// it.
///
/// The lambda must capture by value, also the object (`[tree = *this]`). A captured reference or
/// `this` would force the caller's variables from registers into its stack frame.
template <class Lambda>
  requires(std::is_class_v<Lambda>)
QUARRY_HD std::invoke_result_t<Lambda&> indirect_call(Lambda const& lambda) {
  return indirect_call(&call_lambda<Lambda>, lambda);
}

}  // namespace quarry::inline QUARRY_ABI::simt
