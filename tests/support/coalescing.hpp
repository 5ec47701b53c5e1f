// SPDX-License-Identifier: Apache-2.0
// What tests of coalesced allocation run over: upstream heaps that tell what was not returned, on
// every machine.
#pragma once

#include "quarry/device/coalescing/coalescing_heap.hpp"
#include "quarry/simt/lane_group.hpp"
#include "quarry/simt/launch.hpp"
#include "support/backends.hpp"

#include <string>
#include <string_view>

namespace quarry::test {

/// A heap of `slots` places of `slot_bytes` each, which writes over what is returned and counts
/// what goes wrong. Kernels of any machine may call it; `state` and the arrays are the test's.
struct arena {
  struct state {
    std::uint32_t mallocs = 0;
    std::uint32_t frees = 0;
    std::uint32_t wrong_frees = 0;  // of what it did not hand out, or twice
    std::uint32_t maximum = ~0u;    // mallocs beyond these give nullptr
    std::uint32_t asked = 0;
    bytes largest = 0;  // that was asked for; exact if one lane asks at a time
  };
  state* now;
  std::uint32_t* taken;
  char* memory;
  std::uint64_t slots;  // 64 bits, since lanes are grouped by an arena's bytes: it has no padding
  bytes slot_bytes;

  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    if (simt::atomic_ref<std::uint32_t>{now->asked}.fetch_add(1, simt::relaxed) >= now->maximum ||
        size > slot_bytes)
      return nullptr;
    simt::atomic_ref<std::uint64_t>{now->largest}.fetch_max(size, simt::relaxed);
    for (std::uint32_t i = 0; i < slots; ++i) {
      std::uint32_t nobody = 0;
      if (!simt::atomic_ref<std::uint32_t>{taken[i]}.compare_exchange(nobody, 1, simt::acquire))
        continue;
      simt::atomic_ref<std::uint32_t>{now->mallocs}.fetch_add(1, simt::relaxed);
      return memory + i * slot_bytes;
    }
    return nullptr;
  }
  QUARRY_HD void free(void* pointer) const {
    auto const offset = static_cast<bytes>(static_cast<char*>(pointer) - memory);
    bool const starts = offset % slot_bytes == 0 && offset / slot_bytes < slots;
    if (starts) {
      for (bytes i = 0; i < slot_bytes; ++i) static_cast<unsigned char*>(pointer)[i] = 0xdd;
    }
    if (starts && simt::atomic_ref<std::uint32_t>{taken[offset / slot_bytes]}.exchange(
                      0, simt::acq_rel) == 1) {
      simt::atomic_ref<std::uint32_t>{now->frees}.fetch_add(1, simt::relaxed);
    } else {
      simt::atomic_ref<std::uint32_t>{now->wrong_frees}.fetch_add(1, simt::relaxed);
    }
  }
};

/// An arena's memory on one machine.
template <class Backend>
struct arena_owner {
  explicit arena_owner(std::uint32_t count, bytes each = 4096)
      : slots{count}, slot_bytes{each}, now(1), taken(count), memory((count * each + 255) / 16) {}

  [[nodiscard]] arena ref() {
    auto const begin = (reinterpret_cast<std::uintptr_t>(memory.data()) + 127) / 128 * 128;
    return {now.data(), taken.data(), reinterpret_cast<char*>(begin), slots, slot_bytes};
  }
  [[nodiscard]] std::uint32_t live() { return now[0].mallocs - now[0].frees; }

  struct alignas(16) line {
    std::uint64_t words[2];
  };
  std::uint32_t slots;
  bytes slot_bytes;
  typename Backend::template array<arena::state> now;
  typename Backend::template array<std::uint32_t> taken;
  typename Backend::template array<line> memory;
};

/// The platform's heap, with a count of what is not returned.
struct counted_platform {
  std::uint64_t* live;
  std::uint64_t* left;  // mallocs that succeed

  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    simt::atomic_ref<std::uint64_t> const rest{*left};
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
[[nodiscard]] constexpr backend where_is() {
  return std::string_view{Backend::name} == "cuda" ? backend::cuda : backend::cpu;
}

/// Our heap as upstream.
template <class Backend>
class over_heap {
 public:
  static constexpr char const* name = "heap";
  static constexpr bool tells = true;
  using ref_type = heap_ref;

  explicit over_heap(Backend const& on)
      : owner_{on.make_heap({.bytes = 4_MiB, .segment_bytes = 64_KiB})} {}
  [[nodiscard]] heap_ref ref() { return owner_.ref(); }
  void expect_empty() { expect_sound_and_empty(owner_); }
  [[nodiscard]] std::uint64_t faults() const { return owner_.first_fault() ? 1 : 0; }
  [[nodiscard]] heap& owner() { return owner_; }

 private:
  heap owner_;
};

/// The platform's.
template <class Backend>
class over_platform {
 public:
  static constexpr char const* name = "platform";
  static constexpr bool tells = false;
  using ref_type = counted_platform;

  explicit over_platform(Backend const&) : live_(1), left_(1, ~std::uint64_t{0}) {}
  [[nodiscard]] counted_platform ref() { return {live_.data(), left_.data()}; }
  void expect_empty() { EXPECT_EQ(live_[0], 0u) << "superblocks were not returned"; }
  [[nodiscard]] std::uint64_t faults() const { return 0; }
  /// From now on only so many mallocs succeed.
  void limit(std::uint64_t mallocs) { left_[0] = mallocs; }

 private:
  typename Backend::template array<std::uint64_t> live_;
  typename Backend::template array<std::uint64_t> left_;
};

/// One machine, one upstream heap, and a coalescing heap over it.
template <class Backend, template <class> class Over>
class setting {
 public:
  template <class T>
  using array = typename Backend::template array<T>;
  using upstream_type = Over<Backend>;
  using ref_type = coalescing_ref<typename upstream_type::ref_type>;
  static constexpr bool tells = upstream_type::tells;
  /// The same, for what is left out at run time.
  [[nodiscard]] static bool can_tell() { return tells; }

  [[nodiscard]] static backend where() { return where_is<Backend>(); }
  static std::string name() { return std::string{Backend::name} + "_over_" + upstream_type::name; }
  [[nodiscard]] static std::vector<std::uint64_t> seeds() { return Backend::seeds(); }

  explicit setting(std::uint64_t seed = 1, std::uint32_t map_capacity = 4096,
                   std::uint32_t warps = 16)
      : backend_{seed},
        upstream_{backend_},
        together_{upstream_.ref(),
                  {.map_capacity = map_capacity, .warps = warps, .where = where_is<Backend>()}} {}

  [[nodiscard]] ref_type ref() const { return together_.ref(); }
  template <class Kernel>
  void run(simt::grid lanes, Kernel const& kernel) const {
    backend_.run(lanes, kernel);
  }
  [[nodiscard]] std::uint64_t count(fault_kind kind) const { return together_.fault_count(kind); }
  /// Frees that were refused.
  [[nodiscard]] std::uint64_t refused() const {
    return count(fault_kind::double_free) + count(fault_kind::foreign_pointer);
  }

  void expect_empty() { upstream_.expect_empty(); }
  void expect_no_fault() const {
    if (auto const what = together_.first_fault()) ADD_FAILURE() << *what;
  }
  [[nodiscard]] upstream_type& upstream() { return upstream_; }
  [[nodiscard]] coalescing_heap<typename upstream_type::ref_type>& together() { return together_; }

 private:
  Backend backend_;
  upstream_type upstream_;
  coalescing_heap<typename upstream_type::ref_type> together_;
};

template <class>
struct with_both_upstreams;
template <class... Backends>
struct with_both_upstreams<testing::Types<Backends...>> {
  using type = testing::Types<setting<Backends, over_heap>..., setting<Backends, over_platform>...>;
};
using settings = with_both_upstreams<backends>::type;

struct setting_names {
  template <class Setting>
  static std::string GetName(int) {
    return Setting::name();
  }
};

/// Runs `kernel`, which begins with a coalesced operation, in one warp of fibers whose lanes all
/// arrive there together, as they do on hardware: with a schedule for which that is so.
template <class Kernel>
void run_whole_warp(std::uint32_t lanes, Kernel const& kernel) {
  simt::fiber_schedule schedule{.seed = 1, .switches = 0, .partial_groups = 0};
  for (bool together = false; !together; ++schedule.seed) {
    simt::launch_fibers({1, lanes}, schedule, [&] {
      together = simt::lane_group::coalesced<class whole_warp_probe>().size() == lanes;
    });
  }
  --schedule.seed;
  simt::launch_fibers({1, lanes}, schedule, kernel);
}

/// Each way to allocate from a coalescing heap that any lane may use at any time, as a number, so
/// that kernels can mix them.
enum way : std::uint32_t { dynamic, header_warp, map_warp, reserved, slices, packed, ways };

template <class Ref>
[[nodiscard]] QUARRY_HD void* allocate(Ref const& ref, std::uint32_t how, bytes size) {
  switch (how) {
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
