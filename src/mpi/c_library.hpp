// SPDX-License-Identifier: Apache-2.0
// What the C library keeps for each rank: the state behind rand, errno, getopt, stdin and the like.
#pragma once

#include "progress.hpp"

#include "c_layouts.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

struct c_file;

/// The sequence of glibc's random(): an additive feedback generator over 31 words.
struct random_sequence {
  std::uint32_t words[31];
  std::uint32_t front, back;
};

/// The state of getopt between calls. The first four fields are the program's variables.
struct option_state {
  char* argument;
  int index;
  int prints_errors;
  int bad_option;
  char* next_letter;  // the rest of a word of short options; null: none
  int first_operand;  // the operands that were skipped are argv[first_operand, last_operand)
  int last_operand;
};

struct c_library {
  random_sequence random;
  std::uint64_t random48;  // of drand48
  std::uint64_t random48_factor;
  std::uint32_t random48_term;
  option_state options;
  char* next_token;  // of strtok
  c_file* standard[3];
  c_file* files;  // all open files, the newest first
  void (*at_exit[32])();
  std::uint32_t exit_functions;
  c_tm broken_time;              // of localtime and gmtime
  char time_text[32];            // of ctime and asctime
  char message[48];              // of strerror
  std::uint64_t clock_start_ns;  // of clock
  char** environment;            // the variable `environ`
};

/// The calling rank's state; the first call creates it. Ends the program if the heap has no memory.
[[nodiscard]] QUARRY_SLOW c_library& own_library();

/// Starts the sequence as srandom(seed) does.
QUARRY_SLOW void seed_random(random_sequence& sequence, std::uint32_t seed);

/// Runs the functions that the rank gave to atexit, and writes what its files have buffered.
QUARRY_SLOW void leave_library(rank_state& rank);

}  // namespace quarry::inline QUARRY_ABI::mpi
