// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/heap.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/any_resource.hpp"

#include <cstdint>
#include <string>

namespace quarry::python {

[[nodiscard]] inline void* pointer_to(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}
[[nodiscard]] inline std::uint64_t address_of(void const* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

/// The resource of the name host, device (memory of GPU `device`), pinned or managed. Throws
/// `bad_argument`, and what the resource's constructor throws.
any_resource resource_named(std::string const& kind, int device);

/// The backend of the name automatic, cpu or cuda. Throws `bad_argument`, which begins with `user`.
backend backend_named(char const* user, std::string const& name);

/// Where memory lies, for example `host` or `device:0`.
std::string text_of(memory_location location);

}  // namespace quarry::python
