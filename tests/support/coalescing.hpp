// SPDX-License-Identifier: Apache-2.0
// Fixtures for tests of coalesced allocation: upstream heaps that report missing frees, on every
// back end.
#pragma once

#include "quarry/device/coalescing/coalescing_heap.hpp"
#include "quarry/simt/lane_group.hpp"
#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"

#include <string>
#include <string_view>

namespace quarry::test {

/// A heap of `slots` places with `slot_bytes` bytes each. It overwrites freed places and counts
/// errors. Kernels of any back end may call it. The test owns `counts` and the arrays.
struct arena {
  struct counters {
    std::uint32_t mallocs = 0;
    std::uint32_t frees = 0;
    std::uint32_t invalid_frees = 0;   // of an address that is not allocated
    std::uint32_t max_requests = ~0u;  // later requests get nullptr
    std::uint32_t requests = 0;
    bytes largest_request = 0;  // exact if one lane allocates at a time
  };
  counters* counts;
  std::uint32_t* taken;
  char* memory;
  std::uint64_t slots;  // 64 bits: lanes are grouped by an arena's bytes, so it has no padding
  bytes slot_bytes;

  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    if (simt::atomic_ref<std::uint32_t>{counts->requests}.fetch_add(1, simt::relaxed) >=
            counts->max_requests ||
        size > slot_bytes)
      return nullptr;
    simt::atomic_ref<std::uint64_t>{counts->largest_request}.fetch_max(size, simt::relaxed);
    for (std::uint32_t i = 0; i < slots; ++i) {
      std::uint32_t unused = 0;
      if (!simt::atomic_ref<std::uint32_t>{taken[i]}.compare_exchange(unused, 1, simt::acquire))
        continue;
      simt::atomic_ref<std::uint32_t>{counts->mallocs}.fetch_add(1, simt::relaxed);
      return memory + i * slot_bytes;
    }
    return nullptr;
  }
  QUARRY_HD void free(void* pointer) const {
    auto const offset = static_cast<bytes>(static_cast<char*>(pointer) - memory);
    bool const is_base = offset % slot_bytes == 0 && offset / slot_bytes < slots;
    if (is_base) {
      for (bytes i = 0; i < slot_bytes; ++i) static_cast<unsigned char*>(pointer)[i] = 0xdd;
    }
    if (is_base && simt::atomic_ref<std::uint32_t>{taken[offset / slot_bytes]}.exchange(
                       0, simt::acq_rel) == 1) {
      simt::atomic_ref<std::uint32_t>{counts->frees}.fetch_add(1, simt::relaxed);
    } else {
      simt::atomic_ref<std::uint32_t>{counts->invalid_frees}.fetch_add(1, simt::relaxed);
    }
  }
};

/// An arena's memory on one back end.
template <class Backend>
struct arena_owner {
  explicit arena_owner(std::uint32_t count, bytes bytes_per_slot = 4096)
      : slots{count},
        slot_bytes{bytes_per_slot},
        counts(1),
        taken(count),
        memory((count * bytes_per_slot + 255) / 16) {}

  [[nodiscard]] arena ref() {
    auto const begin = (reinterpret_cast<std::uintptr_t>(memory.data()) + 127) / 128 * 128;
    return {counts.data(), taken.data(), reinterpret_cast<char*>(begin), slots, slot_bytes};
  }
  [[nodiscard]] std::uint32_t live() { return counts[0].mallocs - counts[0].frees; }

  struct alignas(16) line {
    std::uint64_t words[2];
  };
  std::uint32_t slots;
  bytes slot_bytes;
  typename Backend::template array<arena::counters> counts;
  typename Backend::template array<std::uint32_t> taken;
  typename Backend::template array<line> memory;
};

/// The platform's heap, with a count of its live allocations.
struct counted_platform {
  std::uint64_t* live;
  std::uint64_t* remaining;  // mallocs that still succeed

  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    simt::atomic_ref<std::uint64_t> const rest{*remaining};
    if (rest.load(simt::relaxed) == 0) return nullptr;
    rest.fetch_sub(1, simt::relaxed);
    void* const result = platform_malloc_heap{}.malloc(size);
    if (result != nullptr) simt::atomic_ref<std::uint64_t>{*live}.fetch_add(1, simt::relaxed);
    return result;
  }
  QUARRY_HD void free(void* pointer) const {
    simt::atomic_ref<std::uint64_t>{*live}.fetch_sub(1, simt::relaxed);
    platform_malloc_heap{}.free(pointer);
  }
};

template <class Backend>
[[nodiscard]] constexpr backend backend_of() {
  return std::string_view{Backend::name} == "cuda" ? backend::cuda : backend::cpu;
}

/// A heap of this library as upstream.
template <class Backend>
class heap_upstream {
 public:
  static constexpr char const* name = "heap";
  static constexpr bool tells = true;
  using ref_type = heap_ref;

  explicit heap_upstream(Backend const& backend)
      : owner_{backend.make_heap({.bytes = 4_MiB, .segment_bytes = 64_KiB})} {}
  [[nodiscard]] heap_ref ref() { return owner_.ref(); }
  void expect_empty() { expect_sound_and_empty(owner_); }
  [[nodiscard]] std::uint64_t faults() const { return owner_.first_fault() ? 1 : 0; }
  [[nodiscard]] heap& owner() { return owner_; }

 private:
  heap owner_;
};

/// The platform's heap as upstream.
template <class Backend>
class platform_upstream {
 public:
  static constexpr char const* name = "platform";
  static constexpr bool tells = false;
  using ref_type = counted_platform;

  explicit platform_upstream(Backend const&) : live_(1), remaining_(1, ~std::uint64_t{0}) {}
  [[nodiscard]] counted_platform ref() { return {live_.data(), remaining_.data()}; }
  void expect_empty() { EXPECT_EQ(live_[0], 0u) << "superblocks were not returned"; }
  [[nodiscard]] std::uint64_t faults() const { return 0; }
  /// Lets `mallocs` more allocations succeed.
  void limit(std::uint64_t mallocs) { remaining_[0] = mallocs; }

 private:
  typename Backend::template array<std::uint64_t> live_;
  typename Backend::template array<std::uint64_t> remaining_;
};

/// One back end, one upstream heap, and a coalescing heap over it.
template <class Backend, template <class> class Over>
class setting {
 public:
  template <class T>
  using array = typename Backend::template array<T>;
  using upstream_type = Over<Backend>;
  using ref_type = coalescing_ref<typename upstream_type::ref_type>;
  static constexpr bool tells = upstream_type::tells;
  /// `tells` as a function, for conditions at run time.
  [[nodiscard]] static bool can_tell() { return tells; }

  [[nodiscard]] static backend backend_kind() { return backend_of<Backend>(); }
  static std::string name() { return std::string{Backend::name} + "_over_" + upstream_type::name; }
  [[nodiscard]] static std::vector<std::uint64_t> seeds() { return Backend::seeds(); }

  explicit setting(std::uint64_t seed = 1, std::uint32_t map_capacity = 4096,
                   std::uint32_t warps = 16)
      : backend_{seed},
        upstream_{backend_},
        coalescer_{
            upstream_.ref(),
            {.map_capacity = map_capacity, .warps = warps, .backend_kind = backend_of<Backend>()}} {
  }

  [[nodiscard]] ref_type ref() const { return coalescer_.ref(); }
  template <class Kernel>
  void run(simt::grid lanes, Kernel const& kernel) const {
    backend_.run(lanes, kernel);
  }
  [[nodiscard]] std::uint64_t count(fault_kind kind) const { return coalescer_.fault_count(kind); }
  /// The number of invalid frees.
  [[nodiscard]] std::uint64_t refused() const {
    return count(fault_kind::double_free) + count(fault_kind::foreign_pointer);
  }

  void expect_empty() { upstream_.expect_empty(); }
  void expect_no_fault() const {
    if (auto const fault = coalescer_.first_fault()) ADD_FAILURE() << *fault;
  }
  [[nodiscard]] upstream_type& upstream() { return upstream_; }
  [[nodiscard]] coalescing_heap<typename upstream_type::ref_type>& coalescer() {
    return coalescer_;
  }

 private:
  Backend backend_;
  upstream_type upstream_;
  coalescing_heap<typename upstream_type::ref_type> coalescer_;
};

template <class>
struct with_both_upstreams;
template <class... Backends>
struct with_both_upstreams<testing::Types<Backends...>> {
  using type =
      testing::Types<setting<Backends, heap_upstream>..., setting<Backends, platform_upstream>...>;
};
using settings = with_both_upstreams<backends>::type;

struct setting_names {
  template <class Setting>
  static std::string GetName(int) {
    return Setting::name();
  }
};

/// Runs `kernel`, which begins with a coalesced operation, in one warp of fibers. Searches for a
/// schedule in which all lanes arrive at this operation together, as they do on hardware.
template <class Kernel>
void run_whole_warp(std::uint32_t lanes, Kernel const& kernel) {
  simt::fiber_schedule schedule{.seed = 1, .switches = 0, .partial_groups = 0};
  for (bool is_whole = false; !is_whole; ++schedule.seed) {
    simt::launch_fibers({1, lanes}, schedule, [&] {
      is_whole = simt::lane_group::coalesced<class whole_warp_probe>().size() == lanes;
    });
  }
  --schedule.seed;
  simt::launch_fibers({1, lanes}, schedule, kernel);
}

/// The allocation methods of a coalescing heap that any lane may call at any time. They are
/// numbers, so that kernels can mix them.
enum allocation_method : std::uint32_t {
  dynamic,
  header_warp,
  map_warp,
  reserved,
  slices,
  packed,
  methods
};

template <class Ref>
[[nodiscard]] QUARRY_HD void* allocate(Ref const& ref, std::uint32_t method, bytes size) {
  switch (method) {
    case header_warp:
      return ref.template malloc_static<coalesce::warp, locate_by::header>(size);
    case map_warp:
      return ref.template malloc_static<coalesce::warp, locate_by::map>(size);
    case reserved:
      return ref.malloc_reserved(size);
    case slices:
      if constexpr (requires { ref.malloc_slices(size); }) {
        return ref.malloc_slices(size);
      } else {
        return ref.malloc(size);
      }
    case packed:
      if constexpr (requires { ref.malloc_packed(size); }) {
        return ref.malloc_packed(size);
      } else {
        return ref.malloc(size);
      }
    default:
      return ref.malloc(size);
  }
}

}  // namespace quarry::test
