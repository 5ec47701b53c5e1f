// SPDX-License-Identifier: Apache-2.0
// Lanes allocate, pass allocations to other lanes, and free them. They use one heap, or two heaps
// that lanes of a warp choose from, roomy or nearly full. A shadow map records the owner of each 16
// bytes.
#include "support/backends.hpp"
#include "support/shadow.hpp"

#include <string>

namespace quarry::test {

using namespace detail;
namespace heap_storm_test {

template <class Backend>
struct HeapStorm : testing::Test {};
TYPED_TEST_SUITE(HeapStorm, backends, backend_names);

constexpr std::uint32_t mailboxes = 64;
constexpr std::uint32_t held_at_once = 4;

/// The sums of all lanes' counts.
struct counts {
  std::uint32_t overlaps;  // granules of 16 bytes that belong to two allocations
  std::uint32_t refused;
  std::uint32_t served;
};

/// One allocation in a word, which fits in a mailbox.
class parcel {
 public:
  QUARRY_HD parcel(void* pointer, bytes size, bool second_heap, bool overlaps)
      : bits_{reinterpret_cast<std::uint64_t>(pointer) | std::uint64_t{size} << 48} {
    // addresses are multiples of 16, so the low bits are free
    bits_ |= (second_heap ? 1 : 0) | (overlaps ? 2 : 0);
  }
  QUARRY_HD explicit parcel(std::uint64_t bits) : bits_{bits} {}

  [[nodiscard]] QUARRY_HD bool is_empty() const { return bits_ == 0; }
  [[nodiscard]] QUARRY_HD std::uint64_t bits() const { return bits_; }
  [[nodiscard]] QUARRY_HD void* pointer() const {
    return reinterpret_cast<void*>(bits_ & 0xfffffffffff0u);
  }
  [[nodiscard]] QUARRY_HD bytes size() const { return bits_ >> 48; }
  [[nodiscard]] QUARRY_HD bool second_heap() const { return (bits_ & 1) != 0; }
  [[nodiscard]] QUARRY_HD bool overlaps() const { return (bits_ & 2) != 0; }

 private:
  std::uint64_t bits_;  // size: 16, address: 48
};

struct storm {
  heap_ref heaps[2];
  shadow_map shadows[2];
  std::uint64_t* boxes;
  counts* seen;
  std::uint32_t seed;
  std::uint32_t steps;
  std::uint32_t largest;
  bool two_heaps;

  QUARRY_HD void operator()() const {
    std::uint64_t held[held_at_once] = {};
    counts own{};
    auto const rank = static_cast<std::uint32_t>(simt::this_place().rank());
    std::uint32_t random = mix(seed * 7919 + rank);
    for (std::uint32_t step = 0; step < steps; ++step) {
      random = mix(random + step);
      std::uint64_t& place = held[random % held_at_once];
      release(parcel{place}, own);
      // most sizes are small, some are up to the largest
      std::uint32_t const limit = largest >> (random >> 8) % 8;
      std::uint32_t const size = 1 + (random >> 12) % (limit < 16 ? 16 : limit);
      bool const second = two_heaps && (random >> 4) % 2 != 0;
      place = allocate(size, second, own);
      if ((random >> 5) % 4 == 0) {
        // No fence: the pointer alone must be enough for the other lane to free the allocation.
        simt::atomic_ref<std::uint64_t> const box{boxes[(random >> 20) % mailboxes]};
        place = box.exchange(place, simt::relaxed);
      }
    }
    for (auto const word : held) release(parcel{word}, own);
    simt::atomic_ref<std::uint32_t>{seen->overlaps}.fetch_add(own.overlaps, simt::relaxed);
    simt::atomic_ref<std::uint32_t>{seen->refused}.fetch_add(own.refused, simt::relaxed);
    simt::atomic_ref<std::uint32_t>{seen->served}.fetch_add(own.served, simt::relaxed);
  }

  QUARRY_HD std::uint64_t allocate(std::uint32_t size, bool second, counts& own) const {
    void* const pointer = heaps[second].malloc(size);
    if (pointer == nullptr) {
      ++own.refused;
      return 0;
    }
    ++own.served;
    std::uint32_t const overlaps = shadows[second].mark(pointer, size);
    own.overlaps += overlaps;
    return parcel{pointer, size, second, overlaps != 0}.bits();
  }

  QUARRY_HD void release(parcel freed, counts& own) const {
    if (freed.is_empty()) return;
    own.overlaps += shadows[freed.second_heap()].unmark(freed.pointer(), freed.size());
    own.overlaps += freed.overlaps() ? 1 : 0;
    heaps[freed.second_heap()].free(freed.pointer());
  }
};

/// Runs a storm on one or both of two heaps of `heap_bytes`, and checks that no allocations
/// overlap.
template <class Backend>
void expect_nothing_shared(Backend const& backend, std::uint64_t seed, simt::grid lanes,
                           bytes heap_bytes, storm kernel, bool may_refuse) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  heap_options const options{.bytes = heap_bytes, .segment_bytes = 64_KiB};
  auto const first = backend.make_heap(options);
  auto const second = backend.make_heap(options);
  std::size_t const words = shadow_map::words_for(first.region_bytes());
  typename Backend::template array<std::uint32_t> shadows(2 * words);
  typename Backend::template array<std::uint64_t> boxes(mailboxes);
  typename Backend::template array<counts> seen(1);
  kernel.heaps[0] = first.ref();
  kernel.heaps[1] = second.ref();
  kernel.shadows[0] = {shadows.data(), first.region()};
  kernel.shadows[1] = {shadows.data() + words, second.region()};
  kernel.boxes = boxes.data();
  kernel.seen = seen.data();
  kernel.seed = static_cast<std::uint32_t>(seed);
  backend.run(lanes, kernel);
  EXPECT_EQ(seen[0].overlaps, 0u);
  EXPECT_GT(seen[0].served, 0u);
  if (!may_refuse) {
    EXPECT_EQ(seen[0].refused, 0u);
  }
  for (heap const* owner : {&first, &second}) {
    for (auto const& line : owner->audit()) ADD_FAILURE() << line;
    for (auto kind = fault_kind::double_free; kind != fault_kind::count_;
         kind = static_cast<fault_kind>(static_cast<std::uint32_t>(kind) + 1))
      EXPECT_EQ(owner->fault_count(kind), 0u) << name_of(kind);
  }
  std::size_t in_boxes = 0;
  for (std::size_t i = 0; i < mailboxes; ++i) in_boxes += boxes[i] != 0 ? 1 : 0;
  EXPECT_EQ(first.live_allocations().size() + second.live_allocations().size(), in_boxes);
}

inline storm storm_of_sizes_to(std::uint32_t largest, std::uint32_t steps, bool two_heaps) {
  return {{},       {{nullptr, nullptr}, {nullptr, nullptr}}, nullptr, nullptr, 0, steps, largest,
          two_heaps};
}

template <class Backend>
constexpr bool on_gpu = std::string_view{Backend::name} == "cuda";

TYPED_TEST(HeapStorm, AllocationsDoNotOverlapInARoomyHeap) {
  constexpr simt::grid lanes = on_gpu<TypeParam> ? simt::grid{128, 160} : simt::grid{2, 40};
  constexpr bytes size = on_gpu<TypeParam> ? 256_MiB : 8_MiB;
  for (auto const seed : TypeParam::seeds()) {
    expect_nothing_shared(TypeParam{seed}, seed, lanes, size, storm_of_sizes_to(4096, 25, false),
                          false);
    if (this->HasFailure()) return;
  }
}

TYPED_TEST(HeapStorm, AllocationsDoNotOverlapInANearlyFullHeap) {
  constexpr simt::grid lanes = on_gpu<TypeParam> ? simt::grid{128, 160} : simt::grid{2, 40};
  constexpr bytes size = on_gpu<TypeParam> ? 32_MiB : 192_KiB;
  for (auto const seed : TypeParam::seeds()) {
    expect_nothing_shared(TypeParam{seed}, seed, lanes, size, storm_of_sizes_to(16384, 25, false),
                          true);
    if (this->HasFailure()) return;
  }
}

TYPED_TEST(HeapStorm, AllocationsDoNotOverlapIfLanesOfAWarpUseTwoHeaps) {
  constexpr simt::grid lanes = on_gpu<TypeParam> ? simt::grid{128, 160} : simt::grid{2, 40};
  constexpr bytes size = on_gpu<TypeParam> ? 64_MiB : 1_MiB;
  for (auto const seed : TypeParam::seeds()) {
    expect_nothing_shared(TypeParam{seed}, seed, lanes, size, storm_of_sizes_to(2048, 25, true),
                          true);
    if (this->HasFailure()) return;
  }
}

/// Every lane frees pointers that another lane also frees: a lane of its warp, of another warp or
/// of another block.
struct free_twice {
  heap_ref heap;
  void** pointers;
  std::uint32_t count;

  QUARRY_HD void operator()() const {
    auto const place = simt::this_place();
    auto const rank = static_cast<std::uint32_t>(place.rank());
    auto const lanes = static_cast<std::uint32_t>(place.count());
    for (std::uint32_t i = rank; i < 2 * count; i += lanes) heap.free(pointers[i % count]);
  }
};

struct allocate_all {
  heap_ref heap;
  void** pointers;
  bytes size;
  std::uint32_t count;

  QUARRY_HD void operator()() const {
    auto const place = simt::this_place();
    auto const lanes = static_cast<std::uint32_t>(place.count());
    for (auto i = static_cast<std::uint32_t>(place.rank()); i < count; i += lanes)
      pointers[i] = heap.malloc(size);
  }
};

/// Two lanes free each pointer at the same time. One of the two frees is reported, and the other
/// free succeeds: then each slice can be allocated once, and all memory at once.
TYPED_TEST(HeapStorm, ReportsOneOfTwoFreesOfOnePointerAtTheSameTimeAndStaysSound) {
  constexpr simt::grid lanes = on_gpu<TypeParam> ? simt::grid{64, 256} : simt::grid{2, 32};
  constexpr bytes size = on_gpu<TypeParam> ? 16_MiB : 128_KiB;
  for (bytes const slice : {bytes{48}, bytes{1024}, bytes{4096}}) {
    SCOPED_TRACE("slices of " + std::to_string(slice));
    for (auto const seed : TypeParam::seeds()) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      TypeParam const backend{seed};
      auto owner = backend.make_heap({.bytes = size, .segment_bytes = 64_KiB});
      bytes const net = slice - hardening::padded(0);
      auto const count = static_cast<std::uint32_t>(size / slice);
      typename TypeParam::template array<void*> pointers(count);
      for (int round = 0; round < 2; ++round) {
        backend.run(lanes, allocate_all{owner.ref(), pointers.data(), net, count});
        std::uint32_t served = 0;
        for (auto const* pointer : pointers) served += pointer != nullptr ? 1 : 0;
        owner.clear_faults();
        backend.run(lanes, free_twice{owner.ref(), pointers.data(), count});
        // A second free may come after its segment was returned: then its pointer is foreign.
        EXPECT_EQ(owner.fault_count(fault_kind::double_free) +
                      owner.fault_count(fault_kind::foreign_pointer),
                  served);
        for (auto const& line : owner.audit()) ADD_FAILURE() << line;
        EXPECT_EQ(owner.live_allocations().size(), 0u);
      }
      typename TypeParam::template array<void*> whole_heap(1);
      backend.run({1, 1},
                  allocate_all{owner.ref(), whole_heap.data(), size - hardening::padded(0), 1});
      EXPECT_NE(whole_heap[0], nullptr) << "all memory is free";
      if (this->HasFailure()) return;
    }
  }
}

#ifdef __CUDACC__
/// Two kernels run at a time, on separate streams, use one heap, and free each other's allocations.
TEST(HeapStormOnStreams, KernelsThatRunAtTheSameTimeShareNoMemory) {
  constexpr bytes heap_bytes = 1_GiB;
  constexpr std::uint32_t steps = 100;
  heap const owner{{.bytes = heap_bytes, .backend_kind = backend::cuda}};
  cuda_backend::array<std::uint32_t> shadow(shadow_map::words_for(owner.region_bytes()));
  cuda_backend::array<std::uint64_t> boxes(mailboxes);
  cuda_backend::array<counts> seen(1);
  shadow_map const map{shadow.data(), owner.region()};
  cudaStream_t streams[2];
  for (auto& stream : streams)
    simt::check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  for (std::uint32_t round = 0; round < 8; ++round) {
    storm const kernel{{owner.ref(), owner.ref()},
                       {map, map},
                       boxes.data(),
                       seen.data(),
                       round,
                       steps,
                       4096,
                       false};
    simt::launch_cuda({60, 256}, kernel, streams[round % 2]);
  }
  for (auto const stream : streams) {
    simt::check_cuda(cudaStreamSynchronize(stream), "kernel");
    cudaStreamDestroy(stream);
  }
  EXPECT_EQ(seen[0].overlaps, 0u);
  EXPECT_EQ(seen[0].served, 8u * 60 * 256 * steps);
  for (auto const& line : owner.audit()) ADD_FAILURE() << line;
  EXPECT_FALSE(owner.first_fault().has_value());
}
#endif

}  // namespace heap_storm_test
}  // namespace quarry::test
