// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/any_resource.hpp"

#include <string>

namespace quarry::python {

/// The resource of the name host, device (memory of GPU `device`), pinned or managed. Throws
/// `bad_argument`, and what the resource's constructor throws.
any_resource resource_named(std::string const& kind, int device);

/// Where memory lies, for example `host` or `device:0`.
std::string text_of(memory_location location);

}  // namespace quarry::python
