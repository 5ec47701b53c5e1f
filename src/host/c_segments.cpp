// SPDX-License-Identifier: Apache-2.0
#include "c_status.hpp"
#include "quarry/host/shared_resource.hpp"

#include <memory>
#include <utility>

using quarry::c_api::fail;
using quarry::c_api::guarded;
using quarry::c_api::with;

/// Takes no lock: `shared` has its own, which a child of fork can take.
struct quarry_segment {
  static constexpr char const* noun = "segment";

  quarry_segment(std::string name, quarry::bytes size) : shared{std::move(name), size} {}

  struct no_lock {
    static void lock() {}
    static void unlock() {}
  };

  quarry::shared_resource shared;
  no_lock mutex;
};

quarry_status quarry_segment_open(char const* name, uint64_t size, quarry_segment** segment) {
  if (segment != nullptr) *segment = nullptr;
  return guarded([&] {
    if (segment == nullptr)
      throw quarry::bad_argument{"quarry_segment_open: where the result goes is null"};
    if (name == nullptr) throw quarry::bad_argument{"quarry_segment_open: the name is null"};
    *segment = std::make_unique<quarry_segment>(name, size).release();
    return QUARRY_OK;
  });
}

void quarry_segment_close(quarry_segment* segment) { delete segment; }

quarry_status quarry_segment_allocate(quarry_segment* segment, char const* name, uint64_t size,
                                      void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with(segment, "quarry_segment_allocate", memory != nullptr, [&] {
    if (name == nullptr) throw quarry::bad_argument{"quarry_segment_allocate: the name is null"};
    *memory = segment->shared.allocate(std::string_view{name}, size);
    return QUARRY_OK;
  });
}

quarry_status quarry_segment_find(quarry_segment* segment, char const* name, void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with(segment, "quarry_segment_find", memory != nullptr, [&] {
    if (name == nullptr) throw quarry::bad_argument{"quarry_segment_find: the name is null"};
    *memory = segment->shared.find(name);
    if (*memory != nullptr) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE, "quarry_segment_find: the segment has nothing of that name");
  });
}

quarry_status quarry_segment_release(quarry_segment* segment, void* memory) {
  return with(segment, "quarry_segment_release", true, [&] {
    if (segment->shared.release(memory)) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE, "quarry_segment_release: this opening holds no reference to it");
  });
}

quarry_status quarry_segment_offset_of(quarry_segment* segment, void const* memory,
                                       uint64_t* offset) {
  return with(segment, "quarry_segment_offset_of", offset != nullptr, [&] {
    *offset = segment->shared.offset_of(memory);
    return QUARRY_OK;
  });
}

quarry_status quarry_segment_at(quarry_segment* segment, uint64_t offset, void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with(segment, "quarry_segment_at", memory != nullptr, [&] {
    *memory = segment->shared.at(offset);
    return QUARRY_OK;
  });
}
