// SPDX-License-Identifier: Apache-2.0
// By the system calls themselves: their library is not on every machine.
#include "quarry/host/numa_resource.hpp"

#include "whole_pages.hpp"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace quarry {
namespace {

constexpr unsigned most_nodes = 1024;
constexpr unsigned bits = 8 * sizeof(unsigned long);

bool bind(void* memory, bytes size, unsigned node) {
  std::array<unsigned long, most_nodes / bits> nodes{};
  nodes[node / bits] = 1ul << node % bits;
  return syscall(SYS_mbind, memory, size, MPOL_BIND, nodes.data(), most_nodes + 1, 0) == 0;
}

}  // namespace

numa_resource::numa_resource(unsigned node) : node_{node} {
  std::string const path = "/sys/devices/system/node/node" + std::to_string(node);
  if (node >= most_nodes || access(path.c_str(), F_OK) != 0)
    throw bad_argument{"numa_resource: there is no node " + std::to_string(node) + " (" + path +
                       ")"};
  void* const probe =
      mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (probe == MAP_FAILED) throw resource_failed{"numa_resource: mmap", std::strerror(errno)};
  bool const can = bind(probe, page_size(), node);
  int const why = errno;
  munmap(probe, page_size());
  if (!can)
    throw resource_failed{"numa_resource: mbind to node " + std::to_string(node),
                          std::strerror(why)};
}

void* numa_resource::allocate(bytes size, bytes alignment) {
  check_power_of_two("numa_resource", alignment);
  if (alignment > page_size())
    throw bad_argument{"numa_resource: alignment is " + std::to_string(alignment) +
                       ", more than a page's " + std::to_string(page_size())};
  if (size > most_bytes_at_once) throw out_of_memory{"numa_resource", size, "nothing has so much"};
  void* const result =
      mmap(nullptr, whole_pages(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (result == MAP_FAILED) throw out_of_memory{"numa_resource", size, std::strerror(errno)};
  if (!bind(result, whole_pages(size), node_)) {
    int const why = errno;
    munmap(result, whole_pages(size));
    throw resource_failed{"numa_resource: mbind to node " + std::to_string(node_),
                          std::strerror(why)};
  }
  return result;
}

void numa_resource::deallocate(void* pointer, bytes size, bytes) noexcept {
  munmap(pointer, whole_pages(size));
}

}  // namespace quarry
