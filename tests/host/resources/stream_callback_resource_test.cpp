// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/stream_callback_resource.hpp"

#include "host/pools/recording_source.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/logged_resource.hpp"

#include <sstream>

namespace quarry::test {
namespace stream_callback_resource_test {

/// Passes each call to a recording source.
stream_callback_resource make(recording_source& source) {
  return {[&](bytes size, bytes alignment, std::optional<cuda_stream> stream) {
            return stream ? source.allocate(size, alignment, *stream)
                          : source.allocate_sync(size, alignment);
          },
          [&](void* pointer, bytes size, bytes alignment, std::optional<cuda_stream> stream) {
            if (stream)
              source.deallocate(pointer, size, alignment, *stream);
            else
              source.deallocate_sync(pointer, size, alignment);
          },
          {}};
}

TEST(StreamCallbackResource, PassesTheStreamOfEachCall) {
  recording_source recorded;
  stream_callback_resource source = make(recorded);
  expect_calls_pass(source, *recorded.calls);
}

TEST(StreamCallbackResource, WorksBelowAdaptors) {
  recording_source recorded;
  limited_resource<stream_callback_resource> source{make(recorded), 1000};
  expect_calls_pass(source, *recorded.calls);
  EXPECT_THROW((void)source.allocate(1001, 16, cuda_stream{}), out_of_memory);
  std::ostringstream text;
  logged_resource<stream_callback_resource> logged{make(recorded),
                                                   std::make_shared<allocation_log>(text)};
  auto const stream = reinterpret_cast<cuda_stream>(std::uintptr_t{48});
  logged.deallocate(logged.allocate(100, 16, stream), 100, 16, stream);
  EXPECT_EQ(recorded.calls->back(), "deallocate 100 on 48");
}

TEST(StreamCallbackResource, RefusesEmptyFunctions) {
  auto const allocate = [](bytes, bytes, std::optional<cuda_stream>) -> void* { return nullptr; };
  auto const deallocate = [](void*, bytes, bytes, std::optional<cuda_stream>) {};
  EXPECT_THROW((stream_callback_resource{nullptr, deallocate, {}}), bad_argument);
  EXPECT_THROW((stream_callback_resource{allocate, nullptr, {}}), bad_argument);
}

TEST(StreamCallbackResource, FreesAMisalignedAddressOnTheStreamOfTheCall) {
  std::vector<std::optional<cuda_stream>> frees;
  alignas(64) static char memory[64];
  stream_callback_resource crooked{
      [](bytes, bytes, std::optional<cuda_stream>) -> void* { return memory + 8; },
      [&](void*, bytes, bytes, std::optional<cuda_stream> stream) { frees.push_back(stream); },
      {}};
  auto const stream = reinterpret_cast<cuda_stream>(std::uintptr_t{16});
  EXPECT_THROW((void)crooked.allocate(8, 16, stream), resource_failed);
  EXPECT_THROW((void)crooked.allocate_sync(8, 16), resource_failed);
  EXPECT_THROW((void)crooked.allocate(8, 24, stream), bad_argument);
  EXPECT_EQ(frees, (std::vector<std::optional<cuda_stream>>{stream, std::nullopt}));
}

TEST(StreamCallbackResource, ThrowsOutOfMemoryForNullptr) {
  stream_callback_resource empty{
      [](bytes, bytes, std::optional<cuda_stream>) -> void* { return nullptr; },
      [](void*, bytes, bytes, std::optional<cuda_stream>) {},
      {}};
  EXPECT_THROW((void)empty.allocate(8, 16, cuda_stream{}), out_of_memory);
  EXPECT_THROW((void)empty.allocate_sync(8, 16), out_of_memory);
}

}  // namespace stream_callback_resource_test
}  // namespace quarry::test
