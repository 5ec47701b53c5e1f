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

/// Tests `pool` over a simulated resource or over the host's memory.
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
    is_registered_ = is_host && options_.is_tracked;
    is_exact_ = !std::is_same_v<Strategy, fast_fit> ||
                options_.coalesce.condition != heuristic::trigger::never;
  }

  void run() {
    for (int step = 0; step < max_steps && !input_.is_exhausted(); ++step) {
      do_something();
      expect_cheaply();
      if (step % 8 == 7) expect_all();
    }
    log_->fails.remaining = 0;
    expect_all();
    while (!users_.allocated.empty()) deallocate(users_.allocated.begin()->first);
    expect_cheaply();
    expect(pool_.counts().allocated == 0, "a pool has allocations after all frees");
    expect_all();
    pool_.release();
    expect(pool_.counts().reserved == 0 && log_->blocks.empty(),
           "a pool without allocations has a block");
    for (std::size_t i = 0; i < std::min<std::size_t>(users_.freed.size(), 16); ++i)
      expect_registry(users_.freed[i]);
    // The destructor also returns blocks with allocations: the caller checks this.
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
    if (kind < 24) return deallocate(users_.some_address(input_));
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
        log_->fails.remaining = input_.u8() % 4;
        return;
      default:
        return allocate_aligned(input_.size(256), bytes{1} << input_.u8() % 16);
    }
  }

  [[nodiscard]] bytes available() const {
    bytes const maximum = options_.max_bytes - std::min(options_.max_bytes, log_->reserved);
    return std::min(maximum & ~(options_.alignment - 1), limit_ - std::min(limit_, log_->reserved));
  }

  /// Allocates, with a label if `is_named`. Returns whether this succeeded.
  bool allocate(bytes size, bool is_named) {
    model::allocation added{size, input_.u8()};
    if (is_named) added.name = "name " + std::to_string(added.fill);
    auto const old_counts = pool_.counts();
    log_->fails.happened = false;
    void* result = nullptr;
    try {
      result = is_named ? pool_.allocate(size, *added.name) : pool_.allocate(size);
    } catch (out_of_memory const&) {
    } catch (resource_failed const&) {
      expect(log_->fails.happened, "a failure without a cause");
    }
    if (result == nullptr) {
      expect_failed(size, old_counts);
      return false;
    }
    add(result, std::move(added));
    return true;
  }
  void add(void* result, model::allocation added) {
    expect(log_->has(number_of(result), users_.room(added)),
           "an allocation lies outside all blocks");
    if constexpr (is_host) std::memset(result, added.fill, added.size);
    users_.add(number_of(result), std::move(added));
  }
  /// Checks that a failed allocation changed no allocation, and that no available memory would have
  /// sufficed.
  void expect_failed(bytes size, pool_counts const& old_counts) {
    auto const new_counts = pool_.counts();
    expect(new_counts.allocated == old_counts.allocated &&
               new_counts.allocations_in_use == old_counts.allocations_in_use,
           "a failed allocation changed the allocated bytes or chunks");
    expect(new_counts.peak_allocated == old_counts.peak_allocated &&
               new_counts.allocations == old_counts.allocations,
           "a failed allocation was counted");
    if (log_->fails.happened || size > max_bytes_at_once) return;
    bytes const granted = granted_up(size, options_.alignment);
    expect(granted > available(), "a pool is out of memory and its resource is not");
    if (granted > options_.max_bytes) return;
    expect(!users_.allocated.empty() || new_counts.reserved == 0,
           "a pool is out of memory and has unused blocks");
    // Segregated lists need not find a chunk that is less than 1/32 larger than the request.
    bool const is_best = std::is_same_v<Strategy, chunk_arena<oldest_best_fit>> ||
                         std::is_same_v<Strategy, chunk_arena<lowest_best_fit>>;
    bytes const enough = is_best ? granted : granted + granted / 32 + 1;
    pool_.for_each([&](std::uint64_t, bytes chunk, bool is_free) {
      expect(!is_free || chunk < enough,
             "a pool is out of memory and has a large enough free chunk");
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

  void deallocate(std::uint64_t address) {
    expect_contents(address);
    bool const is_ours = users_.remove(address);
    expect(pool_.deallocate(pointer_to(address)) == is_ours,
           is_ours ? "a valid free was refused" : "an invalid free was accepted");
  }
  void expect_contents(std::uint64_t address) const {
    auto const found = users_.allocated.find(address);
    if (!is_host || found == users_.allocated.end()) return;
    auto const* const base = static_cast<std::uint8_t const*>(pointer_to(address));
    expect(std::all_of(base, base + found->second.size,
                       [&](std::uint8_t value) { return value == found->second.fill; }),
           "the contents of an allocation changed");
  }

  void release() {
    pool_.release();
    auto const counts = pool_.counts();
    expect(counts.releasable == 0 && counts.releasable_blocks == 0, "release kept an unused block");
    expect(!users_.allocated.empty() || counts.reserved == 0,
           "a pool without allocations has a block");
  }
  void coalesce(bytes wanted) {
    log_->fails.happened = false;
    pool_.coalesce(wanted);
    if (log_->fails.happened || log_->reserved >= wanted) return;
    bytes const missing = wanted - log_->reserved;
    expect(missing > max_bytes_at_once || granted_up(missing, options_.alignment) > available(),
           "coalescing reserved less than it could");
  }

  void look(std::uint64_t address) {
    auto const size = pool_.size_of(pointer_to(address));
    auto const found = users_.allocated.find(address);
    expect(size.has_value() == (found != users_.allocated.end()),
           "size_of has a wrong set of allocations");
    expect(!size || *size == found->second.size, "size_of returned a wrong size");
    if constexpr (is_host) expect_registry(address);
  }
  void expect_registry(std::uint64_t address) {
    if constexpr (is_host) {
      auto const found = registry::find(pointer_to(address));
      auto const expected = users_.allocation_at(address);
      expect(found.has_value() == (is_registered_ && expected != users_.allocated.end()),
             "the registry has a wrong set of allocations");
      if (!found) return;
      expect(number_of(found->base) == expected->first && found->size == expected->second.size,
             "the registry found a wrong allocation");
      expect(found->allocator == pool_.id() && found->location == memory_location{},
             "the registry found a wrong allocator");
      auto const labelled = registry::label_of(pointer_to(address));
      expect(labelled.has_value() == expected->second.name.has_value() &&
                 found->is_labelled == labelled.has_value(),
             "a label was lost, or an unlabelled allocation has a label");
      expect(!labelled || labelled->name == *expected->second.name,
             "an allocation has a wrong label");
    }
  }
  void label(std::uint64_t address) {
    std::string const name = "label " + std::to_string(input_.u8());
    auto const found = users_.allocated.find(address);
    expect(pool_.label(pointer_to(address), name) ==
               (is_registered_ && found != users_.allocated.end()),
           "a label of an invalid address was accepted, or a valid label was refused");
    if (found != users_.allocated.end()) found->second.name = name;
  }
  void set_limit(bytes limit) {
    if constexpr (!is_host) pool_.resource().limit(limit_ = limit);
  }

  void expect_cheaply() const {
    auto const counts = pool_.counts();
    expect_counts(counts, users_, options_.max_bytes);
    expect(counts.reserved == log_->reserved,
           "the reserved bytes differ from the blocks of the resource");
    expect(counts.allocations == users_.allocations && counts.deallocations == users_.deallocations,
           "the count of calls is wrong");
    expect(counts.blocks_allocated - counts.blocks_returned == log_->blocks.size(),
           "the count of blocks is wrong");
    expect(is_exact_ ? counts.granted == users_.granted : counts.granted >= users_.granted,
           "the granted bytes are not the rounded sizes of the allocations");
    expect(counts.granted + counts.releasable <= counts.reserved,
           "the granted and the releasable bytes exceed the reserved bytes");
  }
  /// Checks that the allocated chunks are the users' allocations, and that all chunks tile the
  /// blocks.
  void expect_all() {
    expect_sound(pool_);
    bytes sum = 0;
    std::size_t in_use = 0;
    pool_.for_each([&](std::uint64_t base, bytes size, bool is_free) {
      expect(log_->has(base, size), "a chunk lies outside all blocks");
      sum += size;
      if (is_free) return;
      ++in_use;
      auto const found = users_.allocated.find(base);
      expect(found != users_.allocated.end(), "an allocated chunk belongs to no user");
      expect(is_exact_ ? size == users_.room(found->second) : size >= users_.room(found->second),
             "a chunk has a wrong size");
    });
    expect(sum == log_->reserved && in_use == users_.allocated.size(),
           "the chunks do not tile the blocks");
    for (auto const& entry : users_.allocated) expect_contents(entry.first);
    if constexpr (is_host) {
      if (is_registered_)
        expect(registry::allocations(pool_.id()).size() == users_.allocated.size(),
               "the registry does not list all allocations");
      for (int i = 0; i < 4; ++i) expect_registry(users_.some_address(input_));
    }
  }

  byte_source& input_;
  pool_options options_;
  std::shared_ptr<block_log> log_ = std::make_shared<block_log>();
  model users_;
  bytes limit_;
  bool is_registered_ = false;
  bool is_exact_ = false;  // chunks have exactly the rounded sizes of the requests
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
    expect(is_valid(options), "invalid options were accepted");
    log = session.log();
    session.run();
  } catch (bad_argument const&) {
    expect(!is_valid(options), "valid options were refused");
    return;
  }
  expect(log->blocks.empty(), "a destroyed pool did not return a block");
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
