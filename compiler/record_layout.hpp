// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace quarry::compiler {

/// The bytes at the start of each record that belong to the runtime (mpi::record_header).
inline constexpr std::uint64_t record_header_bytes = 16;

}  // namespace quarry::compiler
