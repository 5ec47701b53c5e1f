// SPDX-License-Identifier: Apache-2.0
// Text on its way from ranks to the host.
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A part of a rank's output, in memory that the host and the GPU share.
struct output_record {
  static constexpr std::uint32_t text_bytes = 240;
  std::uint32_t ticket;  // ticket + 1 of the record that the place holds; atomic
  std::uint32_t rank;
  std::uint16_t length;
  std::uint8_t stream;  // 1: standard output; 2: standard error; 3: flushes the output
  char text[text_bytes];
};

/// A ring of records. A rank draws a ticket and waits until the host has read the record that had
/// the place before. Tickets wrap after 2^32; the number of places divides 2^32.
struct output_ring {
  static constexpr std::uint32_t places = 1u << 14;
  std::uint32_t next;       // atomic; device memory
  std::uint32_t seen;       // atomic: `consumed` as a rank last saw it; device memory
  std::uint32_t* consumed;  // how many records the host has read; host memory
  output_record* records;   // host memory
};

/// Writes text of the calling rank to stream 1 or 2. Ends the rank afterwards if the program was
/// aborted.
QUARRY_SLOW void write_text(rank_state& rank, std::uint8_t stream, char const* text, bytes length);

/// Lets the launcher write the rank's output up to here, also if its last line has no end.
QUARRY_SLOW void flush_output(rank_state& rank);

}  // namespace quarry::inline QUARRY_ABI::mpi

/// CPU: the launcher writes the text (launcher.cpp).
extern "C" void quarry_mpi_write(std::uint32_t rank, std::uint8_t stream, char const* text,
                                 std::uint64_t length);
