// SPDX-License-Identifier: Apache-2.0
// How long do 2^20 threads (2^17 on the CPU) take for real work on memory of their own: allocate
// 128 bytes, fill them, add up those of a neighbour, free?
//
// Once phase by phase, each a kernel: nobody works before all have their memory, so that a slow
// malloc cannot make the work look fast by staggering it. And once as programs are written: one
// kernel, in which each thread adds up its own.
#include "kernels.hpp"

namespace {

constexpr std::uint32_t numbers = 32;
constexpr bench::bytes array_bytes = numbers * sizeof(std::uint32_t);

/// What lane `rank` writes at place `i`. The sum over all places depends on the rank.
QUARRY_HD std::uint32_t number_of(std::uint64_t rank, std::uint32_t i) {
  return static_cast<std::uint32_t>(rank) * 5 + i;
}

QUARRY_HD void fill(void* array, std::uint64_t rank) {
  for (std::uint32_t i = 0; i < numbers; ++i)
    static_cast<std::uint32_t*>(array)[i] = number_of(rank, i);
}

/// Adds one to `wrong` unless `array` is there and its sum is what lane `rank` made it.
QUARRY_HD void check_sum(void const* array, std::uint64_t rank, std::uint64_t* wrong) {
  std::uint32_t sum = 0, expected = 1;
  if (array != nullptr) {
    for (std::uint32_t i = 0; i < numbers; ++i) sum += static_cast<std::uint32_t const*>(array)[i];
    expected = numbers * number_of(rank, 0) + numbers * (numbers - 1) / 2;
  }
  if (sum != expected)
    quarry::simt::atomic_ref<std::uint64_t>{*wrong}.fetch_add(1, quarry::simt::relaxed);
}

struct fill_own {
  std::uint64_t count;
  void* const* arrays;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank < count && arrays[rank] != nullptr) fill(arrays[rank], rank);
  }
};

struct sum_of_neighbour {
  std::uint64_t count;
  void* const* arrays;
  std::uint64_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= count) return;
    std::uint64_t const neighbour = (rank + 1) % count;
    check_sum(arrays[neighbour], neighbour, wrong);
  }
};

template <class Ref>
struct all_in_one {
  Ref heap;
  std::uint64_t count;
  std::uint64_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= count) return;
    void* const own = heap.malloc(array_bytes);
    if (own != nullptr) fill(own, rank);
    check_sum(own, rank, wrong);
    heap.free(own);
  }
};

template <class Allocator>
bench::parameters params_of() {
  return bench::parameters{}.add("allocator", Allocator::name).add("threads", bench::many_lanes);
}

/// What the kernels found wrong. Empty if nothing was.
std::string complaint(bench::array<std::uint64_t> const& wrong) {
  auto const found = wrong.to_host()[0];
  return found == 0 ? std::string{} : std::to_string(found) + " sums are wrong";
}

template <class Allocator>
void measure_phases(Allocator& allocator) {
  using ref = typename Allocator::ref;
  std::uint64_t const count = bench::many_lanes;
  bench::trial all{params_of<Allocator>(),
                   {{"heap/in_use/malloc", "ms"},
                    {"heap/in_use/use", "ms"},
                    {"heap/in_use/free", "ms"},
                    {"heap/in_use/total", "ms"}}};
  auto const grid = bench::lanes(count);
  bench::array<void*> arrays{count};
  bench::array<std::uint64_t> wrong{1};
  while (all.next()) {
    if (bench::never_frees<Allocator>) allocator.reset();
    auto const heap = allocator.device();
    double const taken = bench::time_ms(grid, bench::allocate_kernel<ref, bench::one_size>{
                                                  heap, {array_bytes}, count, arrays.data()});
    double const used = bench::time_ms(grid, fill_own{count, arrays.data()}) +
                        bench::time_ms(grid, sum_of_neighbour{count, arrays.data(), wrong.data()});
    double const freed = bench::time_ms(grid, bench::free_kernel<ref>{heap, count, arrays.data()});
    if (auto const found = complaint(wrong); !found.empty()) return all.fail(found);
    all.add({taken, used, freed, taken + used + freed});
  }
  all.finish(allocator);
}

template <class Allocator>
void measure_one_kernel(Allocator& allocator) {
  bench::trial all{params_of<Allocator>(), {{"heap/in_use/one_kernel", "ms"}}};
  bench::array<std::uint64_t> wrong{1};
  while (all.next()) {
    if (bench::never_frees<Allocator>) allocator.reset();
    double const took = bench::time_ms(
        bench::lanes(bench::many_lanes),
        all_in_one<typename Allocator::ref>{allocator.device(), bench::many_lanes, wrong.data()});
    if (auto const found = complaint(wrong); !found.empty()) return all.fail(found);
    all.add({took});
  }
  all.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    measure_phases(allocator);
    measure_one_kernel(allocator);
  });
}
