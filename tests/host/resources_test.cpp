// SPDX-License-Identifier: Apache-2.0
// Every resource, and pools over them, through one suite; and what each alone refuses.
#include "conformance/resource_conformance.hpp"
#include "quarry/host/callback_resource.hpp"
#include "quarry/host/cuda_resources.hpp"
#include "quarry/host/file_resource.hpp"
#include "quarry/host/host_resource.hpp"
#include "quarry/host/pool.hpp"

#include <filesystem>
#include <memory>

namespace quarry::test {
namespace {

using namespace quarry::literals;

host_resource make_host() { return {}; }
callback_resource make_callback() {
  return {[](bytes size, bytes alignment) { return size > 1_GiB ? throw out_of_memory{"test", size, "too much"} : host_resource{}.allocate(size, alignment); },
          [](void* pointer, bytes size, bytes alignment) { host_resource{}.deallocate(pointer, size, alignment); }};
}
file_resource make_file() { return file_resource{std::filesystem::temp_directory_path().string()}; }
device_resource make_device() { return device_resource{0}; }
stream_ordered_resource make_stream_ordered() { return stream_ordered_resource{nullptr, 0}; }
pinned_resource make_pinned() { return {}; }
managed_resource make_managed() { return {}; }

/// A resource by itself.
template <auto Make, bool Touchable>
struct alone {
  static constexpr bytes alignment = 64;
  static constexpr bool is_touchable = Touchable;
  decltype(Make()) from = Make();

  static std::unique_ptr<alone> make() {
    try {
      return std::make_unique<alone>();
    } catch (resource_failed const&) {
      return nullptr;
    }
  }
  void* allocate(bytes size) { return from.allocate(size, alignment); }
  void deallocate(void* pointer, bytes size) { from.deallocate(pointer, size, alignment); }
};

/// The same under a pool.
template <auto Make, bool Touchable, class Strategy>
struct pooled {
  static constexpr bytes alignment = 256;
  static constexpr bool is_touchable = Touchable;
  pool<decltype(Make()), Strategy> from{Make(), {.first_block = 64_KiB, .next_block = 16_KiB, .alignment = alignment}};

  ~pooled() { EXPECT_TRUE(from.audit().empty()); }
  static std::unique_ptr<pooled> make() {
    try {
      return std::make_unique<pooled>();
    } catch (resource_failed const&) {
      return nullptr;
    }
  }
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* pointer, bytes size) {
    EXPECT_EQ(from.size_of(pointer), size);
    EXPECT_TRUE(from.deallocate(pointer));
  }
};

using all = testing::Types<alone<&make_host, true>, alone<&make_callback, true>, alone<&make_file, true>, alone<&make_device, false>,
                           alone<&make_stream_ordered, false>, alone<&make_pinned, true>, alone<&make_managed, true>,
                           pooled<&make_host, true, fast_fit>, pooled<&make_host, true, fitting<oldest_best_fit>>,
                           pooled<&make_host, true, fitting<lowest_best_fit>>, pooled<&make_file, true, fast_fit>,
                           pooled<&make_device, false, fast_fit>, pooled<&make_pinned, true, fast_fit>, pooled<&make_managed, true, fast_fit>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Each, ResourceConformance, all);

TEST(NullResource, HasNoMemory) { EXPECT_THROW((void)null_resource{}.allocate(1, 16), out_of_memory); }

TEST(CallbackResource, RefusesEmptyFunctionsAndWrongAddresses) {
  EXPECT_THROW((callback_resource{nullptr, [](void*, bytes, bytes) {}}), bad_argument);
  int taken_back = 0;
  alignas(64) static char memory[64];
  callback_resource crooked{[](bytes, bytes) -> void* { return memory + 8; }, [&](void*, bytes, bytes) { ++taken_back; }};
  EXPECT_THROW((void)crooked.allocate(8, 16), resource_failed);
  EXPECT_EQ(taken_back, 1);
  callback_resource empty{[](bytes, bytes) -> void* { return nullptr; }, [](void*, bytes, bytes) {}};
  EXPECT_THROW((void)empty.allocate(8, 16), out_of_memory);
}

TEST(FileResource, RefusesADirectoryInWhichItCannotWrite) {
  EXPECT_THROW(file_resource{"/nonexistent/quarry"}, resource_failed);
}

TEST(FileResource, RefusesMoreThanAPagesAlignment) { EXPECT_THROW((void)make_file().allocate(8, 1_MiB), bad_argument); }

TEST(FileResource, LeavesNoFileBehind) {
  auto const directory = std::filesystem::temp_directory_path() / "quarry_file_resource_test";
  std::filesystem::create_directory(directory);
  file_resource from{directory.string()};
  void* const one = from.allocate(100, 16);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  from.deallocate(one, 100, 16);
  std::filesystem::remove(directory);
}

TEST(DeviceResource, RefusesADeviceThatIsNotThere) {
  try {
    device_resource const none{1000};
    FAIL() << "made one";
  } catch (error const& refused) {
    EXPECT_FALSE(refused.message().empty());
  }
}

}  // namespace
}  // namespace quarry::test
