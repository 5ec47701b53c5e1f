// SPDX-License-Identifier: Apache-2.0
// scanf and its relatives.
#include "c_files.hpp"
#include "c_scan.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

class file_source {
 public:
  QUARRY_HD explicit file_source(c_file& file) : rank_{self()}, file_{file} {}
  QUARRY_HD int get() { return read_char(rank_, file_); }
  QUARRY_HD void unget(int c) { unread_char(file_, c); }

 private:
  rank_state& rank_;
  c_file& file_;
};

QUARRY_SLOW int scan_text(char const* text, char const* format, arguments& values) {
  string_source source{text};
  return scanner<string_source>{source, values}.scan(format);
}
QUARRY_SLOW int scan_file(c_file* file, char const* format, arguments& values) {
  file_source source{*file};
  return scanner<file_source>{source, values}.scan(format);
}
QUARRY_HD c_file* standard_input() { return standard_file(own_library(), 0); }

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

// glibc's headers call scanf by the names of C99 and C23.
#define QUARRY_SCANS(name, call, ...)                   \
  QUARRY_VARIADIC(name, call, __VA_ARGS__)              \
  QUARRY_VARIADIC(__isoc99_##name, call, __VA_ARGS__)   \
  QUARRY_VARIADIC(__isoc23_##name, call, __VA_ARGS__)   \
  QUARRY_WITH_LIST(v##name, call, __VA_ARGS__)          \
  QUARRY_WITH_LIST(__isoc99_v##name, call, __VA_ARGS__) \
  QUARRY_WITH_LIST(__isoc23_v##name, call, __VA_ARGS__)
QUARRY_SCANS(scanf, scan_file(standard_input(), format, values), char const* format)
QUARRY_SCANS(fscanf, scan_file(file, format, values), c_file* file, char const* format)
QUARRY_SCANS(sscanf, scan_text(text, format, values), char const* text, char const* format)
#undef QUARRY_SCANS

}  // extern "C"
