// SPDX-License-Identifier: Apache-2.0
// The parts of paths, as glibc finds them, and numbers in the byte order of networks.
#include "c_library.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The length without slashes at the end.
[[nodiscard]] QUARRY_HD std::uint64_t length_of_names(char const* path) {
  std::uint64_t length = 0;
  for (std::uint64_t i = 0; path[i] != 0; ++i)
    if (path[i] != '/') length = i + 1;
  return length;
}

[[nodiscard]] QUARRY_HD char* this_folder() { return const_cast<char*>("."); }

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

/// POSIX's basename, which <libgen.h> calls so. May cut slashes at the end.
QUARRY_HD char* quarry_c___xpg_basename(char* path) {
  if (path == nullptr || *path == 0) return this_folder();
  std::uint64_t const end = length_of_names(path);
  if (end == 0) {  // slashes alone: the last of them
    while (path[1] != 0) ++path;
    return path;
  }
  if (path[end] != 0) path[end] = 0;
  std::uint64_t begin = end;
  while (begin != 0 && path[begin - 1] != '/') --begin;
  return path + begin;
}
/// GNU's basename, of <string.h>: what is behind the last slash.
QUARRY_HD char* quarry_c_basename(char const* path) {
  char const* name = path;
  for (; *path != 0; ++path)
    if (*path == '/') name = path + 1;
  return const_cast<char*>(name);
}
QUARRY_HD char* quarry_c_dirname(char* path) {
  if (path == nullptr || *path == 0) return this_folder();
  std::uint64_t end = length_of_names(path);
  if (end == 0) {
    while (path[end] != 0) ++end;
  } else {
    while (end != 0 && path[end - 1] != '/') --end;
    if (end == 0) return this_folder();
  }
  std::uint64_t kept = end;
  while (kept != 0 && path[kept - 1] == '/') --kept;
  if (kept == 0) kept = end == 2 ? 2 : 1;  // two slashes may be another root than one
  path[kept] = 0;
  return path;
}

QUARRY_HD std::uint32_t quarry_c_htonl(std::uint32_t number) {
  return number << 24 | (number << 8 & 0xff0000) | (number >> 8 & 0xff00) | number >> 24;
}
QUARRY_HD std::uint32_t quarry_c_ntohl(std::uint32_t number) { return quarry_c_htonl(number); }
QUARRY_HD std::uint16_t quarry_c_htons(std::uint16_t number) {
  return static_cast<std::uint16_t>(number << 8 | number >> 8);
}
QUARRY_HD std::uint16_t quarry_c_ntohs(std::uint16_t number) { return quarry_c_htons(number); }

}  // extern "C"
