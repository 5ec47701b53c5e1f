// SPDX-License-Identifier: Apache-2.0
// Do two threads allocate twice as fast as one? Each thread replaces random ones of 1000
// allocations of 64 bytes. Quarry's pools are tracked.
//
// State: in use. Each thread fills its 1000 allocations and replaces some before the clocks run. It
// reads the clocks where its own work begins and ends. `pairs`: the rate of all threads together,
// from the begin of the first thread to the end of the last. `pair_cpu`: the mean processor time of
// a pair. Other programs on the machine do not add to it, and it does not contain the time that a
// thread waits for other threads. `hand_over`: one thread allocates 64 bytes 1000 times; another
// thread frees them while the first one allocates the next 1000. The figure is the processor time
// of both threads for one allocation. The allocators run interleaved. Each thread has a processor
// of its own if there are enough: in a round of milliseconds, the system may leave two on one.
#include "peers.hpp"
#include "trial.hpp"

#include "quarry/host/pools/thread_arenas.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"

#include <sched.h>
#include <unistd.h>

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
  quarry::thread_arenas<quarry::host_resource> source{quarry::host_resource{}};
  void* allocate(bytes requested) { return source.allocate(requested); }
  void deallocate(void* memory, bytes) { source.deallocate(memory); }
};
struct one_pool {
  static constexpr char const* name = "quarry-synchronized";
  quarry::synchronized_resource<quarry::pool<quarry::host_resource>> source{
      quarry::host_resource{}};
  void* allocate(bytes requested) { return source.allocate(requested, 16); }
  void deallocate(void* memory, bytes freed) { source.deallocate(memory, freed, 16); }
};

/// The processor time of the calling thread.
double cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// Binds the calling thread to one of the processors that the program may use.
void bind_to_processor(unsigned number) {
  cpu_set_t allowed;
  if (sched_getaffinity(getpid(), sizeof allowed, &allowed) != 0) return;
  unsigned left = number % static_cast<unsigned>(CPU_COUNT(&allowed));
  for (unsigned i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &allowed) || left-- != 0) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(i, &own);
    (void)sched_setaffinity(0, sizeof own, &own);
    return;
  }
}

/// The work of one thread, with its begin, its end and its processor time.
template <class Allocator>
class worker {
 public:
  void operator()(Allocator& source, unsigned number, std::barrier<>& ready) {
    bind_to_processor(number);
    std::minstd_rand random{number + 1};
    std::vector<void*> pointers(1000);
    for (auto& pointer : pointers) pointer = source.allocate(size);
    auto const replace = [&](int count) {
      for (int i = 0; i < count; ++i) {
        auto& victim = pointers[random() % pointers.size()];
        source.deallocate(victim, size);
        victim = source.allocate(size);
      }
    };
    replace(pairs_before);
    ready.arrive_and_wait();
    double const cpu_begin = cpu_ns();
    begin_ = clock::now();
    replace(pairs);
    end_ = clock::now();
    cpu_ns_ = cpu_ns() - cpu_begin;
    ready.arrive_and_wait();  // a thread that is done frees nothing while others are timed
    for (void* const pointer : pointers) source.deallocate(pointer, size);
  }
  [[nodiscard]] clock::time_point begin() const { return begin_; }
  [[nodiscard]] clock::time_point end() const { return end_; }
  [[nodiscard]] double worked_ns() const { return cpu_ns_; }

 private:
  clock::time_point begin_, end_;
  double cpu_ns_ = 0;
};

/// One allocator with a number of threads, and its results so far.
class contender {
 public:
  virtual ~contender() = default;
  /// Runs another round, if the contender needs one. Returns false at the end.
  virtual bool run() = 0;
};

template <class Allocator>
class contender_of final : public contender {
 public:
  explicit contender_of(unsigned threads)
      : threads_{threads},
        rounds_{bench::parameters{}.add("allocator", Allocator::name).add("threads", threads),
                {{"host/threads/pairs", "Mops/s"}, {"host/threads/pair_cpu", "ns"}},
                {.max_ms = 25'000, .warm_ups = 2, .rounds = 25}} {}

  bool run() override {
    if (!rounds_.next()) {
      if (!is_finished_) rounds_.finish();
      is_finished_ = true;
      return false;
    }
    std::barrier<> ready{static_cast<std::ptrdiff_t>(threads_)};
    std::vector<worker<Allocator>> workers(threads_);
    {
      std::vector<std::jthread> running;
      for (unsigned number = 0; number < threads_; ++number)
        running.emplace_back([&, number] { workers[number](source_, number, ready); });
    }
    clock::time_point first = workers[0].begin(), last = workers[0].end();
    double worked_ns = 0;
    for (auto const& done : workers) {
      first = std::min(first, done.begin());
      last = std::max(last, done.end());
      worked_ns += done.worked_ns();
    }
    auto const count = static_cast<double>(threads_) * pairs;
    rounds_.add({count / std::chrono::duration<double, std::micro>(last - first).count(),
                 worked_ns / count});
    return true;
  }

 private:
  unsigned threads_;
  Allocator source_;
  bench::trial rounds_;
  bool is_finished_ = false;
};

/// Allocations that one thread makes and another thread frees.
template <class Allocator>
class hand_over_of final : public contender {
 public:
  bool run() override {
    if (!rounds_.next()) {
      if (!is_finished_) rounds_.finish();
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
    rounds_.add({(made_ns + freed_ns) / (double{batch_count} * batch)});
    return true;
  }

 private:
  static constexpr int batch = 1000, batch_count = 500;

  /// Allocates or frees all batches. Returns the processor time without the time that the thread
  /// waits for the other thread.
  template <bool Makes>
  double work() {
    bind_to_processor(Makes ? 0 : 1);
    double sum = 0;
    for (int number = 0; number < batch_count; ++number) {
      // (B) A thread that reads a batch's number with acquire sees the writes to the batch.
      while (Makes ? freed_.load(std::memory_order_acquire) < number - 1
                   : made_.load(std::memory_order_acquire) <= number)
        std::this_thread::yield();
      double const begin = cpu_ns();
      for (void*& pointer : batches_[number % 2]) {
        if constexpr (Makes) {
          pointer = source_.allocate(size);
        } else {
          source_.deallocate(pointer, size);
        }
      }
      sum += cpu_ns() - begin;
      (Makes ? made_ : freed_).store(number + 1, std::memory_order_release);  // (B)
    }
    return sum;
  }

  Allocator source_;
  std::vector<void*> batches_[2]{std::vector<void*>(batch), std::vector<void*>(batch)};
  std::atomic<int> made_{0}, freed_{0};
  bench::trial rounds_{bench::parameters{}.add("allocator", Allocator::name),
                       {{"host/threads/hand_over", "ns"}},
                       {.max_ms = 25'000, .warm_ups = 2, .rounds = 25}};
  bool is_finished_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
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
  for (bool is_running = true; is_running;) {
    is_running = false;
    for (auto const& allocator : contenders) is_running |= allocator->run();
  }
}
