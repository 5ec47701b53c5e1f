// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/callback_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/host_resource.hpp"

namespace quarry::test {
namespace {

callback_resource make() {
  return {[](bytes size, bytes alignment) {
            return size > 1_GiB ? throw out_of_memory{"test", size, "too much"}
                                : host_resource{}.allocate(size, alignment);
          },
          [](void* pointer, bytes size, bytes alignment) {
            host_resource{}.deallocate(pointer, size, alignment);
          }};
}

using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(CallbackResource, ResourceConformance, all);

TEST(CallbackResource, RefusesEmptyFunctions) {
  EXPECT_THROW((callback_resource{nullptr, [](void*, bytes, bytes) {}}), bad_argument);
  EXPECT_THROW((callback_resource{[](bytes, bytes) -> void* { return nullptr; }, nullptr}),
               bad_argument);
}

TEST(CallbackResource, RefusesAWrongAddressAndGivesItBack) {
  int taken_back = 0;
  alignas(64) static char memory[64];
  callback_resource crooked{[](bytes, bytes) -> void* { return memory + 8; },
                            [&](void*, bytes, bytes) { ++taken_back; }};
  EXPECT_THROW((void)crooked.allocate(8, 16), resource_failed);
  EXPECT_EQ(taken_back, 1);
}

TEST(CallbackResource, TakesNullptrForWantOfMemory) {
  callback_resource empty{[](bytes, bytes) -> void* { return nullptr; },
                          [](void*, bytes, bytes) {}};
  EXPECT_THROW((void)empty.allocate(8, 16), out_of_memory);
}

}  // namespace
}  // namespace quarry::test
