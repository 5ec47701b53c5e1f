// SPDX-License-Identifier: Apache-2.0
// What Quarry throws, on the host side of heaps and in pools. `catch (quarry::error const&)`
// catches every class here; each is of a class of the standard library, too.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// The base of Quarry's exceptions. It does not derive from std::exception: each exception already
/// derives from it through a class of the standard library, and with two std::exception bases
/// `catch (std::exception const&)` would be ambiguous and would not catch it. (Bookkeeping that
/// finds no memory throws std::bad_alloc alone.)
class QUARRY_API error {
 public:
  virtual ~error() = default;
  /// What failed, with which value, what the limit is, and what to do: the text of `what()`.
  [[nodiscard]] virtual std::string const& message() const noexcept = 0;
};

/// An error of a class of the standard library that keeps a text.
template <class Standard>
class QUARRY_API error_of : public Standard, public error {
 public:
  explicit error_of(std::string const& why) : Standard{why}, message_{why} {}
  [[nodiscard]] std::string const& message() const noexcept override { return message_; }

 private:
  std::string message_;
};

/// There is no memory: who was asked, for how much. QUARRY_OUT_OF_MEMORY in C.
class QUARRY_API out_of_memory : public std::bad_alloc, public error {
 public:
  out_of_memory(std::string resource, bytes requested, std::string const& why)
      : resource_{std::move(resource)},
        requested_{requested},
        message_{resource_ + ": no memory for " + std::to_string(requested) + " bytes: " + why} {}

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

/// A handle's allocator or pool was destroyed. QUARRY_DESTROYED in C.
class QUARRY_API was_destroyed : public bad_argument {
  using bad_argument::bad_argument;
};

/// An offset or a count lies outside of the memory that it is of.
class QUARRY_API bad_range : public error_of<std::out_of_range> {
  using error_of::error_of;
};

/// The call does not fit what the program did before.
class QUARRY_API bad_state : public error_of<std::logic_error> {
  using error_of::error_of;
};

/// The operating system or the driver refused. QUARRY_RESOURCE_FAILED in C.
class QUARRY_API resource_failed : public error_of<std::runtime_error> {
 public:
  resource_failed(std::string const& call, std::string const& why) : error_of{call + ": " + why} {}
};

}  // namespace quarry::inline QUARRY_ABI
