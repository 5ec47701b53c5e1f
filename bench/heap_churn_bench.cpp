// SPDX-License-Identifier: Apache-2.0
// How fast is a heap if lanes allocate and free allocations of mixed sizes in any order?
//
// 65536 threads (4096 on the CPU) take 100 steps. Each thread has slots for 4 pointers. A step
// picks a slot by a hash, frees its allocation, and allocates 16 to 256, to 1024, or to 4096 bytes.
// Each call of malloc counts as one operation, even if it fails, and so does each call of free with
// a pointer. The heap is reset only before the first round. A kernel that is not timed frees the
// allocations that remain after a round. One round before the timed rounds marks each allocation
// and looks for foreign marks. One round after them times each call by the thread's multiprocessor
// clock (on the CPU in nanoseconds). A percentile is over all calls of all threads in that round.
#include "kernels.hpp"

namespace {

constexpr std::uint32_t slots = 4;
constexpr std::uint64_t thread_count = bench::on_gpu ? 65536 : 4096;

/// The steps of a round. CUDA's malloc would take ten seconds for 100 steps.
template <class Allocator>
constexpr std::uint32_t steps = bench::is_cuda_malloc<Allocator> ? 20 : 100;

/// The counts of a round, summed over all lanes.
struct outcome {
  std::uint64_t frees;
  std::uint64_t failures;
  std::uint64_t wrong_marks;
};

/// The counters of each lane.
enum counter : std::uint32_t { frees, failures, wrong_marks, counters };

struct mark {
  std::uint32_t thread;
  std::uint32_t step;
};

/// What a round does besides allocating and freeing: nothing (`plain`), it checks marks, or it
/// times each call.
enum class mode : std::uint32_t { plain, marks, times };

/// The time of each call of a round, by step and then by lane; 0 if there was no call.
struct call_times {
  std::uint32_t* mallocs;
  std::uint32_t* frees;
};

template <class Ref, mode Mode>
struct churn_kernel {
  Ref heap;
  bench::uniform_sizes sizes;
  std::uint32_t steps;
  void** remaining;       // the allocations of all lanes at the end, by slot and then by lane
  std::uint32_t* counts;  // by counter and then by lane
  call_times times;

  QUARRY_HD void operator()() const {
    auto const thread = static_cast<std::uint32_t>(quarry::simt::this_place().rank());
    if (thread >= thread_count) return;
    mark* allocations[slots] = {};
    [[maybe_unused]] std::uint32_t allocated_at[slots] = {};  // the step
    std::uint32_t freed = 0, failed = 0, wrong = 0;
    for (std::uint32_t step = 0; step < steps; ++step) {
      std::uint64_t const call = std::uint64_t{step} * thread_count + thread;
      std::uint32_t const random = quarry::mix(thread * steps + step + 1);
      std::uint32_t const slot = random % slots;
      if (allocations[slot] != nullptr) {
        if constexpr (Mode == mode::marks)
          wrong +=
              allocations[slot]->thread != thread || allocations[slot]->step != allocated_at[slot];
        std::uint32_t const begin = clock_value();
        heap.free(allocations[slot]);
        if constexpr (Mode == mode::times) times.frees[call] = clock_value() - begin;
        ++freed;
      }
      std::uint32_t const begin = clock_value();
      allocations[slot] = static_cast<mark*>(heap.malloc(sizes(random)));
      if constexpr (Mode == mode::times) times.mallocs[call] = clock_value() - begin;
      if (allocations[slot] == nullptr) {
        ++failed;
      } else if constexpr (Mode == mode::marks) {
        *allocations[slot] = {thread, step};
        allocated_at[slot] = step;
      }
    }
    for (std::uint32_t i = 0; i < slots; ++i) remaining[i * thread_count + thread] = allocations[i];
    counts[frees * thread_count + thread] = freed;
    counts[failures * thread_count + thread] = failed;
    counts[wrong_marks * thread_count + thread] = wrong;
  }

 private:
  [[nodiscard]] QUARRY_HD static std::uint32_t clock_value() {
    return Mode == mode::times ? bench::ticks() : 0;
  }
};

/// Runs one round and then frees all allocations. Stores the milliseconds of the round in `ms`.
template <mode Mode, class Allocator>
outcome churn(Allocator& allocator, std::uint32_t maximum, double& ms, call_times times = {}) {
  using ref = typename Allocator::ref;
  bench::array<void*> remaining{slots * thread_count};
  bench::array<std::uint32_t> counts{counters * thread_count};
  ms = bench::time_ms(bench::lanes(thread_count), churn_kernel<ref, Mode>{allocator.device(),
                                                                          {16, maximum},
                                                                          steps<Allocator>,
                                                                          remaining.data(),
                                                                          counts.data(),
                                                                          times});
  bench::run(bench::lanes(remaining.size()),
             bench::free_kernel<ref>{allocator.device(), remaining.size(), remaining.data()});
  outcome sum{};
  auto const found = counts.to_host();
  for (std::uint64_t i = 0; i < thread_count; ++i) {
    sum.frees += found[frees * thread_count + i];
    sum.failures += found[failures * thread_count + i];
    sum.wrong_marks += found[wrong_marks * thread_count + i];
  }
  return sum;
}

/// Records the time of single calls.
template <class Allocator>
void measure_calls(Allocator& allocator, std::uint32_t maximum) {
  auto const params = bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", maximum)
                          .add("threads", thread_count);
  bench::array<std::uint32_t> mallocs{thread_count * steps<Allocator>};
  bench::array<std::uint32_t> frees{thread_count * steps<Allocator>};
  double ms = 0;
  (void)churn<mode::times>(allocator, maximum, ms, {mallocs.data(), frees.data()});
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
  bench::trial rounds{bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", maximum)
                          .add("threads", thread_count),
                      {{"heap/churn", "Mops/s"}, {"heap/churn/failures", "allocations"}}};
  constexpr std::uint64_t mallocs = thread_count * steps<Allocator>;
  double ms = 0;
  allocator.reset();
  if (auto const checked = churn<mode::marks>(allocator, maximum, ms); checked.wrong_marks != 0)
    return rounds.fail(std::to_string(checked.wrong_marks) + " allocations overlap");
  while (rounds.next()) {
    if (bench::never_frees<Allocator>) allocator.reset();
    auto const found = churn<mode::plain>(allocator, maximum, ms);
    rounds.add({bench::mops(mallocs + found.frees, ms), static_cast<double>(found.failures)});
  }
  rounds.finish(allocator);
  measure_calls(allocator, maximum);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    // 1024 is the last, since there CUDA's malloc may hang, as it does in other benchmarks.
    for (std::uint32_t maximum : {256u, 4096u, 1024u}) measure(allocator, maximum);
  });
}
