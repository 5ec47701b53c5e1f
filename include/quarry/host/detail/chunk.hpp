// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/host/detail/single_writer.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::detail {

/// The number of a chunk, which stays the same while the chunk exists.
using chunk_id = std::uint32_t;
inline constexpr chunk_id no_chunk = ~chunk_id{0};

/// Owners of chunks that an arena can tell apart.
inline constexpr std::uint32_t chunk_owners = 1 << 13;

/// A part of a block: its address and size, its neighbours, and its state. A chunk is free, cached
/// (kept whole in a quick list), or allocated.
///
/// One thread writes; others read through chunk_array. Two links of 32 bits have another meaning in
/// each state, so each meaning has its accessors:
///   allocated          the bytes requested
///   cached             the slot of the chunk in the base_table; the next chunk in the quick list
///   free               what the arena's index keeps: the neighbours in a list, or an order
class chunk {
  static constexpr std::uint64_t free_flag = 1, cached_flag = 2, labelled_flag = 4;
  static constexpr std::uint32_t flag_bits = 3, size_shift = 16;

 public:
  single_writer<std::uint64_t> base;
  chunk_id prev, next;  // neighbours in the block

  [[nodiscard]] bytes size() const { return size_ >> size_shift; }
  [[nodiscard]] bool is_free() const { return (size_ & free_flag) != 0; }
  [[nodiscard]] bool is_cached() const { return (size_ & cached_flag) != 0; }
  /// The registration has a label for the allocation.
  [[nodiscard]] bool is_labelled() const { return (size_ & labelled_flag) != 0; }
  /// The owner of a free or cached chunk, in an arena with many owners.
  [[nodiscard]] std::uint32_t owner() const {
    return static_cast<std::uint32_t>(size_ >> flag_bits) & (chunk_owners - 1);
  }
  /// Size, flags and owner as one value, to read and write several at once.
  class state {
   public:
    explicit state(std::uint64_t bits) : bits_{bits} {}
    [[nodiscard]] bytes size() const { return bits_ >> size_shift; }
    [[nodiscard]] bool is_cached() const { return (bits_ & cached_flag) != 0; }
    [[nodiscard]] bool is_labelled() const { return (bits_ & labelled_flag) != 0; }
    [[nodiscard]] bool has_flags() const {
      return (bits_ & (free_flag | cached_flag | labelled_flag)) != 0;
    }
    [[nodiscard]] state set_cached() const { return state{(bits_ | cached_flag) & ~labelled_flag}; }
    [[nodiscard]] state not_cached() const { return state{bits_ & ~cached_flag}; }

   private:
    friend class chunk;
    std::uint64_t bits_;
  };
  [[nodiscard]] state get() const { return state{size_}; }
  void set(state new_state) { size_ = new_state.bits_; }
  void set_size(bytes size) {
    size_ = size << size_shift | (size_ & ((std::uint64_t{1} << size_shift) - 1));
  }
  void set_free() { change(cached_flag | labelled_flag, free_flag); }
  void set_in_use() { change(free_flag, 0); }
  void set_labelled() { change(0, labelled_flag); }
  void set_owner(std::uint32_t owner) {
    change(std::uint64_t{chunk_owners - 1} << flag_bits, std::uint64_t{owner} << flag_bits);
  }

  /// Allocated: the bytes requested. The chunk of a slice block has `no_request`, since only its
  /// slices are allocations.
  static constexpr bytes no_request = ~bytes{0};
  [[nodiscard]] bytes requested() const { return links(); }
  void set_requested(bytes count) { set_links(count); }

  /// Cached: the chunk's slot in the base_table.
  [[nodiscard]] std::uint64_t slot() const { return link_prev_; }
  void set_slot(std::uint64_t slot) { link_prev_ = static_cast<chunk_id>(slot); }
  /// Cached: the next chunk in the quick list.
  [[nodiscard]] chunk_id next_cached() const { return link_next_; }
  void set_next_cached(chunk_id id) { link_next_ = id; }

  /// Free: the neighbours in a list of the index.
  [[nodiscard]] single_writer<chunk_id>& prev_free() { return link_prev_; }
  [[nodiscard]] single_writer<chunk_id>& next_free() { return link_next_; }
  [[nodiscard]] chunk_id prev_free() const { return link_prev_; }
  [[nodiscard]] chunk_id next_free() const { return link_next_; }
  /// Free: the place of the chunk among those of its size, in an index that orders them.
  [[nodiscard]] std::uint64_t order() const { return links(); }
  void set_order(std::uint64_t order) { set_links(order); }

 private:
  friend struct chunk_array;
  friend class chunk_table;
  friend struct process_layout;

  void change(std::uint64_t mask, std::uint64_t bits) { size_ = (size_ & ~mask) | bits; }
  [[nodiscard]] std::uint64_t links() const { return std::uint64_t{link_next_} << 32 | link_prev_; }
  void set_links(std::uint64_t value) {
    link_prev_ = static_cast<chunk_id>(value);
    link_next_ = static_cast<chunk_id>(value >> 32);
  }

  single_writer<chunk_id> link_prev_, link_next_;
  single_writer<std::uint64_t> size_;
};
static_assert(sizeof(chunk) == 32);

}  // namespace quarry::inline QUARRY_ABI::detail
