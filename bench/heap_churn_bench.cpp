// SPDX-License-Identifier: Apache-2.0
// How fast is a heap where allocations of mixed sizes come and go, in any order?
//
// 65536 threads (4096 on the CPU) do 100 steps. Each has places for 4 pointers; a step picks a
// place by a hash, frees what is there, and allocates 16 to 256, to 1024, or to 4096 bytes. Each
// call of malloc counts as one operation, also if it fails, and each call of free with a pointer as
// another. The heap is reset before the first round only. What the places hold at the end is freed
// by a kernel that is not timed. One round before the timed ones marks each allocation, and looks
// for foreign marks. One after them times each call in the thread that makes it, by its
// multiprocessor's clock (on the CPU in nanoseconds): a percentile is over all calls of all threads
// in that round.
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

/// What a round does beside allocating and freeing.
enum class extra : std::uint32_t { nothing, marks, times };

/// How long each call of a round took: step by step, lane by lane. 0: there was none.
struct call_times {
  std::uint32_t* mallocs;
  std::uint32_t* frees;
};

template <class Ref, extra Does>
struct churn_kernel {
  Ref heap;
  bench::uniform_sizes sizes;
  std::uint32_t steps;
  void** left;            // what each lane holds at the end, place by place
  std::uint32_t* counts;  // of each lane, counter by counter
  call_times times;

  QUARRY_HD void operator()() const {
    auto const thread = static_cast<std::uint32_t>(quarry::simt::this_place().rank());
    if (thread >= thread_count) return;
    mark* held[places] = {};
    [[maybe_unused]] std::uint32_t since[places] = {};
    std::uint32_t freed = 0, failed = 0, wrong = 0;
    for (std::uint32_t step = 0; step < steps; ++step) {
      std::uint64_t const call = std::uint64_t{step} * thread_count + thread;
      std::uint32_t const random = quarry::mix(thread * steps + step + 1);
      std::uint32_t const location = random % places;
      if (held[location] != nullptr) {
        if constexpr (Does == extra::marks)
          wrong += held[location]->thread != thread || held[location]->step != since[location];
        std::uint32_t const begin = now();
        heap.free(held[location]);
        if constexpr (Does == extra::times) times.frees[call] = now() - begin;
        ++freed;
      }
      std::uint32_t const begin = now();
      held[location] = static_cast<mark*>(heap.malloc(sizes(random)));
      if constexpr (Does == extra::times) times.mallocs[call] = now() - begin;
      if (held[location] == nullptr) {
        ++failed;
      } else if constexpr (Does == extra::marks) {
        *held[location] = {thread, step};
        since[location] = step;
      }
    }
    for (std::uint32_t i = 0; i < places; ++i) left[i * thread_count + thread] = held[i];
    counts[frees * thread_count + thread] = freed;
    counts[failures * thread_count + thread] = failed;
    counts[wrong_marks * thread_count + thread] = wrong;
  }

 private:
  [[nodiscard]] QUARRY_HD static std::uint32_t now() {
    return Does == extra::times ? bench::ticks() : 0;
  }
};

/// One round, and what it left returned. Milliseconds go to `ms`.
template <extra Does, class Allocator>
outcome churn(Allocator& allocator, std::uint32_t maximum, double& ms, call_times times = {}) {
  using ref = typename Allocator::ref;
  bench::array<void*> left{places * thread_count};
  bench::array<std::uint32_t> counts{counters * thread_count};
  ms = bench::time_ms(
      bench::lanes(thread_count),
      churn_kernel<ref, Does>{
          allocator.device(), {16, maximum}, steps<Allocator>, left.data(), counts.data(), times});
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

/// Records how long single calls take.
template <class Allocator>
void measure_calls(Allocator& allocator, std::uint32_t maximum) {
  auto const params = bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", maximum)
                          .add("threads", thread_count);
  bench::array<std::uint32_t> mallocs{thread_count * steps<Allocator>};
  bench::array<std::uint32_t> frees{thread_count * steps<Allocator>};
  double ms = 0;
  (void)churn<extra::times>(allocator, maximum, ms, {mallocs.data(), frees.data()});
  auto const record = [&](std::string const& name, bench::array<std::uint32_t> const& times) {
    auto sorted = times.to_host();
    std::erase(sorted, 0u);
    std::sort(sorted.begin(), sorted.end());
    auto const rank = [&](double share) {
      return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
    };
    bench::record(name + "/p50", params, rank(0.5), bench::tick);
    bench::record(name + "/p99", params, rank(0.99), bench::tick);
    bench::record(name + "/worst", params, sorted.back(), bench::tick);
  };
  record("heap/churn/malloc", mallocs);
  record("heap/churn/free", frees);
}

template <class Allocator>
void measure(Allocator& allocator, std::uint32_t maximum) {
  bench::trial all{bench::parameters{}
                       .add("allocator", Allocator::name)
                       .add("bytes", maximum)
                       .add("threads", thread_count),
                   {{"heap/churn", "Mops/s"}, {"heap/churn/failures", "allocations"}}};
  constexpr std::uint64_t mallocs = thread_count * steps<Allocator>;
  double ms = 0;
  allocator.reset();
  if (auto const checked = churn<extra::marks>(allocator, maximum, ms); checked.wrong_marks != 0)
    return all.fail(std::to_string(checked.wrong_marks) + " allocations overlap");
  while (all.next()) {
    if (bench::never_frees<Allocator>) allocator.reset();
    auto const found = churn<extra::nothing>(allocator, maximum, ms);
    all.add({bench::mops(mallocs + found.frees, ms), static_cast<double>(found.failures)});
  }
  all.finish(allocator);
  measure_calls(allocator, maximum);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    // The last is where CUDA's malloc may hang: it does so elsewhere.
    for (std::uint32_t maximum : {256u, 4096u, 1024u}) measure(allocator, maximum);
  });
}
