// SPDX-License-Identifier: Apache-2.0
// Parts of objects, and sets of places where a pointer can point.
#pragma once

#include <cstdint>
#include <vector>

namespace quarry::compiler {

/// Bytes of an object: those at `offset`, `offset + stride`, `offset + 2 * stride`, and so on, each
/// time `size` bytes. `stride` 0 is one place. An array of structures has one range for each field.
struct byte_range {
  std::int64_t offset = 0;
  std::uint64_t stride = 0;
  std::uint64_t size = 0;  // 0: all bytes from `offset` on

  [[nodiscard]] bool overlaps(byte_range const& other) const;
  bool operator==(byte_range const&) const = default;
};

/// All bytes of an object.
inline constexpr byte_range everything{0, 1, 1};

/// Where a pointer can point: a place in an object. The size of the range is unused.
struct pointee {
  unsigned object;
  byte_range place;
};

/// An unknown pointer can point to all objects that have escaped, besides the known places.
class pointees {
 public:
  /// Adds where another pointer can point. Returns whether this changes the set. O(log n) for a
  /// place in one of n objects that the set has, else O(n).
  bool add(pointee const& added);
  bool add(pointees const& others);
  bool add_unknown();

  [[nodiscard]] bool is_unknown() const { return is_unknown_; }
  [[nodiscard]] std::vector<pointee> const& known() const { return known_; }

 private:
  std::vector<pointee> known_;  // in the order of objects
  bool is_unknown_ = false;  // it can point anywhere
};

/// The offset of a range with a stride, below the stride.
std::int64_t reduced(std::int64_t offset, std::uint64_t stride);

}  // namespace quarry::compiler
