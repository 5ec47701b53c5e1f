// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"

#include <unistd.h>

namespace quarry::inline QUARRY_ABI {

/// Of the operating system.
inline bytes page_size() {
  static bytes const size = static_cast<bytes>(sysconf(_SC_PAGESIZE));
  return size;
}
/// At least one.
inline bytes whole_pages(bytes size) {
  return size == 0 ? page_size() : (size + page_size() - 1) & ~(page_size() - 1);
}

}  // namespace quarry::inline QUARRY_ABI
