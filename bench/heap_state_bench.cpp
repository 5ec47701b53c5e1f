// SPDX-License-Identifier: Apache-2.0
// How fast do 2^20 threads (2^17 on the CPU) allocate once each from heaps in three states: new,
// used for another size and not reset since, and reset after the same size?
//
// Of a new heap each round makes one, which is not timed. The other size is four times the one
// measured, of 4 KiB a fourth; all of it is freed before.
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

/// One round from the state given. What is wrong with it goes to `complaint`.
template <class Allocator>
double round_ms(Allocator& allocator, state before, bench::bytes size, std::string& complaint) {
  bench::array<void*> pointers{bench::many_lanes};
  if (before == state::used) {
    (void)allocate_ms(allocator, size < 4_KiB ? 4 * size : size / 4, pointers);
    free_all(allocator, pointers);
  } else if (before == state::reset) {
    allocator.reset();
  }
  double const ms = allocate_ms(allocator, size, pointers);
  complaint = bench::check(pointers.size(), bench::one_size{size}, pointers);
  free_all(allocator, pointers);
  return ms;
}

template <class Allocator>
void measure(state before, char const* name, bench::bytes size) {
  bench::trial all{bench::parameters{}
                       .add("allocator", Allocator::name)
                       .add("bytes", size)
                       .add("threads", bench::many_lanes),
                   {{std::string{"heap/state/"} + name, "Mops/s"}}};
  std::optional<Allocator> allocator;
  if (before != state::fresh) allocator.emplace(bench::heap_bytes);
  std::string complaint;
  while (all.next()) {
    if (before == state::fresh) allocator.emplace(bench::heap_bytes);
    double const ms = round_ms(*allocator, before, size, complaint);
    if (!complaint.empty()) return all.fail(complaint);
    all.add({bench::mops(bench::many_lanes, ms)});
  }
  all.finish(*allocator);
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
