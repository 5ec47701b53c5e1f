// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz/pool_model.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/limited_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <cstring>
#include <type_traits>

namespace quarry::test {

using namespace detail;

/// pool, over what is simulated or over the host's memory.
template <class Upstream, class Strategy>
class pool_session {
  static constexpr bool is_host = !simulated<Upstream>;
  using pool_type = pool<logged<Upstream>, Strategy>;

 public:
  pool_session(byte_source& input, Upstream resource, pool_options const& options, bytes limit)
      : input_{input},
        options_{options},
        limit_{limit},
        pool_{logged<Upstream>{std::move(resource), log_}, options_} {
    users_.alignment = options_.alignment;
    knows_ = is_host && options_.is_tracked;
    is_exact_ =
        !std::is_same_v<Strategy, fast_fit> || options_.coalesce.when != heuristic::trigger::never;
  }

  void run() {
    for (int step = 0; step < max_steps && !input_.is_exhausted(); ++step) {
      do_something();
      expect_cheaply();
      if (step % 8 == 7) expect_all();
    }
    log_->fails.left = 0;
    expect_all();
    while (!users_.allocated.empty()) give_back(users_.allocated.begin()->first);
    expect_cheaply();
    expect(pool_.counts().allocated == 0, "all was returned, and something is live");
    expect_all();
    pool_.release();
    expect(pool_.counts().reserved == 0 && log_->blocks.empty(),
           "nothing is in use, and a block is held");
    for (std::size_t i = 0; i < std::min<std::size_t>(users_.ended.size(), 16); ++i)
      expect_registry(users_.ended[i]);
    // A pool that is destroyed returns what is still in use, too: see the caller.
    if (input_.chance(128)) (void)allocate(100, false);
  }
  [[nodiscard]] std::shared_ptr<block_log> log() const { return log_; }

 private:
  void do_something() {
    std::uint8_t const kind = input_.u8() % 32;
    if (kind < 13)
      return void(allocate(
          input_.wild_size(options_.first_block < 1 << 20 ? options_.first_block * 2 : 1 << 16),
          false));
    if (kind < 24) return give_back(users_.some_address(input_));
    switch (kind) {
      case 24:
        return void(allocate(input_.size(4096), true));
      case 25:
        return release();
      case 26:
        return coalesce(input_.wild_size(1 << 18));
      case 27:
        return look(users_.some_address(input_));
      case 28:
        return label(users_.some_address(input_));
      case 29:
        return set_limit(input_.wild_size(1 << 20));
      case 30:
        log_->fails.left = input_.u8() % 4;
        return;
      default:
        return allocate_aligned(input_.size(256), bytes{1} << input_.u8() % 16);
    }
  }

  [[nodiscard]] bytes left() const {
    bytes const maximum = options_.max_bytes - std::min(options_.max_bytes, log_->reserved);
    return std::min(maximum & ~(options_.alignment - 1), limit_ - std::min(limit_, log_->reserved));
  }

  /// Takes no label of what it allocates if `is_named` is false.
  bool allocate(bytes size, bool is_named) {
    model::one what{size, input_.u8()};
    if (is_named) what.name = "name " + std::to_string(what.fill);
    auto const before = pool_.counts();
    log_->fails.happened = false;
    void* result = nullptr;
    try {
      result = is_named ? pool_.allocate(size, *what.name) : pool_.allocate(size);
    } catch (out_of_memory const&) {
    } catch (resource_failed const&) {
      expect(log_->fails.happened, "a failure that nobody caused");
    }
    if (result == nullptr) {
      expect_failed(size, before);
      return false;
    }
    add(result, std::move(what));
    return true;
  }
  void add(void* result, model::one what) {
    expect(log_->has(number_of(result), users_.room(what)),
           "an allocation lies outside all blocks");
    if constexpr (is_host) std::memset(result, what.fill, what.size);
    users_.add(number_of(result), std::move(what));
  }
  /// It left what users have, and no memory there is would have done.
  void expect_failed(bytes size, pool_counts const& before) {
    auto const after = pool_.counts();
    expect(after.allocated == before.allocated && after.chunks_allocated == before.chunks_allocated,
           "a failed allocation changed what is live");
    expect(after.peak_allocated == before.peak_allocated && after.allocations == before.allocations,
           "a failed allocation was counted");
    if (log_->fails.happened || size > max_bytes_at_once) return;
    bytes const granted = granted_up(size, options_.alignment);
    expect(granted > left(), "it says that there is no memory, and its resource has some");
    if (granted > options_.max_bytes) return;
    expect(!users_.allocated.empty() || after.reserved == 0,
           "it says that there is no memory, and holds blocks in which nothing is in use");
    // Segregated lists need not find what is less than a thirty-second larger.
    bool const is_best = std::is_same_v<Strategy, chunk_arena<oldest_best_fit>> ||
                         std::is_same_v<Strategy, chunk_arena<lowest_best_fit>>;
    bytes const enough = is_best ? granted : granted + granted / 32 + 1;
    pool_.for_each([&](std::uint64_t, bytes chunk, bool is_free) {
      expect(!is_free || chunk < enough,
             "it says that there is no memory, and a free piece would do");
    });
  }
  void allocate_aligned(bytes size, bytes alignment) {
    try {
      void* const result = pool_.allocate(size, alignment);
      expect(number_of(result) % alignment == 0, "an allocation is not aligned as requested");
      add(result, {size, input_.u8()});
    } catch (out_of_memory const&) {
    } catch (resource_failed const&) {
    }
  }

  void give_back(std::uint64_t address) {
    expect_contents(address);
    bool const is_ours = users_.remove(address);
    expect(pool_.deallocate(pointer_to(address)) == is_ours,
           is_ours ? "what is in use was refused" : "what is not in use was taken back");
  }
  void expect_contents(std::uint64_t address) const {
    auto const found = users_.allocated.find(address);
    if (!is_host || found == users_.allocated.end()) return;
    auto const* const base = static_cast<std::uint8_t const*>(pointer_to(address));
    expect(std::all_of(base, base + found->second.size,
                       [&](std::uint8_t one) { return one == found->second.fill; }),
           "what was written has changed");
  }

  void release() {
    pool_.release();
    auto const counts = pool_.counts();
    expect(counts.releasable == 0 && counts.releasable_blocks == 0,
           "a block in which nothing is in use was kept");
    expect(!users_.allocated.empty() || counts.reserved == 0,
           "nothing is in use, and a block is held");
  }
  void coalesce(bytes wanted) {
    log_->fails.happened = false;
    pool_.coalesce(wanted);
    if (options_.coalesce.rules != heuristic_rules::quarry || log_->fails.happened ||
        log_->reserved >= wanted)
      return;
    bytes const missing = wanted - log_->reserved;
    expect(missing > max_bytes_at_once || granted_up(missing, options_.alignment) > left(),
           "coalescing did without what it could have had");
  }

  void look(std::uint64_t address) {
    auto const size = pool_.size_of(pointer_to(address));
    auto const found = users_.allocated.find(address);
    expect(size.has_value() == (found != users_.allocated.end()),
           "size_of knows what is not in use, or not what is");
    expect(!size || *size == found->second.size, "size_of says another size");
    if constexpr (is_host) expect_registry(address);
  }
  void expect_registry(std::uint64_t address) {
    if constexpr (is_host) {
      auto const found = registry::find(pointer_to(address));
      auto const there = users_.at(address);
      expect(found.has_value() == (knows_ && there != users_.allocated.end()),
             "the registry knows what is not in use, or not what is");
      if (!found) return;
      expect(number_of(found->base) == there->first && found->size == there->second.size,
             "the registry knows another allocation");
      expect(found->allocator == pool_.id() && found->location == memory_location{},
             "the registry knows another allocator");
      auto const labelled = registry::label_of(pointer_to(address));
      expect(labelled.has_value() == there->second.name.has_value() &&
                 found->is_labelled == labelled.has_value(),
             "a note was lost, or is there that was not made");
      expect(!labelled || labelled->name == *there->second.name, "another's note");
    }
  }
  void label(std::uint64_t address) {
    std::string const name = "note " + std::to_string(input_.u8());
    auto const found = users_.allocated.find(address);
    expect(pool_.label(pointer_to(address), name) == (knows_ && found != users_.allocated.end()),
           "a note was taken of what is not in use, or none of what is");
    if (found != users_.allocated.end()) found->second.name = name;
  }
  void set_limit(bytes limit) {
    if constexpr (!is_host) pool_.resource().limit(limit_ = limit);
  }

  void expect_cheaply() const {
    auto const counts = pool_.counts();
    expect_counts(counts, users_, options_.max_bytes);
    expect(counts.reserved == log_->reserved, "it holds what its resource did not give");
    expect(counts.allocations == users_.allocations && counts.deallocations == users_.deallocations,
           "calls are counted wrongly");
    expect(counts.blocks_allocated - counts.blocks_returned == log_->blocks.size(),
           "blocks are counted wrongly");
    expect(is_exact_ ? counts.granted == users_.granted : counts.granted >= users_.granted,
           "what is in use is not what users have, rounded up");
    expect(counts.granted + counts.releasable <= counts.reserved,
           "more is in use or free than is held");
  }
  /// The chunks are the users' and tile the blocks.
  void expect_all() {
    expect_sound(pool_);
    bytes sum = 0;
    std::size_t in_use = 0;
    pool_.for_each([&](std::uint64_t base, bytes size, bool is_free) {
      expect(log_->has(base, size), "a piece lies outside all blocks");
      sum += size;
      if (is_free) return;
      ++in_use;
      auto const found = users_.allocated.find(base);
      expect(found != users_.allocated.end(), "a piece is in use that no user has");
      expect(is_exact_ ? size == users_.room(found->second) : size >= users_.room(found->second),
             "a piece is not as large as it must be");
    });
    expect(sum == log_->reserved && in_use == users_.allocated.size(),
           "the pieces are not all that there is");
    for (auto const& [base, what] : users_.allocated) expect_contents(base);
    if constexpr (is_host) {
      if (knows_)
        expect(registry::allocations(pool_.id()).size() == users_.allocated.size(),
               "the registry does not list what is live");
      for (int i = 0; i < 4; ++i) expect_registry(users_.some_address(input_));
    }
  }

  byte_source& input_;
  pool_options options_;
  std::shared_ptr<block_log> log_ = std::make_shared<block_log>();
  model users_;
  bytes limit_;
  bool knows_ = false;     // the registry
  bool is_exact_ = false;  // chunks are no larger than what was asked for, rounded up
  pool_type pool_;
};

template <class Upstream, class Strategy>
void run_pool(byte_source& input, Upstream resource, bytes limit) {
  auto options = some_options<pool_options>(input, simulated<Upstream> ? 1 << 18 : 1 << 14);
  options.coalesce = some_heuristic(input);
  options.is_tracked = !input.chance(64);
  std::shared_ptr<block_log> log;
  try {
    pool_session<Upstream, Strategy> session{input, std::move(resource), options, limit};
    expect(is_valid(options), "options were taken that cannot be");
    log = session.log();
    session.run();
  } catch (bad_argument const&) {
    expect(!is_valid(options), "options were refused that can be");
    return;
  }
  expect(log->blocks.empty(), "a pool is gone, and a block of its is not");
}
template <class Strategy>
void run_pool_over_any(byte_source& input) {
  bytes const limit = input.chance(128) ? 1 << 20 : input.size(1 << 20);
  if (input.chance(128))
    return run_pool<simulated_resource, Strategy>(input, simulated_resource{limit}, limit);
  run_pool<limited_resource<host_resource>, Strategy>(
      input, limited_resource<host_resource>{host_resource{}, limit}, limit);
}

}  // namespace quarry::test
