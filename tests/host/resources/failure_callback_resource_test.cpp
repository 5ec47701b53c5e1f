// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/failure_callback_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/recording_source.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

namespace quarry::test {
namespace failure_callback_resource_test {

struct refusing_source {
  refusing_source() = default;
  refusing_source(refusing_source const&) = delete;
  void* allocate(bytes size, bytes, cuda_stream) { throw out_of_memory{"none", size, "none"}; }
  void deallocate(void*, bytes, bytes, cuda_stream) noexcept {}
  void* allocate_sync(bytes size, bytes) { throw out_of_memory{"none", size, "none"}; }
  void deallocate_sync(void*, bytes, bytes) noexcept {}
};

failure_callback_resource<host_resource> make() {
  return {host_resource{}, [](bytes) { return false; }};
}
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("FailureCallbackResource", all{});

TEST(FailureCallbackResource, CallsTheCallbackUntilTheAllocationSucceeds) {
  std::vector<bytes> requested;
  failure_callback_resource<simulated_resource> source{simulated_resource{100}, nullptr};
  EXPECT_THROW((void)source.allocate(200, 16), out_of_memory);
  failure_callback_resource<simulated_resource>* self = nullptr;
  failure_callback_resource<simulated_resource> growing{
      simulated_resource{100}, [&](bytes size) {
        requested.push_back(size);
        self->upstream().limit(requested.size() * 100);
        return true;
      }};
  self = &growing;
  EXPECT_NO_THROW((void)growing.allocate(250, 16));
  EXPECT_EQ(requested, (std::vector<bytes>{250, 250, 250}));
}

TEST(FailureCallbackResource, PassesStreamsOn) {
  failure_callback_resource<recording_source> source{recording_source{}, nullptr};
  expect_calls_pass(source, *source.upstream().calls);
  auto const calls = std::make_shared<int>(0);
  failure_callback_resource<refusing_source> refusing{[=](bytes) { return ++*calls < 3; },
                                                      std::in_place};
  EXPECT_THROW((void)refusing.allocate(100, 16, cuda_stream{}), out_of_memory);
  EXPECT_EQ(*calls, 3);
  *calls = 1;
  EXPECT_THROW((void)refusing.allocate_sync(100, 16), out_of_memory);
  EXPECT_EQ(*calls, 3);
}

}  // namespace failure_callback_resource_test
}  // namespace quarry::test
