// SPDX-License-Identifier: Apache-2.0
// Allocators by name. A program makes an allocator in one place. Any other place can look up the
// allocator by its name, or by an address of its allocations. Memory is freed, resized and moved by
// its address alone.
//
// Any thread may call all functions. A lookup by name takes a lock: keep the handle where speed
// matters. A free by the address alone usually takes the allocator's lock only.
//
// No allocator is destroyed at the end of the program, so handles work in destructors of static
// objects. Destroy by name, before the end, what must not outlive the program (segments of
// `shared_resource`).
//
// Code must stay loaded while allocators that it made exist, because an allocator calls functions
// that were compiled where it was made. So a plugin must destroy its allocators before it is
// unloaded.
//
// If a program and its plugins have copies of this library, each copy has its own names. All copies
// share one registry, so each can distinguish an address of another copy's allocator from an
// unknown address.
#pragma once

#include "quarry/host/any_allocator.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/registry/operations.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// How `destroy` handles memory that was not freed.
enum class unfreed_memory { refuse, discard };

namespace allocators {

/// Throws `bad_argument` unless a new allocator may have this name. A name has 1 to 255 bytes and
/// no control characters, and no other allocator may have it.
QUARRY_API void check_name(std::string_view name);

/// Adds an allocator with the implementation `model` and returns its handle. Throws as `check_name`
/// does, `bad_argument` if `model` is null, and `out_of_memory` if 2^20 handles are in use.
QUARRY_API any_allocator add(std::string name, std::unique_ptr<allocator_model> model);

/// Constructs a `Pool` from `arguments` and adds it. In reports the pool has the name of its
/// options. Throws as `add` and the pool's constructor do.
template <frees_by_address Pool, class... Arguments>
any_allocator make(std::string const& name, Arguments&&... arguments) {
  check_name(name);
  return add(name, std::make_unique<pool_model<Pool>>(std::forward<Arguments>(arguments)...));
}
/// Constructs a resource from `arguments` and adds it. Throws as `add` and the resource's
/// constructor do.
template <memory_resource Resource, class... Arguments>
  requires(!frees_by_address<Resource>)
any_allocator make(std::string const& name, Arguments&&... arguments) {
  check_name(name);
  return add(name, std::make_unique<resource_model<Resource>>(
                       Resource(std::forward<Arguments>(arguments)...), name));
}
/// Makes a pool over `resource` and adds it. Reports use the same name, unless `options` name the
/// pool. Throws as `add` and the pool's constructor do.
template <placement Placement = fast_fit, memory_resource Resource>
any_allocator make_pool(std::string const& name, Resource resource, pool_options options = {}) {
  check_name(name);
  if (options.name.empty()) options.name = name;
  return add(name, std::make_unique<pool_model<pool<Resource, Placement>>>(std::move(resource),
                                                                           std::move(options)));
}
/// The same over another allocator. That allocator must be destroyed after the pool.
template <placement Placement = fast_fit>
any_allocator make_pool(std::string const& name, any_allocator upstream,
                        pool_options options = {}) {
  return make_pool<Placement>(name, upstream.as_resource(), std::move(options));
}

/// Makes an allocator from a text and adds it. The text uses the words of the constructors. Sizes
/// have the units B, KiB, MiB, GiB or TiB. Names of other allocators are in quotes:
///   host   device(0)   pinned   managed   file('/tmp')   numa(0)   shared('segment', 1GiB)
///   limited(host, 1GiB)   fixed_size(host, 64)   slots(host, 8)   mixed(host, max_slot=1KiB)
///   pool(device(0), first_block=1GiB, coalesce=percent:50+hwm)
///   pool('other name', placement=lowest_best_fit)
/// A pool has the options of `pool_options`, except functions and names, and also `placement`, a
/// name of `named_placements`. `coalesce` is a text for `heuristic_named`, or the same as in a
/// program: percent_releasable(50, to_high_water). Throws `bad_argument` with the position of the
/// error in `description`. Also throws as `add` and the constructors do.
QUARRY_API any_allocator make(std::string const& name, std::string_view description);
/// The same for each line `name = description`, in order. Skips empty lines, and comments that
/// start with #. Throws as `make` does, with the number of the line. The allocators of the earlier
/// lines exist then.
QUARRY_API std::vector<any_allocator> make_all(std::string_view lines);

/// The allocator of that name or alias. Throws `bad_argument` if no allocator has it; the message
/// lists the existing names.
[[nodiscard]] QUARRY_API any_allocator at(std::string_view name);
/// The same, but returns nullopt if no allocator has the name.
[[nodiscard]] QUARRY_API std::optional<any_allocator> find(std::string_view name);
[[nodiscard]] QUARRY_API bool contains(std::string_view name);
/// The allocator of that id in the registry; nullopt if it has no name in this copy of the library.
[[nodiscard]] QUARRY_API std::optional<any_allocator> find(allocator_id id);
/// The allocator of the allocation that contains `address`. Throws `bad_argument` if the allocator
/// has no name in this copy of the library; the message says to which allocator the address
/// belongs.
[[nodiscard]] QUARRY_API any_allocator owner_of(void const* address);
/// Whether `owner_of` would find an allocator.
[[nodiscard]] QUARRY_API bool has_owner(void const* address);
/// The names in alphabetical order, without aliases.
[[nodiscard]] QUARRY_API std::vector<std::string> names();

/// Adds a second name. Throws `bad_argument` if no allocator has the name `name`, or if `alias` is
/// in use.
QUARRY_API void add_alias(std::string alias, std::string_view name);
/// Removes a second name. Throws `bad_argument` if `alias` is not an alias.
QUARRY_API void remove_alias(std::string_view alias);

/// Destroys an allocator with its aliases, after the calls on it have returned. Throws
/// `bad_argument` and changes nothing in these cases:
///   - no allocator has the name, or `name` is an alias;
///   - a pool takes blocks from the allocator;
///   - memory was not freed, and `handling` is not `discard`;
///   - the caller is a heuristic's rule or a resource's function, in a call on any allocator.
QUARRY_API void destroy(std::string_view name, unfreed_memory handling = unfreed_memory::refuse);

}  // namespace allocators

namespace operations {

/// Frees an allocation of any named allocator. Ignores nullptr. Throws `bad_argument` and changes
/// nothing unless `memory` is the base address of such an allocation; the message says what the
/// address is. A block that a pool took from such an allocator is not such an allocation. O(1).
QUARRY_API void deallocate(void* memory);

/// Resizes an allocation: allocates `size` bytes from the same allocator, copies the contents up to
/// the smaller size, and frees the old allocation. The result has no label. Returns `memory` if the
/// size is unchanged. Size 0 returns a unique address. The result has the allocator's alignment.
/// Throws `bad_argument` as `deallocate` does, and for nullptr, which has no allocator. Throws
/// `out_of_memory`. Changes nothing if it throws.
[[nodiscard]] QUARRY_API void* reallocate(void* memory, bytes size);
/// The same, but for nullptr it allocates from `fallback`.
[[nodiscard]] QUARRY_API void* reallocate(void* memory, bytes size, any_allocator fallback);

/// Moves an allocation to another allocator: allocates the same size from `target`, copies the
/// contents, and frees the old allocation. The result has no label. Returns `memory` if `target`
/// allocated it. Throws as `reallocate` does.
[[nodiscard]] QUARRY_API void* move(void* memory, any_allocator target);

}  // namespace operations
}  // namespace quarry::inline QUARRY_ABI
