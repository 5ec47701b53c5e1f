// SPDX-License-Identifier: Apache-2.0
// The calls of the program in unchanged_kernels.cu. Each call runs a kernel with `lanes` lanes, and
// each lane has its entry in `pointers`.
#pragma once

namespace unchanged {

/// Every way in which a kernel can allocate memory.
enum class way {
  c_function,
  in_std,
  by_pointer,
  in_host_device_function,
  object,
  array,
  aligned_object,
  aligned_array,
  expression
};
inline constexpr way every_way[] = {
    way::c_function, way::in_std, way::by_pointer,     way::in_host_device_function,
    way::object,     way::array,  way::aligned_object, way::aligned_array,
    way::expression};

void allocate(way kind, void** pointers, unsigned lanes);

/// Frees in the same way as `allocate`.
void release(way kind, void** pointers, unsigned lanes);

/// Builds a list of `lanes` nodes, reverses its order and frees it, all in kernels. Returns the sum
/// of its values.
long long sum_of_list(unsigned lanes);

/// Whether the file's host code still uses the C library's malloc and the host's new in all its
/// calls.
bool host_code_works();

}  // namespace unchanged
