// SPDX-License-Identifier: Apache-2.0
// Datatypes as the standard defines them: a list of basic types and their places.
#pragma once

#include "mpi/support/ranks.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace quarry::test {

/// A type of the library beside the list that says what it must be.
struct type_model {
  struct entry {
    long place;
    int size;
  };
  struct bounds {
    bool has_any = false;
    long low = 0;
    long high = 0;
    void add(long from, long to) {
      low = has_any ? std::min(low, from) : from;
      high = has_any ? std::max(high, to) : to;
      has_any = true;
    }
  };

  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::vector<entry> entries;  // in the order of a message
  bounds marks_low, marks_high;
  int alignment = 1;

  static type_model basic(MPI_Datatype type, std::vector<entry> entries, int alignment) {
    return {type, std::move(entries), {}, {}, alignment};
  }

  [[nodiscard]] bounds true_bounds() const {
    bounds all;
    for (entry const& each : entries) all.add(each.place, each.place + each.size);
    return all;
  }
  [[nodiscard]] long lower() const { return marks_low.has_any ? marks_low.low : true_bounds().low; }
  [[nodiscard]] long upper() const {
    if (marks_high.has_any) return marks_high.high;
    long const extent = true_bounds().high - lower();
    return lower() + (extent + alignment - 1) / alignment * alignment;
  }
  [[nodiscard]] long extent() const { return upper() - lower(); }
  [[nodiscard]] long size() const {
    long sum = 0;
    for (entry const& each : entries) sum += each.size;
    return sum;
  }
  /// Adds the entries and marks of another type at a place.
  void add(type_model const& part, long place) {
    for (entry const& each : part.entries) entries.push_back({each.place + place, each.size});
    if (part.marks_low.has_any)
      marks_low.add(part.marks_low.low + place, part.marks_low.high + place);
    if (part.marks_high.has_any)
      marks_high.add(part.marks_high.low + place, part.marks_high.high + place);
    alignment = std::max(alignment, part.entries.empty() ? 1 : part.alignment);
  }
  void add(type_model const& part, int length, long place) {
    long const extent = part.extent();
    for (int i = 0; i < length; ++i) add(part, place + i * extent);
  }
  void set_bounds(long lower, long extent) {
    marks_low = marks_high = {};
    marks_low.add(lower, lower);
    marks_high.add(lower + extent, lower + extent);
  }
  /// The entries of `count` elements.
  [[nodiscard]] std::vector<entry> elements(int count) const {
    std::vector<entry> all;
    for (int i = 0; i < count; ++i)
      for (entry const& each : entries) all.push_back({each.place + i * extent(), each.size});
    return all;
  }
};

/// Whether two entries have a common byte.
inline bool overlaps(std::vector<type_model::entry> entries) {
  std::sort(entries.begin(), entries.end(),
            [](auto const& a, auto const& b) { return a.place < b.place; });
  for (std::size_t i = 1; i < entries.size(); ++i)
    if (entries[i - 1].place + entries[i - 1].size > entries[i].place) return true;
  return false;
}

/// Makes random types, each of one to three others, up to `depth` deep.
class random_types {
 public:
  explicit random_types(std::uint64_t seed) : numbers_{seed} {}

  /// The caller frees the type.
  type_model make(int depth) {
    if (depth == 0) return basic();
    type_model const part = make(below(depth));
    type_model made = of(part, depth);
    release(part);
    // A type without bytes has no bounds in the standard.
    if (made.entries.size() > 400 || (made.entries.empty() && !made.marks_low.has_any)) {
      release(made);
      return make(depth - 1);
    }
    return made;
  }
  static void release(type_model const& made) {
    MPI_Datatype type = made.type;
    if (type >= 0x10000) MPI_Type_free(&type);
  }
  int below(int end) { return numbers_.below(end); }

 private:
  int between(int first, int last) { return first + below(last - first + 1); }

  type_model basic() {
    switch (below(6)) {
      case 0:
        return type_model::basic(MPI_CHAR, {{0, 1}}, 1);
      case 1:
        return type_model::basic(MPI_SHORT, {{0, 2}}, 2);
      case 2:
        return type_model::basic(MPI_INT, {{0, 4}}, 4);
      case 3:
        return type_model::basic(MPI_DOUBLE, {{0, 8}}, 8);
      case 4:
        return type_model::basic(MPI_SHORT_INT, {{0, 2}, {4, 4}}, 4);
      default:
        return type_model::basic(MPI_DOUBLE_INT, {{0, 8}, {8, 4}}, 8);
    }
  }

  type_model of(type_model const& part, int depth) {
    switch (below(11)) {
      case 0:
        return contiguous(part);
      case 1:
      case 2:
        return vector(part);
      case 3:
      case 4:
        return indexed(part);
      case 5:
        return indexed_block(part);
      case 6:
        return structure(part, depth);
      case 7:
        return resized(part);
      case 8:
        return duplicate(part);
      case 9:
        return subarray(part);
      default:
        return darray(part);
    }
  }

  type_model contiguous(type_model const& part) {
    type_model made;
    int const count = below(6);
    MPI_Type_contiguous(count, part.type, &made.type);
    made.add(part, count, 0);
    return made;
  }
  type_model vector(type_model const& part) {
    type_model made;
    int const count = below(5), length = below(4);
    bool const is_in_bytes = below(2) == 0;
    int const stride = is_in_bytes ? between(-40, 40) : between(-6, 6);
    if (is_in_bytes) {
      MPI_Type_create_hvector(count, length, stride, part.type, &made.type);
    } else {
      MPI_Type_vector(count, length, stride, part.type, &made.type);
    }
    for (int i = 0; i < count; ++i)
      made.add(part, length, i * (is_in_bytes ? stride : stride * part.extent()));
    return made;
  }
  type_model indexed(type_model const& part) {
    type_model made;
    int const count = below(6);
    bool const is_in_bytes = below(2) == 0, is_regular = below(3) == 0;
    std::vector<int> lengths, places;
    std::vector<MPI_Aint> addresses;
    for (int i = 0; i < count; ++i) {
      lengths.push_back(is_regular ? 2 : below(4));
      places.push_back(is_regular ? 3 * i : between(-8, 8));
      addresses.push_back(is_regular ? 24 * i : between(-50, 50));
      long const place = is_in_bytes ? addresses.back() : places.back() * part.extent();
      made.add(part, lengths.back(), place);
    }
    if (is_in_bytes) {
      MPI_Type_create_hindexed(count, lengths.data(), addresses.data(), part.type, &made.type);
    } else {
      MPI_Type_indexed(count, lengths.data(), places.data(), part.type, &made.type);
    }
    return made;
  }
  type_model indexed_block(type_model const& part) {
    type_model made;
    int const count = below(9), length = below(3);
    bool const is_in_bytes = below(2) == 0;
    std::vector<int> places;
    std::vector<MPI_Aint> addresses;
    for (int i = 0; i < count; ++i) {
      places.push_back(between(-10, 10));
      addresses.push_back(between(-80, 80));
      long const place = is_in_bytes ? addresses.back() : places.back() * part.extent();
      made.add(part, length, place);
    }
    if (is_in_bytes) {
      MPI_Type_create_hindexed_block(count, length, addresses.data(), part.type, &made.type);
    } else {
      MPI_Type_create_indexed_block(count, length, places.data(), part.type, &made.type);
    }
    return made;
  }
  type_model structure(type_model const& first, int depth) {
    type_model made;
    type_model const second = make(below(depth)), third = basic();
    type_model const* const parts[] = {&first, &second, &third};
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    std::vector<MPI_Datatype> types;
    for (int i = below(5); i > 0; --i) {
      type_model const& part = *parts[below(3)];
      lengths.push_back(below(3));
      places.push_back(between(-60, 60));
      types.push_back(part.type);
      made.add(part, lengths.back(), places.back());
    }
    MPI_Type_create_struct(static_cast<int>(types.size()), lengths.data(), places.data(),
                           types.data(), &made.type);
    release(second);
    return made;
  }
  type_model resized(type_model const& part) {
    type_model made;
    int const lower = between(-20, 20), extent = between(-10, 60);
    MPI_Type_create_resized(part.type, lower, extent, &made.type);
    made.add(part, 0);
    made.set_bounds(lower, extent);
    return made;
  }
  type_model duplicate(type_model const& part) {
    type_model made = part;
    MPI_Type_dup(part.type, &made.type);
    return made;
  }

  /// Calls `each(indices, number)` for all elements of an array in the order of memory.
  template <class Each>
  static void each_element(std::vector<int> const& sizes, bool is_fortran, Each const& each) {
    auto const dimensions = sizes.size();
    int all = 1;
    for (int const size : sizes) all *= size;
    std::vector<int> indices(dimensions);
    for (int number = 0; number < all; ++number) {
      int rest = number;
      for (std::size_t step = 0; step < dimensions; ++step) {
        std::size_t const i = is_fortran ? step : dimensions - 1 - step;
        indices[i] = rest % sizes[i];
        rest /= sizes[i];
      }
      each(indices, number);
    }
  }
  type_model subarray(type_model const& part) {
    type_model made;
    bool const is_fortran = below(2) == 0;
    std::vector<int> sizes, parts, starts;
    int all = 1;
    for (int i = between(1, 3); i > 0; --i) {
      sizes.push_back(between(1, 4));
      parts.push_back(between(1, sizes.back()));
      starts.push_back(below(sizes.back() - parts.back() + 1));
      all *= sizes.back();
    }
    MPI_Type_create_subarray(static_cast<int>(sizes.size()), sizes.data(), parts.data(),
                             starts.data(), is_fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, part.type,
                             &made.type);
    each_element(sizes, is_fortran, [&](std::vector<int> const& indices, int number) {
      for (std::size_t i = 0; i < sizes.size(); ++i)
        if (indices[i] < starts[i] || indices[i] >= starts[i] + parts[i]) return;
      made.add(part, number * part.extent());
    });
    made.set_bounds(0, all * part.extent());
    return made;
  }
  type_model darray(type_model const& part) {
    type_model made;
    bool const is_fortran = below(2) == 0;
    std::vector<int> sizes, shares, arguments, blocks, processes;
    int all = 1, size = 1;
    for (int i = between(1, 3); i > 0; --i) {
      int const share = between(MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_CYCLIC);
      sizes.push_back(between(1, 7));
      processes.push_back(share == MPI_DISTRIBUTE_NONE ? 1 : between(1, 3));
      int const enough = (sizes.back() + processes.back() - 1) / processes.back();
      bool const has_default = below(2) == 0;
      shares.push_back(share);
      blocks.push_back(share == MPI_DISTRIBUTE_NONE    ? sizes.back()
                       : share == MPI_DISTRIBUTE_BLOCK ? enough + (has_default ? 0 : below(3))
                                                       : (has_default ? 1 : between(1, 3)));
      arguments.push_back(has_default ? MPI_DISTRIBUTE_DFLT_DARG : blocks.back());
      all *= sizes.back();
      size *= processes.back();
    }
    int const rank = below(size);
    std::vector<int> own(sizes.size());
    int rest = rank;
    for (std::size_t i = sizes.size(); i-- > 0; rest /= processes[i]) own[i] = rest % processes[i];
    MPI_Type_create_darray(size, rank, static_cast<int>(sizes.size()), sizes.data(), shares.data(),
                           arguments.data(), processes.data(),
                           is_fortran ? MPI_ORDER_FORTRAN : MPI_ORDER_C, part.type, &made.type);
    each_element(sizes, is_fortran, [&](std::vector<int> const& indices, int number) {
      for (std::size_t i = 0; i < sizes.size(); ++i)
        if (indices[i] / blocks[i] % processes[i] != own[i]) return;
      made.add(part, number * part.extent());
    });
    made.set_bounds(0, all * part.extent());
    return made;
  }

  shared_random numbers_;
};

}  // namespace quarry::test
