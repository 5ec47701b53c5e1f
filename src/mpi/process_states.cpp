// SPDX-License-Identifier: Apache-2.0
#include "process_states.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

constexpr std::uint64_t line = 128;
constexpr std::uint64_t ended = ~std::uint64_t{0};  // of a vote: it is for all rounds

template <class T>
[[nodiscard]] T load(T const& word) {
  return std::atomic_ref{const_cast<T&>(word)}.load(std::memory_order_acquire);  // (W), (O)
}
template <class T>
void store(T& word, T value) {
  std::atomic_ref{word}.store(value, std::memory_order_release);  // (V), (N)
}

/// Waits until the condition is true, or five seconds have passed.
template <class Condition>
void wait_until(Condition const& is_true) {
  constexpr int most_looks = 500;
  for (int i = 0; i < most_looks && !is_true(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
}

}  // namespace

struct alignas(line) process_states::head {
  std::uint64_t round;
  std::uint64_t is_found;
  std::uint64_t status;  // 2^32 + the status, when it is known
};
struct alignas(line) process_states::state {
  std::uint64_t activity;  // before `round`
  std::uint64_t round;     // in which the process has voted
  std::uint64_t is_described;
};

process_states::process_states(std::string const& meeting_file, std::uint32_t own,
                               std::uint32_t processes, std::uint32_t ranks,
                               std::uint32_t ranks_each)
    : file_{meeting_file.empty() ? "" : meeting_file + ".states"},
      own_{own},
      processes_{processes},
      ranks_{ranks},
      ranks_each_{ranks_each},
      size_{sizeof(head) + processes * sizeof(state) + ranks * sizeof(rank_summary)} {
  if (own != 0 || file_.empty()) return;
  unlink(file_.c_str());  // of an earlier program
  int const made = open(file_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (made < 0) return;
  if (ftruncate(made, static_cast<off_t>(size_)) != 0) unlink(file_.c_str());
  close(made);
}

process_states::~process_states() {
  if (memory_ != nullptr) munmap(memory_, size_);
}

void process_states::join() {
  int const found = file_.empty() ? -1 : open(file_.c_str(), O_RDWR | O_CLOEXEC);
  if (found < 0) return;
  bool const is_whole = lseek(found, 0, SEEK_END) == static_cast<off_t>(size_);
  void* const mapped =
      is_whole ? mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, found, 0) : MAP_FAILED;
  close(found);
  if (mapped == MAP_FAILED) return;
  memory_ = static_cast<char*>(mapped);
  std::uint64_t first = 0;  // rounds begin with 1: 0 means that a process has not voted
  (void)std::atomic_ref{reinterpret_cast<head*>(memory_)->round}.compare_exchange_strong(first, 1);
}

process_states::state& process_states::state_of(std::uint32_t process) const {
  return reinterpret_cast<state*>(memory_ + sizeof(head))[process];
}
process_states::rank_summary* process_states::summaries() const {
  return reinterpret_cast<rank_summary*>(memory_ + sizeof(head) + processes_ * sizeof(state));
}

std::uint64_t* process_states::round_word() const {
  return memory_ == nullptr ? nullptr : &reinterpret_cast<head*>(memory_)->round;
}
std::uint64_t process_states::round() const { return memory_ == nullptr ? 0 : load(*round_word()); }

bool process_states::reports() const {
  for (std::uint32_t i = 0; i < own_; ++i)
    if (load(state_of(i).round) != ended) return false;
  return true;
}

bool process_states::vote(std::uint64_t round, std::uint64_t activity) {
  if (memory_ == nullptr) return false;
  std::lock_guard const guard{lock_};
  head& all = *reinterpret_cast<head*>(memory_);
  if (load(all.round) != round) return false;
  store(state_of(own_).activity, activity);
  store(state_of(own_).round, round);
  if (!reports()) return false;
  std::vector<std::uint64_t> now(processes_);
  for (std::uint32_t i = 0; i < processes_; ++i) {
    std::uint64_t const voted = load(state_of(i).round);
    if (voted != round && voted != ended) return false;
    now[i] = voted == ended ? ended : load(state_of(i).activity);
  }
  bool const is_deadlock = now == before_;
  before_ = now;
  store(is_deadlock ? all.is_found : all.round, is_deadlock ? std::uint64_t{1} : round + 1);
  return is_deadlock;
}

bool process_states::is_found() const {
  return memory_ != nullptr && load(reinterpret_cast<head*>(memory_)->is_found) != 0;
}

void process_states::describe(std::vector<rank_state> const& own_ranks) {
  rank_summary* const own = summaries() + std::uint64_t{own_} * ranks_each_;
  for (std::size_t i = 0; i < own_ranks.size(); ++i) {
    rank_state const& rank = own_ranks[i];
    own[i] = {rank.waiting,
              rank.awaited,
              rank.awaiting_members,
              rank.exit_code,
              rank.looks_without_memory,
              rank.stage};
  }
  store(state_of(own_).is_described, std::uint64_t{1});
}

std::vector<rank_state> process_states::gather(std::vector<rank_state> const& own_ranks) {
  describe(own_ranks);
  if (!reports()) return {};
  for (std::uint32_t i = 0; i < processes_; ++i)
    wait_until([&] { return load(state_of(i).is_described) != 0; });
  std::vector<rank_state> all(ranks_);
  for (std::uint32_t i = 0; i < ranks_; ++i) {
    rank_summary const& of_rank = summaries()[i];
    all[i].rank = i;
    all[i].waiting = of_rank.waiting;
    all[i].awaited = of_rank.awaited;
    all[i].awaiting_members = of_rank.awaiting_members;
    all[i].exit_code = of_rank.exit_code;
    all[i].looks_without_memory = of_rank.looks_without_memory;
    all[i].stage = of_rank.stage;
  }
  return all;
}

void process_states::set_status(int status) {
  store(reinterpret_cast<head*>(memory_)->status,
        std::uint64_t{1} << 32 | static_cast<std::uint32_t>(status));
}

int process_states::status() const {
  std::uint64_t const& word = reinterpret_cast<head*>(memory_)->status;
  wait_until([&] { return load(word) != 0; });
  std::uint64_t const found = load(word);
  return found == 0 ? 1 : static_cast<int>(static_cast<std::uint32_t>(found));
}

void process_states::end(std::vector<rank_state> const& own_ranks) {
  if (memory_ == nullptr) return;
  describe(own_ranks);
  store(state_of(own_).round, ended);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
