// SPDX-License-Identifier: Apache-2.0
// Memory orders that a test can take away.
//
// An order on which correctness rests has a label in its type's comment. A build with QUARRY_MUTANT set to that label
// relaxes it, and the tests of that build must fail; if they do not, either the order is not needed or the tests are weak.
#pragma once

#include "quarry/simt/atomic.hpp"

#include <string_view>

namespace quarry {

#ifdef QUARRY_MUTANT
inline constexpr std::string_view mutant = QUARRY_MUTANT;
#else
inline constexpr std::string_view mutant = "";
#endif

/// `order`, or relaxed in the build that checks whether anybody would notice.
template <class Label>
[[nodiscard]] QUARRY_HD constexpr simt::memory_order labelled(simt::memory_order order) {
  return Label::name == mutant ? simt::relaxed : order;  // (mutant)
}

#define QUARRY_ORDER_LABEL(type, text)               \
  struct type {                                      \
    static constexpr std::string_view name = text;   \
  }

}  // namespace quarry
