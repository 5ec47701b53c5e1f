// SPDX-License-Identifier: Apache-2.0
// Sub-groups: work-items that run in lockstep and can act for each other. On NVIDIA's GPUs a
// sub-group is a warp, and PTX has the instructions. On other devices, and in C++, each work-item
// is a team of its own.
#pragma once

#include "atomics.cl"

// The work-items of a sub-group that called together with one heap and one key. Bit i of `members`
// stands for lane i.
typedef struct quarry_team {
  uint members;
  uint lane;  // of the caller
} quarry_team;

static inline uint quarry_leader_of(quarry_team team) {
  return 31u - clz(team.members & (0u - team.members));
}
static inline bool quarry_leads(quarry_team team) { return quarry_leader_of(team) == team.lane; }
static inline uint quarry_team_size(quarry_team team) { return popcount(team.members); }
static inline uint quarry_rank_in(quarry_team team) {
  return popcount(team.members & ((1u << team.lane) - 1u));
}

#if !defined(QUARRY_AS_CPP) && QUARRY_TIER == 2

// Forms a team of the work-items that pass the same heap, because the leader claims from its own
// heap.
static inline quarry_team quarry_team_of(__global void const* heap, uint key) {
  quarry_team team;
  uint active, own_lane, same_heap;
  asm volatile("activemask.b32 %0;" : "=r"(active)::"memory");
  // Makes the mask depend on the work-item. Otherwise the assembler assumes that work-items of two
  // teams, which run together, have the same mask. Some work-items then do not wait for their team
  // (lane_group.hpp, active_lanes).
  asm volatile("mov.u32 %0, %%lanemask_eq;" : "=r"(own_lane));
  active |= own_lane;
  asm volatile("match.all.sync.b64 %0, %1, %2;"
               : "=r"(same_heap)
               : "l"(heap), "r"(active)
               : "memory");
  if (same_heap == 0u)
    asm volatile("match.any.sync.b64 %0, %1, %2;"
                 : "=r"(same_heap)
                 : "l"(heap), "r"(active)
                 : "memory");
  asm volatile("match.any.sync.b32 %0, %1, %2;"
               : "=r"(team.members)
               : "r"(key), "r"(active)
               : "memory");
  team.members &= same_heap;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(team.lane));
  return team;
}
// Waits for all members. Their accesses before the call happen before their accesses after the
// call.
static inline void quarry_team_meet(quarry_team team) {
  asm volatile("bar.warp.sync %0;" ::"r"(team.members) : "memory");
}
// Returns the leader's value. The members' accesses before the call happen before their accesses
// after it.
static inline uint quarry_from_leader(quarry_team team, uint value) {
  if (quarry_team_size(team) == 1u) return value;
  uint result;
  asm volatile("shfl.sync.idx.b32 %0, %1, %2, 31, %3;"
               : "=r"(result)
               : "r"(value), "r"(quarry_leader_of(team)), "r"(team.members)
               : "memory");
  quarry_team_meet(team);
  return result;
}
#else

static inline quarry_team quarry_team_of(__global void const* heap, uint key) {
  quarry_team const team = {1u, 0u};
  (void)heap;
  (void)key;
  return team;
}
static inline uint quarry_from_leader(quarry_team team, uint value) {
  (void)team;
  return value;
}
static inline void quarry_team_meet(quarry_team team) { (void)team; }

#endif
