// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz/pool_model.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/platform/simulated_pages.hpp"

#include <set>
#include <type_traits>

namespace quarry::test {

/// Pages that are watched.
struct page_log {
  explicit page_log(bytes page) : pages{page} {}
  simulated_pages pages;
  std::map<std::uint64_t, bytes> ranges;
  std::set<std::uint64_t> used;  // each page that ever was there
  failures fails;

  void use(std::uint64_t address, bytes size) {
    auto const after = ranges.upper_bound(address);
    expect(after != ranges.begin() &&
               address + size <= std::prev(after)->first + std::prev(after)->second,
           "pages outside of what was reserved");
    for (bytes at = 0; at < size; at += pages.page_bytes())
      expect(used.insert(address + at).second, "addresses were used twice");
  }
};
class logged_pages {
 public:
  explicit logged_pages(std::shared_ptr<page_log> log) : log_{std::move(log)} {}

  [[nodiscard]] bytes page_bytes() const { return log_->pages.page_bytes(); }
  /// There is no memory at its addresses: the host cannot touch them.
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
           "addresses are given up that were not reserved");
    log_->ranges.erase(found);
  }
  void map(std::uint64_t address, bytes size) {
    log_->fails.maybe_throw(size);
    log_->pages.map(address, size);
    log_->use(address, size);
  }
  void move(std::uint64_t input, std::uint64_t to, bytes size) {
    log_->fails.maybe_throw(size);
    log_->pages.move(input, to, size);
    log_->use(to, size);
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
    log_->fails.left = 0;
    while (!users_.allocated.empty()) give_back(users_.allocated.begin()->first);
    expect_all();
    expect(pool_.counts().allocated == 0, "all was returned, and something is live");
    shrink(~bytes{0});
    expect(pool_.counts().reserved == 0, "nothing is in use, and pages are held");
    if (input_.chance(128)) allocate(100);
  }

 private:
  static constexpr bool is_exact = !std::is_same_v<Strategy, fast_fit>;

  void do_something() {
    bytes const page = log_->pages.page_bytes();
    std::uint8_t const kind = input_.u8() % 32;
    if (kind < 14)
      return allocate(input_.chance(128) ? input_.wild_size(page * 2) : input_.size(page * 24));
    if (kind < 26) return give_back(users_.some_address(input_));
    switch (kind) {
      case 26:
        return shrink(input_.wild_size(page * 16));
      case 27:
        log_->pages.limit(limit_ = input_.size(page * 256));
        return;
      case 28:
        log_->fails.left = input_.u8() % 4;
        return;
      default:
        return look(users_.some_address(input_));
    }
  }

  void allocate(bytes size) {
    auto const before = pool_.counts();
    log_->fails.happened = false;
    try {
      users_.add(number_of(pool_.allocate(size)), {size});
    } catch (out_of_memory const&) {
      expect_failed(size, before);
    } catch (resource_failed const&) {
      expect(log_->fails.happened, "a failure that nobody caused");
      expect_failed(size, before);
    }
  }
  void expect_failed(bytes size, stitched_counts const& before) {
    auto const after = pool_.counts();
    expect(after.allocated == before.allocated &&
               after.chunks_allocated == before.chunks_allocated &&
               after.peak_allocated == before.peak_allocated,
           "a failed allocation changed what is live");
    expect(after.reserved == before.reserved && after.growths == before.growths,
           "a failed allocation was counted");
    if (!is_exact || log_->fails.happened || size > max_bytes_at_once) return;
    bytes const page = log_->pages.page_bytes();
    bytes const needed = (granted_up(size, options_.alignment) + page - 1) & ~(page - 1);
    bytes const fresh = std::min(options_.max_bytes - std::min(options_.max_bytes, after.reserved),
                                 limit_ - std::min(limit_, after.reserved));
    bytes const free = options_.is_registered ? 0 : after.reserved - pages_in_use() * page;
    expect(needed > options_.max_bytes || needed > free + std::min(fresh, max_bytes_at_once * 2),
           "it says that there is no memory, and there are pages");
  }
  /// Pages with a chunk in use on them, or a part of one.
  [[nodiscard]] bytes pages_in_use() const {
    bytes const page = log_->pages.page_bytes();
    bytes sum = 0;
    std::uint64_t next = 0;  // the first that was not counted
    for (auto const& [base, what] : users_.allocated) {
      std::uint64_t const first = std::max(base / page, next);
      next = (base + users_.room(what) - 1) / page + 1;
      sum += next - std::min(next, first);
    }
    return sum;
  }

  void give_back(std::uint64_t address) {
    bool const is_ours = users_.remove(address);
    expect(pool_.deallocate(pointer_to(address)) == is_ours,
           is_ours ? "what is in use was refused" : "what is not in use was taken back");
  }
  void look(std::uint64_t address) const {
    auto const size = pool_.size_of(pointer_to(address));
    auto const found = users_.allocated.find(address);
    expect(size.has_value() == (found != users_.allocated.end()),
           "size_of knows what is not in use, or not what is");
    expect(!size || *size == found->second.size, "size_of says another size");
  }
  void shrink(bytes maximum) {
    bytes const page = log_->pages.page_bytes();
    bytes const before = pool_.counts().reserved;
    bytes const given = pool_.shrink(maximum);
    expect(given <= maximum && given % page == 0 && before - given == pool_.counts().reserved,
           "shrinking returned what it did not say, or too much");
    if (is_exact)
      expect(given == std::min(maximum / page * page, before - pages_in_use() * page),
             "shrinking kept free pages");
  }

  void expect_cheaply() const {
    auto const counts = pool_.counts();
    expect_counts(counts, users_, options_.max_bytes);
    expect(counts.reserved == log_->pages.reserved(), "it holds pages that are not there");
    expect(log_->pages.mistakes() == 0, "a page was mapped twice, or moved from where none is");
    expect(!options_.is_registered || counts.moved == 0, "a registered page was moved");
  }
  void expect_all() const {
    expect_sound(pool_);
    bytes const page = log_->pages.page_bytes();
    for (auto const& [base, what] : users_.allocated) {
      for (std::uint64_t at = base / page; at <= (base + users_.room(what) - 1) / page; ++at) {
        expect(log_->pages.is_mapped(at * page), "an allocation has no page behind it");
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
  /// Pages that there are: never many, since the model knows each.
  void limit(bytes maximum) { log_->pages.limit(limit_ = maximum); }
};

template <class Strategy>
void run_stitched(byte_source& input) {
  bytes const page = bytes{4096} << input.u8() % 6;
  auto const log = std::make_shared<page_log>(page);
  stitched_options options;
  options.alignment = some_alignment(input);
  options.max_bytes = some_most(input, page * 64);
  options.range = input.chance(128) ? 0 : input.wild_size(page * 128);
  options.is_registered = input.chance(64);
  bool const is_possible = is_alignment(options.alignment) && options.alignment <= page &&
                           options.range <= max_bytes_at_once;
  try {
    stitched_session<Strategy> session{input, log, options};
    expect(is_possible, "options were taken that cannot be");
    session.limit(page * input.range(1, 256));
    session.run();
  } catch (bad_argument const&) {
    expect(!is_possible, "options were refused that can be");
    return;
  }
  expect(log->pages.reserved() == 0 && log->pages.mistakes() == 0 && log->ranges.empty(),
         "a pool is gone, and not all that it had");
}

}  // namespace quarry::test
