// SPDX-License-Identifier: Apache-2.0
// Reads Python pickles that consist of plain containers.
#pragma once

#include "trace/byte_source.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// A value of a pickle: None, a bool, an integer, a float, a string, a list (or tuple or set), or a
/// dict. Copies share strings and containers. Integers that no 64 bits can hold become the nearest
/// one that they can: some drivers use addresses from 2^63 on.
class pickled {
 public:
  enum class kind : std::uint8_t { none, boolean, integer, natural, real, string, list, dict };

  pickled() = default;
  explicit pickled(bool value) : kind_{kind::boolean}, integer_{value ? 1 : 0} {}
  explicit pickled(std::int64_t value) : kind_{kind::integer}, integer_{value} {}
  /// An integer that may be 2^63 or more.
  explicit pickled(std::uint64_t value)
      : kind_{value >> 63 != 0 ? kind::natural : kind::integer},
        integer_{static_cast<std::int64_t>(value)} {}
  explicit pickled(double value) : kind_{kind::real}, real_{value} {}
  explicit pickled(std::string_view text);
  pickled(pickled const& other) noexcept;
  pickled(pickled&& other) noexcept
      : kind_{std::exchange(other.kind_, kind::none)}, integer_{other.integer_} {}
  pickled& operator=(pickled other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(integer_, other.integer_);
    return *this;
  }
  ~pickled() {
    if (is_shared()) drop();
  }
  /// An empty list or dict.
  [[nodiscard]] static pickled container(kind sort);

  [[nodiscard]] kind type() const { return kind_; }
  /// The integer, at most 2^63 - 1. 0 for other kinds.
  [[nodiscard]] std::int64_t integer() const {
    if (kind_ == kind::natural) return std::numeric_limits<std::int64_t>::max();
    return kind_ == kind::integer ? integer_ : 0;
  }
  /// The integer, at least 0. 0 for other kinds.
  [[nodiscard]] std::uint64_t natural() const {
    if (kind_ == kind::natural) return static_cast<std::uint64_t>(integer_);
    return static_cast<std::uint64_t>(std::max<std::int64_t>(integer(), 0));
  }
  /// The string, or an empty text for other kinds.
  [[nodiscard]] std::string_view text() const;
  /// The elements of a list. Of a dict: each key, followed by its value. Empty for other kinds.
  [[nodiscard]] std::vector<pickled> const& items() const;
  /// The value of a key of a dict, or null. Does not search dicts with more than `max_keys` keys:
  /// PyTorch writes none, and a hostile file could refer to one a million times.
  [[nodiscard]] pickled const* find(std::string_view key) const;
  static constexpr std::size_t max_keys = 1000;

 private:
  friend class unpickler;
  struct object;

  [[nodiscard]] bool is_shared() const { return kind_ >= kind::string; }
  void drop() noexcept;
  [[nodiscard]] object& shared() const { return *object_; }

  kind kind_ = kind::none;
  union {
    std::int64_t integer_ = 0;
    double real_;
    object* object_;
  };
};

/// Runs the program that a pickle is. It builds only plain containers: a pickle that calls
/// functions or builds objects of classes is refused, so no code of the file's author runs.
///
/// Memory: the values that are not complete yet, and those that the file refers to again. The first
/// of two passes over the file finds the latter.
class unpickler {
 public:
  /// `streamed_key`: a key of the outermost dict whose value is a list of lists. `next` hands out
  /// the elements of these lists, and the pickle's value does not have them.
  unpickler(byte_source& source, std::string_view streamed_key);

  /// Runs until elements of a streamed list are complete; moves them to `elements`. Returns false
  /// at the end of the pickle. Throws `bad_trace`, which names the opcode's offset.
  [[nodiscard]] bool next(std::vector<pickled>& elements);
  /// The index of the list that the last elements belong to.
  [[nodiscard]] std::uint32_t list_index() const { return list_index_; }
  /// Starts again at the first byte.
  void restart();
  /// The value of the pickle, once `next` has returned false.
  [[nodiscard]] pickled const& value() const { return value_; }

  /// Containers in containers, at most.
  static constexpr std::uint32_t max_depth = 100;
  /// Bytes of a string.
  static constexpr std::uint64_t max_string = 64 << 20;
  /// Values that are in no container yet, and marks.
  static constexpr std::size_t max_stack = 4 << 20;

 private:
  void find_used_memos();
  [[nodiscard]] bool step(std::vector<pickled>& elements);

  // Input
  [[noreturn]] void refuse(std::string const& reason) const;
  [[nodiscard]] unsigned char const* take(std::size_t count);
  [[nodiscard]] std::uint64_t take_number(std::size_t bytes);
  void skip(std::uint64_t count);

  // The machine
  void push(pickled value);
  /// The position in the stack of the first of its last `count` values. These must not reach below
  /// the last mark.
  [[nodiscard]] std::size_t last(std::size_t count) const;
  [[nodiscard]] pickled pop();
  [[nodiscard]] std::size_t pop_mark();
  [[nodiscard]] pickled& top();
  void add_items(std::size_t container, std::size_t first);
  void make_list(std::size_t first);
  void set_memo(std::uint64_t index);
  [[nodiscard]] bool is_streamed(std::size_t list);

  byte_source& source_;
  std::string streamed_key_;
  // an entry for each memo that the pickle uses; nullopt until it is set
  std::unordered_map<std::uint64_t, std::optional<pickled>> memos_;
  std::uint64_t next_memo_ = 0;
  bool has_memo_gap_ = false;
  std::vector<pickled> stack_;
  std::vector<std::size_t> marks_;
  std::uint32_t list_index_ = 0;
  pickled value_;
  bool is_over_ = false;
  std::uint64_t opcode_offset_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
