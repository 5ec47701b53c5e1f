// SPDX-License-Identifier: Apache-2.0
// How lanes of one warp that wait for different things look for them together.
#pragma once

#include "block_word.hpp"

#include "quarry/core/bits.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The lanes of a warp that wait, each for something of its own.
///
/// A GPU runs lanes of a warp that have diverged one after another. If 31 ranks of a warp wait
/// apart, a step of the last one takes up to 32 times as long, and so does each of their looks. So
/// lanes that wait form a set. All of its members look at once, and a lane that has found what it
/// waits for leaves alone: nobody waits for lanes outside the set.
///
/// The lanes share one word: the members, and newcomers, who wait for admission. A newcomer adds
/// itself (J). If the word was 0, nobody looks, and it makes itself the first member (F). After
/// each look the members vote who leaves. Their leader, the lowest one that stays, removes those
/// (R), tells all whom it admits, the newcomers that it saw, and admits them (A). So members know
/// the set without the word. If all leave, each removes itself (L), and the last one admits the
/// newcomers (H).
///
/// Problem. A vote waits for all members, so they must know the same set, and none may miss a vote.
/// Race. A newcomer adds itself while members leave, or was a member itself just before.
/// Re-check. (J) and (L) are RMWs of one word. Either the last (L) sees the newcomer, and (H)
/// admits it; or (J) sees neither members nor newcomers. A lane returns after (R) or its (L), so
/// its bit is never that of an earlier wait. A newcomer reads the set from the word once its bit is
/// there. By then (A) or (H) is the last change of the members, and the next one follows a vote of
/// the newcomer. (A) follows the last step that lanes of the old set have in common, and so does
/// the last (L). So two sets never vote at the same time. (A) precedes the next vote of the leader,
/// so the next leader does not admit the same lanes.
/// Progress. A member waits for the looks of other members, and a newcomer for two of these looks.
/// A look waits for nothing.
/// Price. Two votes a look, and an atomic on shared memory for each change.
///
/// Memory order. All is relaxed: a look that succeeds is a hint, after which the lane looks again
/// with the orders that it needs. But the next leader must see (A), which precedes its load only by
/// a vote. By the rules of CUDA, votes order no accesses. This relies on the hardware: a
/// multiprocessor executes the accesses of a warp to shared memory in their order.
class waiting_lanes {
 public:
  /// 0 at first. Low half: the members, a bit for each lane; high half: newcomers.
  using place = std::uint64_t;

  /// Waits until `look()`, but at most for so many looks (at least 1). Returns whether it has
  /// succeeded. `warp` has these functions of lanes:
  ///   lane()                          the caller's number in its warp
  ///   vote(members, value)            the members whose value is true; waits for all of them
  ///   tell(members, value, speaker)   the value of the speaker; waits for all of them
  ///   pause()                         between two looks of a lane
  template <class Warp, class Look>
  [[nodiscard]] QUARRY_HD static bool wait(place& at, Warp const& warp, std::uint32_t looks,
                                           Look const& look) {
    long_block_word const word{at};
    std::uint32_t const own = std::uint32_t{1} << warp.lane();
    std::uint32_t members = join(word, own);
    QUARRY_NO_UNROLL
    for (;;) {
      bool const has_come = look();
      bool const leaves = has_come || --looks == 0;
      std::uint32_t const leaving = warp.vote(members, leaves);
      if (leaving == members) {
        end(word, own);
        return has_come;
      }
      std::uint32_t const leader = lowest_one(members & ~leaving);
      bool const leads = warp.lane() == leader;
      std::uint32_t const admitted = warp.tell(members, leads ? remove(word, leaving) : 0, leader);
      if (leads && admitted != 0) (void)word.fetch_add(admit(admitted));  // (A)
      if (leaves) return has_come;
      members = (members & ~leaving) | admitted;
      warp.pause();
    }
  }

 private:
  [[nodiscard]] QUARRY_HD static constexpr std::uint64_t as_newcomers(std::uint32_t lanes) {
    return std::uint64_t{lanes} << 32;
  }
  /// What makes newcomers members.
  [[nodiscard]] QUARRY_HD static constexpr std::uint64_t admit(std::uint32_t newcomers) {
    return newcomers - as_newcomers(newcomers);
  }

  /// Returns the members, of whom the caller is one now.
  [[nodiscard]] QUARRY_HD static std::uint32_t join(long_block_word word, std::uint32_t own) {
    if (word.fetch_or(as_newcomers(own)) == 0) {  // (J)
      (void)word.fetch_add(admit(own));           // (F)
      return own;
    }
    for (;;) {
      auto const members = static_cast<std::uint32_t>(word.load());
      if ((members & own) != 0) return members;
      simt::pause();
    }
  }

  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t newcomers_of(std::uint64_t value) {
    return static_cast<std::uint32_t>(value >> 32);
  }

  /// Removes members, and returns the newcomers.
  [[nodiscard]] QUARRY_HD static std::uint32_t remove(long_block_word word, std::uint32_t leaving) {
    return newcomers_of(leaving == 0 ? word.load()
                                     : word.fetch_add(std::uint64_t{0} - leaving));  // (R)
  }

  /// Removes the caller of a set that ends. The last one lets the newcomers look.
  QUARRY_HD static void end(long_block_word word, std::uint32_t own) {
    std::uint64_t const seen = word.fetch_add(std::uint64_t{0} - own);  // (L)
    std::uint32_t const newcomers = newcomers_of(seen);
    if (static_cast<std::uint32_t>(seen) == own && newcomers != 0)
      (void)word.fetch_add(admit(newcomers));  // (H)
  }
};

}  // namespace quarry::inline QUARRY_ABI::mpi
