// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/c_api.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace quarry::test {
namespace c_api_test {

struct CApi : testing::Test {
  quarry_pool* pool = nullptr;
  void SetUp() override { ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &pool), QUARRY_OK); }
  void TearDown() override { quarry_pool_destroy(pool); }
};

TEST_F(CApi, AllocatesAndFrees) {
  void* memory = nullptr;
  ASSERT_EQ(quarry_pool_allocate(pool, 100, &memory), QUARRY_OK);
  std::memset(memory, 1, 100);
  uint64_t size = 0;
  EXPECT_EQ(quarry_pool_size_of(pool, memory, &size), QUARRY_OK);
  EXPECT_EQ(size, 100u);
  quarry_pool_counts counts;
  EXPECT_EQ(quarry_pool_get_counts(pool, &counts), QUARRY_OK);
  EXPECT_EQ(counts.allocated, 100u);
  EXPECT_EQ(counts.allocations_in_use, 1u);
  EXPECT_EQ(quarry_pool_deallocate(pool, memory), QUARRY_OK);
  EXPECT_EQ(quarry_pool_deallocate(pool, nullptr), QUARRY_OK);
  EXPECT_EQ(quarry_pool_release(pool), QUARRY_OK);
  EXPECT_EQ(quarry_pool_get_counts(pool, &counts), QUARRY_OK);
  EXPECT_EQ(counts.reserved, 0u);
}

TEST_F(CApi, ReportsErrorsByStatusAndText) {
  void* memory = &memory;
  EXPECT_EQ(quarry_pool_allocate(pool, ~uint64_t{0}, &memory), QUARRY_OUT_OF_MEMORY);
  EXPECT_EQ(memory, nullptr);
  EXPECT_NE(std::string{quarry_last_error()}.find("18446744073709551615"), std::string::npos)
      << quarry_last_error();
  EXPECT_EQ(quarry_pool_allocate(nullptr, 1, &memory), QUARRY_BAD_ARGUMENT);
  EXPECT_NE(std::string{quarry_last_error()}.find("quarry_pool_allocate"), std::string::npos);
  EXPECT_EQ(quarry_pool_allocate(pool, 1, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_pool_get_counts(pool, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_pool_size_of(pool, &memory, nullptr), QUARRY_BAD_ARGUMENT);
  uint64_t size = 0;
  EXPECT_EQ(quarry_pool_size_of(pool, &memory, &size), QUARRY_NOT_IN_USE);
  int foreign = 0;
  EXPECT_EQ(quarry_pool_deallocate(pool, &foreign), QUARRY_NOT_IN_USE);
}

TEST_F(CApi, RefusesADoubleFree) {
  void* memory = nullptr;
  ASSERT_EQ(quarry_pool_allocate(pool, 10, &memory), QUARRY_OK);
  EXPECT_EQ(quarry_pool_deallocate(pool, memory), QUARRY_OK);
  EXPECT_EQ(quarry_pool_deallocate(pool, memory), QUARRY_NOT_IN_USE);
}

TEST(CApiCreation, RefusesInvalidResourcesAndOptions) {
  quarry_pool* pool = nullptr;
  EXPECT_EQ(quarry_pool_create(static_cast<quarry_resource>(7), nullptr, &pool),
            QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_pool_create(QUARRY_FILE, nullptr, &pool), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, nullptr), QUARRY_BAD_ARGUMENT);
  auto options = quarry_pool_default_options();
  options.alignment = 24;
  EXPECT_EQ(quarry_pool_create(QUARRY_HOST, &options, &pool), QUARRY_BAD_ARGUMENT);
  options = quarry_pool_default_options();
  options.directory = "/nonexistent";
  EXPECT_EQ(quarry_pool_create(QUARRY_FILE, &options, &pool), QUARRY_RESOURCE_FAILED);
  EXPECT_EQ(pool, nullptr);
  quarry_pool_destroy(nullptr);
}

/// 0, the default, and the largest number both mean no limit.
TEST(CApiCreation, HasNoLimitForMaxBytes0) {
  quarry_pool_options options = quarry_pool_default_options();
  EXPECT_EQ(options.max_bytes, 0u);
  for (std::uint64_t const limit : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    options.max_bytes = limit;
    quarry_pool* pool = nullptr;
    ASSERT_EQ(quarry_pool_create(QUARRY_HOST, &options, &pool), QUARRY_OK) << quarry_last_error();
    void* memory = nullptr;
    EXPECT_EQ(quarry_pool_allocate(pool, 100'000'000, &memory), QUARRY_OK) << quarry_last_error();
    quarry_pool_destroy(pool);
  }
}

TEST(CApiCreation, ServesFilesAndEnforcesItsLimit) {
  auto const directory = std::filesystem::temp_directory_path().string();
  auto options = quarry_pool_default_options();
  options.directory = directory.c_str();
  options.first_block = 65536;
  options.max_bytes = 100'000;
  quarry_pool* pool = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_FILE, &options, &pool), QUARRY_OK) << quarry_last_error();
  void* memory = nullptr;
  EXPECT_EQ(quarry_pool_allocate(pool, 60'000, &memory), QUARRY_OK);
  std::memset(memory, 1, 60'000);
  EXPECT_EQ(quarry_pool_allocate(pool, 60'000, &memory), QUARRY_OUT_OF_MEMORY);
  quarry_pool_destroy(pool);
}

TEST_F(CApi, FindsLabelsCopiesAndFillsMemory) {
  quarry_pool_options options = quarry_pool_default_options();
  options.name = "from C";
  quarry_pool* named = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, &options, &named), QUARRY_OK);
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(quarry_pool_allocate(named, 100, &first), QUARRY_OK);
  ASSERT_EQ(quarry_pool_allocate(named, 100, &second), QUARRY_OK);
  EXPECT_EQ(quarry_fill(first, 7, 100), QUARRY_OK);
  EXPECT_EQ(quarry_copy(second, static_cast<char*>(first) + 50, 50), QUARRY_OK);
  EXPECT_EQ(static_cast<unsigned char*>(second)[49], 7);
  quarry_record record{};
  uint32_t id = 0;
  EXPECT_EQ(quarry_find(static_cast<char*>(first) + 99, &record), QUARRY_OK);
  EXPECT_EQ(quarry_pool_id(named, &id), QUARRY_OK);
  EXPECT_EQ(record.allocator, id);
  EXPECT_EQ(record.base, first);
  EXPECT_EQ(record.size, 100u);
  EXPECT_EQ(record.resource, uint32_t{QUARRY_HOST});
  EXPECT_EQ(quarry_pool_label(named, first, "density"), QUARRY_OK);
  std::string const path = testing::TempDir() + "quarry-report-" + std::to_string(getpid());
  EXPECT_EQ(quarry_report(path.c_str()), QUARRY_OK);
  std::ifstream file{path};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_NE(text.find("density"), std::string::npos) << text;
  EXPECT_NE(text.find("from C"), std::string::npos) << text;
  std::remove(path.c_str());
  quarry_pool_destroy(named);
}

TEST_F(CApi, TreatsZeroedOptionsAsDefaults) {
  quarry_pool_options options{};
  options.name = "zeros";
  quarry_pool* second = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, &options, &second), QUARRY_OK);
  void* first = nullptr;
  EXPECT_EQ(quarry_pool_allocate(second, 100, &first), QUARRY_OK);
  quarry_pool_destroy(second);
  EXPECT_EQ(quarry_pool_create(1000, nullptr, &second), QUARRY_BAD_ARGUMENT);
}

TEST_F(CApi, HasRedZonesAndBacktracesIfRequested) {
  quarry_pool_options options = quarry_pool_default_options();
  EXPECT_EQ(options.size, sizeof options);
  EXPECT_EQ(options.red_zone, 0u);
  EXPECT_EQ(options.keeps_backtraces, 0u);
  options.name = "checked";
  options.red_zone = 16;
  options.keeps_backtraces = 1;
  quarry_pool* checked = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, &options, &checked), QUARRY_OK);
  void* memory = nullptr;
  ASSERT_EQ(quarry_pool_allocate(checked, 100, &memory), QUARRY_OK);
  std::string const path = testing::TempDir() + "quarry-backtraces-" + std::to_string(getpid());
  EXPECT_EQ(quarry_report(path.c_str()), QUARRY_OK);
  std::ifstream file{path};
  std::string const text{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_NE(text.find("      #0 "), std::string::npos) << text;
  std::remove(path.c_str());
  uint64_t overruns = 7;
  EXPECT_EQ(quarry_pool_get_overruns(checked, &overruns), QUARRY_OK);
  EXPECT_EQ(overruns, 0u);
#if !defined(__SANITIZE_ADDRESS__)  // with it, the library's pools poison memory instead
  static_cast<char*>(memory)[100] = 1;
  testing::internal::CaptureStderr();
  EXPECT_EQ(quarry_pool_deallocate(checked, memory), QUARRY_OK);
  std::string const report = testing::internal::GetCapturedStderr();
  EXPECT_TRUE(report.starts_with("checked: overrun of 0x")) << report;
  EXPECT_EQ(quarry_pool_get_overruns(checked, &overruns), QUARRY_OK);
  EXPECT_EQ(overruns, 1u);
#endif
  EXPECT_EQ(quarry_pool_get_overruns(checked, nullptr), QUARRY_BAD_ARGUMENT);
  quarry_pool_destroy(checked);
  options.red_zone = 65'537;
  EXPECT_EQ(quarry_pool_create(QUARRY_HOST, &options, &checked), QUARRY_BAD_ARGUMENT);
  options.red_zone = 0;
  options.keeps_backtraces = 2;
  EXPECT_EQ(quarry_pool_create(QUARRY_HOST, &options, &checked), QUARRY_BAD_ARGUMENT);
}

// The options as a later header may define them.
struct later_options {
  quarry_pool_options known;
  uint64_t new_field, newer_field;
};

TEST_F(CApi, AcceptsOptionsOfALaterVersionIfTheUnknownFieldsAreZero) {
  later_options options;
  ASSERT_EQ(quarry_pool_fill_options(&options.known, sizeof options), QUARRY_OK);
  EXPECT_EQ(options.known.size, sizeof options);
  EXPECT_EQ(options.known.growth_percent, quarry_pool_default_options().growth_percent);
  EXPECT_EQ(options.new_field, 0u);
  EXPECT_EQ(options.newer_field, 0u);
  quarry_pool* made = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, &options.known, &made), QUARRY_OK);
  quarry_pool_destroy(made);
  options.newer_field = 1;
  EXPECT_EQ(quarry_pool_create(QUARRY_HOST, &options.known, &made), QUARRY_BAD_ARGUMENT);
  EXPECT_NE(std::string{quarry_last_error()}.find("of the options is 1"), std::string::npos);
  options.known.size = 0;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, &options.known, &made), QUARRY_OK)
      << "a size of 0 means that only the known fields are read";
  quarry_pool_destroy(made);
  for (uint64_t const wrong :
       {uint64_t{1}, uint64_t{sizeof(quarry_pool_options) - 8}, uint64_t{4097}, ~uint64_t{0}}) {
    options.known.size = wrong;
    EXPECT_EQ(quarry_pool_create(QUARRY_HOST, &options.known, &made), QUARRY_BAD_ARGUMENT) << wrong;
    EXPECT_EQ(quarry_pool_fill_options(&options.known, wrong), QUARRY_BAD_ARGUMENT) << wrong;
  }
  EXPECT_EQ(quarry_pool_fill_options(nullptr, sizeof options), QUARRY_BAD_ARGUMENT);
}

TEST_F(CApi, RefusesRedZonesAndBacktracesOfStreamPools) {
  quarry_stream_pool* made = nullptr;
  quarry_pool_options options = quarry_pool_default_options();
  options.red_zone = 16;
  EXPECT_EQ(quarry_stream_pool_create(&options, &made), QUARRY_BAD_ARGUMENT);
  options.red_zone = 0;
  options.keeps_backtraces = 1;
  EXPECT_EQ(quarry_stream_pool_create(&options, &made), QUARRY_BAD_ARGUMENT);
}

TEST_F(CApi, RefusesForeignAddressesAndRangesBeyondAnAllocation) {
  void* memory = nullptr;
  ASSERT_EQ(quarry_pool_allocate(pool, 100, &memory), QUARRY_OK);
  int local = 0;
  quarry_record record{};
  EXPECT_EQ(quarry_find(&local, &record), QUARRY_NOT_IN_USE);
  EXPECT_EQ(quarry_find(memory, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_copy(memory, &local, 4), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_fill(memory, 0, 101), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_fill(memory, 256, 1), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_pool_label(pool, &local, "local"), QUARRY_NOT_IN_USE);
  EXPECT_EQ(quarry_pool_label(pool, memory, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_pool_id(pool, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_report("/nowhere/at/all"), QUARRY_RESOURCE_FAILED);
}

TEST(CApiSegment, IsSharedByName) {
  std::string const name = "quarry-c-api-" + std::to_string(getpid());
  quarry_segment* creator = nullptr;
  quarry_segment* opener = nullptr;
  ASSERT_EQ(quarry_segment_open(name.c_str(), 1 << 20, &creator), QUARRY_OK) << quarry_last_error();
  ASSERT_EQ(quarry_segment_open(name.c_str(), 0, &opener), QUARRY_OK) << quarry_last_error();
  void* created = nullptr;
  void* found = nullptr;
  EXPECT_EQ(quarry_segment_find(opener, "field", &found), QUARRY_NOT_IN_USE);
  ASSERT_EQ(quarry_segment_allocate(creator, "field", 100, &created), QUARRY_OK);
  std::memset(created, 5, 100);
  ASSERT_EQ(quarry_segment_find(opener, "field", &found), QUARRY_OK);
  EXPECT_NE(created, found);
  EXPECT_EQ(static_cast<unsigned char*>(found)[99], 5);
  uint64_t offset = 0;
  EXPECT_EQ(quarry_segment_offset_of(creator, created, &offset), QUARRY_OK);
  void* resolved = nullptr;
  EXPECT_EQ(quarry_segment_at(opener, offset, &resolved), QUARRY_OK);
  EXPECT_EQ(resolved, found);
  EXPECT_EQ(quarry_segment_release(creator, created), QUARRY_OK);
  EXPECT_EQ(quarry_segment_release(creator, created), QUARRY_NOT_IN_USE);
  EXPECT_EQ(quarry_segment_release(opener, found), QUARRY_OK);
  EXPECT_EQ(quarry_segment_find(creator, "field", &created), QUARRY_NOT_IN_USE);
  quarry_segment_close(creator);
  quarry_segment_close(opener);
}

TEST(CApiSegment, ReportsErrorsByStatus) {
  quarry_segment* segment = nullptr;
  EXPECT_EQ(quarry_segment_open("with/slash", 4096, &segment), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(segment, nullptr);
  EXPECT_EQ(quarry_segment_open(nullptr, 4096, &segment), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_segment_open("quarry-nowhere", 4096, nullptr), QUARRY_BAD_ARGUMENT);
  std::string const name = "quarry-c-api-wrong-" + std::to_string(getpid());
  ASSERT_EQ(quarry_segment_open(name.c_str(), 1 << 16, &segment), QUARRY_OK) << quarry_last_error();
  void* memory = &segment;
  EXPECT_EQ(quarry_segment_allocate(segment, nullptr, 10, &memory), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(quarry_segment_allocate(segment, "large", 1 << 30, &memory), QUARRY_OUT_OF_MEMORY);
  EXPECT_EQ(quarry_segment_at(segment, 1 << 30, &memory), QUARRY_BAD_ARGUMENT);
  uint64_t offset = 0;
  EXPECT_EQ(quarry_segment_offset_of(segment, &offset, &offset), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_segment_find(nullptr, "x", &memory), QUARRY_BAD_ARGUMENT);
  quarry_segment_close(segment);
  quarry_segment_close(nullptr);
}

TEST(CApiStreamPool, RefusesNulls) {
  void* memory = &memory;
  quarry_pool_counts counts;
  EXPECT_EQ(quarry_stream_pool_create(nullptr, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_stream_pool_allocate(nullptr, 1, nullptr, &memory), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(quarry_stream_pool_deallocate(nullptr, nullptr, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_stream_pool_share(nullptr, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_stream_pool_forget(nullptr, nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_stream_pool_release(nullptr), QUARRY_BAD_ARGUMENT);
  EXPECT_EQ(quarry_stream_pool_get_counts(nullptr, &counts), QUARRY_BAD_ARGUMENT);
  quarry_stream_pool_destroy(nullptr);
}

TEST(CApiStreamPool, ServesAStreamAgainOnTheGpu) {
  quarry_stream_pool* pool = nullptr;
  quarry_pool_options options = quarry_pool_default_options();
  options.first_block = 1 << 20;
  quarry_status const made = quarry_stream_pool_create(&options, &pool);
  if (made == QUARRY_RESOURCE_FAILED) GTEST_SKIP() << quarry_last_error();
  ASSERT_EQ(made, QUARRY_OK) << quarry_last_error();
  void* first = nullptr;
  void* second = nullptr;
  ASSERT_EQ(quarry_stream_pool_allocate(pool, 1000, nullptr, &first), QUARRY_OK)
      << quarry_last_error();
  EXPECT_EQ(quarry_stream_pool_deallocate(pool, first, nullptr), QUARRY_OK);
  EXPECT_EQ(quarry_stream_pool_deallocate(pool, first, nullptr), QUARRY_NOT_IN_USE);
  ASSERT_EQ(quarry_stream_pool_allocate(pool, 1000, nullptr, &second), QUARRY_OK);
  EXPECT_EQ(first, second);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 256, 0u);
  void* const per_thread = reinterpret_cast<void*>(std::uintptr_t{2});  // cudaStreamPerThread
  void* third = nullptr;
  EXPECT_EQ(quarry_stream_pool_allocate(pool, 1000, per_thread, &third), QUARRY_OK);
  EXPECT_EQ(quarry_stream_pool_deallocate(pool, third, per_thread), QUARRY_OK);
  quarry_record record{};
  EXPECT_EQ(quarry_find(static_cast<char*>(second) + 500, &record), QUARRY_OK);
  EXPECT_EQ(record.resource, uint32_t{QUARRY_DEVICE});
  EXPECT_EQ(quarry_stream_pool_share(pool, nullptr), QUARRY_OK);
  EXPECT_EQ(quarry_stream_pool_forget(pool, nullptr), QUARRY_OK);
  EXPECT_EQ(quarry_stream_pool_deallocate(pool, second, nullptr), QUARRY_OK);
  EXPECT_EQ(quarry_stream_pool_release(pool), QUARRY_OK);
  quarry_pool_counts counts;
  EXPECT_EQ(quarry_stream_pool_get_counts(pool, &counts), QUARRY_OK);
  EXPECT_EQ(counts.reserved, 0u);
  EXPECT_EQ(counts.invalid_frees, 1u);
  EXPECT_EQ(quarry_pool_release(reinterpret_cast<quarry_pool*>(pool)), QUARRY_BAD_ARGUMENT);
  EXPECT_NE(std::string{quarry_last_error()}.find("is a stream pool, not a pool"),
            std::string::npos);
  EXPECT_EQ(quarry_stream_pool_destroy(pool), QUARRY_OK);
  EXPECT_EQ(quarry_stream_pool_release(pool), QUARRY_DESTROYED);
  EXPECT_EQ(quarry_stream_pool_destroy(pool), QUARRY_DESTROYED);
}

}  // namespace c_api_test
}  // namespace quarry::test
