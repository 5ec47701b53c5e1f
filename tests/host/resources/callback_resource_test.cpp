// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/callback_resource.hpp"

#include "conformance/resources.hpp"
#include "quarry/host/registry/operations.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <dlfcn.h>

namespace quarry::test {
namespace callback_resource_test {

callback_resource make() {
  return {[](bytes size, bytes alignment) {
            return size > 1_GiB ? throw out_of_memory{"test", size, "too much"}
                                : host_resource{}.allocate(size, alignment);
          },
          [](void* pointer, bytes size, bytes alignment) {
            host_resource{}.deallocate(pointer, size, alignment);
          },
          {}};
}

using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("CallbackResource", all{});

TEST(CallbackResource, RefusesEmptyFunctions) {
  EXPECT_THROW((callback_resource{nullptr, [](void*, bytes, bytes) {}, {}}), bad_argument);
  EXPECT_THROW((callback_resource{[](bytes, bytes) -> void* { return nullptr; }, nullptr, {}}),
               bad_argument);
}

TEST(CallbackResource, RefusesAMisalignedAddressAndFreesIt) {
  int frees = 0;
  alignas(64) static char memory[64];
  callback_resource crooked{
      [](bytes, bytes) -> void* { return memory + 8; }, [&](void*, bytes, bytes) { ++frees; }, {}};
  EXPECT_THROW((void)crooked.allocate(8, 16), resource_failed);
  EXPECT_EQ(frees, 1);
}

TEST(CallbackResource, ThrowsOutOfMemoryForNullptr) {
  callback_resource empty{
      [](bytes, bytes) -> void* { return nullptr; }, [](void*, bytes, bytes) {}, {}};
  EXPECT_THROW((void)empty.allocate(8, 16), out_of_memory);
}

TEST(CallbackResource, LoadsNoDriver) {
  auto const is_loaded = [] {
    void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    return driver != nullptr && dlclose(driver) == 0;
  };
  if (is_loaded()) GTEST_SKIP() << "this process uses CUDA";
  callback_resource source = make();
  source.deallocate(source.allocate(100, 16), 100, 16);
  EXPECT_FALSE(is_loaded());
}

TEST(CallbackResource, ReportsTheLocationOfItsMemory) {
  std::unique_ptr<device_resource> gpu;
  try {
    gpu = std::make_unique<device_resource>();
  } catch (resource_failed const&) {
    GTEST_SKIP() << "no GPU";
  }
  int addresses_in_use = 0;
  auto const over_gpu = [&](memory_location location) {
    return callback_resource{[&](bytes size, bytes alignment) {
                               ++addresses_in_use;
                               return gpu->allocate(size, alignment);
                             },
                             [&](void* pointer, bytes size, bytes alignment) {
                               --addresses_in_use;
                               gpu->deallocate(pointer, size, alignment);
                             },
                             location};
  };
  {
    pool source{over_gpu({memory_kind::device, 0})};
    void* const memory = source.allocate(1000);
    EXPECT_EQ(registry::find(memory)->location, (memory_location{memory_kind::device, 0}));
    operations::fill(memory, 0x5a, 1000);
    unsigned char back[1000] = {};
    adopted_memory const known{back, sizeof back};
    operations::copy(back, memory, 1000);
    EXPECT_EQ(back[999], 0x5a);
    EXPECT_TRUE(source.deallocate(memory));
  }
  EXPECT_EQ(addresses_in_use, 0);
  for (memory_location const wrong : {memory_location{}, memory_location{memory_kind::pinned},
                                      memory_location{memory_kind::device, 1}}) {
    pool source{over_gpu(wrong)};
    EXPECT_THROW((void)source.allocate(1000), resource_failed);
    EXPECT_EQ(addresses_in_use, 0) << "the resource frees an address that it refuses";
  }
}

TEST(CallbackResource, RefusesHostMemoryThatIsDeclaredAsAGpus) {
  try {
    device_resource{}.deallocate(device_resource{}.allocate(8, 16), 8, 16);
  } catch (resource_failed const&) {
    GTEST_SKIP() << "no GPU";
  }
  alignas(64) static char memory[64];
  for (memory_kind const wrong : {memory_kind::device, memory_kind::pinned, memory_kind::managed}) {
    callback_resource source{
        [](bytes, bytes) -> void* { return memory; }, [](void*, bytes, bytes) {}, {wrong, 0}};
    EXPECT_THROW((void)source.allocate(8, 16), resource_failed) << name_of(wrong);
  }
}

}  // namespace callback_resource_test
}  // namespace quarry::test
