// SPDX-License-Identifier: Apache-2.0
// The arguments of variadic functions, and macros that define such functions for both machines.
#pragma once

#include "quarry/core/config.hpp"

#include <cstdarg>
#include <cstdint>

namespace quarry::inline QUARRY_ABI::mpi {

/// The arguments of a variadic call. On the GPU they lie one behind the other, each at a multiple
/// of its size; on the CPU as the platform's va_list says.
class arguments {
 public:
#ifdef __CUDACC__
  QUARRY_HD explicit arguments(void* packed) : next_{static_cast<char*>(packed)} {}
  template <class T>
  [[nodiscard]] QUARRY_HD T take() {
    auto const at =
        (reinterpret_cast<std::uint64_t>(next_) + sizeof(T) - 1) & ~std::uint64_t{sizeof(T) - 1};
    next_ = reinterpret_cast<char*>(at + sizeof(T));
    return *reinterpret_cast<T const*>(at);
  }

 private:
  char* next_;
#else
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
#endif
};

}  // namespace quarry::inline QUARRY_ABI::mpi

/// Defines `name`, whose last named parameter is `format`, and which returns `call` of the
/// arguments `values`. On the GPU a variadic function gets a pointer to its packed arguments.
/// QUARRY_WITH_LIST defines a function that takes a va_list instead.
#ifdef __CUDACC__
#define QUARRY_VARIADIC(name, call, ...)                    \
  __device__ int quarry_c_##name(__VA_ARGS__, void* list) { \
    arguments values{list};                                 \
    return call;                                            \
  }
#define QUARRY_WITH_LIST QUARRY_VARIADIC
#else
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
