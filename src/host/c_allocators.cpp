// SPDX-License-Identifier: Apache-2.0
// The C API of allocators by name.
#include "host/allocator_handles.hpp"
#include "host/c_status.hpp"
#include "quarry/host/allocators.hpp"

namespace quarry::inline QUARRY_ABI::c_api {
namespace {

[[nodiscard]] quarry_allocator* c_handle(any_allocator handle) {
  return reinterpret_cast<quarry_allocator*>(allocator_handles::number_of(handle));
}
[[nodiscard]] any_allocator allocator_of(quarry_allocator* handle) {
  return allocator_handles::handle_of(reinterpret_cast<std::uint64_t>(handle));
}
void check_not_null(char const* call, char const* name, void const* pointer) {
  if (pointer == nullptr) throw bad_argument{std::string{call} + ": " + name + " is null"};
}

/// Sets `*result` to a handle that `work` returns, or to null.
template <class Work>
quarry_status return_handle(char const* call, quarry_allocator** result,
                            Work const& work) noexcept {
  if (result != nullptr) *result = nullptr;
  return guarded([&] {
    check_not_null(call, "where the result goes", result);
    *result = c_handle(work());
    return QUARRY_OK;
  });
}
/// Sets `*memory` to an address that `work` returns, or to null.
template <class Work>
quarry_status return_memory(char const* call, void** memory, Work const& work) noexcept {
  if (memory != nullptr) *memory = nullptr;
  return guarded([&] {
    check_not_null(call, "where the result goes", memory);
    *memory = work();
    return QUARRY_OK;
  });
}
/// Does `work`, which returns nothing.
template <class Work>
quarry_status do_work(Work const& work) noexcept {
  return guarded([&] {
    work();
    return QUARRY_OK;
  });
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::c_api

using namespace quarry::c_api;
namespace allocators = quarry::allocators;
namespace operations = quarry::operations;

quarry_status quarry_allocator_make(char const* name, char const* description,
                                    quarry_allocator** allocator) {
  constexpr auto call = "quarry_allocator_make";
  return return_handle(call, allocator, [&] {
    check_not_null(call, "the name", name);
    check_not_null(call, "the description", description);
    return allocators::make(name, description);
  });
}
quarry_status quarry_allocator_find(char const* name, quarry_allocator** allocator) {
  constexpr auto call = "quarry_allocator_find";
  return return_handle(call, allocator, [&] {
    check_not_null(call, "the name", name);
    return allocators::at(name);
  });
}
quarry_status quarry_allocator_of(void const* address, quarry_allocator** allocator) {
  return return_handle("quarry_allocator_of", allocator,
                       [&] { return allocators::owner_of(address); });
}
quarry_status quarry_allocator_add_alias(char const* alias, char const* name) {
  return do_work([&] {
    check_not_null("quarry_allocator_add_alias", "the alias", alias);
    check_not_null("quarry_allocator_add_alias", "the name", name);
    allocators::add_alias(alias, name);
  });
}
quarry_status quarry_allocator_remove_alias(char const* alias) {
  return do_work([&] {
    check_not_null("quarry_allocator_remove_alias", "the alias", alias);
    allocators::remove_alias(alias);
  });
}
quarry_status quarry_allocator_destroy(char const* name, int discards) {
  return do_work([&] {
    check_not_null("quarry_allocator_destroy", "the name", name);
    allocators::destroy(
        name, discards != 0 ? quarry::unfreed_memory::discard : quarry::unfreed_memory::refuse);
  });
}

quarry_status quarry_allocator_allocate(quarry_allocator* allocator, uint64_t size, void** memory) {
  return return_memory("quarry_allocator_allocate", memory,
                       [&] { return allocator_of(allocator).allocate(size); });
}
quarry_status quarry_allocator_deallocate(quarry_allocator* allocator, void* memory) {
  return guarded([&] {
    auto owner = allocator_of(allocator);
    if (owner.deallocate(memory) && memory != nullptr) return QUARRY_OK;
    (void)owner.id();  // throws if the handle is invalid
    if (memory == nullptr) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE,
                "quarry_allocator_deallocate: the address is not in use in this allocator");
  });
}
quarry_status quarry_allocator_size_of(quarry_allocator* allocator, void const* memory,
                                       uint64_t* size) {
  return guarded([&] {
    check_not_null("quarry_allocator_size_of", "where the result goes", size);
    auto const found = allocator_of(allocator).size_of(memory);
    if (!found)
      return fail(QUARRY_NOT_IN_USE,
                  "quarry_allocator_size_of: the address is not in use in this allocator");
    *size = *found;
    return QUARRY_OK;
  });
}
quarry_status quarry_allocator_release(quarry_allocator* allocator) {
  return do_work([&] { allocator_of(allocator).release(); });
}
quarry_status quarry_allocator_coalesce(quarry_allocator* allocator, uint64_t wanted) {
  return do_work([&] { allocator_of(allocator).coalesce(wanted); });
}
quarry_status quarry_allocator_get_counts(quarry_allocator* allocator,
                                          quarry_allocator_counts* counts) {
  return do_work([&] {
    check_not_null("quarry_allocator_get_counts", "where the result goes", counts);
    auto const found = allocator_of(allocator).counts();
    *counts = {found.reserved,       found.peak_reserved,      found.allocated,
               found.peak_allocated, found.allocations_in_use, found.invalid_frees};
  });
}
quarry_status quarry_allocator_label(quarry_allocator* allocator, void* memory, char const* name) {
  return guarded([&] {
    check_not_null("quarry_allocator_label", "the name", name);
    if (allocator_of(allocator).label(memory, name, {})) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE,
                "quarry_allocator_label: the address is not in use in this allocator, or not known "
                "to the registry");
  });
}
quarry_status quarry_allocator_id(quarry_allocator* allocator, uint32_t* id) {
  return do_work([&] {
    check_not_null("quarry_allocator_id", "where the result goes", id);
    *id = allocator_of(allocator).id();
  });
}

quarry_status quarry_deallocate(void* memory) {
  return do_work([&] { operations::deallocate(memory); });
}
quarry_status quarry_reallocate(void* memory, uint64_t size, void** result) {
  return return_memory("quarry_reallocate", result,
                       [&] { return operations::reallocate(memory, size); });
}
quarry_status quarry_allocator_reallocate(quarry_allocator* fallback, void* memory, uint64_t size,
                                          void** result) {
  return return_memory("quarry_allocator_reallocate", result, [&] {
    return operations::reallocate(memory, size, allocator_of(fallback));
  });
}
quarry_status quarry_move(void* memory, quarry_allocator* target, void** result) {
  return return_memory("quarry_move", result,
                       [&] { return operations::move(memory, allocator_of(target)); });
}
