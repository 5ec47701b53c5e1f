// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/allocators.hpp"

#include "host/allocator_handles.hpp"
#include "quarry/host/detail/held_at_fork.hpp"

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <sstream>
#include <unordered_map>

namespace quarry::inline QUARRY_ABI {

using c_api::handle_kind;
using c_api::handle_table;
using c_api::handle_value;

namespace {

/// Maps the names and the registry's ids of allocators to handles. Guarded by: the mutex. No thread
/// waits for another lock while it holds it.
struct name_table {
  struct entry {
    std::string name;
    allocator_id id;
  };
  detail::mutex_held_at_fork mutex;
  std::map<std::string, std::uint64_t, std::less<>> handles;  // including aliases
  std::unordered_map<std::uint64_t, entry> entries;           // by handle
  std::unordered_map<allocator_id, std::uint64_t> by_id;
};

name_table& table() {
  // Never destroyed, because destructors of static objects may use handles.
  static name_table& instance = *new name_table;
  return instance;
}
// Runs before the program makes threads: no fork may find a thread inside this initialisation.
[[maybe_unused]] name_table& made_early = table();

/// Handles by the registry's ids, modulo the size: a cache of `by_id`. A reader locks the handle
/// and asks its allocator for the id.
std::array<std::atomic<std::uint64_t>, 1024> recent_handles{};

std::atomic<std::uint64_t>& recent_handle(allocator_id id) {
  return recent_handles[id % recent_handles.size()];
}

std::string quoted(std::string_view name) { return std::string{"'"}.append(name).append("'"); }

/// Requires the mutex. Throws `bad_argument`.
void check_is_free(std::string_view name) {
  name_table& name_index = table();
  auto const found = name_index.handles.find(name);
  if (found == name_index.handles.end()) return;
  std::string const& owner = name_index.entries.at(found->second).name;
  throw bad_argument{"allocators: there is " +
                     (owner == name ? "an allocator " + quoted(name)
                                    : "an alias " + quoted(name) + " of " + quoted(owner)) +
                     " already"};
}
void check_characters(std::string_view name) {
  bool const has_control = std::any_of(name.begin(), name.end(), [](char character) {
    return static_cast<unsigned char>(character) < 32 || character == 127;
  });
  if (name.empty() || name.size() > 255 || has_control)
    throw bad_argument{"allocators: a name has 1 to 255 bytes and no control characters, not " +
                       (name.size() > 255 ? std::to_string(name.size()) + " bytes"
                        : name.empty()    ? "0 bytes"
                                          : "these")};
}

/// Requires the mutex.
[[noreturn]] void refuse_unknown(std::string_view name) {
  name_table& name_index = table();
  std::string names;
  std::size_t left_out = 0;
  for (auto const& [existing, handle] : name_index.handles) {
    if (names.size() > 400) {
      ++left_out;
      continue;
    }
    names += (names.empty() ? " There are " : ", ") + quoted(existing);
  }
  if (names.empty()) names = " There are none";
  if (left_out != 0) names += " and " + std::to_string(left_out) + " more";
  throw bad_argument{"allocators: there is no allocator " + quoted(name) + '.' + names + '.'};
}

std::optional<std::uint64_t> handle_of(allocator_id id) {
  name_table& name_index = table();
  std::lock_guard const lock{name_index.mutex};
  auto const found = name_index.by_id.find(id);
  if (found == name_index.by_id.end()) return std::nullopt;
  return found->second;
}

/// The name of a named allocator, else the name in the registry.
std::string name_of(allocator_id id) {
  if (auto const handle = handle_of(id)) {
    name_table& name_index = table();
    std::lock_guard const lock{name_index.mutex};
    auto const found = name_index.entries.find(*handle);
    if (found != name_index.entries.end()) return found->second.name;
  }
  return registry::name_of(id);
}

/// The record of the allocation that contains an address. Throws `bad_argument` if the registry has
/// none.
allocation_record record_of(char const* operation, void const* address) {
  if (auto const found = registry::find(address)) return *found;
  std::ostringstream why;
  why << operation << ": " << address << " is in no allocation that the registry knows";
  if (address == nullptr) why << "; nullptr has no allocator";
  throw bad_argument{why.str()};
}
[[noreturn]] void refuse_owner(char const* operation, void const* address,
                               allocation_record const& found) {
  std::ostringstream why;
  why << operation << ": " << address << " belongs to " << quoted(name_of(found.allocator))
      << " (allocator " << found.allocator
      << "), which has no name in allocators.hpp. It is a pool of the program's own, which frees "
         "its memory itself, or of another copy of this library";
  throw bad_argument{why.str()};
}
[[noreturn]] void refuse_block(char const* operation, void const* address,
                               allocation_record const& found) {
  std::ostringstream why;
  why << operation << ": " << address << " is the first address of a block of " << found.size
      << " bytes that a pool took of " << quoted(name_of(found.allocator))
      << "; in the pool it is not allocated, or was freed already";
  throw bad_argument{why.str()};
}
/// The record of the allocation whose base address is `memory`. Throws `bad_argument`.
allocation_record record_of_first(char const* operation, void const* memory) {
  auto const found = record_of(operation, memory);
  if (found.base == memory) return found;
  std::ostringstream why;
  why << operation << ": " << memory << " lies "
      << static_cast<char const*>(memory) - static_cast<char const*>(found.base)
      << " bytes after the first address of an allocation of " << found.size << " bytes at "
      << found.base << " of " << quoted(name_of(found.allocator));
  throw bad_argument{why.str()};
}
std::uint64_t owner_of_record(char const* operation, void const* address,
                              allocation_record const& found) {
  if (auto const handle = handle_of(found.allocator)) return *handle;
  refuse_owner(operation, address, found);
}

}  // namespace

std::string any_allocator::name() const {
  name_table& name_index = table();
  {
    std::lock_guard const lock{name_index.mutex};
    auto const found = name_index.entries.find(handle_);
    if (found != name_index.entries.end()) return found->second.name;
  }
  with(handle_, "any_allocator::name", [](allocator_model&) {});  // throws if it was destroyed
  return {};
}
bool any_allocator::is_alive() const noexcept {
  name_table& name_index = table();
  detail::lock_unless_lost const lock{name_index.mutex};
  return lock && name_index.entries.contains(handle_);
}

namespace allocators {

void check_name(std::string_view name) {
  check_characters(name);
  name_table& name_index = table();
  std::lock_guard const lock{name_index.mutex};
  check_is_free(name);
}

any_allocator add(std::string name, std::unique_ptr<allocator_model> model) {
  if (model == nullptr) throw bad_argument{"allocators::add: the model is null"};
  check_characters(name);
  allocator_id const id = model->id();
  auto const handle = handle_table::add(handle_kind::allocator, model.get()).bits;
  auto const keep = model.release();  // owned by the handle, unless the next steps fail
  name_table& name_index = table();
  try {
    std::lock_guard const lock{name_index.mutex};
    check_is_free(name);
    auto const entry = name_index.entries.emplace(handle, name_table::entry{name, id}).first;
    try {
      auto const by_name = name_index.handles.emplace(std::move(name), handle).first;
      try {
        if (id != 0) name_index.by_id.emplace(id, handle);
      } catch (...) {
        name_index.handles.erase(by_name);
        throw;
      }
    } catch (...) {
      name_index.entries.erase(entry);
      throw;
    }
  } catch (...) {
    (void)handle_table::remove(handle_value{handle}, handle_kind::allocator, "allocators::add");
    delete keep;
    throw;
  }
  if (id != 0) recent_handle(id) = handle;
  return allocator_handles::handle_of(handle);
}

any_allocator at(std::string_view name) {
  name_table& name_index = table();
  std::lock_guard const lock{name_index.mutex};
  auto const found = name_index.handles.find(name);
  if (found == name_index.handles.end()) refuse_unknown(name);
  return allocator_handles::handle_of(found->second);
}
std::optional<any_allocator> find(std::string_view name) {
  name_table& name_index = table();
  std::lock_guard const lock{name_index.mutex};
  auto const found = name_index.handles.find(name);
  if (found == name_index.handles.end()) return std::nullopt;
  return allocator_handles::handle_of(found->second);
}
bool contains(std::string_view name) { return find(name).has_value(); }
std::optional<any_allocator> find(allocator_id id) {
  auto const handle = handle_of(id);
  if (!handle) return std::nullopt;
  return allocator_handles::handle_of(*handle);
}
any_allocator owner_of(void const* address) {
  auto const found = record_of("allocators::owner_of", address);
  return allocator_handles::handle_of(owner_of_record("allocators::owner_of", address, found));
}
bool has_owner(void const* address) {
  auto const found = registry::find(address);
  return found && handle_of(found->allocator);
}
std::vector<std::string> names() {
  std::vector<std::string> result;
  name_table& name_index = table();
  std::lock_guard const lock{name_index.mutex};
  for (auto const& [name, handle] : name_index.handles) {
    if (name_index.entries.at(handle).name == name) result.push_back(name);
  }
  return result;
}

void add_alias(std::string alias, std::string_view name) {
  check_characters(alias);
  name_table& name_index = table();
  std::lock_guard const lock{name_index.mutex};
  auto const found = name_index.handles.find(name);
  if (found == name_index.handles.end()) refuse_unknown(name);
  check_is_free(alias);
  name_index.handles.emplace(std::move(alias), found->second);
}
void remove_alias(std::string_view alias) {
  name_table& name_index = table();
  std::lock_guard const lock{name_index.mutex};
  auto const found = name_index.handles.find(alias);
  if (found == name_index.handles.end()) refuse_unknown(alias);
  if (name_index.entries.at(found->second).name == alias)
    throw bad_argument{"allocators::remove_alias: " + quoted(alias) +
                       " is no alias, but the name that the allocator was made with"};
  name_index.handles.erase(found);
}

void destroy(std::string_view name, unfreed_memory handling) {
  if (held_handle::is_any())
    throw bad_argument{"allocators::destroy: " + quoted(name) +
                       " cannot be destroyed from within a call on an allocator, by a heuristic's "
                       "rule or a resource's function"};
  name_table& name_index = table();
  std::uint64_t handle = 0;
  {
    std::lock_guard const lock{name_index.mutex};
    auto const found = name_index.handles.find(name);
    if (found == name_index.handles.end()) refuse_unknown(name);
    handle = found->second;
    std::string const& owner = name_index.entries.at(handle).name;
    if (owner != name)
      throw bad_argument{"allocators::destroy: " + quoted(name) + " is an alias of " +
                         quoted(owner) + "; remove the alias, or destroy " + quoted(owner)};
  }
  with(handle, "allocators::destroy", [](allocator_model&) {});  // frees the returned blocks
  auto const check = [&](void* object) {
    auto const& model = *static_cast<allocator_model*>(object);
    if (std::size_t const users = allocator_handles::users_of(model))
      throw bad_argument{"allocators::destroy: " + quoted(name) + " is the resource of " +
                         std::to_string(users) + " pools or adaptors; destroy them before"};
    auto const counts = model.counts();
    if (handling == unfreed_memory::discard || counts.allocations_in_use == 0) return;
    throw bad_argument{"allocators::destroy: " + quoted(name) + " has " +
                       std::to_string(counts.allocations_in_use) + " allocations of " +
                       std::to_string(counts.allocated) +
                       " bytes that were not freed; free them, or discard them"};
  };
  std::unique_ptr<allocator_model> const destroyed{
      static_cast<allocator_model*>(handle_table::remove(
          handle_value{handle}, handle_kind::allocator, "allocators::destroy", check))};
  std::lock_guard const lock{name_index.mutex};
  auto const entry = name_index.entries.find(handle);
  if (allocator_id const id = entry->second.id; id != 0) {
    name_index.by_id.erase(id);
    recent_handle(id).compare_exchange_strong(handle, 0);
  }
  std::erase_if(name_index.handles,
                [&](auto const& alias) { return alias.second == entry->first; });
  name_index.entries.erase(entry);
}

}  // namespace allocators

namespace operations {

void deallocate(void* memory) {
  if (memory == nullptr) return;
  auto const found = record_of_first("deallocate", memory);
  enum class answer { is_freed, is_block, is_free_already, is_not_its };
  auto const ask = [&](std::uint64_t handle) {
    return with(handle, "deallocate", [&](allocator_model& model) {
      if (model.id() != found.allocator) return answer::is_not_its;
      if (allocator_handles::is_block(model, memory)) return answer::is_block;
      return model.deallocate(memory) ? answer::is_freed : answer::is_free_already;
    });
  };
  auto said = answer::is_not_its;
  if (std::uint64_t const handle = recent_handle(found.allocator)) {
    try {
      said = ask(handle);
    } catch (bad_argument const&) {  // the allocator was destroyed
    }
  }
  if (said == answer::is_not_its) said = ask(owner_of_record("deallocate", memory, found));
  if (said == answer::is_freed) return;
  if (said == answer::is_block) refuse_block("deallocate", memory, found);
  std::ostringstream why;
  why << "deallocate: " << memory << " was freed by another thread";
  throw bad_argument{why.str()};
}

void* reallocate(void* memory, bytes size) {
  auto const found = record_of_first("reallocate", memory);
  auto owner = allocator_handles::handle_of(owner_of_record("reallocate", memory, found));
  if (!owner.size_of(memory)) refuse_block("reallocate", memory, found);
  return reallocate(owner, memory, size);
}
void* reallocate(void* memory, bytes size, any_allocator owner) {
  return memory == nullptr ? owner.allocate(size) : reallocate(memory, size);
}

void* move(void* memory, any_allocator target) {
  auto const found = record_of_first("move", memory);
  auto owner = allocator_handles::handle_of(owner_of_record("move", memory, found));
  if (!owner.size_of(memory)) refuse_block("move", memory, found);
  return owner == target ? memory : move(owner, memory, target);
}

}  // namespace operations
}  // namespace quarry::inline QUARRY_ABI
