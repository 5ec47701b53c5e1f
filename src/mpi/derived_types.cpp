// SPDX-License-Identifier: Apache-2.0
// Makes and frees the types of programs.
#include "derived_types.hpp"

#include "attributes.hpp"
#include "type_layout.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW void release_type(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return;
  derived_type* first = derived(rank, type);
  if (first == nullptr || --first->references != 0) return;
  free_entry(rank.types, type - first_derived);
  first->next_released = nullptr;
  while (first != nullptr) {  // also the types that only this one has kept
    derived_type* const released = first;
    first = released->next_released;
    for (std::int32_t i = 0; i < released->contents.types; ++i) {
      MPI_Datatype const part = released->types()[i];
      derived_type* const kept = is_basic(part) ? nullptr : derived(rank, part);
      if (kept == nullptr || --kept->references != 0) continue;
      free_entry(rank.types, part - first_derived);
      kept->next_released = first;
      first = kept;
    }
    if (released->name != nullptr) release(released->name);
    release(released);
  }
}

namespace {

/// The representation external32 has an MPI_LONG of 4 bytes.
[[nodiscard]] QUARRY_HD bytes external_size(MPI_Datatype basic) {
  switch (basic) {
    case MPI_LONG:
    case MPI_UNSIGNED_LONG:
      return 4;
    case MPI_WCHAR:
      return 2;
    case MPI_LONG_INT:
      return 8;
    case MPI_LONG_DOUBLE:
      return 16;
    case MPI_LONG_DOUBLE_INT:
      return 20;
    case MPI_C_LONG_DOUBLE_COMPLEX:
      return 32;
    default:
      return basic_size(basic);
  }
}

[[nodiscard]] QUARRY_HD std::uint16_t alignment_of(MPI_Datatype basic) {
  auto const extent = static_cast<std::uint16_t>(basic >> 8);
  bool const has_two = is_pair(basic) || basic == MPI_C_COMPLEX || basic == MPI_C_DOUBLE_COMPLEX ||
                       basic == MPI_C_LONG_DOUBLE_COMPLEX || basic == MPI_COMPLEX ||
                       basic == MPI_DOUBLE_COMPLEX;
  return has_two ? extent / 2 : extent;
}

[[nodiscard]] QUARRY_HD std::int64_t less(std::int64_t a, std::int64_t b) { return b < a ? b : a; }
[[nodiscard]] QUARRY_HD std::int64_t more(std::int64_t a, std::int64_t b) { return a < b ? b : a; }

/// The least and the greatest of what was added.
struct range {
  std::int64_t least = 0;
  std::int64_t greatest = 0;
  bool has_any = false;

  QUARRY_HD void add(std::int64_t low, std::int64_t high) {
    least = has_any ? less(least, low) : low;
    greatest = has_any ? more(greatest, high) : high;
    has_any = true;
  }
};

/// Sums up the facts of a type's blocks.
class facts_sum {
 public:
  /// Adds a block that there are `copies` of, between `place` and `last_place`.
  QUARRY_HD void add(type_facts const& part, bytes length, std::int64_t place,
                     std::int64_t last_place, bytes copies) {
    if (length == 0 || copies == 0) return;
    auto const count = static_cast<double>(length) * static_cast<double>(copies);
    std::int64_t const extent = part.extent();
    auto const distance = static_cast<double>(length) * static_cast<double>(extent);
    if (count * static_cast<double>(part.size) > too_large || magnitude(distance) > too_large ||
        magnitude(static_cast<double>(place)) > too_large ||
        magnitude(static_cast<double>(last_place)) > too_large) {
      is_too_large_ = true;
      return;
    }
    std::int64_t const within = static_cast<std::int64_t>(length - 1) * extent;
    std::int64_t const low = less(place, last_place) + less(within, 0);
    std::int64_t const high = more(place, last_place) + more(within, 0);
    if (part.marks_lower != 0) marked_lower_.add(low + part.lower, high + part.lower);
    if (part.marks_upper != 0) marked_upper_.add(low + part.upper, high + part.upper);
    if (part.depth > sum_.depth) sum_.depth = part.depth;
    if (part.size == 0) return;
    if (part.marks_lower == 0) lower_.add(low + part.lower, high + part.lower);
    if (part.marks_upper == 0) upper_.add(low + part.true_upper, high + part.true_upper);
    true_.add(low + part.true_lower, high + part.true_upper);
    sum_.only_element = sum_.size == 0 || sum_.only_element == part.only_element
                            ? part.only_element
                            : MPI_DATATYPE_NULL;
    bytes const all = length * copies;
    sum_.size += all * part.size;
    sum_.elements += all * part.elements;
    sum_.external += all * part.external;
    if (part.alignment > sum_.alignment) sum_.alignment = part.alignment;
    is_too_large_ = is_too_large_ || static_cast<double>(sum_.size) > too_large;
  }
  [[nodiscard]] QUARRY_HD bool is_too_large() const { return is_too_large_; }

  /// The type's facts. Without a bound that the program has set, its extent is a multiple of the
  /// strictest alignment, as that of a struct is.
  [[nodiscard]] QUARRY_HD type_facts result() const {
    type_facts made = sum_;
    ++made.depth;
    made.true_lower = true_.least;
    made.true_upper = true_.greatest;
    made.marks_lower = marked_lower_.has_any;
    made.marks_upper = marked_upper_.has_any;
    made.lower = made.marks_lower != 0 ? marked_lower_.least : lower_.least;
    made.upper = made.marks_upper != 0 ? marked_upper_.greatest : upper_.greatest;
    if (made.marks_upper == 0 && made.alignment > 1) {
      std::int64_t const beyond = made.extent() % made.alignment;
      if (beyond > 0) made.upper += made.alignment - beyond;
    }
    return made;
  }

 private:
  static constexpr double too_large = 1e18;  // sums of distances of 64 bits must not overflow
  [[nodiscard]] QUARRY_HD static double magnitude(double x) { return x < 0 ? -x : x; }

  type_facts sum_{};
  range lower_, upper_, true_, marked_lower_, marked_upper_;
  bool is_too_large_ = false;
};

/// Writes rows, or only counts them. A block that begins where its predecessor ends becomes a part
/// of it. If `joins`, blocks at a constant distance become one row.
class row_writer {
 public:
  QUARRY_HD row_writer(bool joins, block_row* rows) : rows_{rows}, joins_{joins} {}

  [[nodiscard]] QUARRY_HD bytes count() const { return count_; }
  /// The blocks before any became one row; those that lie side by side count as one.
  [[nodiscard]] QUARRY_HD bytes blocks() const { return blocks_; }

  QUARRY_HD void add(block_row const& next) {
    if (next.block == 0 || next.count == 0) return;
    if (count_ != 0 && last_.count == 1 && next.count == 1 && end() == next.offset) {
      last_.block += next.block;
    } else {
      blocks_ += next.count;
      if (count_ == 0 || !joins_ || !join(next)) {
        last_ = next;
        ++count_;
      }
    }
    if (rows_ != nullptr) rows_[count_ - 1] = last_;
  }

 private:
  [[nodiscard]] QUARRY_HD std::int64_t end() const {
    return last_.offset + static_cast<std::int64_t>(last_.block);
  }
  [[nodiscard]] QUARRY_HD bool join(block_row const& next) {
    if (next.block != last_.block) return false;
    if (last_.count == 1 && next.count == 1) {
      last_.stride = next.offset - last_.offset;
    } else if (last_.count == 1 || (next.count != 1 && next.stride != last_.stride) ||
               next.offset - last_.offset !=
                   static_cast<std::int64_t>(last_.count) * last_.stride) {
      return false;
    }
    last_.count += next.count;
    return true;
  }

  block_row* rows_;
  block_row last_{};
  bytes count_ = 0;
  bytes blocks_ = 0;
  bool joins_;
};

/// A type with more rows than this would need more memory than there is.
constexpr bytes most_rows = bytes{1} << 32;

/// Adds all rows of a layout. Returns false, and adds a part of them, if there are too many.
QUARRY_SLOW bool add_rows(row_writer& rows, type_layout const& layout) {
  loop_position<type_layout::capacity> position{layout.loops(), layout.loop_count()};
  do {
    if (rows.blocks() > most_rows) return false;
    for (bytes i = 0; i < layout.row_count(); ++i) {
      block_row row = layout.row(i);
      row.offset += position.offset();
      rows.add(row);
    }
  } while (position.next());
  return true;
}

/// Adds the rows of all blocks, like `add_rows`.
QUARRY_SLOW bool add_blocks(rank_state& rank, row_writer& rows, block_list const& blocks) {
  for (bytes i = 0; i < blocks.count; ++i) {
    type_block const block = blocks.at(i);
    if (block.length == 0 || is_bound(block.type)) continue;
    type_layout layout{rank, block.type};
    layout.repeat(block.length, element_extent(rank, block.type));
    layout.shift(block.place);
    if (layout.row_count() != 0 && !add_rows(rows, layout)) return false;
  }
  return true;
}

/// The layout of blocks at a constant distance.
[[nodiscard]] QUARRY_SLOW type_layout regular_layout(rank_state& rank, block_list const& blocks) {
  type_layout layout{rank, blocks.type};
  layout.repeat(blocks.length, element_extent(rank, blocks.type));
  layout.repeat(blocks.count, blocks.stride);
  return layout;
}

/// How the rows of a new type come about.
struct row_plan {
  bool keeps_loops;  // the rows are those of the regular layout
  bool joins;
  bytes rows;
};

/// Returns false if there are too many rows.
[[nodiscard]] QUARRY_SLOW bool plan_rows(rank_state& rank, block_list const& blocks, bool is_empty,
                                         row_plan& plan) {
  plan = {false, false, 0};
  if (is_empty) return true;
  if (blocks.is_regular()) {
    type_layout const layout = regular_layout(rank, blocks);
    if (layout.loop_count() <= derived_type::max_loops) {
      plan = {true, false, layout.row_count()};
      return true;
    }
  }
  row_writer separate{false, nullptr}, joined{true, nullptr};
  if (!add_blocks(rank, separate, blocks) || !add_blocks(rank, joined, blocks)) return false;
  // Rows of few blocks are slower than a list of blocks.
  plan.joins = joined.count() <= separate.count() / 4 || joined.count() == 1;
  plan.rows = plan.joins ? joined.count() : separate.count();
  return true;
}

/// Sets the fields that say how regular the rows are.
QUARRY_HD void describe_rows(derived_type& made) {
  constexpr bytes short_block = 512;
  block_row const* const rows = made.rows();
  bool is_uniform = made.row_count > 1 && rows[0].block < short_block;
  for (bytes i = 0; i < made.row_count; ++i) {
    made.alignment |= static_cast<std::uint64_t>(rows[i].offset);
    is_uniform = is_uniform && rows[i].count == 1 && rows[i].block == rows[0].block;
  }
  if (is_uniform) made.block_bytes = static_cast<std::uint32_t>(rows[0].block);
  bool const is_block =
      made.loop_count == 0 && made.row_count == 1 && rows[0].count == 1 && rows[0].offset == 0;
  made.is_dense = made.facts.size == 0 ||
                  (is_block && static_cast<std::int64_t>(made.facts.size) == made.facts.extent());
}

QUARRY_SLOW void write_rows(rank_state& rank, block_list const& blocks, row_plan const& plan,
                            derived_type& made) {
  if (plan.keeps_loops) {
    type_layout const layout = regular_layout(rank, blocks);
    for (bytes i = 0; i < plan.rows; ++i) made.rows()[i] = layout.row(i);
    made.loop_count = layout.loop_count();
    for (std::uint32_t i = 0; i < made.loop_count; ++i) made.loops[i] = layout.loops()[i];
  } else if (plan.rows != 0) {
    row_writer rows{plan.joins, made.rows()};
    (void)add_blocks(rank, rows, blocks);
  }
}

/// Copies the arguments to the type, and keeps the types among them.
QUARRY_SLOW void write_contents(rank_state& rank, call_arguments const& arguments,
                                derived_type& made) {
  for (int i = 0; i < arguments.address_count; ++i) made.addresses()[i] = arguments.addresses[i];
  int* next = made.ints();
  for (int i = 0; i < arguments.heads; ++i) *next++ = arguments.head[i];
  for (int i = 0; i < arguments.array_count; ++i)
    for (int k = 0; k < arguments.array_length; ++k) *next++ = arguments.arrays[i][k];
  if (arguments.tails != 0) *next = arguments.tail;
  for (int i = 0; i < arguments.type_count; ++i) {
    made.types()[i] = arguments.types[i];
    if (!is_bound(arguments.types[i])) retain_type(rank, arguments.types[i]);
  }
}

[[nodiscard]] QUARRY_SLOW facts_sum sum_of(rank_state& rank, block_list const& blocks) {
  facts_sum sum;
  if (blocks.is_regular()) {
    if (blocks.count == 0) return sum;
    sum.add(facts_of(rank, blocks.type), blocks.length, 0, blocks.at(blocks.count - 1).place,
            blocks.count);
    return sum;
  }
  for (bytes i = 0; i < blocks.count; ++i) {
    type_block const block = blocks.at(i);
    sum.add(facts_of(rank, block.type), block.length, block.place, block.place, 1);
  }
  return sum;
}

}  // namespace

QUARRY_SLOW type_facts facts_of(rank_state& rank, MPI_Datatype type) {
  if (!is_basic(type) && !is_bound(type)) return derived(rank, type)->facts;
  type_facts facts{};
  if (is_bound(type)) {
    facts.marks_lower = type == MPI_LB;
    facts.marks_upper = type == MPI_UB;
    return facts;
  }
  facts.size = basic_size(type);
  facts.elements = is_pair(type) ? 2 : 1;
  facts.external = external_size(type);
  facts.upper = type >> 8;
  // the int at a pair's end can have a gap behind it
  facts.true_upper = type == MPI_SHORT_INT ? 8 : static_cast<std::int64_t>(facts.size);
  facts.only_element = type;
  facts.alignment = alignment_of(type);
  return facts;
}

QUARRY_SLOW int make_type(rank_state& rank, type_recipe const& recipe,
                          call_arguments const& arguments, MPI_Datatype* result) {
  facts_sum const sum = sum_of(rank, recipe.blocks);
  if (sum.is_too_large()) return MPI_ERR_ARG;
  type_facts facts = sum.result();
  if (recipe.has_bounds) {
    facts.lower = recipe.lower;
    facts.upper = recipe.upper;
    facts.marks_lower = facts.marks_upper = 1;
  }
  row_plan plan;
  if (!plan_rows(rank, recipe.blocks, facts.size == 0, plan)) return MPI_ERR_NO_MEM;
  std::int32_t const index = free_handle(rank.types);
  bytes const tail = static_cast<bytes>(arguments.address_count) * sizeof(MPI_Aint) +
                     static_cast<bytes>(arguments.ints()) * sizeof(int) +
                     static_cast<bytes>(arguments.type_count) * sizeof(MPI_Datatype);
  void* const memory =
      index < 0 ? nullptr : allocate(sizeof(derived_type) + plan.rows * sizeof(block_row) + tail);
  if (memory == nullptr) return MPI_ERR_NO_MEM;
  auto* const made = ::new (memory) derived_type{};
  made->facts = facts;
  made->contents = {arguments.combiner, arguments.ints(), arguments.address_count,
                    arguments.type_count};
  made->references = made->handles = 1;
  made->row_count = plan.rows;
  write_rows(rank, recipe.blocks, plan, *made);
  write_contents(rank, arguments, *made);
  describe_rows(*made);
  rank.types.entries[index] = made;
  *result = first_derived + index;
  return MPI_SUCCESS;
}

QUARRY_SLOW int make_reported(rank_state& rank, type_recipe const& recipe,
                              call_arguments const& arguments, MPI_Datatype* result,
                              char const* function) {
  int const error = make_type(rank, recipe, arguments, result);
  if (error == MPI_SUCCESS) return error;
  return fail(rank, MPI_COMM_WORLD, error, function,
              error == MPI_ERR_ARG ? "a type that is too large; count" : "count",
              static_cast<std::int64_t>(recipe.blocks.count));
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Type_commit(MPI_Datatype* type) {
  rank_state& rank = self();
  if (!is_known_type(rank, *type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Type_commit", "datatype", *type);
  if (!is_basic(*type)) derived(rank, *type)->is_committed = 1;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Type_free(MPI_Datatype* type) {
  rank_state& rank = self();
  if (is_basic(*type) || !is_known_type(rank, *type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Type_free", "datatype", *type);
  if (derived(rank, *type)->handles == 1)
    if (int const error = delete_attributes(rank, attribute::owner::type, *type))
      return fail(rank, MPI_COMM_WORLD, error, "MPI_Type_free", "attributes of datatype", *type);
  --derived(rank, *type)->handles;
  release_type(rank, *type);
  *type = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

}  // extern "C"
