// SPDX-License-Identifier: Apache-2.0
// How long do 2^20 threads (2^17 on the CPU) take for real work on memory of their own: allocate 128 bytes and fill them, add
// up those of a neighbour, free? Three kernels, since a neighbour's memory is there only when all have theirs.
#include "kernels.hpp"
#include "rounds.hpp"

namespace {

constexpr std::uint32_t numbers = 32;

/// What lane `rank` writes at place `i`. The sum over all places depends on the rank.
QUARRY_HD std::uint32_t number_of(std::uint64_t rank, std::uint32_t i) {
  return static_cast<std::uint32_t>(rank) * 5 + i;
}

template <class Ref>
struct fill_own {
  Ref heap;
  std::uint64_t count;
  std::uint32_t** arrays;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= count) return;
    auto* const own = static_cast<std::uint32_t*>(heap.malloc(numbers * sizeof(std::uint32_t)));
    arrays[rank] = own;
    if (own == nullptr) return;
    for (std::uint32_t i = 0; i < numbers; ++i) own[i] = number_of(rank, i);
  }
};

/// Counts the neighbours whose sum is not what it must be, or who have no memory.
struct sum_of_neighbour {
  std::uint64_t count;
  std::uint32_t* const* arrays;
  std::uint64_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= count) return;
    std::uint64_t const neighbour = (rank + 1) % count;
    std::uint32_t const* const theirs = arrays[neighbour];
    std::uint32_t sum = 0, expected = 1;
    if (theirs != nullptr) {
      for (std::uint32_t i = 0; i < numbers; ++i) sum += theirs[i];
      expected = numbers * number_of(neighbour, 0) + numbers * (numbers - 1) / 2;
    }
    if (sum != expected)
      quarry::simt::atomic_ref<std::uint64_t>{*wrong}.fetch_add(1, quarry::simt::relaxed);
  }
};

template <class Ref>
struct free_own {
  Ref heap;
  std::uint64_t count;
  std::uint32_t* const* arrays;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank < count) heap.free(arrays[rank]);
  }
};

template <class Allocator>
void measure(std::uint64_t count) {
  auto const params = bench::parameters{}.add("allocator", Allocator::name).add("threads", count);
  Allocator allocator{bench::heap_bytes};
  auto const heap = allocator.device();
  using ref = typename Allocator::ref;
  bench::array<std::uint32_t*> arrays{count};
  bench::array<std::uint64_t> wrong{1};
  std::vector<double> total_ms;
  for (bench::rounds round; round.next();) {
    if (bench::never_frees<Allocator>) allocator.reset();
    double const took =
        bench::time_ms(bench::lanes(count), fill_own<ref>{heap, count, arrays.data()}) +
        bench::time_ms(bench::lanes(count), sum_of_neighbour{count, arrays.data(), wrong.data()}) +
        bench::time_ms(bench::lanes(count), free_own<ref>{heap, count, arrays.data()});
    if (round.counts()) total_ms.push_back(took);
  }
  if (auto const found = wrong.to_host()[0]; found != 0) {
    bench::record_failure("heap/in_use/total", params, std::to_string(found) + " sums are wrong",
                          "ms");
    return;
  }
  if (!bench::record_complaint("heap/in_use/total", params, allocator, 0, "ms")) return;
  bench::record_spread("heap/in_use/total", params, bench::spread_of(total_ms), "ms");
}

}  // namespace

int main(int argc, char** argv) {
  bench::for_each_allocator(
      argc, argv, [&]<class Allocator>() { measure<Allocator>(1u << (bench::on_gpu ? 20 : 17)); });
}
