// SPDX-License-Identifier: Apache-2.0
// The arguments of variadic functions, and macros that define such functions for both machines.
#pragma once

#include "quarry/core/config.hpp"

#include <cstdarg>
#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

/// The arguments of a variadic call on the GPU. They lie one behind the other, each at a multiple
/// of its size and of `slot`. That is 1 in a va_list of the program and in a call through a
/// pointer. It is `slot_of_calls` where the compiler has widened the arguments
/// (compiler/variadic_calls.hpp); there an argument of a wrong width does not move the others.
class packed_arguments {
 public:
  static constexpr std::uint64_t slot_of_calls = 8;

  QUARRY_HD explicit packed_arguments(void const* first, std::uint64_t slot = 1)
      : next_{reinterpret_cast<std::uint64_t>(first)}, slot_{slot} {}
  template <class T>
  [[nodiscard]] QUARRY_HD T take() {
    std::uint64_t const room = sizeof(T) > slot_ ? sizeof(T) : slot_;
    std::uint64_t const at = (next_ + room - 1) & ~(room - 1);
    next_ = at + room;
    return *reinterpret_cast<T const*>(at);
  }

 private:
  std::uint64_t next_;
  std::uint64_t slot_;
};

#ifdef __CUDACC__
using arguments = packed_arguments;
#else
/// The same on the CPU, as the platform's va_list says.
class arguments {
 public:
  explicit arguments(va_list list) { va_copy(list_, list); }
  ~arguments() { va_end(list_); }
  arguments(arguments const& other) { va_copy(list_, const_cast<arguments&>(other).list_); }
  arguments& operator=(arguments const&) = delete;
  template <class T>
  [[nodiscard]] T take() {
    return va_arg(list_, T);
  }

 private:
  va_list list_;
};
#endif

}  // namespace quarry::inline QUARRY_ABI::mpi

/// Defines `name`, whose last named parameter is `format`, and which returns `call` of the
/// arguments `values`. On the GPU a variadic function gets a pointer to its packed arguments.
/// QUARRY_WITH_LIST defines a function that takes a va_list instead. QUARRY_WITH_SLOTS defines one
/// whose arguments have slots, on the GPU only.
#ifdef __CUDACC__
#define QUARRY_VARIADIC(name, call, ...)                    \
  __device__ int quarry_c_##name(__VA_ARGS__, void* list) { \
    arguments values{list};                                 \
    return call;                                            \
  }
#define QUARRY_WITH_LIST QUARRY_VARIADIC
#define QUARRY_WITH_SLOTS(name, call, ...)                          \
  __device__ int quarry_c_slotted_##name(__VA_ARGS__, void* list) { \
    arguments values{list, arguments::slot_of_calls};               \
    return call;                                                    \
  }
#else
#define QUARRY_WITH_SLOTS(name, call, ...)
#define QUARRY_VARIADIC(name, call, ...)  \
  int quarry_c_##name(__VA_ARGS__, ...) { \
    va_list list;                         \
    va_start(list, format);               \
    int total;                            \
    {                                     \
      arguments values{list};             \
      total = call;                       \
    }                                     \
    va_end(list);                         \
    return total;                         \
  }
#define QUARRY_WITH_LIST(name, call, ...)          \
  int quarry_c_##name(__VA_ARGS__, va_list list) { \
    arguments values{list};                        \
    return call;                                   \
  }
#endif
