// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"

#include <string>

namespace quarry::inline QUARRY_ABI {

/// Memory whose pages lie in files of a directory, so that it may exceed the machine's memory. Each
/// allocation is a mapped file without a name. The file is removed with the allocation. An
/// alignment above the size of a page throws `bad_argument`. Threads may share this resource.
class QUARRY_API file_resource {
 public:
  /// Throws `resource_failed` if it cannot make a file in `directory`.
  explicit file_resource(std::string directory);

  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;

  [[nodiscard]] memory_location location() const { return {memory_kind::file, 0}; }

 private:
  std::string directory_;
};

static_assert(memory_resource<file_resource>);

}  // namespace quarry::inline QUARRY_ABI
