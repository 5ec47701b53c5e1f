// SPDX-License-Identifier: Apache-2.0
// How fast is a heap where allocations of mixed sizes come and go, in any order?
//
// 65536 threads (4096 on the CPU) do 100 steps. Each has places for 4 pointers; a step picks a
// place by a hash, frees what is there, and allocates 16 to 256, to 1024, or to 4096 bytes. Each
// call of malloc counts as one operation, also if it fails, and each call of free with a pointer as
// another. The heap is reset before the first round only. What the places hold at the end is freed
// by a kernel that is not timed. One round before the timed ones marks each allocation, and looks
// for foreign marks.
#include "kernels.hpp"

namespace {

constexpr std::uint32_t places = 4;
constexpr std::uint64_t thread_count = bench::on_gpu ? 65536 : 4096;

/// CUDA's malloc would take ten seconds for a hundred.
template <class Allocator>
constexpr std::uint32_t steps = bench::is_cuda_malloc<Allocator> ? 20 : 100;

/// What came of it, summed over all lanes.
struct outcome {
  std::uint64_t frees;
  std::uint64_t failures;
  std::uint64_t wrong_marks;
};

/// What one lane counts.
enum counter : std::uint32_t { frees, failures, wrong_marks, counters };

struct mark {
  std::uint32_t thread;
  std::uint32_t step;
};

template <class Ref, bool Checks>
struct churn_kernel {
  Ref heap;
  bench::uniform_sizes sizes;
  std::uint32_t steps;
  void** left;            // what each lane holds at the end, place by place
  std::uint32_t* counts;  // of each lane, counter by counter

  QUARRY_HD void operator()() const {
    auto const thread = static_cast<std::uint32_t>(quarry::simt::this_place().rank());
    if (thread >= thread_count) return;
    mark* held[places] = {};
    [[maybe_unused]] std::uint32_t since[places] = {};
    std::uint32_t freed = 0, failed = 0, wrong = 0;
    for (std::uint32_t step = 0; step < steps; ++step) {
      std::uint32_t const random = quarry::mix(thread * steps + step + 1);
      std::uint32_t const place = random % places;
      if (held[place] != nullptr) {
        if constexpr (Checks)
          wrong += held[place]->thread != thread || held[place]->step != since[place];
        heap.free(held[place]);
        ++freed;
      }
      held[place] = static_cast<mark*>(heap.malloc(sizes(random)));
      if (held[place] == nullptr) {
        ++failed;
      } else if constexpr (Checks) {
        *held[place] = {thread, step};
        since[place] = step;
      }
    }
    for (std::uint32_t i = 0; i < places; ++i) left[i * thread_count + thread] = held[i];
    counts[frees * thread_count + thread] = freed;
    counts[failures * thread_count + thread] = failed;
    counts[wrong_marks * thread_count + thread] = wrong;
  }
};

/// One round, and what it left given back. Milliseconds go to `ms`.
template <bool Checks, class Allocator>
outcome churn(Allocator& allocator, std::uint32_t most, double& ms) {
  using ref = typename Allocator::ref;
  bench::array<void*> left{places * thread_count};
  bench::array<std::uint32_t> counts{counters * thread_count};
  ms = bench::time_ms(
      bench::lanes(thread_count),
      churn_kernel<ref, Checks>{
          allocator.device(), {16, most}, steps<Allocator>, left.data(), counts.data()});
  bench::run(bench::lanes(left.size()),
             bench::free_kernel<ref>{allocator.device(), left.size(), left.data()});
  outcome sum{};
  auto const found = counts.to_host();
  for (std::uint64_t i = 0; i < thread_count; ++i) {
    sum.frees += found[frees * thread_count + i];
    sum.failures += found[failures * thread_count + i];
    sum.wrong_marks += found[wrong_marks * thread_count + i];
  }
  return sum;
}

template <class Allocator>
void measure(Allocator& allocator, std::uint32_t most) {
  bench::trial all{bench::parameters{}
                       .add("allocator", Allocator::name)
                       .add("bytes", most)
                       .add("threads", thread_count),
                   {{"heap/churn", "Mops/s"}, {"heap/churn/failures", "allocations"}}};
  constexpr std::uint64_t mallocs = thread_count * steps<Allocator>;
  double ms = 0;
  allocator.reset();
  if (auto const checked = churn<true>(allocator, most, ms); checked.wrong_marks != 0)
    return all.fail(std::to_string(checked.wrong_marks) + " allocations overlap");
  while (all.next()) {
    if (bench::never_frees<Allocator>) allocator.reset();
    auto const found = churn<false>(allocator, most, ms);
    all.add({bench::mops(mallocs + found.frees, ms), static_cast<double>(found.failures)});
  }
  all.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    // The last is where CUDA's malloc may hang: it does so elsewhere.
    for (std::uint32_t most : {256u, 4096u, 1024u}) measure(allocator, most);
  });
}
