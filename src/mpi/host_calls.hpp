// SPDX-License-Identifier: Apache-2.0
// Calls of the host's operating system by ranks, for files and the time zone.
//
// On the CPU a rank makes the call itself: the world has no ring. On the GPU it writes the request
// to a ring in memory that the host and the GPU share, and waits until the launcher has answered
// (host_call_server.hpp).
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

enum class host_function : std::uint32_t {
  open,         // text: the path; handle: flags of open(2). Result: a handle
  close,        // handle
  read,         // handle, length; the data is the answer's text
  write,        // handle; text
  seek,         // handle, offset, origin. Result: the new offset
  remove,       // text: the path
  rename,       // text: the old path, 0, the new path
  make_folder,  // text: the path; handle: the mode
  access,       // text: the path; handle: the mode
  time_offset   // offset: a time. Result: the local time less UTC, in seconds
};

struct host_request {
  host_function function;
  int handle = 0;
  std::int64_t offset = 0;
  int origin = 0;
  char* text = nullptr;  // the data to send, or room for the answer
  std::uint32_t length = 0;
};

/// The result of a call; -1 and a value of errno if it failed.
struct host_answer {
  static constexpr int no_input_yet = -1;  // an `error`: the rank must ask again
  std::int64_t result;
  int error;
};

/// The most bytes that one request carries.
inline constexpr std::uint32_t host_call_bytes = 4096;

/// Asks the host. `request.length` is at most `host_call_bytes`. Sets errno on failure.
[[nodiscard]] QUARRY_SLOW host_answer ask_host(rank_state& rank, host_request const& request);

/// Lets a rank that waits for the host or for a time serve its messages. The rank does not count as
/// one that waits for other ranks.
QUARRY_HD inline void wait_briefly(rank_state& rank) {
  constexpr std::uint32_t polls_without_report = 65;  // idle() shows other waits to the launcher
  progress(rank);
  idle(rank, {}, ~std::uint64_t{0}, polls_without_report);
}

/// Host: whether the call would not wait for input.
[[nodiscard]] bool is_ready(host_request const& request);

/// Host: makes the call.
[[nodiscard]] host_answer perform(host_request const& request);

/// Host: writes all bytes, also to a file that does not block, such as a pipe that another program
/// has set so. Returns false on failure.
[[nodiscard]] bool write_all(int file, char const* data, bytes size);

/// A place in the ring.
struct alignas(16) host_call_record {
  /// Atomic. A rank with ticket t uses place t % places, in round r = t / places. 3r: the place is
  /// free for it; 3r + 1: it has posted its request; 3r + 2: the host has answered. The rank then
  /// stores 3(r + 1).
  std::uint64_t turn;
  host_request request;  // without `text`
  host_answer answer;
  alignas(16) char text[host_call_bytes];
};

/// The ring. The host answers requests in order of tickets.
struct host_call_ring {
  static constexpr std::uint64_t places = 512;
  std::uint64_t next;         // atomic; device memory
  host_call_record* records;  // host memory
};

}  // namespace quarry::inline QUARRY_ABI::mpi
