// SPDX-License-Identifier: Apache-2.0
// Gather and scatter in shared memory: each rank copies its own part of the root's buffer.
#pragma once

#include "collective.hpp"
#include "convert_elements.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Counts and places of each rank's part of a buffer: the same for all, or from arrays.
struct rank_parts {
  int const* counts;
  int const* displacements;
  int count;

  [[nodiscard]] QUARRY_HD bytes count_of(std::uint32_t rank) const {
    return static_cast<bytes>(counts == nullptr ? count : counts[rank]);
  }
  /// The number of elements before the part.
  [[nodiscard]] QUARRY_HD std::int64_t place_of(std::uint32_t rank) const {
    return displacements == nullptr ? static_cast<std::int64_t>(rank) * count : displacements[rank];
  }
  /// Whether the counts and the type are valid. Returns an MPI error code.
  [[nodiscard]] QUARRY_SLOW int check_all(rank_state& rank, std::uint32_t size, MPI_Datatype type,
                                          MPI_Comm communicator, char const* function) const;
};

/// The root's buffer of a gather or a scatter. The root says where it is, then all ranks copy their
/// parts at once, then the root waits for all: a root that copied all parts would keep the others
/// waiting. All ranks make one and close it.
///
/// Other ranks read the root's arrays and its datatype, which stay as they are until it closes the
/// window. What they cannot read, because it lies on the root's stack, the root copies: of a buffer
/// the elements, one after another.
///
/// Memory order. The broadcast, by a meeting or by messages, makes what the root wrote visible to
/// all. The root sees what the others wrote when they have arrived, by a meeting or by messages.
class root_window {
 public:
  enum class direction : std::uint32_t { gather, scatter };

  /// The buffer, its parts and its type are those of the root. Other ranks' are not read.
  QUARRY_SLOW root_window(collective const& of, std::uint32_t root, direction flow, void* buffer,
                          rank_parts const& of_ranks, MPI_Datatype type);

  /// Copies the caller's elements to its part. The root notes an error if they are too many.
  QUARRY_SLOW void write(void const* sent, bytes count, MPI_Datatype type) const;
  /// Copies the caller's part. Notes an error if there is no room for all of it.
  QUARRY_SLOW void read(void* received, bytes count, MPI_Datatype type) const;

  /// Gather: waits until all ranks have written.
  QUARRY_SLOW void wait_for_all() const;
  /// After `wait_for_all`: copies all parts to a buffer of the caller. Notes an error if there is
  /// no room for all of a part, in this buffer or in the root's.
  QUARRY_SLOW void read_all(void* received, rank_parts const& into, MPI_Datatype type) const;

  /// Called by every rank after its copies. The root waits for all.
  QUARRY_SLOW void close() const;

 private:
  /// What the root tells the others.
  struct place {
    void* data;
    rank_parts of_ranks;
    MPI_Datatype type;  // one of the root's types
    std::uint32_t is_packed;
  };
  static_assert(sizeof(place) <= mail::most_words * 4);

  /// Of the root, if others cannot read its buffer, and its arrays.
  QUARRY_SLOW void copy_arrays();
  QUARRY_SLOW void move_packed(bool packs) const;

  [[nodiscard]] QUARRY_HD rank_state& owner() const {
    return state_of(of_.through.at->shared->world_rank(root_, of_.rank.rank));
  }
  /// Whether a rank has sent more than its part. Atomic, because several ranks may store it.
  /// Relaxed (F): the broadcast of the window comes between the root's first store and all copies,
  /// and the arrivals come between the copies and the loads.
  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint32_t> is_too_long() const;
  /// A rank's part.
  [[nodiscard]] QUARRY_SLOW typed_elements part(std::uint32_t rank) const;
  [[nodiscard]] QUARRY_HD bytes part_bytes(std::uint32_t rank) const {
    return place_.of_ranks.count_of(rank) * element_size(owner(), place_.type);
  }
  [[nodiscard]] QUARRY_HD bool is_root() const { return of_.own == root_; }

  collective const& of_;
  std::uint32_t root_;
  direction flow_;
  place place_;
  void* buffer_;  // of the root
  rank_parts parts_;
  MPI_Datatype type_;
  scratch packed_;  // the buffer's elements, if others cannot read it
  scratch arrays_;  // two: counts and displacements
};

/// In smaller communicators that do not meet, messages to the root or from it take less time.
inline constexpr std::uint32_t fewest_in_window = 17;

/// In an allgather of fewer ranks that meet, each rank reads the parts of all.
inline constexpr std::uint32_t fewest_in_window_of_meeting = 64;

/// Whether the members of the communicator open a window.
[[nodiscard]] QUARRY_HD inline bool opens_window(membership const& among) {
  return !spans_processes && (among.size >= fewest_in_window || meets(among));
}

}  // namespace quarry::inline QUARRY_ABI::mpi
