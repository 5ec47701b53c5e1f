// SPDX-License-Identifier: Apache-2.0
// Atomics on a GPU's global memory. Each operation is one PTX instruction.
#pragma once

#include "quarry/core/config.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::simt {

/// The values are those of the compilers' atomic operations. It is not std::memory_order, because
/// <atomic> would add a sixth to the lines of <quarry/heap.hpp> and the headers that it includes.
enum class memory_order : int {
  relaxed = __ATOMIC_RELAXED,
  acquire = __ATOMIC_ACQUIRE,
  release = __ATOMIC_RELEASE,
  acq_rel = __ATOMIC_ACQ_REL,
  seq_cst = __ATOMIC_SEQ_CST,
};

#ifdef __CUDA_ARCH__

/// The operations of `atomic_ref` at device scope; `Bits` is std::uint32_t or std::uint64_t.
///
/// Rejected: the atomics of libcu++. They work on memory of any kind, so each of them includes code
/// for local and shared memory and is three times as large. Each is also a compiler barrier, even
/// if relaxed. After a relaxed operation of this class the compiler may keep values in registers
/// and need not reload them.
template <class Bits>
struct global_atomic {
#define QUARRY_ASM(instruction, order, operation, type, inputs, clobbers)                       \
  if constexpr (sizeof(Bits) == 8) {                                                            \
    asm volatile(instruction "." order ".gpu.global" operation "." type "64 %0, [%1]" inputs(l) \
                 : clobbers);                                                                   \
  } else {                                                                                      \
    asm volatile(instruction "." order ".gpu.global" operation "." type "32 %0, [%1]" inputs(r) \
                 : clobbers);                                                                   \
  }
#define QUARRY_NO_INPUT(kind) ";" : "=" #kind(result) : "l"(address)
#define QUARRY_ONE_INPUT(kind) ", %2;" : "=" #kind(result) : "l"(address), #kind(value)
#define QUARRY_TWO_INPUTS(kind) \
  ", %2, %3;" : "=" #kind(result) : "l"(address), #kind(expected), #kind(value)
#define QUARRY_BY_ORDER(operation, type, inputs)                        \
  Bits result;                                                          \
  auto const address = __cvta_generic_to_global(object);                \
  switch (order) {                                                      \
    case memory_order::relaxed:                                         \
      QUARRY_ASM("atom", "relaxed", operation, type, inputs, );         \
      break;                                                            \
    case memory_order::acquire:                                         \
      QUARRY_ASM("atom", "acquire", operation, type, inputs, "memory"); \
      break;                                                            \
    case memory_order::release:                                         \
      QUARRY_ASM("atom", "release", operation, type, inputs, "memory"); \
      break;                                                            \
    default:                                                            \
      QUARRY_ASM("atom", "acq_rel", operation, type, inputs, "memory"); \
      break;                                                            \
  }                                                                     \
  return result;

  __device__ static Bits add(Bits* object, Bits value,
                             memory_order order){QUARRY_BY_ORDER(".add", "u", QUARRY_ONE_INPUT)}
  __device__ static Bits max(Bits* object, Bits value,
                             memory_order order){QUARRY_BY_ORDER(".max", "u", QUARRY_ONE_INPUT)}
  __device__ static Bits bitwise_or(Bits* object, Bits value, memory_order order){
      QUARRY_BY_ORDER(".or", "b", QUARRY_ONE_INPUT)} __device__ static Bits
      bitwise_and(Bits* object, Bits value,
                  memory_order order){QUARRY_BY_ORDER(".and", "b", QUARRY_ONE_INPUT)}
  __device__ static Bits exchange(Bits* object, Bits value, memory_order order){
      QUARRY_BY_ORDER(".exch", "b", QUARRY_ONE_INPUT)}
  /// Stores `value` if the current value is `expected`. Returns the previous value.
  __device__ static Bits
      compare_exchange(Bits* object, Bits expected, Bits value,
                       memory_order order){QUARRY_BY_ORDER(".cas", "b", QUARRY_TWO_INPUTS)}

  /// Adds, relaxed, without waiting for the previous value.
  __device__ static void add_blindly(Bits* object, Bits value) {
    auto const address = __cvta_generic_to_global(object);
    if constexpr (sizeof(Bits) == 8) {
      asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" : : "l"(address), "l"(value));
    } else {
      asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" : : "l"(address), "r"(value));
    }
  }

  /// `order` is relaxed or acquire.
  __device__ static Bits load(Bits* object, memory_order order) {
    Bits result;
    auto const address = __cvta_generic_to_global(object);
    if (order == memory_order::relaxed) {
      QUARRY_ASM("ld", "relaxed", "", "u", QUARRY_NO_INPUT, )
    } else {
      QUARRY_ASM("ld", "acquire", "", "u", QUARRY_NO_INPUT, "memory")
    }
    return result;
  }

  /// `order` is relaxed or release.
  __device__ static void store(Bits* object, Bits value, memory_order order) {
    auto const address = __cvta_generic_to_global(object);
    bool const releases = order != memory_order::relaxed;
    if constexpr (sizeof(Bits) == 8) {
      if (releases)
        asm volatile("st.release.gpu.global.u64 [%0], %1;" : : "l"(address), "l"(value) : "memory");
      else
        asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" : : "l"(address), "l"(value));
    } else {
      if (releases)
        asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(address), "r"(value) : "memory");
      else
        asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" : : "l"(address), "r"(value));
    }
  }

  /// The operations on two bytes. Compare-and-swap is the only integer RMW of this width that the
  /// hardware has.
  __device__ static std::uint16_t load_short(std::uint16_t* object) {
    std::uint16_t result;
    asm volatile("ld.acquire.gpu.global.u16 %0, [%1];"
                 : "=h"(result)
                 : "l"(__cvta_generic_to_global(object))
                 : "memory");
    return result;
  }
  __device__ static std::uint16_t compare_exchange_short(std::uint16_t* object,
                                                         std::uint16_t expected,
                                                         std::uint16_t value) {
    std::uint16_t result;
    asm volatile("atom.acq_rel.gpu.global.cas.b16 %0, [%1], %2, %3;"
                 : "=h"(result)
                 : "l"(__cvta_generic_to_global(object)), "h"(expected), "h"(value)
                 : "memory");
    return result;
  }

#undef QUARRY_BY_ORDER
#undef QUARRY_TWO_INPUTS
#undef QUARRY_ONE_INPUT
#undef QUARRY_NO_INPUT
#undef QUARRY_ASM
};

#endif

}  // namespace quarry::inline QUARRY_ABI::simt
