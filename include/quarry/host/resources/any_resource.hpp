// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"

#include <concepts>
#include <memory>
#include <optional>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A resource of a type that is chosen at run time, which this owns. Each call costs an indirect
/// call more; threads may share it if they may share the resource.
class any_resource {
 public:
  // In this order: whether this is a resource depends on what it can be made from.
  template <class Resource>
    requires(!std::same_as<Resource, any_resource>) && memory_resource<Resource>
  explicit any_resource(Resource from)
      : model_{std::make_unique<model_of<Resource>>(std::move(from))} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return model_->allocate(size, alignment);
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    model_->deallocate(pointer, size, alignment);
  }
  [[nodiscard]] memory_location location() { return model_->location(); }
  void synchronize() { model_->synchronize(); }
  /// What the resource has taken, as `reserved_by` says.
  [[nodiscard]] std::optional<bytes> reserved() const { return model_->reserved(); }
  /// Has the resource return unused memory, if it keeps any (`release_unused`).
  void release() { model_->release(); }

 private:
  struct model {
    virtual ~model() = default;
    [[nodiscard]] virtual void* allocate(bytes size, bytes alignment) = 0;
    virtual void deallocate(void* pointer, bytes size, bytes alignment) noexcept = 0;
    [[nodiscard]] virtual memory_location location() = 0;
    virtual void synchronize() = 0;
    [[nodiscard]] virtual std::optional<bytes> reserved() = 0;
    virtual void release() = 0;
  };
  template <class Resource>
  struct model_of final : model {
    static_assert(!simulated<Resource>, "any_resource: its addresses must have memory");
    explicit model_of(Resource taken) : from{std::move(taken)} {}
    [[nodiscard]] void* allocate(bytes size, bytes alignment) override {
      return from.allocate(size, alignment);
    }
    void deallocate(void* pointer, bytes size, bytes alignment) noexcept override {
      from.deallocate(pointer, size, alignment);
    }
    [[nodiscard]] memory_location location() override { return location_of(from); }
    void synchronize() override { quarry::synchronize(from); }
    [[nodiscard]] std::optional<bytes> reserved() override { return reserved_by(from); }
    void release() override { release_unused(from); }
    Resource from;
  };

  std::unique_ptr<model> model_;
};

static_assert(memory_resource<any_resource>);

}  // namespace quarry::inline QUARRY_ABI
