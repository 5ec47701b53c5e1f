// SPDX-License-Identifier: Apache-2.0
// Handles of allocators whose type is not known where they are used, and what makes an allocator of
// a pool or of a resource. allocators.hpp gives them names.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/pools/poison.hpp"
#include "quarry/host/registry/held_at_fork.hpp"
#include "quarry/host/resources/tracked_resource.hpp"

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// What an allocator counts, in bytes unless said otherwise. `reserved`: taken from its resource;
/// `allocated`: requested, and not freed yet. A resource reserves what it allocates, and what it
/// keeps if it says so (`reserved_by`).
struct allocator_counts {
  bytes reserved = 0, peak_reserved = 0;
  bytes allocated = 0, peak_allocated = 0;
  std::size_t allocations = 0;      ///< that are not freed yet
  std::uint64_t invalid_frees = 0;  ///< frees of addresses that were not allocated
};

/// What a handle's allocator does. The handle's lock is held during each call, so an implementation
/// needs none, and must not call its own handle.
class QUARRY_API allocator_model {
 public:
  allocator_model() = default;
  allocator_model(allocator_model const&) = delete;
  allocator_model& operator=(allocator_model const&) = delete;
  virtual ~allocator_model() = default;

  [[nodiscard]] virtual void* allocate(bytes size, bytes alignment) = 0;
  /// False, and nothing is changed but a count, if `pointer` is not allocated here.
  virtual bool deallocate(void* pointer) noexcept = 0;
  [[nodiscard]] virtual std::optional<bytes> size_of(void const* pointer) const = 0;
  virtual bool label(void* pointer, std::string name, std::source_location where) = 0;
  virtual void release() noexcept = 0;
  virtual void coalesce(bytes wanted) noexcept = 0;
  [[nodiscard]] virtual allocator_counts counts() const = 0;
  [[nodiscard]] virtual memory_location location() = 0;
  /// Its number in the registry; 0 if the registry does not know its allocations.
  [[nodiscard]] virtual allocator_id id() const = 0;

 private:
  friend class any_allocator;
  friend class allocator_resource;
  friend struct allocator_handles;
  [[nodiscard]] bool is_block(void const* pointer) const {
    return !blocks_.empty() && blocks_.contains(const_cast<void*>(pointer));
  }
  std::unordered_set<void*> blocks_;   // that pools and adaptors took by `allocator_resource`
  std::atomic<std::size_t> users_{0};  // `as_resource` was called, and the resources are not gone
  /// Blocks whose return must not wait for the handle's lock. The next call that holds the lock
  /// frees them.
  struct {
    std::mutex mutex;  // nobody waits for another lock under it
    held_at_fork reserved{mutex};
    std::vector<void*> blocks;  // has room for all blocks. Guarded by: the mutex
    std::atomic<bool> has_any{false};
  } returned_;
};

/// A type that frees by the address alone, and says its number in the registry, as pools do.
template <class Pool>
concept frees_by_address = requires(Pool& from, void* pointer, bytes size) {
  { from.allocate(size, size) } -> std::same_as<void*>;
  { from.deallocate(pointer) } -> std::same_as<bool>;
  { std::as_const(from).size_of(pointer) } -> std::same_as<std::optional<bytes>>;
  { std::as_const(from).id() } -> std::same_as<allocator_id>;
};

/// The model of a pool. `coalesce` and `release` do what the pool's do, or nothing.
template <frees_by_address Pool>
class QUARRY_POISONS pool_model final : public allocator_model {
 public:
  template <class... Arguments>
  explicit pool_model(Arguments&&... arguments) : pool_(std::forward<Arguments>(arguments)...) {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) override {
    return pool_.allocate(size, alignment);
  }
  bool deallocate(void* pointer) noexcept override { return pool_.deallocate(pointer); }
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const override {
    return pool_.size_of(pointer);
  }
  bool label(void* pointer, std::string name, std::source_location where) override {
    if constexpr (requires { pool_.label(pointer, name, where); })
      return pool_.label(pointer, std::move(name), where);
    return false;
  }
  void release() noexcept override {
    if constexpr (requires { pool_.release(); }) pool_.release();
  }
  void coalesce(bytes wanted) noexcept override {
    if constexpr (requires { pool_.coalesce(wanted); }) pool_.coalesce(wanted);
  }
  [[nodiscard]] allocator_counts counts() const override {
    auto const all = pool_.counts();
    return {all.reserved,       all.peak_reserved,    all.allocated,
            all.peak_allocated, all.chunks_allocated, all.invalid_frees};
  }
  [[nodiscard]] memory_location location() override { return location_of(pool_); }
  [[nodiscard]] allocator_id id() const override { return pool_.id(); }

 private:
  Pool pool_;
};

/// The model of a resource, which frees by address, size and alignment: remembers both, and makes
/// its allocations known to the registry. What a resource gives in the order of a stream it waits
/// for (`synchronize`), since handles name no stream. Costs some 120 bytes an allocation.
template <memory_resource Resource>
class resource_model final : public allocator_model {
 public:
  resource_model(Resource from, std::string name) : from_{std::move(from), std::move(name)} {}
  ~resource_model() override {
    for (auto const& [pointer, one] : allocated_)
      from_.deallocate(pointer, one.size, one.alignment);
  }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) override {
    void* const result = from_.allocate(size, alignment);
    try {
      synchronize(from_);
      allocated_.emplace(result, allocation{size, alignment});
    } catch (...) {
      from_.deallocate(result, size, alignment);
      throw;
    }
    counts_.allocated += size;
    counts_.peak_allocated = std::max(counts_.peak_allocated, counts_.allocated);
    count_reserved();
    return result;
  }
  bool deallocate(void* pointer) noexcept override {
    if (pointer == nullptr) return true;
    auto const found = allocated_.find(pointer);
    if (found == allocated_.end()) {
      ++counts_.invalid_frees;
      return false;
    }
    auto const [size, alignment] = found->second;
    allocated_.erase(found);
    counts_.allocated -= size;
    from_.deallocate(pointer, size, alignment);
    count_reserved();
    return true;
  }
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const override {
    auto const found = allocated_.find(const_cast<void*>(pointer));
    if (found == allocated_.end()) return std::nullopt;
    return found->second.size;
  }
  bool label(void* pointer, std::string name, std::source_location where) override {
    return from_.label(pointer, std::move(name), where);
  }
  void release() noexcept override {
    try {
      release_unused(from_.upstream());
    } catch (...) {  // the driver refuses: the resource keeps the memory
    }
    count_reserved();
  }
  void coalesce([[maybe_unused]] bytes wanted) noexcept override {
    if constexpr (requires(Resource& from) { from.coalesce(wanted); })
      from_.upstream().coalesce(wanted);
    count_reserved();
  }
  [[nodiscard]] allocator_counts counts() const override {
    allocator_counts all = counts_;
    all.allocations = allocated_.size();
    return all;
  }
  [[nodiscard]] memory_location location() override { return location_of(from_); }
  [[nodiscard]] allocator_id id() const override { return from_.id(); }

 private:
  struct allocation {
    bytes size, alignment;
  };
  void count_reserved() noexcept {
    try {
      counts_.reserved = reserved_by(from_).value_or(counts_.allocated);
    } catch (...) {  // the driver does not say: it is as it was
    }
    counts_.peak_reserved = std::max(counts_.peak_reserved, counts_.reserved);
  }
  tracked_resource<Resource> from_;
  std::unordered_map<void*, allocation> allocated_;
  allocator_counts counts_;
};

class allocator_resource;

/// A handle of an allocator: a number, which copies freely, and may outlive the allocator. Calls
/// change the allocator, and never the handle: all are const.
///
/// Threads may share the allocator: its own lock makes calls take turns. After the allocator was
/// destroyed, calls change nothing: frees return false, and all others throw `bad_argument`. The
/// same holds for a call that a heuristic's rule or a resource's function makes during a call on
/// another allocator, unless the called allocator is the older one. Allocators take blocks from
/// older allocators only, so threads never wait for each other in a circle.
class QUARRY_API any_allocator {
 public:
  /// `size` bytes, or for 0 an address of its own. Throws `out_of_memory`, and what the allocator's
  /// resource throws.
  [[nodiscard]] void* allocate(bytes size) const { return allocate(size, 1); }
  /// At a multiple of `alignment`, a power of two. Throws `bad_argument` too.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) const;
  /// The same, with a name that reports give, and the place of the call.
  [[nodiscard]] void* allocate(bytes size, std::string name,
                               std::source_location where = std::source_location::current()) const;
  /// Frees what this handle, or one like it, allocated; nullptr is ignored. False, and nothing is
  /// changed but a count, if it is not allocated here, or is a block of `as_resource`.
  bool deallocate(void* pointer) const noexcept;

  /// Names an allocation. False if `pointer` is not allocated here, or not known to the registry.
  bool label(void* pointer, std::string name,
             std::source_location where = std::source_location::current()) const;
  /// Bytes requested; nothing if `pointer` is not the first address of an allocation of this one.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const;
  /// Returns the blocks in which nothing is allocated to the allocator's resource.
  void release() const;
  /// The same, and takes one block for what is missing to `wanted` bytes reserved. Resources, and
  /// pools that never coalesce, do nothing.
  void coalesce(bytes wanted) const;

  [[nodiscard]] allocator_counts counts() const;
  [[nodiscard]] memory_location location() const;
  /// Its number in the registry; 0 if the registry does not know its allocations.
  [[nodiscard]] allocator_id id() const;
  /// The name that it was made with.
  [[nodiscard]] std::string name() const;
  /// Its allocator was not destroyed.
  [[nodiscard]] bool is_alive() const noexcept;
  /// The allocator as a resource, for pools and adaptors, which must be destroyed before it. Throws
  /// std::bad_alloc too.
  [[nodiscard]] allocator_resource as_resource() const;

  friend bool operator==(any_allocator, any_allocator) = default;

 private:
  friend class allocator_resource;
  friend struct allocator_handles;
  explicit any_allocator(std::uint64_t handle) : handle_{handle} {}

  std::uint64_t handle_;
};

/// The allocator of a handle as a resource, for what takes blocks and cuts them.
///
/// A block begins where the first allocation in it begins. So that freeing that allocation twice
/// does not free the block, only this resource frees its blocks: handles and `operations` refuse
/// them. The allocator cannot be destroyed while this or a copy exists. A block that a heuristic's
/// rule returns, when handles must not be called (`any_allocator`), is freed by the next call on
/// the allocator, or at the end of the one that asks the rule.
class QUARRY_API allocator_resource {
 public:
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;
  [[nodiscard]] memory_location location() const { return use_->from.location(); }
  [[nodiscard]] any_allocator allocator() const { return use_->from; }

 private:
  friend class any_allocator;
  struct QUARRY_API use {
    explicit use(any_allocator user_of);
    use(use const&) = delete;
    use& operator=(use const&) = delete;
    ~use();
    any_allocator from;
    allocator_model* model = nullptr;
  };
  explicit allocator_resource(any_allocator from) : use_{std::make_shared<use>(from)} {}

  std::shared_ptr<use> use_;
};

static_assert(memory_resource<allocator_resource>);
static_assert(!memory_resource<any_allocator>);

}  // namespace quarry::inline QUARRY_ABI
