// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/resource_adaptor.hpp"

#include "host/pools/recording_source.hpp"
#include "quarry/host/resources/failure_callback_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/resource.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace resource_adaptor_test {

/// Passes each call to its upstream, and counts the calls.
template <class Upstream>
class passing_resource : public resource_adaptor<passing_resource<Upstream>, Upstream> {
 public:
  Upstream upstream;
  int calls = 0;

 private:
  friend resource_adaptor<passing_resource, Upstream>;
  template <class Call>
  void* allocate_by(Call call, bytes size, bytes alignment) {
    ++calls;
    return call.allocate(upstream, size, alignment);
  }
  template <class Call>
  void deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    ++calls;
    call.deallocate(upstream, pointer, size, alignment);
  }
};

TEST(ResourceAdaptor, AcceptsTheCallsThatItsUpstreamAccepts) {
  using over_resource = passing_resource<host_resource>;
  using over_source = passing_resource<recording_source>;
  static_assert(memory_resource<over_resource>);
  static_assert(!takes_sync_calls<over_resource>);
  static_assert(!takes_stream_calls<over_resource, cuda_stream>);
  static_assert(!memory_resource<over_source>);
  static_assert(takes_sync_calls<over_source>);
  static_assert(takes_stream_calls<over_source, cuda_stream>);
  static_assert(!takes_stream_calls<over_source, char const*>);
  static_assert(takes_stream_calls<passing_resource<over_source>, cuda_stream>);
}

TEST(ResourceAdaptor, PassesEachCallOnUnchanged) {
  passing_resource<passing_resource<recording_source>> source;
  expect_calls_pass(source, *source.upstream.upstream.calls);
  EXPECT_EQ(source.calls, 6);
  EXPECT_EQ(source.upstream.calls, 6);
}

TEST(ResourceAdaptor, PassesPlainCallsOn) {
  passing_resource<host_resource> source;
  void* const first = source.allocate(100, 16);
  void* const second = source.allocate(200, 64);
  EXPECT_NE(first, second);
  source.deallocate(first, 100, 16);
  source.deallocate(second, 200, 64);
  EXPECT_EQ(source.calls, 4);
}

}  // namespace resource_adaptor_test
}  // namespace quarry::test
