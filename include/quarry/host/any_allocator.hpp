// SPDX-License-Identifier: Apache-2.0
// Handles of allocators, which hide the allocator's type, and adaptors that make an allocator of a
// pool or of a resource. allocators.hpp gives allocators names.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/detail/poison.hpp"
#include "quarry/host/resources/tracked_resource.hpp"

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// The counts of an allocator. `reserved` is the bytes of the blocks that a pool took from its
/// resource. `allocated` is the requested bytes that are not freed yet. For a resource, `reserved`
/// is what `reserved_by` reports, else the allocated bytes.
struct allocator_counts {
  bytes reserved = 0, peak_reserved = 0;
  bytes allocated = 0, peak_allocated = 0;
  std::size_t allocations_in_use = 0;  ///< number of allocations that are not freed yet
  std::uint64_t invalid_frees = 0;     ///< frees of addresses that were not allocated
};

/// The implementation of a handle's allocator. `any_allocator` documents the functions. The
/// handle's lock is held during each call. So an implementation needs no lock, and must not call
/// its own handle.
class QUARRY_API allocator_model {
 public:
  allocator_model() = default;
  allocator_model(allocator_model const&) = delete;
  allocator_model& operator=(allocator_model const&) = delete;
  virtual ~allocator_model() = default;

  [[nodiscard]] virtual void* allocate(bytes size, bytes alignment) = 0;
  /// Returns false and changes nothing but the count of invalid frees if `pointer` is not allocated
  /// here.
  virtual bool deallocate(void* pointer) noexcept = 0;
  [[nodiscard]] virtual std::optional<bytes> size_of(void const* pointer) const = 0;
  virtual bool label(void* pointer, std::string name, std::source_location call_site) = 0;
  virtual void release() noexcept = 0;
  virtual void coalesce(bytes wanted) noexcept = 0;
  [[nodiscard]] virtual allocator_counts counts() const = 0;
  [[nodiscard]] virtual memory_location location() = 0;
  /// The allocator's id in the registry; 0 if the registry does not know its allocations.
  [[nodiscard]] virtual allocator_id id() const = 0;

 private:
  friend class any_allocator;
  friend class allocator_resource;
  friend struct allocator_handles;
  [[nodiscard]] bool is_block(void const* pointer) const {
    return !blocks_.empty() && blocks_.contains(const_cast<void*>(pointer));
  }
  std::unordered_set<void*> blocks_;   // allocated through an `allocator_resource`
  std::atomic<std::size_t> users_{0};  // existing resources of `as_resource`
  /// Blocks whose return must not wait for the handle's lock. The next call that holds the lock
  /// frees them.
  struct {
    detail::mutex_held_at_fork mutex;  // no thread waits for another lock while it holds this one
    std::vector<void*> blocks;         // has capacity for all blocks. Guarded by: the mutex
    std::atomic<bool> has_any{false};
  } returned_;
};

/// A type that frees by the address alone and has an id in the registry, as pools do.
template <class Pool>
concept frees_by_address = requires(Pool& pool, void* pointer, bytes size) {
  { pool.allocate(size, size) } -> std::same_as<void*>;
  { pool.deallocate(pointer) } -> std::same_as<bool>;
  { std::as_const(pool).size_of(pointer) } -> std::same_as<std::optional<bytes>>;
  { std::as_const(pool).id() } -> std::same_as<allocator_id>;
};

/// The model of a pool. `coalesce` and `release` call those of the pool, or do nothing if the pool
/// lacks them.
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
  bool label(void* pointer, std::string name, std::source_location call_site) override {
    if constexpr (requires { pool_.label(pointer, name, call_site); })
      return pool_.label(pointer, std::move(name), call_site);
    return false;
  }
  void release() noexcept override {
    if constexpr (requires { pool_.release(); }) pool_.release();
  }
  void coalesce(bytes wanted) noexcept override {
    if constexpr (requires { pool_.coalesce(wanted); }) pool_.coalesce(wanted);
  }
  [[nodiscard]] allocator_counts counts() const override {
    auto const counts = pool_.counts();
    return {counts.reserved,       counts.peak_reserved,      counts.allocated,
            counts.peak_allocated, counts.allocations_in_use, counts.invalid_frees};
  }
  [[nodiscard]] memory_location location() override { return location_of(pool_); }
  [[nodiscard]] allocator_id id() const override { return pool_.id(); }

 private:
  Pool pool_;
};

/// The model of a resource, which frees by address, size and alignment. The model stores size and
/// alignment, and registers the allocations in the registry. Calls of handles take no stream. So
/// the model waits for memory of a stream-ordered resource (`synchronize`). Costs about 100 bytes
/// for an allocation of 64 bytes, and about 150 for one of 4 KiB, with 100,000 allocations in use.
template <memory_resource Resource>
class resource_model final : public allocator_model {
 public:
  resource_model(Resource resource, std::string name)
      : resource_{std::move(resource), std::move(name)} {}
  ~resource_model() override {
    for (auto const& [pointer, entry] : allocated_)
      resource_.deallocate(pointer, entry.size, entry.alignment);
  }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) override {
    void* const result = resource_.allocate(size, alignment);
    try {
      synchronize(resource_);
      allocated_.emplace(result, allocation{size, alignment});
    } catch (...) {
      resource_.deallocate(result, size, alignment);
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
    resource_.deallocate(pointer, size, alignment);
    count_reserved();
    return true;
  }
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const override {
    auto const found = allocated_.find(const_cast<void*>(pointer));
    if (found == allocated_.end()) return std::nullopt;
    return found->second.size;
  }
  bool label(void* pointer, std::string name, std::source_location call_site) override {
    return resource_.label(pointer, std::move(name), call_site);
  }
  void release() noexcept override {
    try {
      release_unused(resource_.upstream());
    } catch (...) {  // the driver failed: the resource keeps the memory
    }
    count_reserved();
  }
  void coalesce([[maybe_unused]] bytes wanted) noexcept override {
    if constexpr (requires(Resource& resource) { resource.coalesce(wanted); })
      resource_.upstream().coalesce(wanted);
    count_reserved();
  }
  [[nodiscard]] allocator_counts counts() const override {
    allocator_counts result = counts_;
    result.allocations_in_use = allocated_.size();
    return result;
  }
  [[nodiscard]] memory_location location() override { return location_of(resource_); }
  [[nodiscard]] allocator_id id() const override { return resource_.id(); }

 private:
  struct allocation {
    bytes size, alignment;
  };
  void count_reserved() noexcept {
    try {
      counts_.reserved = reserved_by(resource_).value_or(counts_.allocated);
    } catch (...) {  // the driver failed: the count stays as it was
    }
    counts_.peak_reserved = std::max(counts_.peak_reserved, counts_.reserved);
  }
  tracked_resource<Resource> resource_;
  std::unordered_map<void*, allocation> allocated_;
  allocator_counts counts_;
};

class allocator_resource;

/// A handle of an allocator. It is a number, so it can be copied freely and may outlive the
/// allocator. All functions are const, because they change the allocator, not the handle.
///
/// Threads may share the allocator: its lock serialises the calls. After the allocator was
/// destroyed, calls change nothing: frees return false, and the other functions throw
/// `was_destroyed`. A heuristic's rule, or a resource's function, may run during a call on an
/// allocator. It may use only handles of older allocators. Its calls through other handles change
/// nothing: frees return false, and the other functions throw `bad_argument`. Allocators take
/// blocks from older allocators only, so threads cannot deadlock.
class QUARRY_API any_allocator {
 public:
  /// Allocates `size` bytes. Size 0 returns a unique address. Throws `out_of_memory`, and what the
  /// allocator's resource throws.
  [[nodiscard]] void* allocate(bytes size) const { return allocate(size, 1); }
  /// The same at a multiple of `alignment`, a power of two. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) const;
  /// The same with a label for reports: a name and the place of the call.
  [[nodiscard]] void* allocate(
      bytes size, std::string name,
      std::source_location call_site = std::source_location::current()) const;
  /// Frees an allocation of this allocator, and returns true. Ignores nullptr. Returns false and
  /// changes nothing but the count of invalid frees if `pointer` is not allocated here. Returns
  /// false and changes nothing if `pointer` is a block of `as_resource`.
  bool deallocate(void* pointer) const noexcept;

  /// Labels an allocation. Returns false if `pointer` is not allocated here, or if the registry
  /// does not know it.
  bool label(void* pointer, std::string name,
             std::source_location call_site = std::source_location::current()) const;
  /// The requested bytes; nullopt if `pointer` is not the base address of an allocation of this
  /// allocator.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const;
  /// Returns the blocks without allocations to the allocator's resource.
  void release() const;
  /// Calls `release`. If less than `wanted` bytes are reserved then, takes one block that has at
  /// least the difference. Does nothing if the pool or resource has no `coalesce`, or if it would
  /// only replace one empty block by another empty block.
  void coalesce(bytes wanted) const;

  [[nodiscard]] allocator_counts counts() const;
  [[nodiscard]] memory_location location() const;
  /// The allocator's id in the registry; 0 if the registry does not know its allocations.
  [[nodiscard]] allocator_id id() const;
  /// The name of the allocator.
  [[nodiscard]] std::string name() const;
  /// Whether the allocator exists.
  [[nodiscard]] bool is_alive() const noexcept;
  /// The allocator as a resource, for pools and adaptors. These must be destroyed before the
  /// allocator. Also throws std::bad_alloc.
  [[nodiscard]] allocator_resource as_resource() const;

  friend bool operator==(any_allocator, any_allocator) = default;

 private:
  friend class allocator_resource;
  friend struct allocator_handles;
  explicit any_allocator(std::uint64_t handle) : handle_{handle} {}

  std::uint64_t handle_;
};

/// The allocator of a handle as a resource, for pools and adaptors that divide its blocks.
///
/// A block has the same base address as the first allocation in it. If that allocation is freed
/// twice, the second free must not free the block. So only this resource frees its blocks; handles
/// and `operations` refuse them. The allocator cannot be destroyed while this resource or a copy
/// exists. A heuristic's rule may return a block at a moment when it must not call the handle
/// (`any_allocator`). Then the end of the call that runs the rule, or the next call on the
/// allocator, frees the block.
class QUARRY_API allocator_resource {
 public:
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  /// Returns false if `pointer` is not a block of this resource. If the block is freed later, it is
  /// not checked, and the result is true.
  bool deallocate(void* pointer, bytes size, bytes alignment) noexcept;
  [[nodiscard]] memory_location location() const { return use_->allocator.location(); }
  [[nodiscard]] any_allocator allocator() const { return use_->allocator; }

 private:
  friend class any_allocator;
  struct QUARRY_API use {
    explicit use(any_allocator used);
    use(use const&) = delete;
    use& operator=(use const&) = delete;
    ~use();
    any_allocator allocator;
    allocator_model* model = nullptr;
  };
  explicit allocator_resource(any_allocator allocator) : use_{std::make_shared<use>(allocator)} {}

  std::shared_ptr<use> use_;
};

static_assert(memory_resource<allocator_resource>);
static_assert(!memory_resource<any_allocator>);

}  // namespace quarry::inline QUARRY_ABI
