// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Copies bytes that do not overlap, in the fastest way that the memory, the size and the addresses
/// allow: by the copy engine, by the engine into shared memory and from there by the thread, or by
/// the thread alone. Does not wait for other ranks.
QUARRY_SLOW void copy_bytes(void* to, void const* from, bytes size);

/// Copies bytes that may overlap.
QUARRY_SLOW void move_bytes(void* to, void const* from, bytes size);

/// Writes the same byte everywhere.
QUARRY_SLOW void fill_bytes(void* to, unsigned char value, bytes size);

}  // namespace quarry::inline QUARRY_ABI::mpi
