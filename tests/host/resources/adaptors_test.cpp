// SPDX-License-Identifier: Apache-2.0
// An adaptor reports the same properties of its memory as its resource does: the location, and
// whether the memory is simulated. It also reports which deallocations its resource has refused.
#include "host/pools/simulated_streams.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/pools/thread_arenas.hpp"
#include "quarry/host/resources/advised_resource.hpp"
#include "quarry/host/resources/aligned_resource.hpp"
#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/binned_resource.hpp"
#include "quarry/host/resources/failure_callback_resource.hpp"
#include "quarry/host/resources/fixed_size_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/logged_resource.hpp"
#include "quarry/host/resources/monotonic_resource.hpp"
#include "quarry/host/resources/ranged_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/host/resources/size_cache_resource.hpp"
#include "quarry/host/resources/statistics_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"
#include "quarry/host/resources/tracked_resource.hpp"
#include "quarry/platform/simulated_pages.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace adaptors_test {

/// Memory that reports a GPU as its location.
struct placed_resource {
  static constexpr memory_location gpu{memory_kind::device, 3};
  void* allocate(bytes size, bytes alignment) { return host_resource{}.allocate(size, alignment); }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    host_resource{}.deallocate(memory, size, alignment);
  }
  [[nodiscard]] memory_location location() const { return gpu; }
};

/// Reports host memory that is not simulated, over any upstream.
template <class Upstream>
struct boasting_resource {
  static constexpr bool is_simulated = false;
  Upstream source;
  void* allocate(bytes size, bytes alignment) { return source.allocate(size, alignment); }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    source.deallocate(memory, size, alignment);
  }
  [[nodiscard]] memory_location location() const { return {}; }
  [[nodiscard]] Upstream& upstream() { return source; }
};

/// Calls `each(adaptor)` for every adaptor over a `Resource`. Each adaptor is itself a resource.
template <class Resource, class Each>
void for_each_adaptor(Each const& each) {
  auto const pass = [&](auto made) { each(*made); };
  pass(std::make_unique<advised_resource<Resource>>(
      Resource{}, std::vector<typename advised_resource<Resource>::advice>{}));
  pass(std::make_unique<aligned_resource<Resource>>(Resource{}, 16));
  pass(std::make_unique<binned_resource<Resource, Resource>>([] { return Resource{}; }, Resource{},
                                                             16, 64));
  pass(std::make_unique<statistics_resource<Resource>>(Resource{}));
  pass(std::make_unique<fixed_size_resource<Resource>>(Resource{}, 16));
  pass(std::make_unique<limited_resource<Resource>>(Resource{}, 1000));
  pass(std::make_unique<monotonic_resource<Resource>>(Resource{}, 1000));
  pass(std::make_unique<pool<Resource>>(Resource{}));
  pass(std::make_unique<failure_callback_resource<Resource>>(Resource{}, nullptr));
  pass(std::make_unique<size_cache_resource<Resource>>(Resource{}, 1));
  pass(std::make_unique<synchronized_resource<Resource>>());
  pass(std::make_unique<tracked_resource<Resource>>(Resource{}));
  pass(std::make_unique<statistics_resource<limited_resource<Resource>>>(
      limited_resource<Resource>{Resource{}, 1000}));
  pass(std::make_unique<synchronized_resource<pool<Resource>>>(Resource{}));
}

TEST(Adaptors, ReportThatMemoryIsSimulated) {
  int count = 0;
  for_each_adaptor<simulated_resource>([&]<class Adaptor>(Adaptor& adaptor) {
    EXPECT_TRUE(simulated<Adaptor>) << testing::internal::GetTypeName<Adaptor>();
    EXPECT_FALSE(is_poisoned(adaptor));
    ++count;
  });
  EXPECT_EQ(count, 14);
  EXPECT_TRUE(simulated<boasting_resource<simulated_resource>>);
  EXPECT_TRUE((simulated<binned_resource<host_resource, simulated_resource>>));
  EXPECT_TRUE((simulated<binned_resource<simulated_resource, host_resource>>));
  EXPECT_TRUE(simulated<stitched_pool<simulated_pages>>);
  EXPECT_TRUE((simulated<stream_resource<stream_pool<simulated_resource, simulated_streams>>>));
  EXPECT_TRUE((simulated<thread_arenas<statistics_resource<simulated_resource>>>));
}

TEST(Adaptors, ReportThatMemoryIsNotSimulated) {
  for_each_adaptor<host_resource>([&]<class Adaptor>(Adaptor& adaptor) {
    EXPECT_FALSE(simulated<Adaptor>) << testing::internal::GetTypeName<Adaptor>();
    EXPECT_EQ(location_of(adaptor), memory_location{});
    EXPECT_EQ(is_poisoned(adaptor), has_address_sanitizer);
  });
  EXPECT_FALSE(simulated<thread_arenas<host_resource>>);
}

TEST(Adaptors, ReportWhereMemoryLies) {
  for_each_adaptor<placed_resource>([&]<class Adaptor>(Adaptor& adaptor) {
    EXPECT_EQ(location_of(adaptor), placed_resource::gpu)
        << testing::internal::GetTypeName<Adaptor>();
    EXPECT_FALSE(is_poisoned(adaptor));
  });
  thread_arenas<placed_resource> arenas{placed_resource{}};
  EXPECT_EQ(location_of(arenas), placed_resource::gpu);
}

/// A reference to a resource, as pools have it over resources that somebody else owns.
template <class Resource>
struct borrowed_resource {
  Resource* source;
  void* allocate(bytes size, bytes alignment) { return source->allocate(size, alignment); }
  void deallocate(void* memory, bytes size, bytes alignment) noexcept {
    source->deallocate(memory, size, alignment);
  }
  [[nodiscard]] Resource& upstream() { return *source; }
};

/// Pools decide by `simulated` and `is_poisoned`. So pools over one adaptor stand for all: pools
/// over each take long to compile.
TEST(Adaptors, OverSimulatedMemoryHaveNoRedZonesAndNoRecords) {
  for_each_adaptor<simulated_resource>([]<class Adaptor>(Adaptor& adaptor) {
    EXPECT_TRUE(simulated<borrowed_resource<Adaptor>>) << testing::internal::GetTypeName<Adaptor>();
    borrowed_resource<Adaptor> borrowed{&adaptor};
    EXPECT_FALSE(is_poisoned(borrowed));
  });
  statistics_resource<limited_resource<simulated_resource>> adaptor{
      limited_resource<simulated_resource>{simulated_resource{}, 1000}};
  using borrowed = borrowed_resource<decltype(adaptor)>;
  EXPECT_THROW((pool<borrowed>{borrowed{&adaptor}, {.red_zone = 16}}), bad_argument);
  EXPECT_THROW((thread_arenas<borrowed>{borrowed{&adaptor}}), bad_argument);
  pool<borrowed> source{borrowed{&adaptor}, {.first_block = 16, .next_block = 16}};
  EXPECT_EQ(source.id(), 0u) << "the pool is not tracked";
  boasting_resource<simulated_resource> boasting;
  EXPECT_THROW((pool<boasting_resource<simulated_resource>>{boasting, {.red_zone = 16}}),
               bad_argument);
}

TEST(Adaptors, OverMemoryThatTheHostCannotTouchHaveNoRedZones) {
  boasting_resource<placed_resource> boasting;
  EXPECT_THROW((pool<statistics_resource<placed_resource>>{
                   statistics_resource<placed_resource>{placed_resource{}}, {.red_zone = 16}}),
               bad_argument);
  EXPECT_THROW((pool<boasting_resource<placed_resource>>{boasting, {.red_zone = 16}}),
               bad_argument);
}

struct no_ranges {
  void push(char const*) const noexcept {}
  void pop() const noexcept {}
};

/// An adaptor above `below`, as a resource.
struct named_adaptor {
  char const* name;
  any_resource (*make)(any_resource below);
};
constexpr named_adaptor adaptors_above[] = {
    {"advised",
     [](any_resource below) {
       return any_resource{advised_resource<any_resource>{std::move(below), {}}};
     }},
    {"aligned",
     [](any_resource below) {
       return any_resource{aligned_resource<any_resource>{std::move(below), 16}};
     }},
    {"aligned, with a table",
     [](any_resource below) {
       return any_resource{aligned_resource<any_resource>{std::move(below), 8}};
     }},
    {"binned",
     [](any_resource below) {
       return any_resource{binned_resource<host_resource, any_resource>{
           [] { return host_resource{}; }, std::move(below), 16, 64}};
     }},
    {"failure callback",
     [](any_resource below) {
       return any_resource{failure_callback_resource<any_resource>{std::move(below), nullptr}};
     }},
    {"fixed size",
     [](any_resource below) {
       return any_resource{fixed_size_resource<any_resource>{std::move(below), 256, 1}};
     }},
    {"limited",
     [](any_resource below) {
       return any_resource{limited_resource<any_resource>{std::move(below), 1_MiB}};
     }},
    {"logged",
     [](any_resource below) {
       static std::ostringstream output;
       static auto const log = std::make_shared<allocation_log>(output);
       return any_resource{logged_resource<any_resource>{std::move(below), log}};
     }},
    {"ranged",
     [](any_resource below) {
       return any_resource{
           ranged_resource<any_resource, no_ranges>{std::move(below), no_ranges{}, "test"}};
     }},
    {"size cache",
     [](any_resource below) {
       return any_resource{size_cache_resource<any_resource>{std::move(below), 1}};
     }},
    {"statistics",
     [](any_resource below) {
       return any_resource{statistics_resource<any_resource>{std::move(below)}};
     }},
    {"synchronized",
     [](any_resource below) {
       return any_resource{synchronized_resource<any_resource>{std::move(below)}};
     }},
    {"tracked",
     [](any_resource below) {
       return any_resource{tracked_resource<any_resource>{std::move(below)}};
     }},
};

TEST(Adaptors, AboveEachOtherPassOnWhetherThePoolHasFreed) {
  for (named_adaptor const& lower : adaptors_above)
    for (named_adaptor const& upper : adaptors_above) {
      SCOPED_TRACE(upper.name + std::string{" above "} + lower.name);
      any_resource refusing{synchronized_resource<pool<host_resource>>{host_resource{}}};
      statistics_resource<any_resource> counted{upper.make(lower.make(std::move(refusing)))};
      limited_resource<statistics_resource<any_resource>> source{std::move(counted), 1000};
      void* const freed = source.allocate(200, 16);
      void* const kept = source.allocate(100, 16);
      EXPECT_TRUE(source.deallocate(freed, 200, 16));
      EXPECT_FALSE(source.deallocate(freed, 200, 16)) << "a double free";
      EXPECT_EQ(source.allocated(), 100u);
      EXPECT_EQ(source.upstream().counts().allocated, 100);
      EXPECT_EQ(source.upstream().counts().allocations_in_use, 1);
      EXPECT_EQ(source.upstream().counts().peak_allocated, 300);
      EXPECT_TRUE(source.deallocate(kept, 100, 16));
    }
}

}  // namespace adaptors_test
}  // namespace quarry::test
