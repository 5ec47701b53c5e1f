// SPDX-License-Identifier: Apache-2.0
// Adaptors between Quarry's resources and those of the standard library, in both directions.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/resources/resource.hpp"

#include <concepts>
#include <cstddef>
#include <memory_resource>
#include <new>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A std::pmr::memory_resource as a resource of Quarry. It must outlive this adaptor.
class pmr_resource {
 public:
  explicit pmr_resource(std::pmr::memory_resource* resource = std::pmr::get_default_resource())
      : resource_{resource} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("pmr_resource", alignment);
    if (size > max_bytes_at_once) throw out_of_memory{"pmr_resource", size, request_too_large};
    try {
      return resource_->allocate(size, alignment);
    } catch (std::bad_alloc const& failure) {
      throw out_of_memory{"pmr_resource", size, failure.what()};
    }
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    resource_->deallocate(pointer, size, alignment);
  }

 private:
  std::pmr::memory_resource* resource_;
};

static_assert(memory_resource<pmr_resource>);

/// A resource or pool of Quarry as a std::pmr::memory_resource, for std::pmr's containers. The
/// resource must outlive this adaptor. Its memory must be host memory.
template <class Resource>
class as_pmr_resource : public std::pmr::memory_resource {
 public:
  explicit as_pmr_resource(Resource& resource) : resource_{&resource} {}

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    return resource_->allocate(size, alignment);
  }
  void do_deallocate(void* pointer, std::size_t size, std::size_t alignment) override {
    resource_->deallocate(pointer, size, alignment);
  }
  [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
    auto const* const peer = dynamic_cast<as_pmr_resource const*>(&other);
    return peer != nullptr && peer->resource_ == resource_;
  }

  Resource* resource_;
};

namespace detail {

/// A member that is constructed before the base classes that follow.
template <class Resource>
struct pmr_source {
  Resource source;
};

}  // namespace detail

/// The same, but it owns the resource. So a program can replace an object of a class of std::pmr,
/// such as `std::pmr::unsynchronized_pool_resource`, by one object of this class. Threads may share
/// it if they may share the resource.
template <class Resource>
class owning_pmr_resource : private detail::pmr_source<Resource>, public as_pmr_resource<Resource> {
 public:
  /// Constructs the resource from `arguments`. Throws what its constructor throws.
  template <class... Arguments>
    requires std::constructible_from<Resource, Arguments...>
  explicit owning_pmr_resource(Arguments&&... arguments)
      : detail::pmr_source<Resource>{Resource(std::forward<Arguments>(arguments)...)},
        as_pmr_resource<Resource>{this->source} {}
  owning_pmr_resource(owning_pmr_resource const&) = delete;
  owning_pmr_resource& operator=(owning_pmr_resource const&) = delete;

  [[nodiscard]] Resource& resource() { return this->source; }
};

/// An allocator for containers of the standard library. It allocates objects of type T from a
/// resource or pool of Quarry, which must outlive it.
template <class T, class Resource>
class resource_allocator {
 public:
  using value_type = T;
  template <class Other>
  struct rebind {
    using other = resource_allocator<Other, Resource>;
  };

  explicit resource_allocator(Resource& resource) noexcept : resource_{&resource} {}
  template <class Other>
  resource_allocator(resource_allocator<Other, Resource> const& other) noexcept
      : resource_{other.resource()} {}

  [[nodiscard]] T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length{};
    return static_cast<T*>(resource_->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* pointer, std::size_t count) noexcept {
    resource_->deallocate(pointer, count * sizeof(T), alignof(T));
  }

  [[nodiscard]] Resource* resource() const noexcept { return resource_; }
  template <class Other>
  friend bool operator==(resource_allocator const& a,
                         resource_allocator<Other, Resource> const& b) noexcept {
    return a.resource() == b.resource();
  }

 private:
  Resource* resource_;
};

}  // namespace quarry::inline QUARRY_ABI
