// SPDX-License-Identifier: Apache-2.0
// What the program of unchanged_kernels.cu can do: each call runs a kernel of `lanes` lanes, each
// with its place in `pointers`.
#pragma once

namespace unchanged {

/// Every way in which a kernel can ask for memory.
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

void allocate(way how, void** pointers, unsigned lanes);

/// The opposite of `allocate` in the same way.
void release(way how, void** pointers, unsigned lanes);

/// Builds a list of `lanes` nodes, changes its order and frees it, all in kernels; gives the sum of
/// its values.
long long sum_of_list(unsigned lanes);

/// Whether the file's host code has the C library's malloc and the host's new in all the ways in
/// which it uses them.
bool host_code_works();

}  // namespace unchanged
