// SPDX-License-Identifier: Apache-2.0
#include "host/c_status.hpp"
#include "quarry/host/resources/shared_resource.hpp"

#include <memory>

namespace quarry::inline QUARRY_ABI::c_api {

/// A segment. `shared_resource` has its own lock, which a child of fork can lock.
struct open_segment : shared_resource {
  static constexpr auto kind = handle_kind::segment;
  using use = shared_use;
  using shared_resource::shared_resource;
};

template <>
struct handle_object<quarry_segment> {
  using type = open_segment;
};

}  // namespace quarry::inline QUARRY_ABI::c_api

using quarry::c_api::add_handle;
using quarry::c_api::destroy;
using quarry::c_api::fail;
using quarry::c_api::guarded;
using quarry::c_api::open_segment;
using quarry::c_api::with;

quarry_status quarry_segment_open(char const* name, uint64_t size, quarry_segment** segment) {
  if (segment != nullptr) *segment = nullptr;
  return guarded([&] {
    if (segment == nullptr)
      throw quarry::bad_argument{"quarry_segment_open: where the result goes is null"};
    if (name == nullptr) throw quarry::bad_argument{"quarry_segment_open: the name is null"};
    *segment = add_handle<quarry_segment>(std::make_unique<open_segment>(name, size));
    return QUARRY_OK;
  });
}

quarry_status quarry_segment_close(quarry_segment* segment) {
  return destroy(segment, "quarry_segment_close");
}

quarry_status quarry_segment_allocate(quarry_segment* segment, char const* name, uint64_t size,
                                      void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with(segment, "quarry_segment_allocate", memory != nullptr, [&](open_segment& target) {
    if (name == nullptr) throw quarry::bad_argument{"quarry_segment_allocate: the name is null"};
    *memory = target.allocate(std::string_view{name}, size);
    return QUARRY_OK;
  });
}

quarry_status quarry_segment_find(quarry_segment* segment, char const* name, void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with(segment, "quarry_segment_find", memory != nullptr, [&](open_segment& target) {
    if (name == nullptr) throw quarry::bad_argument{"quarry_segment_find: the name is null"};
    *memory = target.find(name);
    if (*memory != nullptr) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE,
                "quarry_segment_find: the segment has no allocation of that name");
  });
}

quarry_status quarry_segment_release(quarry_segment* segment, void* memory) {
  return with(segment, "quarry_segment_release", true, [&](open_segment& target) {
    if (target.release(memory)) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE,
                "quarry_segment_release: this opening holds no reference to the address");
  });
}

quarry_status quarry_segment_offset_of(quarry_segment* segment, void const* memory,
                                       uint64_t* offset) {
  return with(segment, "quarry_segment_offset_of", offset != nullptr, [&](open_segment& target) {
    *offset = target.offset_of(memory);
    return QUARRY_OK;
  });
}

quarry_status quarry_segment_at(quarry_segment* segment, uint64_t offset, void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with(segment, "quarry_segment_at", memory != nullptr, [&](open_segment& target) {
    *memory = target.at(offset);
    return QUARRY_OK;
  });
}
