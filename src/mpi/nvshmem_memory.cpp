// SPDX-License-Identifier: Apache-2.0
#include "nvshmem_memory.hpp"

#include "device_memory.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <thread>

#ifdef QUARRY_WITH_NVSHMEM
#include <nvshmem_host.h>
#include <nvshmemx.h>
#endif

namespace quarry::inline QUARRY_ABI::mpi {

#ifdef QUARRY_WITH_NVSHMEM
namespace {

constexpr char library_name[] = "libnvshmem_host.so.3";

void* load_library() {
  void* const library = dlopen(library_name, RTLD_NOW | RTLD_GLOBAL);
  if (library != nullptr) return library;
  throw resource_failed{"loading NVSHMEM", std::string{dlerror()} + "; name the folder of " +
                                               library_name + " in LD_LIBRARY_PATH"};
}

/// A function of the library, of the same type as its declaration.
template <class Function>
Function* function_of(char const* name, Function*) {
  static void* const library = load_library();
  void* const found = dlsym(library, name);
  if (found == nullptr)
    throw resource_failed{"loading NVSHMEM", std::string{library_name} + " has no " + name};
  return reinterpret_cast<Function*>(found);
}
#define QUARRY_NVSHMEM(name) function_of(#name, static_cast<decltype(&name)>(nullptr))

void check_nvshmem(int status, char const* call) {
  if (status != 0) throw resource_failed{call, "status " + std::to_string(status)};
}

void write_id(nvshmemx_uniqueid_t const& id, std::string const& file) {
  std::string const made = file + ".new";
  {
    std::ofstream stream{made, std::ios::binary};
    stream.write(reinterpret_cast<char const*>(&id), sizeof(id));
    if (!stream) throw bad_argument{"--meeting-file " + file + ": cannot be written"};
  }
  if (std::rename(made.c_str(), file.c_str()) != 0)
    throw bad_argument{"--meeting-file " + file + ": cannot be written"};
}

nvshmemx_uniqueid_t read_id(std::string const& file) {
  constexpr int most_looks = 6000;  // a minute
  for (int i = 0; i < most_looks; ++i) {
    nvshmemx_uniqueid_t id;
    std::ifstream stream{file, std::ios::binary};
    if (stream.read(reinterpret_cast<char*>(&id), sizeof(id))) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  throw bad_argument{"--meeting-file " + file +
                     ": process 0 has not made it within a minute; is it running?"};
}

}  // namespace

bool knows_nvshmem() { return true; }

nvshmem_memory::nvshmem_memory(launch_options const& asked, bytes size) {
  // Defaults that a user may override. NVLink's multicast is not used, and setting it up can fail.
  setenv("NVSHMEM_DISABLE_NVLS", "1", 0);
  setenv("NVSHMEM_SYMMETRIC_SIZE", std::to_string(size + (bytes{64} << 20)).c_str(), 0);
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  if (asked.process != 0) {
    id = read_id(asked.meeting_file);
  } else {
    check_nvshmem(QUARRY_NVSHMEM(nvshmemx_get_uniqueid)(&id), "nvshmemx_get_uniqueid");
    if (!asked.meeting_file.empty()) write_id(id, asked.meeting_file);
  }
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  check_nvshmem(
      QUARRY_NVSHMEM(nvshmemx_set_attr_uniqueid_args)(
          static_cast<int>(asked.process), static_cast<int>(asked.processes), &id, &attributes),
      "nvshmemx_set_attr_uniqueid_args");
  check_nvshmem(
      QUARRY_NVSHMEM(nvshmemx_hostlib_init_attr)(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes),
      "nvshmemx_hostlib_init_attr");
  own_ = static_cast<char*>(QUARRY_NVSHMEM(nvshmem_malloc)(size));
  if (own_ == nullptr)
    throw out_of_memory{"the mailboxes in NVSHMEM's memory", size, "run with fewer ranks"};
  check(cudaMemset(own_, 0, size), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

nvshmem_memory::~nvshmem_memory() {
  // After a failure the others may never come: the process's end frees everything.
  if (own_ == nullptr || std::uncaught_exceptions() != 0) return;
  QUARRY_NVSHMEM(nvshmem_barrier_all)();
  QUARRY_NVSHMEM(nvshmem_free)(own_);
  QUARRY_NVSHMEM(nvshmemx_hostlib_finalize)();
}

void nvshmem_memory::add_code(cudaLibrary_t code) const {
  check_nvshmem(QUARRY_NVSHMEM(nvshmemx_culibrary_init)(reinterpret_cast<CUlibrary>(code)),
                "nvshmemx_culibrary_init");
}

char* nvshmem_memory::mapped(std::uint32_t process) const {
  return static_cast<char*>(QUARRY_NVSHMEM(nvshmem_ptr)(own_, static_cast<int>(process)));
}

void nvshmem_memory::meet() const { QUARRY_NVSHMEM(nvshmem_barrier_all)(); }

#else
bool knows_nvshmem() { return false; }
nvshmem_memory::nvshmem_memory(launch_options const&, bytes) {
  throw bad_argument{
      "--processes: this build of Quarry has no NVSHMEM, by which GPUs of several processes "
      "exchange messages; run scripts/setup.sh nvshmem and build again, or add --device cpu"};
}
nvshmem_memory::~nvshmem_memory() = default;
char* nvshmem_memory::mapped(std::uint32_t) const { return nullptr; }
void nvshmem_memory::add_code(cudaLibrary_t) const {}
void nvshmem_memory::meet() const {}
#endif

}  // namespace quarry::inline QUARRY_ABI::mpi
