// SPDX-License-Identifier: Apache-2.0
// Uses the system calls directly, because libnuma is not installed on every machine.
#include "quarry/host/resources/numa_resource.hpp"

#include "host/resources/numa_calls.hpp"
#include "platform/host_address_space.hpp"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace quarry::inline QUARRY_ABI {

using namespace detail;
namespace {

constexpr host_address_space numa_space{"numa_resource", overcommit::refuse};
constexpr unsigned max_nodes = 1024;
constexpr unsigned bits = 8 * sizeof(unsigned long);

bool bind(void* memory, bytes size, unsigned node) {
  std::array<unsigned long, max_nodes / bits> nodes{};
  nodes[node / bits] = 1ul << node % bits;
  return syscall(SYS_mbind, memory, size, MPOL_BIND, nodes.data(), max_nodes + 1, 0) == 0;
}

/// Moves the resident pages of the `count` pages at `base`, at most `batch`, to the node. Returns
/// the number of resident pages that are still on other nodes. Throws `resource_failed`.
constexpr std::size_t batch = 512;
std::size_t move_pages_from(std::uint64_t base, std::size_t count, unsigned node) {
  std::array<void*, batch> pages;
  std::array<int, batch> nodes, states;
  for (std::size_t i = 0; i < count; ++i)
    pages[i] = reinterpret_cast<void*>(base + i * page_size());
  nodes.fill(static_cast<int>(node));
  auto const call = [&](int const* targets) {
    return syscall(SYS_move_pages, 0, count, pages.data(), targets, states.data(),
                   targets == nullptr ? 0 : MPOL_MF_MOVE);
  };
  // ENOENT: no page has to move
  if (call(nodes.data()) < 0 && errno != ENOENT)
    throw resource_failed{"move_to_node: move_pages to node " + std::to_string(node),
                          std::strerror(errno)};
  if (call(nullptr) != 0)
    throw resource_failed{"move_to_node: query by move_pages", std::strerror(errno)};
  std::size_t elsewhere = 0;  // a page that is not resident has a negative state
  for (std::size_t i = 0; i < count; ++i)
    elsewhere += states[i] >= 0 && states[i] != static_cast<int>(node);
  return elsewhere;
}

}  // namespace

namespace numa {

void check_node(char const* call, unsigned node) {
  std::string const path = "/sys/devices/system/node/node" + std::to_string(node);
  if (node >= max_nodes || access(path.c_str(), F_OK) != 0)
    throw bad_argument{std::string{call} + ": the system has no NUMA node " + std::to_string(node) +
                       " (" + path + ")"};
}

void move(void* memory, bytes size, unsigned node) {
  check_node("move_to_node", node);
  constexpr int max_tries = 3;  // the kernel may use a page for a moment
  auto const end = reinterpret_cast<std::uint64_t>(memory) + size;
  std::uint64_t base = reinterpret_cast<std::uint64_t>(memory) & ~(page_size() - 1);
  std::size_t elsewhere = 0;
  for (std::size_t count = 0; base < end; base += count * page_size()) {
    count = std::min<std::size_t>(batch, whole_pages(end - base) / page_size());
    std::size_t left = count;
    for (int i = 0; i < max_tries && left != 0; ++i) left = move_pages_from(base, count, node);
    elsewhere += left;
  }
  if (elsewhere != 0)
    throw resource_failed{"move_to_node: move_pages to node " + std::to_string(node),
                          std::to_string(elsewhere) + " pages could not be moved"};
}

}  // namespace numa

unsigned numa_node_of(void const* memory) {
  int node = -1;
  if (syscall(SYS_get_mempolicy, &node, nullptr, 0ul, memory, MPOL_F_NODE | MPOL_F_ADDR) != 0)
    throw resource_failed{"numa_node_of: get_mempolicy", std::strerror(errno)};
  return static_cast<unsigned>(node);
}

numa_resource::numa_resource(unsigned node) : node_{node} {
  numa::check_node("numa_resource", node);
  deallocate(allocate(page_size(), page_size()), page_size(), page_size());  // mbind may be refused
}

void* numa_resource::allocate(bytes size, bytes alignment) {
  check_power_of_two("numa_resource", alignment);
  if (alignment > page_size())
    throw bad_argument{"numa_resource: alignment is " + std::to_string(alignment) +
                       ", but the maximum is the page size, " + std::to_string(page_size())};
  if (size > max_bytes_at_once) throw out_of_memory{"numa_resource", size, request_too_large};
  void* const result = numa_space.allocate(whole_pages(size));
  if (!bind(result, whole_pages(size), node_)) {
    int const code = errno;
    deallocate(result, size, alignment);
    throw resource_failed{"numa_resource: mbind to node " + std::to_string(node_),
                          std::strerror(code)};
  }
  return result;
}

void numa_resource::deallocate(void* pointer, bytes size, bytes) noexcept {
  numa_space.release(reinterpret_cast<std::uint64_t>(pointer), whole_pages(size));
}

}  // namespace quarry::inline QUARRY_ABI
