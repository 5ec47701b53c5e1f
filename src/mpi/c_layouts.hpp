// SPDX-License-Identifier: Apache-2.0
// Types of the C library as glibc's headers for x86-64 declare them: programs are compiled against
// those headers, also for the GPU.
#pragma once

#include "quarry/core/config.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

struct c_tm {
  int second, minute, hour, day, month, year, week_day, year_day, is_summer;
  long offset;
  char const* zone;
};
struct c_timespec {
  long seconds, nanoseconds;
};
struct c_timeval {
  long seconds, microseconds;
};

/// fpos_t: 16 bytes, of which this library uses the first 8.
struct c_file_position {
  long offset;
  long unused;
};

/// `struct option` of getopt_long.
struct c_option {
  char const* name;
  int has_argument;
  int* flag;
  int value;
};

// Values of errno.
inline constexpr int error_no_entry = 2;
inline constexpr int error_bad_file = 9;
inline constexpr int error_no_memory = 12;
inline constexpr int error_invalid = 22;
inline constexpr int error_range = 34;
inline constexpr int error_name_too_long = 36;
inline constexpr int error_not_available = 38;

}  // namespace quarry::inline QUARRY_ABI::mpi
