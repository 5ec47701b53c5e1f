// SPDX-License-Identifier: Apache-2.0
// Allocators by name: made in one place of a program, looked up by name, or by an address that they
// allocated, in any other. Memory is freed, resized and moved by its address alone.
//
// Any thread may call all of this. A lookup by name takes a lock: keep the handle where that
// counts. A free by the address alone takes the allocator's lock only, as a rule.
//
// Nothing is destroyed at the end of the program, so handles work in destructors of static objects.
// What must not outlive the program (segments of `shared_resource`) is destroyed by name before.
//
// Code must stay loaded while allocators that it made exist: a plugin destroys by name what it made
// before it is unloaded, for an allocator calls functions that were compiled where it was made.
//
// Where a program and its plugins have copies of this library, each copy has names of its own. The
// registry is one for all, so an address of another copy's allocator is told from an unknown one.
#pragma once

#include "quarry/host/any_allocator.hpp"
#include "quarry/host/operations.hpp"
#include "quarry/host/pools/pool.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// What becomes of memory that was not freed when its allocator is destroyed.
enum class unfreed_memory { refuse, discard };

namespace allocators {

/// Throws `bad_argument` unless an allocator may have this name: 1 to 255 bytes, no control
/// characters, and no other allocator's.
QUARRY_API void check_name(std::string_view name);

/// Gives the allocator that `model` describes a name. Throws as `check_name` does; `out_of_memory`
/// if 2^20 handles are in use.
QUARRY_API any_allocator add(std::string name, std::unique_ptr<allocator_model> model);

/// Makes a `Pool` from `arguments`, and gives it a name; in reports it has the one of its options.
/// Throws as `add` and the pool's constructor do.
template <frees_by_address Pool, class... Arguments>
any_allocator make(std::string const& name, Arguments&&... arguments) {
  check_name(name);
  return add(name, std::make_unique<pool_model<Pool>>(std::forward<Arguments>(arguments)...));
}
/// Makes a resource from `arguments`, and gives it a name. Throws as `add` and the resource's
/// constructor do, and `bad_argument` if there are 64 resources with names or `tracked_resource`s.
template <memory_resource Resource, class... Arguments>
  requires(!frees_by_address<Resource>)
any_allocator make(std::string const& name, Arguments&&... arguments) {
  check_name(name);
  return add(name, std::make_unique<resource_model<Resource>>(
                       Resource(std::forward<Arguments>(arguments)...), name));
}
/// Makes a pool over `from`, which reports know by the same name unless `options` have one. Throws
/// as `add` and the pool's constructor do.
template <placement Placement = fast_fit, memory_resource Resource>
any_allocator make_pool(std::string const& name, Resource from, pool_options options = {}) {
  check_name(name);
  if (options.name.empty()) options.name = name;
  return add(name, std::make_unique<pool_model<pool<Resource, Placement>>>(std::move(from),
                                                                           std::move(options)));
}
/// The same over another allocator, which must be destroyed later.
template <placement Placement = fast_fit>
any_allocator make_pool(std::string const& name, any_allocator from, pool_options options = {}) {
  return make_pool<Placement>(name, from.as_resource(), std::move(options));
}

/// Makes what `description` says, and gives it a name. The words are those of the constructors;
/// sizes have units of B, KiB, MiB, GiB or TiB, and names of other allocators stand in quotes:
///   host   device(0)   pinned   managed   file('/tmp')   numa(0)   shared('segment', 1GiB)
///   limited(host, 1GiB)   fixed_size(host, 64)   slots(host, 8)   mixed(host, max_slot=1KiB)
///   pool(device(0), first_block=1GiB, coalesce=percent_releasable(50, to_high_water))
///   pool('other name', placement=lowest_best_fit)
/// A pool's options are those of `pool_options` without functions and names, and `placement`:
/// fast_fit, segregated_fit, oldest_best_fit or lowest_best_fit. Throws `bad_argument`, with the
/// place of the error in `description`, and as `add` and the constructors do.
QUARRY_API any_allocator make(std::string const& name, std::string_view description);
/// The same for each line `name = description`, in order. Empty lines, and what follows a #, are
/// skipped. Throws as `make` does, with the line's number: then the lines before it were done.
QUARRY_API std::vector<any_allocator> make_all(std::string_view lines);

/// The allocator of that name or alias. Throws `bad_argument`, with the names that there are, if
/// there is none.
[[nodiscard]] QUARRY_API any_allocator at(std::string_view name);
/// The same; nothing if there is none.
[[nodiscard]] QUARRY_API std::optional<any_allocator> find(std::string_view name);
[[nodiscard]] QUARRY_API bool contains(std::string_view name);
/// The allocator of that number in the registry; nothing if it has no name here.
[[nodiscard]] QUARRY_API std::optional<any_allocator> find(allocator_id id);
/// The allocator that allocated what `address` lies in. Throws `bad_argument`, which says whose the
/// address is, if it has no name here.
[[nodiscard]] QUARRY_API any_allocator owner_of(void const* address);
/// `owner_of` would find an allocator.
[[nodiscard]] QUARRY_API bool has_owner(void const* address);
/// The names in alphabetical order, without aliases.
[[nodiscard]] QUARRY_API std::vector<std::string> names();

/// A second name. Throws `bad_argument` if there is no allocator `name`, or `alias` is in use.
QUARRY_API void add_alias(std::string alias, std::string_view name);
/// Throws `bad_argument` if it is no alias.
QUARRY_API void remove_alias(std::string_view alias);

/// Destroys the allocator, with its aliases, once the calls on it are done. Throws `bad_argument`,
/// and changes nothing, if there is none, if `name` is an alias, if a pool takes blocks from it, or
/// if memory of it was not freed, unless that is to be discarded; and from within a call on any
/// allocator, by a heuristic's rule or a resource's function.
QUARRY_API void destroy(std::string_view name, unfreed_memory rest = unfreed_memory::refuse);

}  // namespace allocators

namespace operations {

/// Frees an allocation of any allocator with a name; nullptr is ignored. Throws `bad_argument`, and
/// changes nothing, unless `memory` is the first address of such an allocation; the message says
/// what it is. A block that a pool took of such an allocator is none. O(1).
QUARRY_API void deallocate(void* memory);

/// Moves what is in `memory` to an allocation of `size` bytes of the same allocator, and frees the
/// old one, without its name; the smaller of both sizes is copied. Size 0 gives an address of its
/// own. The same size gives `memory`. The result has the allocator's alignment. Throws
/// `bad_argument` as `deallocate` does, and for nullptr, which has no allocator; `out_of_memory`.
/// Nothing is changed then.
[[nodiscard]] QUARRY_API void* reallocate(void* memory, bytes size);
/// The same; nullptr gives an allocation of `from`.
[[nodiscard]] QUARRY_API void* reallocate(void* memory, bytes size, any_allocator from);

/// Moves what is in `memory` to an allocation of the same size of `to`, and frees the old one,
/// without its name. If it is an allocation of `to`, gives `memory`. Throws as `reallocate` does.
[[nodiscard]] QUARRY_API void* move(void* memory, any_allocator to);

}  // namespace operations
}  // namespace quarry::inline QUARRY_ABI
