// SPDX-License-Identifier: Apache-2.0
// The state of the C library for each rank, its variables, and the end of a program.
#include "c_library.hpp"

#include "c_files.hpp"
#include "checks.hpp"
#include "errors.hpp"
#include "format.hpp"
#include "output.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Writes a line about the calling rank to the standard error stream.
QUARRY_SLOW void report(rank_state& rank, char const* first, char const* second = "",
                        char const* third = "", unsigned line = 0, char const* function = nullptr) {
  char buffer[400];
  text_buffer text{buffer, sizeof(buffer)};
  text.add("quarry-mpirun: rank ");
  text.add_number(rank.rank);
  text.add(": ");
  if (function != nullptr) {
    text.add(first);
    text.add(":");
    text.add_number(line);
    text.add(": ");
    text.add(function);
    text.add(": ");
  } else {
    text.add(first);
  }
  text.add(second);
  text.add(third);
  write_text(rank, 2, buffer, text.length());
}

}  // namespace

QUARRY_SLOW c_library& own_library() {
  rank_state& rank = self();
  if (rank.library != nullptr) return *rank.library;
  auto* const fresh = static_cast<c_library*>(allocate(sizeof(c_library)));
  if (fresh == nullptr) {
    report(rank, "the heap has no memory; run with a larger --heap\n");
    abort_program(1);
  }
  std::memset(fresh, 0, sizeof(*fresh));
  fresh->options.index = 1;
  fresh->options.prints_errors = 1;
  fresh->options.bad_option = '?';
  fresh->random48_factor = 0x5deece66d;
  fresh->random48_term = 0xb;
  fresh->environment = the_world().environment;
  seed_random(fresh->random, 1);
  rank.library = fresh;
  return *fresh;
}

QUARRY_SLOW void leave_library(rank_state& rank) {
  if (rank.library == nullptr) return;
  // a function may register another one
  while (rank.library->exit_functions != 0) {
    std::uint32_t const last = --rank.library->exit_functions;
    rank.library->at_exit[last]();
  }
  flush_files(rank);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD void quarry_c_exit(int code) {
  leave_library(self());
  if (self().checked != nullptr) report_end(self());
  end_rank(code & 0xff);
}
QUARRY_HD void quarry_c__exit(int code) { end_rank(code & 0xff); }
QUARRY_HD void quarry_c__Exit(int code) { end_rank(code & 0xff); }
QUARRY_HD void quarry_c_abort() {
  report(self(), "called abort\n");
  abort_program(134);
}
QUARRY_HD int quarry_c_atexit(void (*function)()) {
  c_library& library = own_library();
  constexpr std::uint32_t most = sizeof(library.at_exit) / sizeof(library.at_exit[0]);
  if (library.exit_functions == most) return -1;
  library.at_exit[library.exit_functions++] = function;
  return 0;
}
QUARRY_HD void quarry_c___assert_fail(char const* condition, char const* file, unsigned line,
                                      char const* function) {
  rank_state& rank = self();
  report(rank, file, "Assertion `", condition, line, function != nullptr ? function : "?");
  write_text(rank, 2, "' failed.\n", 10);
  abort_program(134);
}

// The variables of the C library: the compiler replaces each use by a call (c_variables.cpp).
QUARRY_HD int* quarry_c___errno_location() { return &self().error_number; }
QUARRY_HD char** quarry_c_address_of_optarg() { return &own_library().options.argument; }
QUARRY_HD int* quarry_c_address_of_optind() { return &own_library().options.index; }
QUARRY_HD int* quarry_c_address_of_opterr() { return &own_library().options.prints_errors; }
QUARRY_HD int* quarry_c_address_of_optopt() { return &own_library().options.bad_option; }
QUARRY_HD char*** quarry_c_address_of_environ() { return &own_library().environment; }
QUARRY_HD char*** quarry_c_address_of___environ() { return &own_library().environment; }
QUARRY_HD c_file** quarry_c_address_of_stdin() { return &standard_file(own_library(), 0); }
QUARRY_HD c_file** quarry_c_address_of_stdout() { return &standard_file(own_library(), 1); }
QUARRY_HD c_file** quarry_c_address_of_stderr() { return &standard_file(own_library(), 2); }

QUARRY_HD char* quarry_c_getenv(char const* name) {
  char** const all = own_library().environment;
  for (int i = 0; all != nullptr && all[i] != nullptr; ++i) {
    char* text = all[i];
    char const* wanted = name;
    while (*wanted != 0 && *text == *wanted) ++text, ++wanted;
    if (*wanted == 0 && *text == '=') return text + 1;
  }
  return nullptr;
}

}  // extern "C"
