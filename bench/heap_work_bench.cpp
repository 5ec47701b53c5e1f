// SPDX-License-Identifier: Apache-2.0
// How long do 2^20 threads (2^17 on the CPU) take for real work on their own memory: allocate 128
// bytes, fill them, add up the numbers of a neighbour, free?
//
// First each phase is a kernel: no thread works before all threads have memory, so a slow malloc
// cannot make the work look fast by staggering it. Then all phases are one kernel, as in most
// programs, in which each thread adds up its own numbers.
#include "kernels.hpp"

namespace {

constexpr std::uint32_t numbers = 32;
constexpr bench::bytes array_bytes = numbers * sizeof(std::uint32_t);

/// The number that lane `rank` writes at index `i`. The sum over all indices depends on the rank.
QUARRY_HD std::uint32_t number_of(std::uint64_t rank, std::uint32_t i) {
  return static_cast<std::uint32_t>(rank) * 5 + i;
}

QUARRY_HD void fill(void* array, std::uint64_t rank) {
  for (std::uint32_t i = 0; i < numbers; ++i)
    static_cast<std::uint32_t*>(array)[i] = number_of(rank, i);
}

/// Adds one to `wrong` if `array` is null or its sum is not that of lane `rank`'s numbers.
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
struct work_kernel {
  Ref heap;
  std::uint64_t count;
  std::uint64_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= count) return;
    void* const array = heap.malloc(array_bytes);
    if (array != nullptr) fill(array, rank);
    check_sum(array, rank, wrong);
    heap.free(array);
  }
};

template <class Allocator>
bench::parameters params_of() {
  return bench::parameters{}.add("allocator", Allocator::name).add("threads", bench::many_lanes);
}

/// Describes the errors that the kernels found; empty if there are none.
std::string complaint(bench::array<std::uint64_t> const& wrong) {
  auto const found = wrong.to_host()[0];
  return found == 0 ? std::string{} : std::to_string(found) + " sums are wrong";
}

template <class Allocator>
void measure_phases(Allocator& allocator) {
  using ref = typename Allocator::ref;
  std::uint64_t const count = bench::many_lanes;
  bench::trial rounds{params_of<Allocator>(),
                      {{"heap/in_use/malloc", "ms"},
                       {"heap/in_use/use", "ms"},
                       {"heap/in_use/free", "ms"},
                       {"heap/in_use/total", "ms"}}};
  auto const grid = bench::lanes(count);
  bench::array<void*> arrays{count};
  bench::array<std::uint64_t> wrong{1};
  while (rounds.next()) {
    if (bench::never_frees<Allocator>) allocator.reset();
    auto const heap = allocator.device();
    double const malloc_ms = bench::time_ms(grid, bench::allocate_kernel<ref, bench::one_size>{
                                                      heap, {array_bytes}, count, arrays.data()});
    double const use_ms =
        bench::time_ms(grid, fill_own{count, arrays.data()}) +
        bench::time_ms(grid, sum_of_neighbour{count, arrays.data(), wrong.data()});
    double const free_ms =
        bench::time_ms(grid, bench::free_kernel<ref>{heap, count, arrays.data()});
    if (auto const found = complaint(wrong); !found.empty()) return rounds.fail(found);
    rounds.add({malloc_ms, use_ms, free_ms, malloc_ms + use_ms + free_ms});
  }
  rounds.finish(allocator);
}

template <class Allocator>
void measure_one_kernel(Allocator& allocator) {
  bench::trial rounds{params_of<Allocator>(), {{"heap/in_use/one_kernel", "ms"}}};
  bench::array<std::uint64_t> wrong{1};
  while (rounds.next()) {
    if (bench::never_frees<Allocator>) allocator.reset();
    double const ms = bench::time_ms(
        bench::lanes(bench::many_lanes),
        work_kernel<typename Allocator::ref>{allocator.device(), bench::many_lanes, wrong.data()});
    if (auto const found = complaint(wrong); !found.empty()) return rounds.fail(found);
    rounds.add({ms});
  }
  rounds.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    measure_phases(allocator);
    measure_one_kernel(allocator);
  });
}
