// SPDX-License-Identifier: Apache-2.0
// Do two threads allocate twice as fast as one? Each replaces one of 1000 allocations of 64 bytes
// at random; ours are tracked.
//
// State: in use; each thread has filled its 1000 and replaced some before the clocks run. Each
// thread reads the clocks where its own work begins and ends. `pairs`: of all threads together,
// from the first that begins to the last that ends. `pair_cpu`: processor time of a pair in the
// mean, which other programs on the machine do not add to; it lacks what a thread waits for
// others. `hand_over`: one thread allocates 64 bytes 1000 times, another one frees these, while the
// first one allocates the next; processor time of both for one allocation. Allocators take turns.
#include "peers.hpp"
#include "trial.hpp"

#include "quarry/host/pools/thread_arenas.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"

#include <atomic>
#include <barrier>
#include <ctime>
#include <memory>
#include <random>
#include <thread>

namespace {

using quarry::bytes;
using clock = std::chrono::steady_clock;

constexpr bytes size = 64;
constexpr int pairs = 1'000'000, pairs_before = 50'000;

struct arenas {
  static constexpr char const* name = "quarry-arenas";
  quarry::thread_arenas<quarry::host_resource> from{quarry::host_resource{}};
  void* allocate(bytes wanted) { return from.allocate(wanted); }
  void deallocate(void* memory, bytes) { from.deallocate(memory); }
};
struct one_pool {
  static constexpr char const* name = "quarry-synchronized";
  quarry::synchronized_resource<quarry::pool<quarry::host_resource>> from{quarry::host_resource{}};
  void* allocate(bytes wanted) { return from.allocate(wanted, 16); }
  void deallocate(void* memory, bytes had) { from.deallocate(memory, had, 16); }
};

/// Processor time of the calling thread.
double cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// What one thread does; by its own clocks from when to when, and how long.
template <class Allocator>
class worker {
 public:
  void operator()(Allocator& from, unsigned number, std::barrier<>& ready) {
    std::minstd_rand random{number + 1};
    std::vector<void*> reserved(1000);
    for (auto& each : reserved) each = from.allocate(size);
    auto const replace = [&](int count) {
      for (int i = 0; i < count; ++i) {
        auto& victim = reserved[random() % reserved.size()];
        from.deallocate(victim, size);
        victim = from.allocate(size);
      }
    };
    replace(pairs_before);
    ready.arrive_and_wait();
    double const cpu_begin = cpu_ns();
    begin_ = clock::now();
    replace(pairs);
    end_ = clock::now();
    cpu_ns_ = cpu_ns() - cpu_begin;
    ready.arrive_and_wait();  // who is done frees nothing while others are timed
    for (void* const each : reserved) from.deallocate(each, size);
  }
  [[nodiscard]] clock::time_point begin() const { return begin_; }
  [[nodiscard]] clock::time_point end() const { return end_; }
  [[nodiscard]] double worked_ns() const { return cpu_ns_; }

 private:
  clock::time_point begin_, end_;
  double cpu_ns_ = 0;
};

/// One allocator with so many threads, and what it gave so far.
class contender {
 public:
  virtual ~contender() = default;
  /// Whether there is to be another round, which is then run.
  virtual bool run() = 0;
};

template <class Allocator>
class contender_of final : public contender {
 public:
  explicit contender_of(unsigned threads)
      : threads_{threads},
        all_{bench::parameters{}.add("allocator", Allocator::name).add("threads", threads),
             {{"host/threads/pairs", "Mops/s"}, {"host/threads/pair_cpu", "ns"}},
             {.max_ms = 25'000, .warm_ups = 2, .rounds = 25}} {}

  bool run() override {
    if (!all_.next()) {
      if (!is_finished_) all_.finish();
      is_finished_ = true;
      return false;
    }
    std::barrier<> ready{static_cast<std::ptrdiff_t>(threads_)};
    std::vector<worker<Allocator>> workers(threads_);
    {
      std::vector<std::jthread> running;
      for (unsigned number = 0; number < threads_; ++number)
        running.emplace_back([&, number] { workers[number](from_, number, ready); });
    }
    clock::time_point first = workers[0].begin(), last = workers[0].end();
    double worked_ns = 0;
    for (auto const& each : workers) {
      first = std::min(first, each.begin());
      last = std::max(last, each.end());
      worked_ns += each.worked_ns();
    }
    auto const count = static_cast<double>(threads_) * pairs;
    all_.add({count / std::chrono::duration<double, std::micro>(last - first).count(),
              worked_ns / count});
    return true;
  }

 private:
  unsigned threads_;
  Allocator from_;
  bench::trial all_;
  bool is_finished_ = false;
};

/// Allocations that one thread makes and another frees.
template <class Allocator>
class hand_over_of final : public contender {
 public:
  bool run() override {
    if (!all_.next()) {
      if (!is_finished_) all_.finish();
      is_finished_ = true;
      return false;
    }
    made_ = 0;
    freed_ = 0;
    double made_ns = 0, freed_ns = 0;
    {
      std::jthread const makes{[&] { made_ns = work<true>(); }};
      std::jthread const frees{[&] { freed_ns = work<false>(); }};
    }
    all_.add({(made_ns + freed_ns) / (double{batches} * batch)});
    return true;
  }

 private:
  static constexpr int batch = 1000, batches = 500;

  /// Processor time of what is done to all batches, without the time that it waits for the other.
  template <bool Makes>
  double work() {
    double sum = 0;
    for (int number = 0; number < batches; ++number) {
      // (B) what was written to a batch is seen by who sees its number
      while (Makes ? freed_.load(std::memory_order_acquire) < number - 1
                   : made_.load(std::memory_order_acquire) <= number)
        std::this_thread::yield();
      double const base = cpu_ns();
      for (void*& each : reserved_[number % 2]) {
        if constexpr (Makes) {
          each = from_.allocate(size);
        } else {
          from_.deallocate(each, size);
        }
      }
      sum += cpu_ns() - base;
      (Makes ? made_ : freed_).store(number + 1, std::memory_order_release);  // (B)
    }
    return sum;
  }

  Allocator from_;
  std::vector<void*> reserved_[2]{std::vector<void*>(batch), std::vector<void*>(batch)};
  std::atomic<int> made_{0}, freed_{0};
  bench::trial all_{bench::parameters{}.add("allocator", Allocator::name),
                    {{"host/threads/hand_over", "ns"}},
                    {.max_ms = 25'000, .warm_ups = 2, .rounds = 25}};
  bool is_finished_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_asked_for(argc, argv)) return 0;
  std::vector<std::unique_ptr<contender>> contenders;
  for (unsigned const threads : {1u, 2u}) {
    contenders.push_back(std::make_unique<contender_of<arenas>>(threads));
    contenders.push_back(std::make_unique<contender_of<one_pool>>(threads));
    contenders.push_back(std::make_unique<contender_of<bench::c_library>>(threads));
    if constexpr (bench::has_mimalloc)
      contenders.push_back(std::make_unique<contender_of<bench::mimalloc_on_host>>(threads));
  }
  contenders.push_back(std::make_unique<hand_over_of<arenas>>());
  contenders.push_back(std::make_unique<hand_over_of<one_pool>>());
  contenders.push_back(std::make_unique<hand_over_of<bench::c_library>>());
  if constexpr (bench::has_mimalloc)
    contenders.push_back(std::make_unique<hand_over_of<bench::mimalloc_on_host>>());
  for (bool is_more = true; is_more;) {
    is_more = false;
    for (auto const& each : contenders) is_more |= each->run();
  }
}
