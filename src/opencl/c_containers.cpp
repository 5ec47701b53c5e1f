// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/c_containers.h"

#include "opencl/c_handles.hpp"
#include "quarry/opencl/csr.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

namespace quarry::inline QUARRY_ABI::opencl {

namespace {

using namespace opencl_c;

// The structs of C hosts are those of kernels.
static_assert(sizeof(quarry_opencl_vector) == sizeof(quarry_vector) &&
              offsetof(quarry_opencl_vector, element_bytes) ==
                  offsetof(quarry_vector, element_bytes) &&
              offsetof(quarry_opencl_vector, size) == offsetof(quarry_vector, size) &&
              offsetof(quarry_opencl_vector, lost) == offsetof(quarry_vector, lost));
static_assert(sizeof(quarry_opencl_array_list) == sizeof(quarry_array_list) &&
              offsetof(quarry_opencl_array_list, element_bytes) ==
                  offsetof(quarry_array_list, element_bytes) &&
              offsetof(quarry_opencl_array_list, size) == offsetof(quarry_array_list, size));
static_assert(sizeof(quarry_opencl_queue) == sizeof(quarry_queue));
static_assert(sizeof(quarry_opencl_map) == sizeof(quarry_map) &&
              offsetof(quarry_opencl_map, table) == offsetof(quarry_map, table) &&
              offsetof(quarry_opencl_map, mask) == offsetof(quarry_map, mask) &&
              offsetof(quarry_opencl_map, size) == offsetof(quarry_map, size) &&
              std::is_same_v<quarry_graph, quarry_map>);
static_assert(sizeof(quarry_opencl_ordered_map) == sizeof(quarry_ordered_map) &&
              offsetof(quarry_opencl_ordered_map, size) == offsetof(quarry_ordered_map, size));

quarry_vector* kernels(quarry_opencl_vector* vector) {
  return reinterpret_cast<quarry_vector*>(vector);
}
quarry_array_list* kernels(quarry_opencl_array_list* list) {
  return reinterpret_cast<quarry_array_list*>(list);
}
quarry_queue* kernels(quarry_opencl_queue* queue) { return reinterpret_cast<quarry_queue*>(queue); }
quarry_map* kernels(quarry_opencl_map* map) { return reinterpret_cast<quarry_map*>(map); }
quarry_ordered_map* kernels(quarry_opencl_ordered_map* map) {
  return reinterpret_cast<quarry_ordered_map*>(map);
}

/// Calls `work` with the mapped heap and the kernels' struct of a container.
template <class Container, class Work>
quarry_status on(quarry_opencl_heap* heap, char const* call, Container* container,
                 Work const& work) noexcept {
  return with(heap, call, accepts::mapped, "", [&](c_heap& target) {
    check_not_null(call, "the container", container);
    return work(target.mapping->get(), kernels(container));
  });
}

quarry_status no_memory(char const* call, std::string const& wanted) {
  return c_api::fail(QUARRY_OUT_OF_MEMORY,
                     (std::string{call} + ": the heap has no memory for " + wanted).c_str());
}

void check_elements(char const* call, std::uint32_t count, std::uint32_t element_bytes) {
  if (count == 0) throw bad_argument{std::string{call} + ": count is 0; it must be at least 1"};
  if (element_bytes == 0)
    throw bad_argument{std::string{call} +
                       ": element_bytes is 0; set it before the first element is added"};
}
void check_range(char const* call, std::uint32_t first, std::uint32_t count, std::uint32_t size) {
  if (first > size || count > size - first)
    throw bad_argument{std::string{call} + ": elements " + std::to_string(first) + " up to " +
                       std::to_string(std::uint64_t{first} + count) +
                       " exceed the size, which is " + std::to_string(size)};
}
std::string elements(std::uint32_t count, std::uint32_t element_bytes) {
  return std::to_string(count) + " elements of " + std::to_string(element_bytes) + " bytes";
}

/// Calls `work(address, bytes)` for each part of the elements [first, first + count) that is
/// contiguous. The vector must have them.
template <class Work>
void for_each_part(quarry_heap heap, quarry_vector* vector, std::uint32_t first,
                   std::uint32_t count, Work const& work) {
  for (std::uint64_t index = first, end = index + count; index < end;) {
    auto const segment = quarry_segment_of(static_cast<uint>(index));
    std::uint64_t const behind = quarry_first_of_segment(segment) + (std::uint64_t{32} << segment);
    auto const part = std::min(end, behind) - index;
    work(quarry_vector_at(heap, vector, static_cast<uint>(index)), part * vector->element_bytes);
    index += part;
  }
}

/// Takes the keys and values of a map for arrays of the caller, either of which may be null.
struct entry_writer {
  std::uint32_t *keys, *values;
  std::uint64_t capacity;
  std::uint64_t& count;

  [[nodiscard]] bool is_full() const { return count == capacity; }
  void add(std::uint32_t key, std::uint32_t value) {
    if (keys != nullptr) keys[count] = key;
    if (values != nullptr) values[count] = value;
    ++count;
  }
};

/// Frees the entries and the table of a map.
void destroy(quarry_heap heap, quarry_map* map) {
  (void)quarry_map_free_erased(heap, map);
  (void)quarry_map_clear(heap, map, 0, 1);
  (void)quarry_free(heap, map->table);
  *map = {};
}

template <class T>
T* copy_of(std::vector<T> const& values) {
  auto copy = std::make_unique<T[]>(std::max<std::size_t>(values.size(), 1));
  std::copy(values.begin(), values.end(), copy.get());
  return copy.release();
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::opencl

using namespace quarry::opencl;
using quarry::bad_argument;

quarry_status quarry_opencl_vector_push(quarry_opencl_heap* heap, quarry_opencl_vector* vector,
                                        uint32_t count, uint32_t* first) {
  constexpr auto call = "quarry_opencl_vector_push";
  if (first != nullptr) *first = 0;
  return on(heap, call, vector, [&](quarry_heap mapped, quarry_vector* target) {
    check_result(call, first);
    check_elements(call, count, target->element_bytes);
    auto const index = quarry_vector_push(mapped, target, count);
    if (index == QUARRY_NONE) return no_memory(call, elements(count, target->element_bytes));
    *first = index;
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_vector_at(quarry_opencl_heap* heap, quarry_opencl_vector* vector,
                                      uint32_t index, void** element) {
  constexpr auto call = "quarry_opencl_vector_at";
  if (element != nullptr) *element = nullptr;
  return on(heap, call, vector, [&](quarry_heap mapped, quarry_vector* target) {
    check_result(call, element);
    check_range(call, index, 1, target->size);
    *element = quarry_vector_at(mapped, target, index);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_vector_read(quarry_opencl_heap* heap, quarry_opencl_vector* vector,
                                        uint32_t first, uint32_t count, void* target) {
  constexpr auto call = "quarry_opencl_vector_read";
  return on(heap, call, vector, [&](quarry_heap mapped, quarry_vector* from) {
    check_range(call, first, count, from->size);
    if (count != 0) check_result(call, target);
    auto* to = static_cast<std::byte*>(target);
    for_each_part(mapped, from, first, count, [&](void const* part, std::size_t size) {
      std::memcpy(to, part, size);
      to += size;
    });
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_vector_write(quarry_opencl_heap* heap, quarry_opencl_vector* vector,
                                         uint32_t first, uint32_t count, void const* source) {
  constexpr auto call = "quarry_opencl_vector_write";
  return on(heap, call, vector, [&](quarry_heap mapped, quarry_vector* to) {
    check_range(call, first, count, to->size);
    if (count != 0) check_not_null(call, "the source", source);
    auto const* from = static_cast<std::byte const*>(source);
    for_each_part(mapped, to, first, count, [&](void* part, std::size_t size) {
      std::memcpy(part, from, size);
      from += size;
    });
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_vector_clear(quarry_opencl_heap* heap, quarry_opencl_vector* vector) {
  return on(heap, "quarry_opencl_vector_clear", vector,
            [](quarry_heap mapped, quarry_vector* target) {
              (void)quarry_vector_clear(mapped, target);
              return QUARRY_OK;
            });
}

quarry_status quarry_opencl_array_list_grow(quarry_opencl_heap* heap,
                                            quarry_opencl_array_list* list, uint32_t count,
                                            uint32_t* first, void** elements_at) {
  constexpr auto call = "quarry_opencl_array_list_grow";
  if (first != nullptr) *first = 0;
  if (elements_at != nullptr) *elements_at = nullptr;
  return on(heap, call, list, [&](quarry_heap mapped, quarry_array_list* target) {
    check_elements(call, count, target->element_bytes);
    uint index = 0;
    void* const added = quarry_array_list_grow(mapped, target, count, &index);
    if (added == nullptr) return no_memory(call, elements(count, target->element_bytes));
    if (first != nullptr) *first = index;
    if (elements_at != nullptr) *elements_at = added;
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_array_list_read(quarry_opencl_heap* heap,
                                            quarry_opencl_array_list* list, uint32_t first,
                                            uint32_t count, void* target) {
  constexpr auto call = "quarry_opencl_array_list_read";
  return on(heap, call, list, [&](quarry_heap mapped, quarry_array_list* from) {
    check_range(call, first, count, from->size);
    if (count != 0) check_result(call, target);
    std::size_t const element = from->element_bytes;
    std::uint64_t const end = std::uint64_t{first} + count;
    for (quarry_ref ref = from->newest; ref != 0; ref = quarry_list_next(mapped, ref)) {
      auto const& chunk = *quarry_array_chunk_at(mapped, ref);
      std::uint64_t const low = std::max(first, chunk.first);
      std::uint64_t const high =
          std::min<std::uint64_t>(end, std::uint64_t{chunk.first} + chunk.count);
      if (low >= high) continue;
      std::memcpy(static_cast<std::byte*>(target) + (low - first) * element,
                  quarry_array_elements(mapped, ref) + (low - chunk.first) * element,
                  (high - low) * element);
    }
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_array_list_clear(quarry_opencl_heap* heap,
                                             quarry_opencl_array_list* list) {
  return on(heap, "quarry_opencl_array_list_clear", list,
            [](quarry_heap mapped, quarry_array_list* target) {
              (void)quarry_array_list_clear(mapped, target);
              return QUARRY_OK;
            });
}

quarry_status quarry_opencl_queue_push(quarry_opencl_heap* heap, quarry_opencl_queue* queue,
                                       uint32_t value) {
  constexpr auto call = "quarry_opencl_queue_push";
  return on(heap, call, queue, [&](quarry_heap mapped, quarry_queue* target) {
    (void)quarry_queue_trim(mapped, target);  // no kernel runs that could still look at these rings
    return quarry_queue_push(mapped, target, value) ? QUARRY_OK : no_memory(call, "another value");
  });
}

quarry_status quarry_opencl_queue_pop(quarry_opencl_heap* heap, quarry_opencl_queue* queue,
                                      uint32_t* values, uint64_t capacity, uint64_t* count) {
  constexpr auto call = "quarry_opencl_queue_pop";
  if (count != nullptr) *count = 0;
  return on(heap, call, queue, [&](quarry_heap mapped, quarry_queue* target) {
    check_result(call, count);
    if (capacity != 0) check_not_null(call, "the array", values);
    while (*count < capacity && quarry_queue_pop(mapped, target, values + *count)) ++*count;
    (void)quarry_queue_trim(mapped, target);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_queue_clear(quarry_opencl_heap* heap, quarry_opencl_queue* queue) {
  return on(heap, "quarry_opencl_queue_clear", queue, [](quarry_heap mapped, quarry_queue* target) {
    (void)quarry_queue_clear(mapped, target);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_map_init(quarry_opencl_heap* heap, quarry_opencl_map* map,
                                     uint32_t buckets) {
  constexpr auto call = "quarry_opencl_map_init";
  return on(heap, call, map, [&](quarry_heap mapped, quarry_map* target) {
    if (buckets == 0 || buckets > QUARRY_MAP_MAX_BUCKETS)
      throw bad_argument{std::string{call} + ": " + std::to_string(buckets) +
                         " buckets are not between 1 and 2^31"};
    if (!quarry_map_init(mapped, target, buckets))
      return no_memory(call, std::to_string(buckets) + " buckets of 4 bytes");
    (void)quarry_map_empty(mapped, target, 0, 1);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_map_find(quarry_opencl_heap* heap, quarry_opencl_map* map, uint32_t key,
                                     uint32_t** value) {
  constexpr auto call = "quarry_opencl_map_find";
  if (value != nullptr) *value = nullptr;
  return on(heap, call, map, [&](quarry_heap mapped, quarry_map* target) {
    check_result(call, value);
    if (auto const entry = quarry_map_find(mapped, target, key); entry != 0)
      *value = quarry_map_value(mapped, entry);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_map_set(quarry_opencl_heap* heap, quarry_opencl_map* map, uint32_t key,
                                    uint32_t value) {
  constexpr auto call = "quarry_opencl_map_set";
  return on(heap, call, map, [&](quarry_heap mapped, quarry_map* target) {
    if (target->table == 0)
      throw bad_argument{std::string{call} +
                         ": the map has no table; call quarry_opencl_map_init first"};
    (void)quarry_map_free_erased(mapped, target);  // no kernel runs that could still read them
    bool is_new = false;
    auto const entry = quarry_map_ensure(mapped, target, key, value, &is_new);
    if (entry == 0) return no_memory(call, "another entry");
    *quarry_map_value(mapped, entry) = value;
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_map_erase(quarry_opencl_heap* heap, quarry_opencl_map* map,
                                      uint32_t key) {
  constexpr auto call = "quarry_opencl_map_erase";
  return on(heap, call, map, [&](quarry_heap mapped, quarry_map* target) {
    if (!quarry_map_erase(mapped, target, key))
      return quarry::c_api::fail(
          QUARRY_NOT_IN_USE,
          (std::string{call} + ": the map does not have key " + std::to_string(key)).c_str());
    (void)quarry_map_free_erased(mapped, target);  // no kernel runs that could still read it
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_map_read(quarry_opencl_heap* heap, quarry_opencl_map* map,
                                     uint32_t* keys, uint32_t* values, uint64_t capacity,
                                     uint64_t* count) {
  constexpr auto call = "quarry_opencl_map_read";
  if (count != nullptr) *count = 0;
  return on(heap, call, map, [&](quarry_heap mapped, quarry_map* target) {
    check_result(call, count);
    entry_writer to{keys, values, capacity, *count};
    for (std::uint64_t bucket = 0; bucket < quarry_map_buckets(target) && !to.is_full(); ++bucket) {
      quarry_ref entry = *quarry_map_bucket(mapped, target, static_cast<uint>(bucket));
      for (; entry != 0 && !to.is_full(); entry = quarry_map_entry_at(mapped, entry)->chain)
        to.add(quarry_map_entry_at(mapped, entry)->key, *quarry_map_value(mapped, entry));
    }
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_map_destroy(quarry_opencl_heap* heap, quarry_opencl_map* map) {
  return on(heap, "quarry_opencl_map_destroy", map, [](quarry_heap mapped, quarry_map* target) {
    destroy(mapped, target);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_ordered_map_find(quarry_opencl_heap* heap,
                                             quarry_opencl_ordered_map* map, uint32_t key,
                                             uint32_t** value) {
  constexpr auto call = "quarry_opencl_ordered_map_find";
  if (value != nullptr) *value = nullptr;
  return on(heap, call, map, [&](quarry_heap mapped, quarry_ordered_map* target) {
    check_result(call, value);
    if (auto const entry = quarry_ordered_map_find(mapped, target, key); entry != 0)
      *value = &quarry_skip_entry_at(mapped, entry)->value;
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_ordered_map_set(quarry_opencl_heap* heap,
                                            quarry_opencl_ordered_map* map, uint32_t key,
                                            uint32_t value) {
  constexpr auto call = "quarry_opencl_ordered_map_set";
  return on(heap, call, map, [&](quarry_heap mapped, quarry_ordered_map* target) {
    bool is_new = false;
    auto const entry = quarry_ordered_map_ensure(mapped, target, key, value, &is_new);
    if (entry == 0) return no_memory(call, "another entry");
    quarry_skip_entry_at(mapped, entry)->value = value;
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_ordered_map_read(quarry_opencl_heap* heap,
                                             quarry_opencl_ordered_map* map, uint32_t first_key,
                                             uint32_t* keys, uint32_t* values, uint64_t capacity,
                                             uint64_t* count) {
  constexpr auto call = "quarry_opencl_ordered_map_read";
  if (count != nullptr) *count = 0;
  return on(heap, call, map, [&](quarry_heap mapped, quarry_ordered_map* target) {
    check_result(call, count);
    entry_writer to{keys, values, capacity, *count};
    quarry_ref entry = quarry_ordered_map_lower_bound(mapped, target, first_key);
    for (; entry != 0 && !to.is_full(); entry = quarry_ordered_map_next(mapped, entry))
      to.add(quarry_skip_entry_at(mapped, entry)->key, quarry_skip_entry_at(mapped, entry)->value);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_ordered_map_clear(quarry_opencl_heap* heap,
                                              quarry_opencl_ordered_map* map) {
  return on(heap, "quarry_opencl_ordered_map_clear", map,
            [](quarry_heap mapped, quarry_ordered_map* target) {
              (void)quarry_ordered_map_clear(mapped, target);
              return QUARRY_OK;
            });
}

quarry_status quarry_opencl_graph_get_csr(quarry_opencl_heap* heap, quarry_opencl_graph* graph,
                                          quarry_opencl_csr* rows) {
  constexpr auto call = "quarry_opencl_graph_get_csr";
  if (rows != nullptr) *rows = {};
  return on(heap, call, graph, [&](quarry_heap mapped, quarry_graph* from) {
    check_result(call, rows);
    csr const read = csr_of(mapped, from);
    quarry_opencl_csr copy{read.ids.size(), read.targets.size(), nullptr, nullptr, nullptr};
    try {
      copy.ids = copy_of(read.ids);
      copy.offsets = copy_of(read.offsets);
      copy.targets = copy_of(read.targets);
    } catch (...) {
      quarry_opencl_csr_free(&copy);
      throw;
    }
    *rows = copy;
    return QUARRY_OK;
  });
}

void quarry_opencl_csr_free(quarry_opencl_csr* rows) {
  if (rows == nullptr) return;
  delete[] rows->ids;
  delete[] rows->offsets;
  delete[] rows->targets;
  *rows = {};
}

quarry_status quarry_opencl_graph_destroy(quarry_opencl_heap* heap, quarry_opencl_graph* graph) {
  return on(heap, "quarry_opencl_graph_destroy", graph,
            [](quarry_heap mapped, quarry_graph* target) {
              (void)quarry_graph_clear(mapped, target, 0, 1);
              destroy(mapped, target);
              return QUARRY_OK;
            });
}
