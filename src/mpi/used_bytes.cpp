// SPDX-License-Identifier: Apache-2.0
#include "used_bytes.hpp"

#include "derived_types.hpp"
#include "progress.hpp"
#include "type_layout.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

[[nodiscard]] QUARRY_HD std::int64_t address_of(used_elements const& of) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(of.data));
}

/// The bytes of one block that `loop` repeats.
QUARRY_HD void repeat_span(byte_span& span, row_loop const& loop) {
  std::int64_t const last = static_cast<std::int64_t>(loop.count - 1) * loop.stride;
  (last < 0 ? span.begin : span.end) += last;
}

[[nodiscard]] QUARRY_HD byte_span span_of(block_row const& row) {
  byte_span result{row.offset, row.offset + static_cast<std::int64_t>(row.block)};
  repeat_span(result, {row.count, row.stride});
  return result;
}

/// The greatest whole number that is at most value / divisor, which is positive.
[[nodiscard]] QUARRY_HD std::int64_t floor_of(std::int64_t value, std::int64_t divisor) {
  std::int64_t const quotient = value / divisor;
  return value % divisor < 0 ? quotient - 1 : quotient;
}

/// Repetitions of a loop, from `next` to before `end`.
struct repetitions {
  std::int64_t next;
  std::int64_t end;
};

/// Those whose spans have a byte of `asked`. `span` is that of the first repetition.
[[nodiscard]] QUARRY_HD repetitions touching(row_loop const& loop, byte_span const& span,
                                             byte_span const& asked) {
  std::int64_t const low = asked.begin - span.end, high = asked.end - span.begin;
  // repetition k lies in the open interval from `low` to `high` if it is moved by k * stride
  if (loop.stride == 0 || loop.count == 1) return {0, low < 0 && 0 < high ? 1 : 0};
  bool const is_forward = loop.stride > 0;
  std::int64_t const step = is_forward ? loop.stride : -loop.stride;
  repetitions result{floor_of(is_forward ? low : -high, step) + 1,
                     -floor_of(is_forward ? -high : low, step)};
  auto const count = static_cast<std::int64_t>(loop.count);
  if (result.next < 0) result.next = 0;
  if (result.end > count) result.end = count;
  return result;
}

[[nodiscard]] QUARRY_HD std::int64_t magnitude_of(std::int64_t value) {
  return value < 0 ? -value : value;
}

/// Finds blocks of elements by address.
///
/// The order of loops does not matter for the bytes that they reach. So the loop with the widest
/// stride is the outermost here: of each loop, few repetitions can have the address.
class block_search {
 public:
  QUARRY_HD block_search(rank_state& rank, used_elements const& of)
      : base_{address_of(of)}, view_{rank, of.type} {
    add({of.count, facts_of(rank, of.type).extent()});
    for (std::uint32_t i = 0; i < view_.loop_count; ++i) add(view_.loops[i]);
    blocks_ = 1;
    for (std::uint32_t i = 0; i < loop_count_; ++i) blocks_ *= loops_[i].count;
    if (view_.row_count == 1) {
      block_row const row = view_.row(0);
      blocks_ *= row.count;
      add({row.count, row.stride});
      spans_[0] = {row.offset, row.offset + static_cast<std::int64_t>(row.block)};
    } else {
      measure_rows();
    }
    for (std::uint32_t i = 0; i < loop_count_; ++i) {
      spans_[i + 1] = spans_[i];
      repeat_span(spans_[i + 1], loops_[i]);
    }
  }

  /// How many blocks the elements have.
  [[nodiscard]] QUARRY_HD bytes blocks() const { return blocks_; }

  /// Whether a block has one of the bytes.
  [[nodiscard]] QUARRY_SLOW bool has_any(byte_span asked) const {
    asked.begin -= base_;
    asked.end -= base_;
    repetitions left[most_loops];
    std::uint32_t level = loop_count_;  // loops from here on are at a repetition
    for (bool goes_on = true; goes_on;) {
      if (level == 0) {
        if (rows_have(asked)) return true;
      } else {
        --level;
        left[level] = touching(loops_[level], spans_[level], asked);
        move(asked, level, left[level].next);
        if (left[level].next < left[level].end) continue;
        move(asked, level, -left[level].next);
        ++level;
      }
      goes_on = false;
      for (; level < loop_count_ && !goes_on; level += goes_on ? 0 : 1) {  // the next repetition
        move(asked, level, 1);
        goes_on = ++left[level].next < left[level].end;
        if (!goes_on) move(asked, level, -left[level].next);
      }
    }
    return false;
  }

 private:
  static constexpr std::uint32_t most_loops = derived_type::max_loops + 2;

  /// Adds a loop where its stride belongs.
  QUARRY_HD void add(row_loop const& loop) {
    if (loop.count == 1) return;
    std::uint32_t place = loop_count_++;
    for (; place != 0 && magnitude_of(loops_[place - 1].stride) > magnitude_of(loop.stride);
         --place)
      loops_[place] = loops_[place - 1];
    loops_[place] = loop;
  }
  QUARRY_HD void move(byte_span& asked, std::uint32_t level, std::int64_t repetition) const {
    std::int64_t const distance = repetition * loops_[level].stride;
    asked.begin -= distance;
    asked.end -= distance;
  }

  QUARRY_HD void measure_rows() {
    bytes in_rows = 0;
    for (bytes i = 0; i < view_.row_count; ++i) {
      byte_span const span = span_of(view_.row(i));
      in_rows += view_.row(i).count;
      if (i == 0) spans_[0] = span;
      is_sorted_ = is_sorted_ && (i == 0 || span_of(view_.row(i - 1)).begin <= span.begin);
      if (span.begin < spans_[0].begin) spans_[0].begin = span.begin;
      if (span.end > spans_[0].end) spans_[0].end = span.end;
      if (span.end - span.begin > longest_) longest_ = span.end - span.begin;
    }
    blocks_ *= in_rows;
  }

  [[nodiscard]] QUARRY_HD bool rows_have(byte_span const& asked) const {
    if (view_.row_count == 1) return spans_[0].begin < asked.end && asked.begin < spans_[0].end;
    bytes first = 0;
    if (is_sorted_) {  // rows before `first` end before the bytes
      bytes end = view_.row_count;
      while (first < end) {
        bytes const middle = first + (end - first) / 2;
        if (span_of(view_.row(middle)).begin + longest_ <= asked.begin)
          first = middle + 1;
        else
          end = middle;
      }
    }
    for (bytes i = first; i < view_.row_count; ++i) {
      block_row const row = view_.row(i);
      if (is_sorted_ && span_of(row).begin >= asked.end) return false;
      byte_span const block{row.offset, row.offset + static_cast<std::int64_t>(row.block)};
      repetitions const found = touching({row.count, row.stride}, block, asked);
      if (found.next < found.end) return true;
    }
    return false;
  }

  std::int64_t base_;
  row_view view_;
  row_loop loops_[most_loops];  // from the innermost
  std::uint32_t loop_count_ = 0;
  byte_span spans_[most_loops + 1];  // of what the loops before repeat, from the first element
  bytes blocks_ = 0;
  std::int64_t longest_ = 0;  // the longest span of a row
  bool is_sorted_ = true;     // rows begin in the order of their addresses
};

/// Calls `act(address, size)` for each block in the order of a message, until it returns false.
template <class Act>
QUARRY_HD void for_each_block(rank_state& rank, used_elements const& of, Act const& act) {
  row_view const view{rank, of.type};
  std::int64_t const extent = facts_of(rank, of.type).extent();
  for (bytes element = 0; element < of.count; ++element) {
    loop_position<derived_type::max_loops> position{view.loops, view.loop_count};
    do {
      std::int64_t const base =
          address_of(of) + static_cast<std::int64_t>(element) * extent + position.offset();
      for (bytes i = 0; i < view.row_count; ++i) {
        block_row const row = view.row(i);
        std::int64_t block = base + row.offset;
        for (bytes k = 0; k < row.count; ++k, block += row.stride)
          if (!act(block, row.block)) return;
      }
    } while (position.next());
  }
}

/// Sorts spans by their begin, in place. O(n log n).
QUARRY_HD void heap_sort(byte_span* spans, bytes count) {
  auto const sink = [&](bytes parent, bytes end) {
    for (bytes child = 2 * parent + 1; child < end; child = 2 * parent + 1) {
      if (child + 1 < end && spans[child].begin < spans[child + 1].begin) ++child;
      if (spans[child].begin <= spans[parent].begin) return;
      byte_span const moved = spans[parent];
      spans[parent] = spans[child];
      spans[child] = moved;
      parent = child;
    }
  };
  for (bytes i = count / 2; i-- != 0;) sink(i, count);
  for (bytes end = count; end-- > 1;) {
    byte_span const last = spans[end];
    spans[end] = spans[0];
    spans[0] = last;
    sink(0, end);
  }
}

/// Whether each span ends before the next one begins.
[[nodiscard]] QUARRY_HD bool are_apart(byte_span const* spans, bytes count) {
  for (bytes i = 1; i < count; ++i)
    if (spans[i].begin < spans[i - 1].end) return false;
  return true;
}

}  // namespace

QUARRY_SLOW used_elements elements_in(rank_state& rank, void const* data, bytes count,
                                      MPI_Datatype type) {
  if (count == 0 || !is_type(rank, type)) return {};
  bytes const size = element_size(rank, type);
  auto const* const first = static_cast<char const*>(data);
  if (is_dense(rank, type))
    return data == MPI_BOTTOM ? used_elements{} : used_elements{first, count * size, MPI_BYTE};
  return size == 0 ? used_elements{} : used_elements{first, count, type};
}

QUARRY_SLOW byte_span span_of(rank_state& rank, used_elements const& of) {
  std::int64_t const base = address_of(of);
  if (of.count == 0 || of.is_dense()) return {base, base + static_cast<std::int64_t>(of.count)};
  type_facts const facts = facts_of(rank, of.type);
  byte_span result{base + facts.true_lower, base + facts.true_upper};
  repeat_span(result, {of.count, facts.extent()});
  return result;
}

QUARRY_SLOW bool have_common_byte(rank_state& rank, used_elements const& left,
                                  used_elements const& right) {
  if (left.count == 0 || right.count == 0) return false;
  byte_span const spans[2] = {span_of(rank, left), span_of(rank, right)};
  if (spans[0].end <= spans[1].begin || spans[1].end <= spans[0].begin) return false;
  if (left.is_dense() && right.is_dense()) return true;
  if (left.is_dense()) return block_search{rank, right}.has_any(spans[0]);
  if (right.is_dense()) return block_search{rank, left}.has_any(spans[1]);
  block_search const searches[2] = {{rank, left}, {rank, right}};
  bool const searches_left = searches[0].blocks() > searches[1].blocks();
  block_search const& searched = searches[searches_left ? 0 : 1];
  byte_span const& bounds = spans[searches_left ? 0 : 1];
  bool found = false;
  for_each_block(rank, searches_left ? right : left, [&](std::int64_t begin, bytes size) {
    byte_span const block{begin, begin + static_cast<std::int64_t>(size)};
    if (block.begin < bounds.end && bounds.begin < block.end) found = searched.has_any(block);
    return !found;
  });
  return found;
}

QUARRY_SLOW bool have_common_byte(rank_state& rank, used_elements const* parts, bytes count) {
  bool is_apart = true;
  bytes blocks = 0;
  std::int64_t end = INT64_MIN;
  for (bytes i = 0; i < count; ++i) {
    if (parts[i].count == 0) continue;
    byte_span const span = span_of(rank, parts[i]);
    is_apart = is_apart && end <= span.begin;
    end = span.end;
    blocks += parts[i].is_dense() ? 1 : block_search{rank, parts[i]}.blocks();
  }
  if (is_apart) return false;
  auto* const spans = static_cast<byte_span*>(allocate(blocks * sizeof(byte_span)));
  if (spans == nullptr) return false;
  bytes next = 0;
  for (bytes i = 0; i < count; ++i) {
    if (parts[i].is_dense()) {
      if (parts[i].count != 0) spans[next++] = span_of(rank, parts[i]);
      continue;
    }
    for_each_block(rank, parts[i], [&](std::int64_t begin, bytes size) {
      spans[next++] = {begin, begin + static_cast<std::int64_t>(size)};
      return true;
    });
  }
  bool has_common = !are_apart(spans, next);
  if (has_common) {  // or they are not sorted
    heap_sort(spans, next);
    has_common = !are_apart(spans, next);
  }
  release(spans);
  return has_common;
}

QUARRY_SLOW std::uint64_t hash_of(rank_state& rank, used_elements const& of, std::uint64_t hash) {
  auto const add = [&](char const* first, bytes size) {
    for (bytes i = 0; i < size; ++i)
      hash = (hash ^ static_cast<unsigned char>(first[i])) * 0x100000001b3;  // FNV-1a
  };
  if (of.is_dense()) {
    add(of.data, of.count);
  } else if (of.count != 0) {
    for_each_block(rank, of, [&](std::int64_t begin, bytes size) {
      add(of.data + (begin - address_of(of)), size);
      return true;
    });
  }
  return hash;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
