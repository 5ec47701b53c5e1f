// SPDX-License-Identifier: Apache-2.0
// The exceptions that Quarry throws, on the host side of heaps and in pools.
// `catch (quarry::error const&)` catches every class in this file. Each exception also derives from
// a class of the standard library.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// The base of Quarry's exceptions. It does not derive from std::exception, because each exception
/// already derives from std::exception through a class of the standard library. With two such
/// bases, `catch (std::exception const&)` would be ambiguous and would not catch the exception. (If
/// Quarry's own bookkeeping finds no memory, it throws std::bad_alloc, which is not an `error`.)
class QUARRY_API error {
 public:
  virtual ~error() = default;
  /// What failed, with which value, what the limit is, and what to do: the text of `what()`.
  [[nodiscard]] virtual std::string const& message() const noexcept = 0;
};

/// An error that derives from `Standard`, a class of the standard library that holds a message.
template <class Standard>
class QUARRY_API error_of : public Standard, public error {
 public:
  explicit error_of(std::string const& text) : Standard{text}, message_{text} {}
  [[nodiscard]] std::string const& message() const noexcept override { return message_; }

 private:
  std::string message_;
};

/// `resource()` has no memory for `requested()` bytes. QUARRY_OUT_OF_MEMORY in C.
class QUARRY_API out_of_memory : public std::bad_alloc, public error {
 public:
  out_of_memory(std::string resource, bytes requested, std::string const& cause)
      : resource_{std::move(resource)},
        requested_{requested},
        message_{resource_ + ": no memory for " + std::to_string(requested) + " bytes: " + cause} {}

  [[nodiscard]] char const* what() const noexcept override { return message_.c_str(); }
  [[nodiscard]] std::string const& message() const noexcept override { return message_; }
  [[nodiscard]] std::string const& resource() const noexcept { return resource_; }
  [[nodiscard]] bytes requested() const noexcept { return requested_; }

 private:
  std::string resource_;
  bytes requested_;
  std::string message_;
};

/// An argument is outside the range that the function accepts. QUARRY_BAD_ARGUMENT in C.
class QUARRY_API bad_argument : public error_of<std::invalid_argument> {
  using error_of::error_of;
};

/// The allocator or pool that a handle refers to was destroyed. QUARRY_DESTROYED in C.
class QUARRY_API was_destroyed : public bad_argument {
  using bad_argument::bad_argument;
};

/// An offset or a count exceeds the memory or the list that it refers to.
class QUARRY_API bad_range : public error_of<std::out_of_range> {
  using error_of::error_of;
};

/// The program's earlier calls do not allow this call.
class QUARRY_API bad_state : public error_of<std::logic_error> {
  using error_of::error_of;
};

/// The operating system or the driver refused. QUARRY_RESOURCE_FAILED in C.
class QUARRY_API resource_failed : public error_of<std::runtime_error> {
 public:
  resource_failed(std::string const& call, std::string const& cause)
      : error_of{call + ": " + cause} {}
};

}  // namespace quarry::inline QUARRY_ABI
