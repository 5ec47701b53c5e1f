// SPDX-License-Identifier: Apache-2.0
// Options of the C API that begin with their size, for callers that were compiled with any version
// of the header.
#pragma once

#include "quarry/core/errors.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace quarry::inline QUARRY_ABI::c_api {

inline constexpr std::size_t max_options = 4096;

/// Throws `bad_argument` unless options may have this size. `min_size`: of their first version. The
/// message starts with `call`.
inline void check_size(char const* call, std::uint64_t size, std::size_t min_size) {
  if (size >= min_size && size <= max_options) return;
  throw bad_argument{std::string{call} + ": options of " + std::to_string(size) +
                     " bytes: their size must be from " + std::to_string(min_size) + " to " +
                     std::to_string(max_options)};
}

/// Writes the first `size` bytes of `usual` to `options`, and zeros to fields behind it. Throws
/// `bad_argument`.
template <class Options>
void fill_sized(char const* call, Options* options, std::uint64_t size, std::size_t min_size,
                Options usual) {
  if (options == nullptr) throw bad_argument{std::string{call} + ": where the result goes is null"};
  check_size(call, size, min_size);
  usual.size = size;
  std::memset(options, 0, size);
  std::memcpy(options, &usual, std::min<std::size_t>(size, sizeof usual));
}

/// The options of `wanted`, or `usual` if it is null. Throws `bad_argument`.
template <class Options>
[[nodiscard]] Options read_sized(char const* call, Options const* wanted, std::size_t min_size,
                                 Options const& usual) {
  Options result = usual;
  if (wanted == nullptr) return result;
  std::uint64_t const size = wanted->size == 0 ? min_size : wanted->size;
  check_size(call, size, min_size);
  auto const* const content = reinterpret_cast<unsigned char const*>(wanted);
  for (std::uint64_t i = sizeof result; i < size; ++i) {
    if (content[i] != 0)
      throw bad_argument{std::string{call} + ": byte " + std::to_string(i) + " of the options is " +
                         std::to_string(content[i]) +
                         "; this version of Quarry knows only the first " +
                         std::to_string(sizeof result) + " bytes"};
  }
  std::memcpy(&result, wanted, std::min<std::size_t>(size, sizeof result));
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::c_api
