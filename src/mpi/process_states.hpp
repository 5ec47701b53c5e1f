// SPDX-License-Identifier: Apache-2.0
// How processes of one host find out that no rank of any of them can continue.
#pragma once

#include "world.hpp"

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// What a process tells the others about itself, in a file that all of them map. Launchers use it,
/// not ranks.
///
/// The processes vote in rounds. A process votes in a round when all of its ranks have looked since
/// the round began, have found nothing to do, and none of its words is under way. A vote has the
/// process's activity: how much its ranks have done so far. A process whose ranks have all ended
/// has voted for all rounds. When all have voted, the first process that has not ended begins the
/// next round. If then all vote with the activity that they had in the round before, there is a
/// deadlock.
///
/// This is exact. Let T be the time when the second round began. No process was active between its
/// two votes, and T is between them. So no rank did anything at T, and no word was under way. Each
/// rank has looked after T, when all words had arrived, and has found nothing. Suppose that a rank
/// continues later nevertheless. It has found something that was not there at T, and the first such
/// rank cannot have.
///
/// Memory order. A vote releases what the process has put (V). The process that counts votes
/// acquires it (W), and releases it again when it begins a round (N). A look at the round acquires
/// it (O). Rounds wrap after 2^64.
class process_states {
 public:
  /// What the report needs of a rank.
  struct rank_summary {
    wait_reason waiting;
    std::int32_t awaited;
    std::uint32_t awaiting_members;
    std::int32_t exit_code;
    std::uint32_t looks_without_memory;
    life stage;
  };

  /// Processes that have no file in common find no deadlock. `meeting_file` names those of a
  /// program. Process 0 makes a file beside it, before it makes the meeting file.
  process_states(std::string const& meeting_file, std::uint32_t own, std::uint32_t processes,
                 std::uint32_t ranks, std::uint32_t ranks_each);
  process_states(process_states const&) = delete;
  ~process_states();

  /// Maps the file, if there is one. Called when the processes have met.
  void join();

  [[nodiscard]] std::uint64_t round() const;
  /// Where the round is; null without a file.
  [[nodiscard]] std::uint64_t* round_word() const;
  /// No rank of this process can continue unless another process does something. All ranks have
  /// looked since `round` began. Returns whether no rank of any process can continue.
  bool vote(std::uint64_t round, std::uint64_t activity);
  /// Whether a process has found a deadlock.
  [[nodiscard]] bool is_found() const;
  /// Tells the others about the ranks of this process after a deadlock was found. Waits for them, a
  /// few seconds at most. Returns all ranks of the program, for the report, if this process writes
  /// it; nothing otherwise.
  std::vector<rank_state> gather(std::vector<rank_state> const& own_ranks);
  /// The process that reports tells the others the exit status of the program.
  void set_status(int status);
  /// Waits for that, a few seconds at most; 1 if it does not come.
  [[nodiscard]] int status() const;
  /// All ranks of this process have ended.
  void end(std::vector<rank_state> const& own_ranks);

 private:
  struct head;
  struct state;

  [[nodiscard]] state& state_of(std::uint32_t process) const;
  [[nodiscard]] rank_summary* summaries() const;
  [[nodiscard]] bool reports() const;
  void describe(std::vector<rank_state> const& own_ranks);

  std::string file_;
  std::uint32_t own_;
  std::uint32_t processes_;
  std::uint32_t ranks_;
  std::uint32_t ranks_each_;
  std::uint64_t size_;
  char* memory_ = nullptr;
  std::mutex lock_;                    // of what follows
  std::vector<std::uint64_t> before_;  // the activity of each process in the round before, or empty
};

}  // namespace quarry::inline QUARRY_ABI::mpi
