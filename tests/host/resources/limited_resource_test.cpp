// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/limited_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/monotonic_resource.hpp"
#include "quarry/host/resources/size_cache_resource.hpp"

#include <atomic>
#include <thread>
#include <vector>

namespace quarry::test {
namespace limited_resource_test {

limited_resource<host_resource> make() { return {host_resource{}, 1_GiB}; }
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("LimitedResource", all{});

TEST(LimitedResource, AllocatesUpToItsLimitAndNoMore) {
  limited_resource<host_resource> source{host_resource{}, 100};
  void* const first = source.allocate(60, 16);
  EXPECT_THROW((void)source.allocate(41, 16), out_of_memory);
  EXPECT_EQ(source.allocated(), 60u);
  void* const second = source.allocate(40, 16);
  EXPECT_EQ(source.allocated(), 100u);
  source.deallocate(first, 60, 16);
  source.deallocate(second, 40, 16);
  EXPECT_EQ(source.allocated(), 0u);
}

TEST(LimitedResource, CountsNoRequestThatItsUpstreamRefused) {
  limited_resource<null_resource> source{null_resource{}, 100};
  EXPECT_THROW((void)source.allocate(60, 16), out_of_memory);
  EXPECT_EQ(source.allocated(), 0u);
}

TEST(LimitedResource, CountsNoDeallocationThatItsUpstreamRefused) {
  limited_resource<pool<host_resource>> source{100, std::in_place_t{}, host_resource{}};
  void* const first = source.allocate(60, 16);
  void* const second = source.allocate(40, 16);
  source.deallocate(first, 60, 16);
  source.deallocate(first, 60, 16);
  EXPECT_EQ(source.upstream().counts().invalid_frees, 1u);
  EXPECT_EQ(source.allocated(), 40u);
  EXPECT_THROW((void)source.allocate(61, 16), out_of_memory);
  source.deallocate(second, 40, 16);
}

TEST(LimitedResource, PassesReleaseToItsUpstream) {
  using cache = size_cache_resource<host_resource>;
  limited_resource<cache> source{cache{host_resource{}, 4}, 100};
  void* const kept = source.allocate(60, 16);
  source.deallocate(source.allocate(40, 16), 40, 16);
  EXPECT_EQ(reserved_by(source), 100u);
  any_resource owner{std::move(source)};
  owner.release();
  EXPECT_EQ(reserved_by(owner), 60u) << "the cached 40 bytes return, the allocated ones stay";
  owner.deallocate(kept, 60, 16);
}

TEST(LimitedResource, DoesNotReleaseAnUpstreamWhoseReleaseEndsTheUseOfAllocations) {
  using arena = monotonic_resource<host_resource>;
  limited_resource<arena> source{arena{host_resource{}, 1_KiB}, 100};
  void* const first = source.allocate(60, 16);
  release_unused(source);
  void* const second = source.allocate(40, 16);
  EXPECT_NE(first, second);
}

TEST(LimitedResource, PassesStreamsOn) {
  limited_resource<recording_source> source{recording_source{}, 1000};
  expect_calls_pass(source, *source.upstream().calls);
  EXPECT_EQ(source.allocated(), 0u);
  EXPECT_THROW((void)source.allocate(1001, 16, cuda_stream{}), out_of_memory);
  EXPECT_THROW((void)source.allocate_sync(1001, 16), out_of_memory);
}

/// Has one slot and no lock: a user must serialise the calls. Counts calls that find the slot in
/// the wrong state.
struct one_slot_resource {
  struct state {
    bool is_used = false;
    int calls = 0, violations = 0;
    alignas(64) char memory[64] = {};
  };
  std::shared_ptr<state> shared = std::make_shared<state>();

  void* allocate(bytes, bytes) {
    shared->violations += shared->is_used ? 1 : 0;
    shared->is_used = true;
    ++shared->calls;
    return shared->memory;
  }
  void deallocate(void*, bytes, bytes) noexcept {
    shared->violations += shared->is_used ? 0 : 1;
    shared->is_used = false;
  }
};

// The limit admits one request at a time, so it acts as a lock of an upstream that has none. Under
// ThreadSanitizer this fails if an order of the limit is relaxed.
TEST(LimitedResource, OrdersADeallocationBeforeTheRequestThatUsesItsRoom) {
  limited_resource<one_slot_resource> source{one_slot_resource{}, 64};
  constexpr int rounds = 2000;
  auto const work = [&] {
    for (int done = 0; done != rounds;) {
      try {
        void* const memory = source.allocate(64, 16);
        *static_cast<char*>(memory) += 1;
        source.deallocate(memory, 64, 16);
        ++done;
      } catch (out_of_memory const&) {
        std::this_thread::yield();
      }
    }
  };
  std::thread other{work};
  work();
  other.join();
  EXPECT_EQ(source.upstream().shared->calls, 2 * rounds);
  EXPECT_EQ(source.upstream().shared->violations, 0);
  EXPECT_EQ(source.allocated(), 0u);
}

TEST(LimitedResource, NeverExceedsItsLimitWhileThreadsAllocate) {
  // Counts the bytes in use by itself, and refuses each fifth request.
  struct counting_resource {
    struct state {
      std::atomic<bytes> in_use{0};
      std::atomic<int> calls{0}, violations{0};
    };
    std::shared_ptr<state> shared = std::make_shared<state>();
    void* allocate(bytes size, bytes alignment) {
      if (++shared->calls % 5 == 0) throw out_of_memory{"test", size, "each fifth request"};
      if (shared->in_use.fetch_add(size) + size > 1000) ++shared->violations;
      return host_resource{}.allocate(size, alignment);
    }
    void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
      shared->in_use -= size;
      host_resource{}.deallocate(pointer, size, alignment);
    }
  };
  limited_resource<counting_resource> source{counting_resource{}, 1000};
  std::atomic<int> refused{0};
  auto const work = [&](unsigned seed) {
    std::vector<std::pair<void*, bytes>> kept;
    for (int i = 0; i != 5000; ++i) {
      seed = seed * 1664525u + 1013904223u;
      if (seed >> 31 != 0 && !kept.empty()) {
        source.deallocate(kept.back().first, kept.back().second, 16);
        kept.pop_back();
        continue;
      }
      bytes const size = (seed >> 8) % 400;
      try {
        kept.emplace_back(source.allocate(size, 16), size);
      } catch (out_of_memory const&) {
        ++refused;
      }
    }
    for (auto const& [pointer, size] : kept) source.deallocate(pointer, size, 16);
  };
  std::thread other{work, 1};
  work(2);
  other.join();
  EXPECT_GT(refused, 0);
  EXPECT_EQ(source.upstream().shared->violations, 0);
  EXPECT_EQ(source.allocated(), 0u);
  source.upstream().shared->calls = 0;            // so that the upstream serves the next request
  void* const whole = source.allocate(1000, 16);  // no bytes are lost
  source.deallocate(whole, 1000, 16);
}

TEST(LimitedResource, KeepsItsCountWhenItIsMoved) {
  limited_resource<host_resource> source{host_resource{}, 100};
  void* const memory = source.allocate(60, 16);
  limited_resource<host_resource> moved{std::move(source)};
  EXPECT_EQ(moved.allocated(), 60u);
  EXPECT_THROW((void)moved.allocate(41, 16), out_of_memory);
  moved.deallocate(memory, 60, 16);
}

}  // namespace limited_resource_test
}  // namespace quarry::test
