// SPDX-License-Identifier: Apache-2.0
// How fast do 2^20 threads (2^17 on the CPU) allocate once each from a heap in one of three states:
// new, used for another size and not reset since, or reset after use for the same size?
//
// For the first state each round creates a heap, which is not timed. The other size is four times
// the measured one, or a quarter for 4 KiB. All allocations of that size are freed before the
// round.
#include "kernels.hpp"

#include <optional>

namespace {

using namespace quarry::literals;

enum class state { fresh, used, reset };

template <class Allocator>
double allocate_ms(Allocator& allocator, bench::bytes size, bench::array<void*> const& pointers) {
  return bench::time_ms(bench::lanes(pointers.size()),
                        bench::allocate_kernel<typename Allocator::ref, bench::one_size>{
                            allocator.device(), {size}, pointers.size(), pointers.data()});
}

template <class Allocator>
void free_all(Allocator& allocator, bench::array<void*> const& pointers) {
  bench::run(bench::lanes(pointers.size()),
             bench::free_kernel<typename Allocator::ref>{allocator.device(), pointers.size(),
                                                         pointers.data()});
}

/// The milliseconds of one round that begins in the given state. Stores a description of its errors
/// in `complaint`.
template <class Allocator>
double round_ms(Allocator& allocator, state initial, bench::bytes size, std::string& complaint) {
  bench::array<void*> pointers{bench::many_lanes};
  if (initial == state::used) {
    (void)allocate_ms(allocator, size < 4_KiB ? 4 * size : size / 4, pointers);
    free_all(allocator, pointers);
  } else if (initial == state::reset) {
    allocator.reset();
  }
  double const ms = allocate_ms(allocator, size, pointers);
  complaint = bench::check(pointers.size(), bench::one_size{size}, pointers);
  free_all(allocator, pointers);
  return ms;
}

template <class Allocator>
void measure(state initial, char const* name, bench::bytes size) {
  bench::trial rounds{bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", size)
                          .add("threads", bench::many_lanes),
                      {{std::string{"heap/state/"} + name, "Mops/s"}}};
  std::optional<Allocator> allocator;
  if (initial != state::fresh) allocator.emplace(bench::heap_bytes);
  std::string complaint;
  while (rounds.next()) {
    if (initial == state::fresh) allocator.emplace(bench::heap_bytes);
    double const ms = round_ms(*allocator, initial, size, complaint);
    if (!complaint.empty()) return rounds.fail(complaint);
    rounds.add({bench::mops(bench::many_lanes, ms)});
  }
  rounds.finish(*allocator);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    for (bench::bytes const size : {16, 64, 256, 1024, 4096}) {
      measure<Allocator>(state::fresh, "fresh", size);
      if (!bench::never_frees<Allocator>) measure<Allocator>(state::used, "used", size);
      measure<Allocator>(state::reset, "reset", size);
    }
  });
}
