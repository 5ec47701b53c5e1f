// SPDX-License-Identifier: Apache-2.0
// Numbers of work-items and groups, for kernels of one, two and three dimensions.
#pragma once

// The number of the work-item in its group, and the number of work-items in the group.
static inline uint quarry_local_item(void) {
  uint const row = (uint)get_local_id(1) + (uint)get_local_size(1) * (uint)get_local_id(2);
  return (uint)get_local_id(0) + (uint)get_local_size(0) * row;
}
static inline uint quarry_local_items(void) {
  return (uint)get_local_size(0) * (uint)get_local_size(1) * (uint)get_local_size(2);
}
static inline uint quarry_group(void) {
  uint const row = (uint)get_group_id(1) + (uint)get_num_groups(1) * (uint)get_group_id(2);
  return (uint)get_group_id(0) + (uint)get_num_groups(0) * row;
}
