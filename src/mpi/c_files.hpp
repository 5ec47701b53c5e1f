// SPDX-License-Identifier: Apache-2.0
// Buffered files of one rank, over the host's files.
#pragma once

#include "c_library.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// FILE. The buffer holds bytes that were read ahead, or bytes that are not written yet.
struct c_file {
  static constexpr std::uint32_t room = 4096;
  static constexpr std::uint32_t reserve = 16;  // before the bytes that were read: for ungetc

  c_file* next;
  int handle;  // of the host
  bool can_read, can_write;
  bool is_writing;
  bool is_at_end, has_failed;
  std::uint32_t begin, end;  // reading: [begin, end) is not consumed; writing: [0, end) waits
  char* buffer;              // reserve + room bytes; null before the first use
};

/// The rank's standard file 0, 1 or 2.
[[nodiscard]] QUARRY_SLOW c_file*& standard_file(c_library& library, int number);

/// The next byte, or -1 at the end and on failure.
[[nodiscard]] QUARRY_SLOW int read_char(rank_state& rank, c_file& file);

/// Makes `c` the next byte to read. Returns false if there is no room.
QUARRY_SLOW bool unread_char(c_file& file, int c);

/// Appends to the file or to the rank's output. Returns the number of bytes.
QUARRY_SLOW bytes write_bytes(rank_state& rank, c_file& file, char const* data, bytes length);

/// Writes what is buffered. Returns false on failure.
QUARRY_SLOW bool flush_file(rank_state& rank, c_file& file);

/// Flushes all open files of the rank.
QUARRY_SLOW void flush_files(rank_state& rank);

/// Forgets what was read ahead; the host's offset becomes the file's.
QUARRY_SLOW void drop_read_ahead(rank_state& rank, c_file& file);

}  // namespace quarry::inline QUARRY_ABI::mpi
