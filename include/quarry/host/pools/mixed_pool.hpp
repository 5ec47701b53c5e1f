// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/pools/pool.hpp"

#include <array>
#include <bit>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

struct mixed_options {
  bytes min_slot = 16;    ///< the smallest slots: a power of two from 8 to `max_slot`
  bytes max_slot = 4096;  ///< the largest slots: a power of two, an eighth of `slab` at most
  bytes slab = 65536;  ///< bytes of a slab, cut into slots of one size: a power of two up to 2^30
  pool_options large = {};  ///< of the pool for slabs and large allocations
};

/// What a mixed pool counts, in bytes unless said otherwise. `granted`: the slot sizes of small
/// allocations, and the requested sizes of large allocations.
struct mixed_pool_counts {
  bytes reserved = 0, peak_reserved = 0;  ///< of the resource
  bytes granted = 0;                      ///< of the allocations in use
  std::size_t allocations_in_use = 0;
  std::size_t slabs = 0;
  std::uint64_t invalid_frees = 0;  ///< frees of addresses that were not allocated
};

/// Serves small sizes from slots of powers of two, with one bit each, and larger sizes from a pool.
/// A free needs the address alone: slabs are aligned to their size, so the address determines the
/// slab.
///
/// Not thread-safe. O(1) expected. A small allocation costs its slot and one bit. A chunk of a pool
/// costs 45 bytes or more in addition to its memory, and a slice two bytes or more
/// (docs/plots/README.md, bookkeeping of a pool). The registry knows none of the mixed pool's
/// allocations, small or large. (`allocators::make` makes a named allocator of a mixed pool, and
/// registers its allocations, as for a resource.) An empty slab returns to the pool if its size has
/// another slab with free slots. Invariants, checked by `audit`:
///   1. a slab's count of free slots is the number of ones in its bits;
///   2. a slab is in the list of its size exactly if it has free slots.
template <memory_resource Resource>
class QUARRY_POISONS mixed_pool {
 public:
  /// Throws `bad_argument`.
  explicit mixed_pool(Resource upstream, mixed_options const& options = {})
      : state_{std::make_unique<state>(std::move(upstream), checked(options))} {}

  /// Allocates `size` bytes. Size 0 returns a unique address. Throws `out_of_memory`.
  [[nodiscard]] void* allocate(bytes size) { return allocate(size, 1); }
  /// The same at a multiple of `alignment`, a power of two. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("mixed_pool", alignment);
    mixed_options const& options = state_->options;
    bytes const needed = std::max({size, alignment, options.min_slot});
    if (needed > options.max_slot) return state_->allocate_large(size, alignment);
    return state_->allocate_slot(static_cast<unsigned>(std::bit_width(needed - 1)), size);
  }
  /// Frees an allocation; ignores nullptr. Returns false, and changes nothing but the count
  /// `invalid_frees`, if `pointer` is not the base address of an allocation of this pool.
  bool deallocate(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    return state_->deallocate(reinterpret_cast<std::uint64_t>(pointer));
  }
  /// The interface of a resource.
  bool deallocate(void* pointer, bytes, bytes) noexcept { return deallocate(pointer); }

  /// The granted bytes: the size of the slot, or the requested size of a large allocation. nullopt
  /// if `pointer` is not the base address of an allocation.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const address = reinterpret_cast<std::uint64_t>(pointer);
    auto const found = state_->slabs.find(address & ~(state_->options.slab - 1));
    if (found == state_->slabs.end()) return state_->large.size_of(pointer);
    if (!state_->is_allocated(found->first, found->second, address)) return std::nullopt;
    return bytes{1} << found->second.shift;
  }
  /// Returns empty slabs to the pool, and the pool's empty blocks to the resource.
  void release() noexcept { state_->release(); }
  /// Returns empty slabs, and coalesces the pool.
  void coalesce(bytes wanted) noexcept {
    state_->release_slabs();
    state_->large.coalesce(wanted);
  }

  [[nodiscard]] mixed_pool_counts counts() const {
    auto const large = state_->large.counts();
    std::size_t const slabs = state_->slabs.size();
    return {large.reserved,
            large.peak_reserved,
            large.allocated - slabs * state_->options.slab + state_->granted,
            large.allocations_in_use - slabs + state_->slots,
            slabs,
            large.invalid_frees + state_->invalid_frees};
  }
  [[nodiscard]] std::vector<std::string> audit() const {
    auto problems = state_->large.audit();
    state_->audit(problems);
    return problems;
  }
  [[nodiscard]] memory_location location() { return state_->large.location(); }
  /// Bytes taken from the resource.
  [[nodiscard]] bytes reserved() const { return state_->large.counts().reserved; }

 private:
  static constexpr std::size_t not_listed = ~std::size_t{0};
  struct slab {
    unsigned shift;  // log2 of its slots' size
    std::uint32_t count;
    std::uint32_t hint = 0;           // the first word that may have a free slot
    std::size_t listed = not_listed;  // the index in the list of its size
    std::vector<word> free;           // a bit for each slot: 1 = free
  };
  using slab_table = std::unordered_map<std::uint64_t, slab>;
  using entry = typename slab_table::value_type;

  [[nodiscard]] static mixed_options checked(mixed_options options) {
    auto const is_power = [](bytes size) { return std::has_single_bit(size); };
    if (!is_power(options.slab) || options.slab > bytes{1} << 30 || !is_power(options.min_slot) ||
        options.min_slot < 8 || !is_power(options.max_slot) ||
        options.max_slot < options.min_slot || options.max_slot > options.slab / 8) {
      throw bad_argument{"mixed_options: min_slot " + std::to_string(options.min_slot) +
                         ", max_slot " + std::to_string(options.max_slot) + " and slab " +
                         std::to_string(options.slab) +
                         " are not powers of two with 8 <= min_slot <= max_slot <= slab / 8"};
    }
    options.large.is_tracked = false;
    return options;
  }

  struct state {
    state(Resource upstream, mixed_options const& wanted)
        : options{wanted}, large{std::move(upstream), wanted.large} {}
    ~state() {  // the pool's destructor returns the slabs
      for (auto const& [base, unused] : slabs) unpoison_slab(base);
    }

    [[nodiscard]] void* allocate_large(bytes size, bytes alignment) {
      return large.allocate(size, alignment);
    }
    [[nodiscard]] void* allocate_slot(unsigned shift, bytes size) {
      auto& list = with_free[shift];
      if (list.empty()) add_slab(shift);
      auto& [base, holder] = *list.back();
      while (holder.free[holder.hint] == 0) ++holder.hint;
      std::uint64_t const slot = holder.hint * bits_per_word + lowest_one(holder.free[holder.hint]);
      holder.free[holder.hint] &= holder.free[holder.hint] - 1;
      if (--holder.count == 0) unlist(*list.back());
      ++slots;
      granted += bytes{1} << shift;
      auto* const result = reinterpret_cast<void*>(base + (slot << shift));
      if (detail::is_poisoned(large.resource())) detail::unpoison(result, size);
      return result;
    }
    [[nodiscard]] bool is_allocated(std::uint64_t base, slab const& holder,
                                    std::uint64_t address) const {
      std::uint64_t const slot = (address - base) >> holder.shift;
      return base + (slot << holder.shift) == address &&
             (holder.free[slot / bits_per_word] >> slot % bits_per_word & 1) == 0;
    }
    bool deallocate(std::uint64_t address) noexcept {
      auto const found = slabs.find(address & ~(options.slab - 1));
      if (found == slabs.end()) return large.deallocate(reinterpret_cast<void*>(address));
      auto& [base, holder] = *found;
      if (!is_allocated(base, holder, address)) {
        ++invalid_frees;
        return false;
      }
      if (detail::is_poisoned(large.resource()))
        detail::poison(reinterpret_cast<void*>(address), bytes{1} << holder.shift);
      std::uint64_t const slot = (address - base) >> holder.shift;
      holder.free[slot / bits_per_word] |= word{1} << slot % bits_per_word;
      holder.hint = std::min(holder.hint, static_cast<std::uint32_t>(slot / bits_per_word));
      --slots;
      granted -= bytes{1} << holder.shift;
      if (holder.count++ == 0) list(*found);
      if (holder.count == slots_of(holder.shift) && with_free[holder.shift].size() > 1)
        return_slab(found);
      return true;
    }

    void add_slab(unsigned shift) {
      std::uint32_t const count = slots_of(shift);
      slab fresh{.shift = shift,
                 .count = count,
                 .free = std::vector<word>((count + bits_per_word - 1) / bits_per_word, ~word{0})};
      if (count < bits_per_word) fresh.free[0] = low_bits(count);
      slab_table node;
      auto handle = node.extract(node.emplace(0, std::move(fresh)).first);
      void* const memory = large.allocate(options.slab, options.slab);
      try {  // after the allocation, since a heuristic's rule may have added slabs
        detail::make_room(with_free[shift], slabs.size() + 1);  // so that frees need no memory
        slabs.reserve(slabs.size() + 1);
      } catch (...) {
        (void)large.deallocate(memory);
        throw;
      }
      handle.key() = reinterpret_cast<std::uint64_t>(memory);
      if (detail::is_poisoned(large.resource())) detail::poison(memory, options.slab);
      list(*slabs.insert(std::move(handle)).position);
    }
    /// Removes the slab from the table first, because the pool may call a heuristic's rule, which
    /// may change all slabs.
    void return_slab(typename slab_table::iterator empty) noexcept {
      if (empty->second.listed != not_listed) unlist(*empty);
      auto const returned = slabs.extract(empty);
      unpoison_slab(returned.key());
      (void)large.deallocate(reinterpret_cast<void*>(returned.key()));
    }
    void list(entry& node) noexcept {
      node.second.listed = with_free[node.second.shift].size();
      with_free[node.second.shift].push_back(&node);  // has room
    }
    void unlist(entry& node) noexcept {
      auto& slabs_with_free = with_free[node.second.shift];
      slabs_with_free[node.second.listed] = slabs_with_free.back();
      slabs_with_free[node.second.listed]->second.listed = node.second.listed;
      slabs_with_free.pop_back();
      node.second.listed = not_listed;
    }
    void release_slabs() noexcept {
      for (unsigned shift = 0; shift < with_free.size(); ++shift) {
        auto const& list = with_free[shift];
        for (std::size_t i = list.size(); i != 0; --i) {
          if (i > list.size()) continue;  // a rule returned slabs
          if (entry const& node = *list[i - 1]; node.second.count == slots_of(shift))
            return_slab(slabs.find(node.first));
        }
      }
    }
    void release() noexcept {
      release_slabs();
      large.release();
    }
    void unpoison_slab(std::uint64_t base) noexcept {
      if (detail::is_poisoned(large.resource()))
        detail::unpoison(reinterpret_cast<void*>(base), options.slab);
    }
    [[nodiscard]] std::uint32_t slots_of(unsigned shift) const {
      return static_cast<std::uint32_t>(options.slab >> shift);
    }
    void audit(std::vector<std::string>& problems) const {
      std::size_t in_use = 0;
      for (auto const& [base, holder] : slabs) {
        std::uint32_t ones = 0;
        for (word const bits : holder.free) ones += static_cast<std::uint32_t>(std::popcount(bits));
        in_use += slots_of(holder.shift) - ones;
        auto const& list = with_free[holder.shift];
        bool const is_listed = holder.listed != not_listed && holder.listed < list.size() &&
                               &list[holder.listed]->second == &holder;
        if (ones != holder.count)
          problems.push_back("mixed_pool: slab " + std::to_string(base) + " has " +
                             std::to_string(ones) + " free slots, and counts " +
                             std::to_string(holder.count));
        if (is_listed != (holder.count != 0))
          problems.push_back("mixed_pool: slab " + std::to_string(base) + " is " +
                             (is_listed ? "" : "not ") + "listed with " +
                             std::to_string(holder.count) + " free slots");
      }
      if (in_use != slots)
        problems.push_back("mixed_pool: " + std::to_string(in_use) + " slots are in use, counted " +
                           std::to_string(slots));
    }

    mixed_options options;
    pool<Resource> large;
    slab_table slabs;                                 // by address
    std::array<std::vector<entry*>, 32> with_free{};  // by log2 of the slots' size
    std::size_t slots = 0;                            // allocated
    bytes granted = 0;                                // by slots
    std::uint64_t invalid_frees = 0;
  };

  std::unique_ptr<state> state_;
};

}  // namespace quarry::inline QUARRY_ABI
