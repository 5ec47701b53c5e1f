// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz/pool_model.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/platform/simulated_pages.hpp"

#include <set>
#include <type_traits>

namespace quarry::test {

/// Simulated pages that are logged.
struct page_log {
  explicit page_log(bytes page) : pages{page} {}
  simulated_pages pages;
  std::map<std::uint64_t, bytes> ranges;
  std::set<std::uint64_t> used;  // each page that was ever mapped
  failures fails;

  void use(std::uint64_t address, bytes size) {
    auto const next = ranges.upper_bound(address);
    expect(next != ranges.begin() &&
               address + size <= std::prev(next)->first + std::prev(next)->second,
           "a page is outside the reserved range");
    for (bytes offset = 0; offset < size; offset += pages.page_bytes())
      expect(used.insert(address + offset).second, "addresses were used twice");
  }
};
class logged_pages {
 public:
  explicit logged_pages(std::shared_ptr<page_log> log) : log_{std::move(log)} {}

  [[nodiscard]] bytes page_bytes() const { return log_->pages.page_bytes(); }
  /// The addresses have no memory: the host cannot touch them.
  [[nodiscard]] static memory_location location() { return {memory_kind::device}; }
  [[nodiscard]] std::uint64_t reserve(bytes size) {
    log_->fails.maybe_throw(size);
    std::uint64_t const base = log_->pages.reserve(size);
    log_->ranges.emplace(base, size);
    return base;
  }
  void release(std::uint64_t base, bytes size) noexcept {
    auto const found = log_->ranges.find(base);
    expect(found != log_->ranges.end() && found->second == size,
           "addresses are released that were not reserved");
    log_->ranges.erase(found);
  }
  void map(std::uint64_t address, bytes size) {
    log_->fails.maybe_throw(size);
    log_->pages.map(address, size);
    log_->use(address, size);
  }
  void move(std::uint64_t source, std::uint64_t target, bytes size) {
    log_->fails.maybe_throw(size);
    log_->pages.move(source, target, size);
    log_->use(target, size);
  }
  void unmap(std::uint64_t address, bytes size) noexcept { log_->pages.unmap(address, size); }

 private:
  std::shared_ptr<page_log> log_;
};

template <class Strategy>
class stitched_session {
 public:
  stitched_session(byte_source& input, std::shared_ptr<page_log> log,
                   stitched_options const& options)
      : input_{input}, log_{std::move(log)}, options_{options}, pool_{logged_pages{log_}, options} {
    users_.alignment = options_.alignment;
  }

  void run() {
    for (int step = 0; step < max_steps && !input_.is_exhausted(); ++step) {
      do_something();
      expect_cheaply();
      if (step % 8 == 7) expect_all();
    }
    log_->fails.remaining = 0;
    while (!users_.allocated.empty()) deallocate(users_.allocated.begin()->first);
    expect_all();
    expect(pool_.counts().allocated == 0, "a pool has allocations after all frees");
    shrink(~bytes{0});
    expect(pool_.counts().reserved == 0, "a pool without allocations has pages");
    if (input_.chance(128)) allocate(100);
  }

 private:
  static constexpr bool is_exact = !std::is_same_v<Strategy, fast_fit>;

  void do_something() {
    bytes const page = log_->pages.page_bytes();
    std::uint8_t const kind = input_.u8() % 32;
    if (kind < 14)
      return allocate(input_.chance(128) ? input_.wild_size(page * 2) : input_.size(page * 24));
    if (kind < 26) return deallocate(users_.some_address(input_));
    switch (kind) {
      case 26:
        return shrink(input_.wild_size(page * 16));
      case 27:
        log_->pages.limit(limit_ = input_.size(page * 256));
        return;
      case 28:
        log_->fails.remaining = input_.u8() % 4;
        return;
      default:
        return look(users_.some_address(input_));
    }
  }

  void allocate(bytes size) {
    auto const old_counts = pool_.counts();
    log_->fails.happened = false;
    try {
      users_.add(number_of(pool_.allocate(size)), {size});
    } catch (out_of_memory const&) {
      expect_failed(size, old_counts);
    } catch (resource_failed const&) {
      expect(log_->fails.happened, "a failure without a cause");
      expect_failed(size, old_counts);
    }
  }
  void expect_failed(bytes size, stitched_counts const& old_counts) {
    auto const new_counts = pool_.counts();
    expect(new_counts.allocated == old_counts.allocated &&
               new_counts.allocations_in_use == old_counts.allocations_in_use &&
               new_counts.peak_allocated == old_counts.peak_allocated,
           "a failed allocation changed the allocated bytes or chunks");
    expect(new_counts.reserved == old_counts.reserved && new_counts.growths == old_counts.growths,
           "a failed allocation was counted");
    if (!is_exact || log_->fails.happened || size > max_bytes_at_once) return;
    bytes const page = log_->pages.page_bytes();
    bytes const needed = (granted_up(size, options_.alignment) + page - 1) & ~(page - 1);
    bytes const fresh =
        std::min(options_.max_bytes - std::min(options_.max_bytes, new_counts.reserved),
                 limit_ - std::min(limit_, new_counts.reserved));
    bytes const free = options_.is_registered ? 0 : new_counts.reserved - pages_in_use() * page;
    expect(needed > options_.max_bytes || needed > free + std::min(fresh, max_bytes_at_once * 2),
           "a pool is out of memory and has enough pages");
  }
  /// The number of pages with an allocated chunk, or a part of an allocated chunk.
  [[nodiscard]] bytes pages_in_use() const {
    bytes const page = log_->pages.page_bytes();
    bytes sum = 0;
    std::uint64_t next = 0;  // the first page that is not counted yet
    for (auto const& [base, found] : users_.allocated) {
      std::uint64_t const first = std::max(base / page, next);
      next = (base + users_.room(found) - 1) / page + 1;
      sum += next - std::min(next, first);
    }
    return sum;
  }

  void deallocate(std::uint64_t address) {
    bool const is_ours = users_.remove(address);
    expect(pool_.deallocate(pointer_to(address)) == is_ours,
           is_ours ? "a valid free was refused" : "an invalid free was accepted");
  }
  void look(std::uint64_t address) const {
    auto const size = pool_.size_of(pointer_to(address));
    auto const found = users_.allocated.find(address);
    expect(size.has_value() == (found != users_.allocated.end()),
           "size_of has a wrong set of allocations");
    expect(!size || *size == found->second.size, "size_of returned a wrong size");
  }
  void shrink(bytes maximum) {
    bytes const page = log_->pages.page_bytes();
    bytes const reserved = pool_.counts().reserved;
    bytes const returned = pool_.shrink(maximum);
    expect(returned <= maximum && returned % page == 0 &&
               reserved - returned == pool_.counts().reserved,
           "shrink returned a wrong number of bytes");
    if (is_exact)
      expect(returned == std::min(maximum / page * page, reserved - pages_in_use() * page),
             "shrink kept free pages");
  }

  void expect_cheaply() const {
    auto const counts = pool_.counts();
    expect_counts(counts, users_, options_.max_bytes);
    expect(counts.reserved == log_->pages.reserved(),
           "the reserved bytes differ from the mapped pages");
    expect(log_->pages.mistakes() == 0,
           "a page was mapped twice, or moved from an unmapped address");
    expect(!options_.is_registered || counts.moved == 0, "a registered page was moved");
  }
  void expect_all() const {
    expect_sound(pool_);
    bytes const page = log_->pages.page_bytes();
    for (auto const& [base, found] : users_.allocated) {
      for (std::uint64_t i = base / page; i <= (base + users_.room(found) - 1) / page; ++i) {
        expect(log_->pages.is_mapped(i * page), "a page of an allocation is not mapped");
      }
    }
  }

  byte_source& input_;
  std::shared_ptr<page_log> log_;
  stitched_options options_;
  model users_;
  bytes limit_ = ~bytes{0};
  stitched_pool<logged_pages, Strategy> pool_;

 public:
  /// Limits the number of pages. It is small, because the model records each page.
  void limit(bytes maximum) { log_->pages.limit(limit_ = maximum); }
};

template <class Strategy>
void run_stitched(byte_source& input) {
  bytes const page = bytes{4096} << input.u8() % 6;
  auto const log = std::make_shared<page_log>(page);
  stitched_options options;
  options.alignment = some_alignment(input);
  options.max_bytes = some_maximum(input, page * 64);
  options.range = input.chance(128) ? 0 : input.wild_size(page * 128);
  options.is_registered = input.chance(64);
  bool const is_possible = is_alignment(options.alignment) && options.alignment <= page &&
                           options.range <= max_bytes_at_once;
  try {
    stitched_session<Strategy> session{input, log, options};
    expect(is_possible, "invalid options were accepted");
    session.limit(page * input.range(1, 256));
    session.run();
  } catch (bad_argument const&) {
    expect(!is_possible, "valid options were refused");
    return;
  }
  expect(log->pages.reserved() == 0 && log->pages.mistakes() == 0 && log->ranges.empty(),
         "a destroyed pool did not return all its pages and addresses");
}

}  // namespace quarry::test
