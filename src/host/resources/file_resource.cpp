// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/file_resource.hpp"

#include "platform/host_address_space.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace quarry::inline QUARRY_ABI {

using namespace detail;
namespace {

/// Opens a new file in `directory` and removes its name. Throws `resource_failed`.
int open_nameless(std::string const& directory) {
  std::string path = directory + "/quarry-XXXXXX";
  int const file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0)
    throw resource_failed{"file_resource: mkostemp in " + directory, std::strerror(errno)};
  unlink(path.c_str());
  return file;
}

}  // namespace

file_resource::file_resource(std::string directory) : directory_{std::move(directory)} {
  close(open_nameless(directory_));
}

void* file_resource::allocate(bytes size, bytes alignment) {
  check_power_of_two("file_resource", alignment);
  if (alignment > page_size())
    throw bad_argument{"file_resource: alignment is " + std::to_string(alignment) +
                       ", but the maximum is the page size, " + std::to_string(page_size())};
  if (size > max_bytes_at_once) throw out_of_memory{"file_resource", size, request_too_large};
  int const file = open_nameless(directory_);
  // Reserve the file's blocks now: a full disk is an error here, not a signal later.
  int const failed = posix_fallocate(file, 0, static_cast<off_t>(whole_pages(size)));
  void* const result =
      failed != 0 ? MAP_FAILED
                  : mmap(nullptr, whole_pages(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  int const why = failed != 0 ? failed : errno;
  close(file);
  if (result == MAP_FAILED)
    throw out_of_memory{"file_resource in " + directory_, size, std::strerror(why)};
  return result;
}

void file_resource::deallocate(void* pointer, bytes size, bytes) noexcept {
  munmap(pointer, whole_pages(size));
}

}  // namespace quarry::inline QUARRY_ABI
