// SPDX-License-Identifier: Apache-2.0
// The ring through which ranks on a GPU ask the host, with a thread as the launcher.
#include "mpi/c_files.hpp"
#include "mpi/host_call_server.hpp"
#include "mpi/support/one_rank.hpp"

#include <unistd.h>
#include <atomic>
#include <cstdio>
#include <thread>

extern "C" {
quarry::mpi::c_file* quarry_c_fopen(char const*, char const*);
int quarry_c_fclose(quarry::mpi::c_file*);
int quarry_c_getchar();
unsigned long quarry_c_fread(void*, unsigned long, unsigned long, quarry::mpi::c_file*);
unsigned long quarry_c_fwrite(void const*, unsigned long, unsigned long, quarry::mpi::c_file*);
void quarry_c_rewind(quarry::mpi::c_file*);
long quarry_c_ftell(quarry::mpi::c_file*);
}

namespace quarry::mpi_test {
namespace {

class CHostCalls : public OneRank {
 protected:
  CHostCalls() : records_(host_call_ring::places), server_{records_.data()} {
    std::memset(static_cast<void*>(records_.data()), 0, records_.size() * sizeof(host_call_record));
    ring_ = {0, records_.data()};
    the_world().host_calls = &ring_;
    launcher_ = std::thread{[this] {
      while (!has_ended_) {
        server_.serve([this] { ++served_; });
        std::this_thread::yield();
      }
    }};
  }
  ~CHostCalls() override {
    has_ended_ = true;
    launcher_.join();
  }

  /// What another rank does, which waits for nothing else.
  host_answer ask(host_request const& request) {
    std::uint64_t const ticket = std::atomic_ref{ring_.next}.fetch_add(1);
    host_call_record& record = records_[ticket % host_call_ring::places];
    std::uint64_t const round = 3 * (ticket / host_call_ring::places);
    std::atomic_ref turn{record.turn};
    while (turn != round) std::this_thread::yield();
    record.request = request;
    turn = round + 1;
    while (turn != round + 2) std::this_thread::yield();
    host_answer const answer = record.answer;
    turn = round + 3;
    return answer;
  }

  std::vector<host_call_record> records_;
  host_call_ring ring_{};
  host_call_server server_;
  std::atomic<int> served_ = 0;
  std::atomic<bool> has_ended_ = false;
  std::thread launcher_;
};

TEST_F(CHostCalls, CarryMoreRequestsThanTheRingHasPlaces) {
  char name[] = "/tmp/quarry_host_calls_XXXXXX";
  close(mkstemp(name));
  c_file* const file = quarry_c_fopen(name, "w+");
  ASSERT_NE(file, nullptr);
  chooser choose{15};
  std::vector<char> data(100'000);
  for (auto& c : data) c = static_cast<char>(choose.word());
  EXPECT_EQ(quarry_c_fwrite(data.data(), 1, data.size(), file), data.size());
  for (int i = 0; i < 30; ++i) {
    quarry_c_rewind(file);
    std::vector<char> read(data.size());
    ASSERT_EQ(quarry_c_fread(read.data(), 1, read.size(), file), data.size());
    ASSERT_EQ(read, data);
    ASSERT_EQ(quarry_c_ftell(file), 100'000);
  }
  EXPECT_EQ(quarry_c_fclose(file), 0);
  std::remove(name);
  EXPECT_GT(served_, static_cast<int>(host_call_ring::places));
}

TEST_F(CHostCalls, CarryErrors) {
  EXPECT_EQ(quarry_c_fopen("/nonexistent/file", "r"), nullptr);
  EXPECT_EQ(world_.rank().error_number, 2);
}

TEST_F(CHostCalls, OfOtherRanksAreServedWhileARankWaitsForInput) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  int const old_input = dup(0);
  dup2(ends[0], 0);
  // More requests than the ring has places, in the places that the other rank's leave.
  std::thread user{[&] {
    constexpr int requests = 2 * host_call_ring::places;
    while (served_ == 0) std::this_thread::yield();
    int answers = 0;
    for (; answers < requests; ++answers) ASSERT_EQ(ask({host_function::time_offset}).error, 0);
    ASSERT_EQ(write(ends[1], "x", 1), 1);
  }};
  EXPECT_EQ(quarry_c_getchar(), 'x');
  user.join();
  dup2(old_input, 0);
  for (int const file : {old_input, ends[0], ends[1]}) close(file);
  EXPECT_EQ(world_.output[3], "f");  // a question would have been shown
}

}  // namespace
}  // namespace quarry::mpi_test
