// SPDX-License-Identifier: Apache-2.0
// Both ways between our resources and the standard library's.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/resources/resource.hpp"

#include <cstddef>
#include <memory_resource>
#include <new>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A std::pmr::memory_resource as one of ours. It must outlive this.
class pmr_resource {
 public:
  explicit pmr_resource(std::pmr::memory_resource* from = std::pmr::get_default_resource())
      : from_{from} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("standard_resource", alignment);
    if (size > max_bytes_at_once)
      throw out_of_memory{"standard_resource", size, "nothing has so much"};
    try {
      return from_->allocate(size, alignment);
    } catch (std::bad_alloc const& failure) {
      throw out_of_memory{"standard_resource", size, failure.what()};
    }
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    from_->deallocate(pointer, size, alignment);
  }

 private:
  std::pmr::memory_resource* from_;
};

static_assert(memory_resource<pmr_resource>);

/// A resource or pool of ours as a std::pmr::memory_resource, for std::pmr's containers. It must
/// outlive this. Memory must be the host's.
template <class Resource>
class as_pmr_resource : public std::pmr::memory_resource {
 public:
  explicit as_pmr_resource(Resource& from) : from_{&from} {}

 private:
  void* do_allocate(std::size_t size, std::size_t alignment) override {
    return from_->allocate(size, alignment);
  }
  void do_deallocate(void* pointer, std::size_t size, std::size_t alignment) override {
    from_->deallocate(pointer, size, alignment);
  }
  [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
    auto const* const same = dynamic_cast<as_pmr_resource const*>(&other);
    return same != nullptr && same->from_ == from_;
  }

  Resource* from_;
};

/// For containers of the standard library: an allocator of T's from a resource or pool of ours,
/// which must outlive it.
template <class T, class Resource>
class resource_allocator {
 public:
  using value_type = T;
  template <class Other>
  struct rebind {
    using other = resource_allocator<Other, Resource>;
  };

  explicit resource_allocator(Resource& from) noexcept : from_{&from} {}
  template <class Other>
  resource_allocator(resource_allocator<Other, Resource> const& other) noexcept
      : from_{other.resource()} {}

  [[nodiscard]] T* allocate(std::size_t count) {
    if (count > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_array_new_length{};
    return static_cast<T*>(from_->allocate(count * sizeof(T), alignof(T)));
  }
  void deallocate(T* pointer, std::size_t count) noexcept {
    from_->deallocate(pointer, count * sizeof(T), alignof(T));
  }

  [[nodiscard]] Resource* resource() const noexcept { return from_; }
  template <class Other>
  friend bool operator==(resource_allocator const& a,
                         resource_allocator<Other, Resource> const& b) noexcept {
    return a.resource() == b.resource();
  }

 private:
  Resource* from_;
};

}  // namespace quarry::inline QUARRY_ABI
