// SPDX-License-Identifier: Apache-2.0
// Checks the C API's errors for handles that are destroyed, of another kind, or invalid.
#include "quarry/host/c_api.h"

#include "support/sanitized.hpp"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace quarry::test {
namespace c_handles_test {

// Lists every call that takes a handle. Each call passes any given `handle`.
struct handle_call {
  char const* name;
  std::function<quarry_status(void*)> call;
};
std::vector<handle_call> pool_calls() {
  static void* memory = nullptr;
  static uint64_t size = 0;
  static uint32_t id = 0;
  static quarry_pool_counts counts;
  auto const as_pool = [](void* handle) { return static_cast<quarry_pool*>(handle); };
  return {
      {"quarry_pool_allocate",
       [=](void* handle) { return quarry_pool_allocate(as_pool(handle), 10, &memory); }},
      {"quarry_pool_deallocate",
       [=](void* handle) { return quarry_pool_deallocate(as_pool(handle), &memory); }},
      {"quarry_pool_release", [=](void* handle) { return quarry_pool_release(as_pool(handle)); }},
      {"quarry_pool_size_of",
       [=](void* handle) { return quarry_pool_size_of(as_pool(handle), &memory, &size); }},
      {"quarry_pool_get_counts",
       [=](void* handle) { return quarry_pool_get_counts(as_pool(handle), &counts); }},
      {"quarry_pool_get_overruns",
       [=](void* handle) { return quarry_pool_get_overruns(as_pool(handle), &size); }},
      {"quarry_pool_label",
       [=](void* handle) { return quarry_pool_label(as_pool(handle), &memory, "name"); }},
      {"quarry_pool_id", [=](void* handle) { return quarry_pool_id(as_pool(handle), &id); }},
      {"quarry_pool_destroy", [=](void* handle) { return quarry_pool_destroy(as_pool(handle)); }}};
}
std::vector<handle_call> stream_pool_calls() {
  static void* memory = nullptr;
  static quarry_pool_counts counts;
  auto const as_pool = [](void* handle) { return static_cast<quarry_stream_pool*>(handle); };
  return {{"quarry_stream_pool_allocate",
           [=](void* handle) {
             return quarry_stream_pool_allocate(as_pool(handle), 10, nullptr, &memory);
           }},
          {"quarry_stream_pool_deallocate",
           [=](void* handle) {
             return quarry_stream_pool_deallocate(as_pool(handle), &memory, nullptr);
           }},
          {"quarry_stream_pool_share",
           [=](void* handle) { return quarry_stream_pool_share(as_pool(handle), nullptr); }},
          {"quarry_stream_pool_forget",
           [=](void* handle) { return quarry_stream_pool_forget(as_pool(handle), nullptr); }},
          {"quarry_stream_pool_release",
           [=](void* handle) { return quarry_stream_pool_release(as_pool(handle)); }},
          {"quarry_stream_pool_get_counts",
           [=](void* handle) { return quarry_stream_pool_get_counts(as_pool(handle), &counts); }},
          {"quarry_stream_pool_destroy",
           [=](void* handle) { return quarry_stream_pool_destroy(as_pool(handle)); }}};
}
std::vector<handle_call> segment_calls() {
  static void* memory = nullptr;
  static uint64_t offset = 0;
  auto const as_segment = [](void* handle) { return static_cast<quarry_segment*>(handle); };
  return {{"quarry_segment_allocate",
           [=](void* handle) {
             return quarry_segment_allocate(as_segment(handle), "field", 10, &memory);
           }},
          {"quarry_segment_find",
           [=](void* handle) { return quarry_segment_find(as_segment(handle), "field", &memory); }},
          {"quarry_segment_release",
           [=](void* handle) { return quarry_segment_release(as_segment(handle), &memory); }},
          {"quarry_segment_offset_of",
           [=](void* handle) {
             return quarry_segment_offset_of(as_segment(handle), &memory, &offset);
           }},
          {"quarry_segment_at",
           [=](void* handle) { return quarry_segment_at(as_segment(handle), 0, &memory); }},
          {"quarry_segment_close",
           [=](void* handle) { return quarry_segment_close(as_segment(handle)); }}};
}

struct CHandles : testing::Test {
  quarry_pool* pool = nullptr;
  quarry_segment* segment = nullptr;
  void SetUp() override {
    ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &pool), QUARRY_OK);
    std::string const name = "quarry-c-api-handles-" + std::to_string(getpid());
    ASSERT_EQ(quarry_segment_open(name.c_str(), 1 << 16, &segment), QUARRY_OK);
  }
  void TearDown() override {
    quarry_pool_destroy(pool);
    quarry_segment_close(segment);
  }
  /// Checks that each call refuses `handle` with this status, and that the message has the call's
  /// name and `reason`.
  static void expect_refused(std::vector<handle_call> const& calls, void* handle,
                             quarry_status status, std::string const& reason) {
    for (auto const& [name, call] : calls) {
      EXPECT_EQ(call(handle), status) << name;
      std::string const message = quarry_last_error();
      EXPECT_TRUE(message.starts_with(std::string{name} + ": ")) << message;
      EXPECT_NE(message.find(reason), std::string::npos) << message;
    }
  }
  [[nodiscard]] static std::string number(void* handle) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "0x%llx",
                  static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(handle)));
    return text.data();
  }
};

TEST_F(CHandles, UseAfterDestroyIsRefusedByEveryCall) {
  quarry_pool* ended = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &ended), QUARRY_OK);
  EXPECT_EQ(quarry_pool_destroy(ended), QUARRY_OK);
  expect_refused(pool_calls(), ended, QUARRY_DESTROYED,
                 "the pool " + number(ended) + " was destroyed");
  std::string const name = "quarry-c-api-gone-" + std::to_string(getpid());
  quarry_segment* closed = nullptr;
  ASSERT_EQ(quarry_segment_open(name.c_str(), 1 << 16, &closed), QUARRY_OK);
  EXPECT_EQ(quarry_segment_close(closed), QUARRY_OK);
  expect_refused(segment_calls(), closed, QUARRY_DESTROYED,
                 "the segment " + number(closed) + " was closed");
  quarry_pool_counts counts;
  EXPECT_EQ(quarry_pool_get_counts(pool, &counts), QUARRY_OK);
  EXPECT_EQ(counts.invalid_frees, 0u);
}

TEST_F(CHandles, AHandleOfAnotherKindIsRefusedByEveryCall) {
  expect_refused(pool_calls(), segment, QUARRY_BAD_ARGUMENT,
                 number(segment) + " is a segment, not a pool");
  expect_refused(segment_calls(), pool, QUARRY_BAD_ARGUMENT,
                 number(pool) + " is a pool, not a segment");
  expect_refused(stream_pool_calls(), pool, QUARRY_BAD_ARGUMENT, "is a pool, not a stream pool");
  void* memory = nullptr;
  EXPECT_EQ(quarry_pool_allocate(pool, 10, &memory), QUARRY_OK)
      << "the refused calls changed the pool";
  EXPECT_EQ(quarry_segment_allocate(segment, "field", 10, &memory), QUARRY_OK);
}

TEST_F(CHandles, ADestroyedHandleOfAnotherKindIsReportedWithKindAndState) {
  quarry_pool* ended = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &ended), QUARRY_OK);
  EXPECT_EQ(quarry_pool_destroy(ended), QUARRY_OK);
  expect_refused(segment_calls(), ended, QUARRY_BAD_ARGUMENT,
                 "is a pool that was destroyed, not a segment");
}

TEST_F(CHandles, AnAddressThatIsNoHandleIsRefusedByEveryCallAndNotRead) {
  int local = 0;
  std::vector<void*> const wrong{&local,
                                 this,
                                 reinterpret_cast<void*>(std::uintptr_t{1}),
                                 reinterpret_cast<void*>(std::uintptr_t{4096}),
                                 reinterpret_cast<void*>(~std::uintptr_t{0}),
                                 static_cast<void*>(reinterpret_cast<char*>(pool) + 200),
                                 static_cast<void*>(reinterpret_cast<char*>(pool) + 99'999),
                                 static_cast<void*>(reinterpret_cast<char*>(pool) + (1 << 30))};
  for (void* const each : wrong) {
    expect_refused(pool_calls(), each, QUARRY_BAD_ARGUMENT,
                   number(each) + " is not a handle of a pool");
    expect_refused(stream_pool_calls(), each, QUARRY_BAD_ARGUMENT,
                   "is not a handle of a stream pool");
    expect_refused(segment_calls(), each, QUARRY_BAD_ARGUMENT, "is not a handle of a segment");
  }
}

TEST_F(CHandles, NullIsRefusedByEveryCallExceptDestroy) {
  for (auto calls : {pool_calls(), stream_pool_calls(), segment_calls()}) {
    EXPECT_EQ(calls.back().call(nullptr), QUARRY_OK);
    calls.pop_back();
    expect_refused(calls, nullptr, QUARRY_BAD_ARGUMENT, "is null");
  }
}

TEST_F(CHandles, ADestroyedPoolsHandleIsNotReused) {
  std::vector<quarry_pool*> ended;
  for (int i = 0; i < 600; ++i) {
    quarry_pool* next = nullptr;
    ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &next), QUARRY_OK);
    for (quarry_pool* const each : ended) ASSERT_NE(each, next);
    ended.push_back(next);
    if (i % 3 != 0) {
      EXPECT_EQ(quarry_pool_destroy(next), QUARRY_OK);
    }
  }
  void* memory = nullptr;
  for (int i = 0; i < 600; ++i) {
    quarry_pool* const each = ended[static_cast<std::size_t>(i)];
    ASSERT_EQ(quarry_pool_allocate(each, 1, &memory), i % 3 == 0 ? QUARRY_OK : QUARRY_DESTROYED);
    ASSERT_EQ(quarry_pool_destroy(each), i % 3 == 0 ? QUARRY_OK : QUARRY_DESTROYED);
  }
}

// Two threads make calls while a third thread destroys the handle. Each call works or gets the
// error.
template <class Handle, class Call, class Destroy>
void destroy_while_calls_go_on(Handle handle, Call const& call, Destroy const& destroy) {
  std::atomic<int> under_way{0};
  std::atomic<int> wrong{0};
  std::array<std::thread, 2> threads;
  for (auto& each : threads) {
    each = std::thread{[&] {
      for (quarry_status status = QUARRY_OK; status == QUARRY_OK; ++under_way) {
        status = call(handle);
        if (status != QUARRY_OK && status != QUARRY_DESTROYED) ++wrong;
      }
    }};
  }
  while (under_way < 20) std::this_thread::yield();
  EXPECT_EQ(destroy(handle), QUARRY_OK);
  for (auto& each : threads) each.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(CHandles, DestroyWaitsForCallsAndLaterCallsGetTheError) {
  std::string const name = "quarry-c-api-race-" + std::to_string(getpid());
  for (int round = 0; round < 50; ++round) {
    quarry_pool* shared = nullptr;
    ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &shared), QUARRY_OK);
    destroy_while_calls_go_on(
        shared,
        [](quarry_pool* each) {
          void* memory = nullptr;
          auto const status = quarry_pool_allocate(each, 100, &memory);
          return status == QUARRY_OK ? quarry_pool_deallocate(each, memory) : status;
        },
        &quarry_pool_destroy);
    quarry_segment* opened = nullptr;
    ASSERT_EQ(quarry_segment_open(name.c_str(), 1 << 16, &opened), QUARRY_OK);
    destroy_while_calls_go_on(
        opened,
        [](quarry_segment* each) {
          void* memory = nullptr;
          return quarry_segment_allocate(each, "field", 100, &memory);
        },
        &quarry_segment_close);
  }
}

TEST_F(CHandles, OneOfTwoConcurrentDestroysIsRefused) {
  for (int round = 0; round < 100; ++round) {
    quarry_pool* shared = nullptr;
    ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &shared), QUARRY_OK);
    quarry_status other_status = QUARRY_INTERNAL;
    std::thread thread{[&] { other_status = quarry_pool_destroy(shared); }};
    quarry_status const our_status = quarry_pool_destroy(shared);
    thread.join();
    EXPECT_EQ(our_status == QUARRY_OK, other_status == QUARRY_DESTROYED);
    EXPECT_EQ(our_status == QUARRY_DESTROYED, other_status == QUARRY_OK);
  }
}

// A fork does not hold the locks of the sanitizers' allocators. With a sanitizer, no other thread
// may use the C library's heap.
TEST_F(CHandles, AForkedChildMakesUsesAndDestroysHandlesWhileThreadsUseThem) {
  alarm(60);
  std::atomic<bool> is_over{false};
  std::atomic<int> rounds{0};
  std::array<std::thread, 2> threads;
  for (auto& each : threads) {
    each = std::thread{[&] {
      for (; !is_over; ++rounds) {
        void* memory = nullptr;
        (void)quarry_pool_allocate(pool, 100, &memory);
        (void)quarry_pool_deallocate(pool, memory);
        (void)quarry_segment_find(segment, "field", &memory);
        if (is_sanitized) continue;
        quarry_pool* unshared = nullptr;
        (void)quarry_pool_create(QUARRY_HOST, nullptr, &unshared);
        (void)quarry_pool_destroy(unshared);
      }
    }};
  }
  while (rounds < 100) std::this_thread::yield();
  for (int round = 0; round < (is_sanitized ? 30 : 100); ++round) {
    pid_t const child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);  // ends a child that waits for a lock forever
      void* memory = nullptr;
      quarry_pool* unshared = nullptr;
      bool good = quarry_pool_allocate(pool, 100, &memory) == QUARRY_OK;
      good = good && quarry_pool_destroy(pool) == QUARRY_OK;
      good = good && quarry_pool_destroy(pool) == QUARRY_DESTROYED;
      good = good && quarry_segment_close(segment) == QUARRY_OK;
      good = good && quarry_pool_create(QUARRY_HOST, nullptr, &unshared) == QUARRY_OK;
      good = good && quarry_pool_allocate(unshared, 100, &memory) == QUARRY_OK;
      _exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << " in round " << round;
  }
  is_over = true;
  for (auto& each : threads) each.join();
  alarm(0);
}

}  // namespace c_handles_test
}  // namespace quarry::test
