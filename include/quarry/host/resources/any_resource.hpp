// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <memory>
#include <optional>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Owns a resource whose type is chosen at run time. Each call costs one more indirect call.
/// Threads may share it if they may share the owned resource.
class any_resource {
 public:
  // The order of the constraints matters: `memory_resource<any_resource>` itself depends on this
  // constructor.
  template <class Resource>
    requires(!std::same_as<Resource, any_resource>) && memory_resource<Resource>
  explicit any_resource(Resource resource)
      : model_{std::make_unique<model_of<Resource>>(std::move(resource))} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return model_->allocate(size, alignment);
  }
  /// Returns false if the resource says that it has refused the pointer.
  bool deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    return model_->deallocate(pointer, size, alignment);
  }
  [[nodiscard]] memory_location location() { return model_->location(); }
  void synchronize() { model_->synchronize(); }
  /// The bytes that the resource has reserved (`reserved_by`).
  [[nodiscard]] std::optional<bytes> reserved() const { return model_->reserved(); }
  /// Makes the resource return unused memory, if it keeps any (`release_unused`).
  void release() { model_->release(); }

 private:
  struct model {
    virtual ~model() = default;
    [[nodiscard]] virtual void* allocate(bytes size, bytes alignment) = 0;
    virtual bool deallocate(void* pointer, bytes size, bytes alignment) noexcept = 0;
    [[nodiscard]] virtual memory_location location() = 0;
    virtual void synchronize() = 0;
    [[nodiscard]] virtual std::optional<bytes> reserved() = 0;
    virtual void release() = 0;
  };
  template <class Resource>
  struct model_of final : model {
    static_assert(!simulated<Resource>,
                  "any_resource: a simulated resource has no memory behind its addresses");
    explicit model_of(Resource owned) : resource{std::move(owned)} {}
    [[nodiscard]] void* allocate(bytes size, bytes alignment) override {
      return resource.allocate(size, alignment);
    }
    bool deallocate(void* pointer, bytes size, bytes alignment) noexcept override {
      return plain_call{}.deallocate(resource, pointer, size, alignment);
    }
    [[nodiscard]] memory_location location() override { return location_of(resource); }
    void synchronize() override { quarry::synchronize(resource); }
    [[nodiscard]] std::optional<bytes> reserved() override { return reserved_by(resource); }
    void release() override { release_unused(resource); }
    Resource resource;
  };

  std::unique_ptr<model> model_;
};

static_assert(memory_resource<any_resource>);

}  // namespace quarry::inline QUARRY_ABI
