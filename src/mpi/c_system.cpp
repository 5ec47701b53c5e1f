// SPDX-License-Identifier: Apache-2.0
// What programs ask about the system that they run on. To a rank it is a computer with one
// processor.
#include "c_library.hpp"

#include "format.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// `struct rusage`: only the time in the program is known.
struct c_usage {
  c_timeval user, system;
  long counts[14];
};
/// `struct utsname`.
struct c_system_name {
  char system[65], node[65], release[65], version[65], machine[65], domain[65];
};

QUARRY_HD char const* device_name() { return the_world().is_gpu != 0 ? "gpu" : "cpu"; }

QUARRY_HD void set_name(char (&field)[65], char const* text) {
  text_buffer buffer{field, sizeof(field)};
  buffer.add(text);
  buffer.terminate();
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD long quarry_c_clock();

QUARRY_HD long quarry_c_sysconf(int name) {
  // the numbers of _SC_ names on Linux
  switch (name) {
    case 2:  // clock ticks in a second
      return 100;
    case 4:  // open files
      return 1024;
    case 30:  // bytes of a page
      return 4096;
    case 83:  // processors
    case 84:
      return 1;
    default:
      self().error_number = error_invalid;
      return -1;
  }
}
QUARRY_HD int quarry_c_getpagesize() { return 4096; }

/// Each rank is a process of its own to the program.
QUARRY_HD int quarry_c_getpid() { return static_cast<int>(self().rank + 1000); }
QUARRY_HD int quarry_c_getppid() { return 999; }
QUARRY_HD unsigned quarry_c_getuid() { return 1000; }

QUARRY_HD int quarry_c_gethostname(char* name, unsigned long size) {
  text_buffer text{name, size};
  text.add(device_name());
  text.terminate();
  return 0;
}
QUARRY_HD int quarry_c_uname(c_system_name* result) {
  set_name(result->system, "Quarry");
  set_name(result->node, device_name());
  set_name(result->release, "1");
  set_name(result->version, "1");
  set_name(result->machine, device_name());
  set_name(result->domain, "");
  return 0;
}
QUARRY_HD int quarry_c_getrusage(int, c_usage* result) {
  *result = {};
  long const microseconds = quarry_c_clock();
  result->user = {microseconds / 1'000'000, microseconds % 1'000'000};
  return 0;
}
QUARRY_HD int quarry_c_isatty(int) { return 0; }

/// Only the C locale exists.
QUARRY_HD char* quarry_c_setlocale(int, char const* name) {
  bool const is_known = name == nullptr || *name == 0 || (name[0] == 'C' && name[1] == 0);
  return is_known ? const_cast<char*>("C") : nullptr;
}

}  // extern "C"
