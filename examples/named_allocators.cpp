// SPDX-License-Identifier: Apache-2.0
// Allocators with names, which one part of a program makes and other parts use. Operations free,
// resize and move memory by its address alone. More counterparts of Umpire's features follow; see
// docs/guide/from_umpire.md.
#include "quarry/host.hpp"
#include "quarry/host/resources/advised_resource.hpp"
#include "quarry/host/resources/numa_resource.hpp"

#include <cstdio>
#include <iostream>

using namespace quarry::literals;

namespace {

void make_allocators() {
  quarry::any_allocator host = quarry::allocators::make<quarry::host_resource>("HOST");
  quarry::allocators::make_pool("fields", host, {.first_block = 64_MiB, .next_block = 8_MiB});
  // an allocator from a description, as in an input file
  quarry::allocators::make("small", "pool('HOST', first_block=1MiB, max_bytes=16MiB)");
  quarry::allocators::add_alias("densities", "fields");
}

/// Knows only the name of the allocator.
double* make_field(std::size_t count) {
  quarry::any_allocator fields = quarry::allocators::at("densities");
  return static_cast<double*>(fields.allocate(count * sizeof(double), "density"));
}

void use_addresses(double* density) {
  quarry::any_allocator owner = quarry::allocators::owner_of(density + 10);
  std::printf("%s has %zu bytes allocated\n", owner.name().c_str(),
              static_cast<std::size_t>(owner.counts().allocated));

  quarry::operations::fill(density, 0, 1000 * sizeof(double));
  void* larger = quarry::operations::reallocate(density, 2000 * sizeof(double));
  void* moved = quarry::operations::move(larger, quarry::allocators::at("small"));
  quarry::operations::deallocate(moved);

  try {
    quarry::operations::deallocate(moved);
  } catch (quarry::bad_argument const& failure) {
    std::printf("%s\n", failure.what());
  }
}

/// The pool calls the rule after each free, with its state.
void coalesce_by_a_rule() {
  auto const rule = [](quarry::pool_state const& pool) -> quarry::bytes {
    bool const is_mostly_free = pool.releasable > pool.reserved / 2;
    return is_mostly_free && pool.releasable_blocks >= 2 ? pool.peak_granted : 0;
  };
  quarry::pool temporaries{
      quarry::host_resource{},
      {.first_block = 1_MiB, .next_block = 1_MiB, .coalesce = quarry::heuristic::by_rule(rule)}};
  void* a = temporaries.allocate(1_MiB);
  void* b = temporaries.allocate(1_MiB);
  temporaries.deallocate(a);
  temporaries.deallocate(b);
  std::printf("coalesced %zu times\n", static_cast<std::size_t>(temporaries.counts().coalesces));
}

void use_a_mixed_pool() {
  quarry::mixed_pool nodes{quarry::host_resource{}, {.max_slot = 1024}};
  void* node = nodes.allocate(48);       // a slot of 64 bytes
  void* buffer = nodes.allocate(1_MiB);  // a chunk of the pool
  nodes.deallocate(node);
  nodes.deallocate(buffer);
}

void resources_compose() {
  quarry::pool limited{quarry::limited_resource{quarry::host_resource{}, 1_GiB}};
  quarry::size_cache_resource few_sizes{quarry::host_resource{}, 8};
  quarry::fixed_size_resource cells{quarry::host_resource{}, 256};
  quarry::synchronized_resource<quarry::pool<quarry::host_resource>> shared{
      quarry::host_resource{}};
  for (int i = 0; i < 2; ++i) {
    limited.deallocate(limited.allocate(100));
    few_sizes.deallocate(few_sizes.allocate(100, 16), 100, 16);
    cells.deallocate(cells.allocate(100, 16), 100, 16);
    shared.deallocate(shared.allocate(100, 16), 100, 16);
  }
}

void advise() {
  quarry::pool files{quarry::file_resource{"/tmp"}, {.first_block = 1_MiB}};
  void* table = files.allocate(100'000);
  quarry::operations::advise(table, 100'000, quarry::memory_advice::is_random);
  quarry::operations::advise(table, 100'000, quarry::memory_advice::is_normal);
  files.deallocate(table);
}

void move_between_nodes(quarry::any_allocator fields) {
  void* field = fields.allocate(1_MiB);
  try {
    quarry::operations::move_to_node(field, 1_MiB, 0);  // the address stays the same
    std::printf("on node %u\n", quarry::numa_node_of(field));
  } catch (quarry::resource_failed const& failure) {
    std::printf("%s\n", failure.what());
  }
  quarry::operations::deallocate(field);
}

}  // namespace

int main() {
  make_allocators();
  for (std::string const& name : quarry::allocators::names()) std::printf("%s\n", name.c_str());
  use_addresses(make_field(1000));
  coalesce_by_a_rule();
  use_a_mixed_pool();
  resources_compose();
  advise();
  move_between_nodes(quarry::allocators::at("fields"));

  quarry::registry::report(std::cout);
  quarry::allocators::destroy("small");
  quarry::allocators::destroy("fields");
  quarry::allocators::destroy("HOST");
}
