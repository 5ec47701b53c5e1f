// SPDX-License-Identifier: Apache-2.0
// What host memory throws. Each is of the standard's kind, and of ours: catch `quarry::error` for
// all of these.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/export.hpp"

#include <new>
#include <stdexcept>
#include <string>

namespace quarry::inline QUARRY_ABI {

/// What Quarry's host side throws. (Bookkeeping that finds no memory throws std::bad_alloc.)
class QUARRY_API error {
 public:
  virtual ~error() = default;
  /// What happened, where, and what to do.
  [[nodiscard]] virtual std::string const& message() const noexcept = 0;
};

/// There is no memory: who was asked, for how much.
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

/// An argument cannot be what it is.
class QUARRY_API bad_argument : public std::invalid_argument, public error {
 public:
  explicit bad_argument(std::string const& why) : std::invalid_argument{why}, message_{why} {}
  [[nodiscard]] std::string const& message() const noexcept override { return message_; }

 private:
  std::string message_;
};

/// The operating system or the driver refused.
class QUARRY_API resource_failed : public std::runtime_error, public error {
 public:
  resource_failed(std::string const& call, std::string const& why)
      : std::runtime_error{call + ": " + why}, message_{what()} {}
  [[nodiscard]] std::string const& message() const noexcept override { return message_; }

 private:
  std::string message_;
};

}  // namespace quarry::inline QUARRY_ABI
