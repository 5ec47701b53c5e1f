// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/operations.hpp"

#include "host/cuda_operations.hpp"
#include "host/resources/numa_calls.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <sstream>

namespace quarry::inline QUARRY_ABI {

using namespace detail;

struct adopted_memory::state {
  state(std::uint64_t address, bytes size, memory_location location, std::string name)
      : base{address}, room{(size + 15) / 16 * 16}, account{table, location, std::move(name)} {
    table.reserve();
    account.add_block(base, room);
    table.add_allocation(base, room, size);
  }
  ~state() { account.remove_block(base, room); }

  std::uint64_t base;
  bytes room;
  chunk_table table;
  registration account;
};

adopted_memory::adopted_memory(void* memory, bytes size, memory_location location,
                               std::string name) {
  auto const base = reinterpret_cast<std::uint64_t>(memory);
  if (base == 0 || base % 16 != 0 || size == 0 || size > max_bytes_at_once) {
    throw bad_argument{"adopted_memory: " + std::to_string(size) +
                       " bytes: the address must be a multiple of 16, and the size not 0"};
  }
  if (auto const registered = registry::find(memory)) {
    throw bad_argument{"adopted_memory: it belongs to " + registry::name_of(registered->allocator) +
                       " already"};
  }
  state_ = std::make_unique<state>(base, size, location, std::move(name));
}
adopted_memory::~adopted_memory() = default;
adopted_memory::adopted_memory(adopted_memory&&) noexcept = default;
adopted_memory& adopted_memory::operator=(adopted_memory&&) noexcept = default;

namespace operations {
namespace {

/// Whether no GPU can use the memory, so that the host need not wait for a stream.
bool is_hosts(memory_location location) {
  return location.kind == memory_kind::host || location.kind == memory_kind::file ||
         location.kind == memory_kind::shared;
}

/// The record of [memory, memory + size). Throws `bad_argument`.
allocation_record checked(char const* operation, char const* role, void const* memory, bytes size) {
  auto const found = registry::find(memory);
  std::ostringstream why;
  if (!found) {
    why << operation << ": " << role << ' ' << memory
        << " is in no allocation that the registry knows; memory of others is made known by "
           "adopted_memory";
    throw bad_argument{why.str()};
  }
  bytes const left = found->size - static_cast<bytes>(static_cast<char const*>(memory) -
                                                      static_cast<char const*>(found->base));
  if (size <= left) return *found;
  why << operation << ": " << size << " bytes " << role << ' ' << memory << " are " << size - left
      << " more than are left of the allocation of " << found->size << " bytes at " << found->base
      << " of " << registry::name_of(found->allocator);
  if (auto const label = registry::label_of(memory)) why << " named " << label->name;
  throw bad_argument{why.str()};
}

/// Whether the advice is for the driver, not for the operating system.
bool is_drivers(memory_advice advice) {
  switch (advice) {
    case memory_advice::read_mostly:
    case memory_advice::not_read_mostly:
    case memory_advice::preferred_here:
    case memory_advice::no_preferred_place:
    case memory_advice::accessed_by:
    case memory_advice::not_accessed_by:
      return true;
    default:
      return false;
  }
}

}  // namespace

void copy(void* target, void const* source, bytes size) {
  if (size == 0) return;
  memory_location const target_location = checked("copy", "to", target, size).location;
  memory_location const source_location = checked("copy", "from", source, size).location;
  if (is_hosts(target_location) && is_hosts(source_location)) {
    std::memmove(target, source, size);
  } else {
    cuda::copy(target, source, size,
               source_location.kind == memory_kind::device ? source_location : target_location);
  }
}
void copy(void* target, void const* source, bytes size, cuda_stream stream) {
  if (size == 0) return;
  (void)checked("copy", "to", target, size);
  (void)checked("copy", "from", source, size);
  cuda::copy(target, source, size, stream);
}

void fill(void* memory, unsigned char value, bytes size) {
  if (size == 0) return;
  auto const location = checked("fill", "at", memory, size).location;
  if (is_hosts(location)) {
    std::memset(memory, value, size);
  } else {
    cuda::fill(memory, value, size, location);
  }
}
void fill(void* memory, unsigned char value, bytes size, cuda_stream stream) {
  if (size == 0) return;
  auto const location = checked("fill", "at", memory, size).location;
  if (is_hosts(location)) {
    throw bad_argument{
        "fill: a stream cannot fill memory that no GPU can access; call fill without a stream"};
  }
  cuda::fill(memory, value, size, stream);
}

void prefetch(void const* memory, bytes size, memory_location target, cuda_stream stream) {
  if (size != 0)
    prefetch(memory, size, target, stream, checked("prefetch", "at", memory, size).location);
}
void prefetch(void const* memory, bytes size, memory_location target, cuda_stream stream,
              memory_location location) {
  if (size == 0) return;
  if (location.kind == memory_kind::managed) return cuda::prefetch(memory, size, target, stream);
  if (location.kind == memory_kind::file && target.kind != memory_kind::device)
    advise(const_cast<void*>(memory), size, memory_advice::will_be_used, {}, location);
}

void advise(void* memory, bytes size, memory_advice advice, memory_location target) {
  if (size != 0)
    advise(memory, size, advice, target, checked("advise", "at", memory, size).location);
}
void advise(void* memory, bytes size, memory_advice advice, memory_location target,
            memory_location location) {
  if (size == 0) return;
  if (is_drivers(advice) && location.kind == memory_kind::managed)
    return cuda::advise(memory, size, advice, target);
  if (is_drivers(advice) || location.kind == memory_kind::managed ||
      location.kind == memory_kind::device || location.kind == memory_kind::pinned) {
    throw bad_argument{"advise: this advice does not fit this kind of memory; see memory_advice"};
  }
  auto const page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  auto const base = reinterpret_cast<std::uint64_t>(memory) & ~(page - 1);
  bytes const whole = reinterpret_cast<std::uint64_t>(memory) + size - base;
  int const code = advice == memory_advice::will_be_used    ? MADV_WILLNEED
                   : advice == memory_advice::is_sequential ? MADV_SEQUENTIAL
                   : advice == memory_advice::is_random     ? MADV_RANDOM
                                                            : MADV_NORMAL;
  if (madvise(reinterpret_cast<void*>(base), whole, code) != 0)
    throw resource_failed{"madvise", std::strerror(errno)};
}

void move_to_node(void* memory, bytes size, unsigned node) {
  if (size == 0) return numa::check_node("move_to_node", node);
  auto const location = checked("move_to_node", "at", memory, size).location;
  if (location.kind != memory_kind::host)
    throw bad_argument{std::string{"move_to_node: memory of kind "} +
                       quarry::name_of(location.kind) + " has no NUMA node; only the host's has"};
  numa::move(memory, size, node);
}

}  // namespace operations
}  // namespace quarry::inline QUARRY_ABI
