// SPDX-License-Identifier: Apache-2.0
// The common case of MPI_Send and MPI_Recv, without a call: small messages of basic types. One
// thread of a GPU runs about one instruction in six cycles, and each nested call saves and restores
// registers, so that the general path takes several times as long.
#pragma once

#include "progress.hpp"

#ifdef __CUDACC__
#define QUARRY_FAST QUARRY_HD __forceinline__
#else
#define QUARRY_FAST inline
#endif

namespace quarry::inline QUARRY_ABI::mpi {

/// Copies at most `small_message` bytes.
QUARRY_FAST void copy_small(char* to, char const* from, std::uint32_t size) {
  auto const either = reinterpret_cast<std::uint64_t>(to) | reinterpret_cast<std::uint64_t>(from);
  std::uint32_t i = 0;
  if (either % 8 == 0) {
    QUARRY_NO_UNROLL
    for (; i + 8 <= size; i += 8)
      *reinterpret_cast<std::uint64_t*>(to + i) = *reinterpret_cast<std::uint64_t const*>(from + i);
  }
  if (either % 4 == 0) {
    QUARRY_NO_UNROLL
    for (; i + 4 <= size; i += 4)
      *reinterpret_cast<std::uint32_t*>(to + i) = *reinterpret_cast<std::uint32_t const*>(from + i);
  }
  QUARRY_NO_UNROLL
  for (; i < size; ++i) to[i] = from[i];
}

/// The size of the elements; more than `small_message` if they are not of the fast path's kind:
/// small, of a type that mpi.h names, and without gaps.
[[nodiscard]] QUARRY_FAST std::uint32_t small_size(int count, MPI_Datatype type) {
  bool const is_small =
      count >= 0 && count <= static_cast<int>(small_message) && is_named(type) && !has_gap(type);
  return is_small ? static_cast<std::uint32_t>(count) * static_cast<std::uint32_t>(type >> 8)
                  : static_cast<std::uint32_t>(small_message) + 1;
}

/// Sends a small message, if nothing speaks against it. Returns false, and has done nothing,
/// otherwise.
[[nodiscard]] QUARRY_FAST bool send_fast(void const* data, int count, MPI_Datatype type, int to,
                                         int tag, MPI_Comm handle) {
  rank_state& rank = self();
  std::uint32_t const size = small_size(count, type);
  auto const index = static_cast<std::uint32_t>(handle - 1);
  if (size > small_message || tag < 0 || index >= rank.memberships) return false;
  membership const& at = rank.member_of[index];
  message* const sent = rank.spare;
  if (at.shared == nullptr || static_cast<std::uint32_t>(to) >= at.size || sent == nullptr)
    return false;
  rank.spare = sent->later;
  --rank.spares;
  sent->size = size;
  sent->data = sent->inline_data();
  sent->done = nullptr;
  sent->source = static_cast<std::int32_t>(at.rank);
  sent->tag = tag;
  sent->context = at.context;
  copy_small(sent->inline_data(), static_cast<char const*>(data), size);
  std::uint32_t const target =
      index == 0 ? static_cast<std::uint32_t>(to)
                 : at.shared->world_rank(static_cast<std::uint32_t>(to), rank.rank);
  mailbox{state_of(target)}.push(sent);
  note_activity();
  return true;
}

/// Receives a small message, if nothing speaks against it. Returns false otherwise; then the
/// general path continues, and perhaps finds messages that this function has put into the list of
/// unexpected messages.
[[nodiscard]] QUARRY_FAST bool receive_fast(void* data, int count, MPI_Datatype type, int from,
                                            int tag, MPI_Comm handle, MPI_Status* status) {
  rank_state& rank = self();
  std::uint32_t const room = small_size(count, type);
  auto const index = static_cast<std::uint32_t>(handle - 1);
  if (room > small_message || index >= rank.memberships || tag < MPI_ANY_TAG) return false;
  membership const& at = rank.member_of[index];
  if (at.shared == nullptr || from < MPI_ANY_SOURCE || from >= static_cast<int>(at.size))
    return false;
  // the general path serves other receives, and finds messages that have come before
  if (rank.posted_first != nullptr || rank.unexpected_first != nullptr) return false;
  mailbox const box{rank};
  for (std::uint32_t polls = 0;; ++polls) {
    std::uint64_t const activity = activity_now();
    if (box.has_message()) {
      if (polls >= polls_before_idle) end_wait(rank);
      break;
    }
    if (polls % polls_before_idle == polls_before_idle - 1)
      idle(rank, reason_of(call::recv, from, tag, at.context), activity, polls);
  }
  message* replaced = nullptr;
  message* const arrived = box.pop(replaced);
  bool const is_wanted = at.context == arrived->context &&
                         (from == MPI_ANY_SOURCE || from == arrived->source) &&
                         (tag == MPI_ANY_TAG || tag == arrived->tag) && arrived->size <= room &&
                         arrived->done == nullptr;
  free_if_unheld(rank, replaced);
  if (!is_wanted) {
    append_unexpected(rank, arrived);
    return false;
  }
  auto const size = static_cast<std::uint32_t>(arrived->size);
  copy_small(static_cast<char*>(data), static_cast<char const*>(arrived->data), size);
  arrived->holds = mailbox::end_hold;
  if (status != MPI_STATUS_IGNORE)
    *status = {arrived->source, arrived->tag, MPI_SUCCESS, 0, static_cast<long long>(size)};
  return true;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
