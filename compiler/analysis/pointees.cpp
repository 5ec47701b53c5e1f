// SPDX-License-Identifier: Apache-2.0
#include "pointees.hpp"

#include <algorithm>
#include <numeric>

namespace quarry::compiler {

std::int64_t reduced(std::int64_t offset, std::uint64_t stride) {
  if (stride == 0) return offset;
  auto const period = static_cast<std::int64_t>(stride);
  return ((offset % period) + period) % period;
}

namespace {

/// A set has at most this many places of one object; more are joined to one with a stride.
constexpr std::size_t max_places = 8;

std::uint64_t distance(std::int64_t a, std::int64_t b) {
  return a < b ? static_cast<std::uint64_t>(b - a) : static_cast<std::uint64_t>(a - b);
}

bool covers(byte_range const& wide, byte_range const& narrow) {
  if (wide.stride == 0) return narrow.stride == 0 && wide.offset == narrow.offset;
  return narrow.stride % wide.stride == 0 &&
         distance(wide.offset, narrow.offset) % wide.stride == 0;
}

byte_range joined(byte_range const& a, byte_range const& b) {
  std::uint64_t const stride = std::gcd(std::gcd(a.stride, b.stride), distance(a.offset, b.offset));
  return {reduced(a.offset, stride), stride, std::max(a.size, b.size)};
}

}  // namespace

bool byte_range::overlaps(byte_range const& other) const {
  constexpr std::uint64_t endless = std::uint64_t{1} << 40;
  std::uint64_t const own_size = size == 0 ? endless : size;
  std::uint64_t const other_size = other.size == 0 ? endless : other.size;
  std::uint64_t const period = std::gcd(stride, other.stride);
  if (period == 0)
    return offset < other.offset ? distance(offset, other.offset) < own_size
                                 : distance(offset, other.offset) < other_size;
  auto const gap = static_cast<std::uint64_t>(reduced(other.offset - offset, period));
  return gap < own_size || period - gap < other_size;
}

bool pointees::add(pointee const& added) {
  auto const [first, last] = std::ranges::equal_range(known_, added.object, {}, &pointee::object);
  for (pointee const& each : std::ranges::subrange{first, last})
    if (covers(each.place, added.place)) return false;
  if (static_cast<std::size_t>(last - first) + 1 < max_places) {
    known_.insert(last, added);
    return true;
  }
  pointee all = added;
  for (pointee const& each : std::ranges::subrange{first, last})
    all.place = joined(all.place, each.place);
  *first = all;
  known_.erase(first + 1, last);
  return true;
}

bool pointees::add(pointees const& others) {
  bool is_changed = others.is_unknown_ && add_unknown();
  std::vector<pointee> of_new_objects;
  std::size_t at = 0;
  for (pointee const& each : others.known_) {
    while (at < known_.size() && known_[at].object < each.object) ++at;
    if (at == known_.size() || known_[at].object != each.object)
      of_new_objects.push_back(each);
    else if (!covers(known_[at].place, each.place))
      is_changed |= add(each);  // changes nothing before `at`
  }
  if (of_new_objects.empty()) return is_changed;
  auto const known = static_cast<std::ptrdiff_t>(known_.size());
  known_.insert(known_.end(), of_new_objects.begin(), of_new_objects.end());
  std::ranges::inplace_merge(known_, known_.begin() + known, {}, &pointee::object);
  return true;
}

bool pointees::add_unknown() {
  if (is_unknown_) return false;
  is_unknown_ = true;
  return true;
}

}  // namespace quarry::compiler
