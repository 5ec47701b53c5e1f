// SPDX-License-Identifier: Apache-2.0
// Pools against a naive model: any options, any strategy, any sequence of calls, and resources that fail now and then.
//
// The first byte of the input says which pool it is. Link with libFuzzer, or with main.cpp.
#include "fuzz/byte_source.hpp"
#include "host/simulated_streams.hpp"
#include "quarry/host/host_resource.hpp"
#include "quarry/host/limited_resource.hpp"
#include "quarry/host/pool.hpp"
#include "quarry/host/simulated_pages.hpp"
#include "quarry/host/simulated_resource.hpp"
#include "quarry/host/stitched_pool.hpp"
#include "quarry/host/stream_pool.hpp"

#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace quarry::test {
namespace {

constexpr int most_steps = 1500;

std::uint64_t number_of(void const* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
void* pointer_to(std::uint64_t number) { return reinterpret_cast<void*>(number); }
bytes rounded_up(bytes size, bytes alignment) { return std::max(alignment, (size + alignment - 1) & ~(alignment - 1)); }

/// Makes requests fail on purpose, in either way that a resource may fail.
struct failures {
  unsigned left = 0;
  bool happened = false;

  void maybe_throw(bytes size) {
    if (left == 0) return;
    happened = true;
    if (--left % 2 == 0) throw resource_failed{"fuzz", "on purpose"};
    throw out_of_memory{"fuzz", size, "on purpose"};
  }
};

/// The blocks that a pool has of its resource.
struct block_log {
  struct block {
    bytes size, alignment;
  };
  std::map<std::uint64_t, block> blocks;
  bytes held = 0;
  failures fails;
  std::function<void(std::uint64_t, bytes)> on_give = [](std::uint64_t, bytes) {};

  [[nodiscard]] bool has(std::uint64_t begin, bytes size) const {
    auto const after = blocks.upper_bound(begin);
    if (after == blocks.begin()) return false;
    auto const& [start, what] = *std::prev(after);
    return begin - start <= what.size && size <= what.size - (begin - start);
  }
};

/// A resource that is watched, shared by all copies of the log.
template <class Upstream>
class logged : public Upstream {
 public:
  logged(Upstream from, std::shared_ptr<block_log> log) : Upstream{std::move(from)}, log_{std::move(log)} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    log_->fails.maybe_throw(size);
    void* const result = Upstream::allocate(size, alignment);
    expect(log_->blocks.emplace(number_of(result), block_log::block{size, alignment}).second, "a block was given twice");
    log_->held += size;
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    auto const found = log_->blocks.find(number_of(pointer));
    expect(found != log_->blocks.end(), "a block goes back that is none");
    expect(found->second.size == size && found->second.alignment == alignment, "a block goes back otherwise than it came");
    log_->on_give(found->first, size);
    log_->blocks.erase(found);
    log_->held -= size;
    Upstream::deallocate(pointer, size, alignment);
  }

 private:
  std::shared_ptr<block_log> log_;
};

/// What a pool's users have.
struct model {
  struct one {
    bytes size;
    std::uint8_t fill = 0;
    std::optional<std::string> name = {};
    std::uint32_t on = 0;  // stream
  };
  bytes alignment = 16;
  std::map<std::uint64_t, one> live;
  std::vector<std::uint64_t> gone;  // was live once
  bytes sum = 0, most = 0, rounded = 0;
  std::uint64_t refused = 0, allocations = 0, deallocations = 0;

  [[nodiscard]] bytes room(one const& what) const { return rounded_up(what.size, alignment); }

  void add(std::uint64_t begin, one what) {
    expect(begin != 0 && begin % alignment == 0, "an allocation is not aligned");
    auto const next = live.lower_bound(begin);
    expect(next == live.end() || room(what) <= next->first - begin, "an allocation overlaps the next one");
    expect(next == live.begin() || room(std::prev(next)->second) <= begin - std::prev(next)->first, "an allocation overlaps the one before");
    sum += what.size;
    most = std::max(most, sum);
    rounded += room(what);
    ++allocations;
    live.emplace_hint(next, begin, std::move(what));
  }
  /// Whether a pool has to take `begin` back; counts either case.
  bool remove(std::uint64_t begin) {
    if (begin == 0) return true;
    auto const found = live.find(begin);
    if (found == live.end()) {
      ++refused;
      return false;
    }
    sum -= found->second.size;
    rounded -= room(found->second);
    ++deallocations;
    gone.push_back(begin);
    live.erase(found);
    return true;
  }
  /// What `address` lies in the midst of.
  [[nodiscard]] std::map<std::uint64_t, one>::const_iterator at(std::uint64_t address) const {
    auto const after = live.upper_bound(address);
    if (after == live.begin()) return live.end();
    auto const found = std::prev(after);
    return address - found->first < std::max<bytes>(1, found->second.size) ? found : live.end();
  }

  /// Mostly what is live; else what was, what lies in the midst or behind, or anything.
  [[nodiscard]] std::uint64_t some_address(byte_source& from) const {
    std::uint8_t const kind = from.u8() % 16;
    if (kind == 0 && !gone.empty()) return gone[gone.size() - 1 - from.index(std::min<std::size_t>(gone.size(), 64))];
    if (kind == 1) return from.u64();
    if (kind == 2) return from.u16();
    if (live.empty()) return gone.empty() ? 0 : gone.back();
    auto const& [begin, what] = *std::next(live.begin(), static_cast<std::ptrdiff_t>(from.index(live.size())));
    if (kind == 3) return begin + from.range(0, room(what) - 1);
    if (kind == 4) return begin + (from.chance(128) ? what.size : room(what));
    return begin;
  }
};

/// What all counts have in common.
template <class Counts>
void expect_counts(Counts const& counts, model const& users, bytes most) {
  expect(counts.live == users.sum && counts.most_live == users.most, "the bytes that are live are counted wrongly");
  expect(counts.pieces_live == users.live.size(), "the pieces that are live are counted wrongly");
  expect(counts.refused == users.refused, "refused deallocations are counted wrongly");
  expect(counts.held <= most && counts.most_held <= most && counts.held <= counts.most_held, "it holds more than it may, or than it says");
  expect(counts.held >= users.rounded, "it holds less than is in use");
}
template <class Pool>
void expect_sound(Pool const& pool) {
  auto const problems = pool.audit();
  expect(problems.empty(), problems.empty() ? "" : problems[0].c_str());
}

bool is_alignment(bytes number) { return number >= 16 && number <= 1 << 14 && (number & (number - 1)) == 0; }
bytes some_alignment(byte_source& from) {
  std::uint8_t const kind = from.u8();
  return kind < 128 ? 16 : kind < 250 ? bytes{16} << kind % 11 : from.wild_size(1 << 16);
}
bytes some_most(byte_source& from, bytes usual) { return from.chance(96) ? ~bytes{0} : from.wild_size(usual); }
heuristic some_heuristic(byte_source& from) {
  heuristic result;
  result.when = static_cast<heuristic::trigger>(from.u8() % 3);
  result.size = static_cast<heuristic::target>(from.u8() % 2);
  result.asked = static_cast<heuristic::moment>(from.u8() % 2);
  result.rules = static_cast<heuristic_rules>(from.u8() % 3);
  result.parameter = static_cast<std::uint32_t>(result.when == heuristic::trigger::blocks ? from.range(0, 6) : from.range(0, 100));
  return result;
}
/// Of pool_options and stream_pool_options.
template <class Options>
bool is_valid(Options const& options) {
  return is_alignment(options.alignment) && options.first_block <= most_bytes_at_once && options.next_block <= most_bytes_at_once && options.growth <= 1000;
}
template <class Options>
Options some_options(byte_source& from, bytes usual_block) {
  Options options;
  options.alignment = some_alignment(from);
  options.first_block = from.wild_size(usual_block);
  options.next_block = from.wild_size(usual_block / 4);
  options.growth = from.chance(250) ? from.u8() : from.u32();
  options.most = some_most(from, usual_block * 8);
  return options;
}

/// pool, over what is simulated or over the host's memory.
template <class Upstream, class Strategy>
class pool_session {
  static constexpr bool is_host = !simulated<Upstream>;
  using pool_type = pool<logged<Upstream>, Strategy>;

 public:
  pool_session(byte_source& from, Upstream resource, pool_options const& options, bytes limit)
      : from_{from}, options_{options}, limit_{limit}, pool_{logged<Upstream>{std::move(resource), log_}, options_} {
    users_.alignment = options_.alignment;
    knows_ = is_host && options_.is_tracked;
    is_exact_ = !std::is_same_v<Strategy, fast_fit> || options_.coalesce.when != heuristic::trigger::never;
  }

  void run() {
    for (int step = 0; step < most_steps && !from_.is_exhausted(); ++step) {
      do_something();
      expect_cheaply();
      if (step % 8 == 7) expect_all();
    }
    log_->fails.left = 0;
    expect_all();
    while (!users_.live.empty()) give_back(users_.live.begin()->first);
    expect_cheaply();
    expect(pool_.counts().live == 0, "all was given back, and something is live");
    expect_all();
    pool_.release();
    expect(pool_.counts().held == 0 && log_->blocks.empty(), "nothing is in use, and a block is held");
    for (std::size_t i = 0; i < std::min<std::size_t>(users_.gone.size(), 16); ++i) expect_registry(users_.gone[i]);
    // A pool that is destroyed gives back what is still in use, too: see the caller.
    if (from_.chance(128)) (void)allocate(100, false);
  }
  [[nodiscard]] std::shared_ptr<block_log> log() const { return log_; }

 private:
  void do_something() {
    std::uint8_t const kind = from_.u8() % 32;
    if (kind < 13) return void(allocate(from_.wild_size(options_.first_block < 1 << 20 ? options_.first_block * 2 : 1 << 16), false));
    if (kind < 24) return give_back(users_.some_address(from_));
    switch (kind) {
      case 24: return void(allocate(from_.size(4096), true));
      case 25: return release();
      case 26: return coalesce(from_.wild_size(1 << 18));
      case 27: return look(users_.some_address(from_));
      case 28: return note(users_.some_address(from_));
      case 29: return set_limit(from_.wild_size(1 << 20));
      case 30: log_->fails.left = from_.u8() % 4; return;
      default: return allocate_aligned(from_.size(256), bytes{1} << from_.u8() % 16);
    }
  }

  [[nodiscard]] bytes left() const {
    bytes const most = options_.most - std::min(options_.most, log_->held);
    return std::min(most & ~(options_.alignment - 1), limit_ - std::min(limit_, log_->held));
  }

  /// Takes no note of what it allocates if `is_named` is false.
  bool allocate(bytes size, bool is_named) {
    model::one what{size, from_.u8()};
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
    expect(log_->has(number_of(result), users_.room(what)), "an allocation lies outside all blocks");
    if constexpr (is_host) std::memset(result, what.fill, what.size);
    users_.add(number_of(result), std::move(what));
  }
  /// It left what users have, and no memory there is would have done.
  void expect_failed(bytes size, pool_counts const& before) {
    auto const after = pool_.counts();
    expect(after.live == before.live && after.pieces_live == before.pieces_live, "a failed allocation changed what is live");
    expect(after.most_live == before.most_live && after.allocations == before.allocations, "a failed allocation was counted");
    if (log_->fails.happened || size > most_bytes_at_once) return;
    bytes const rounded = rounded_up(size, options_.alignment);
    expect(rounded > left(), "it says that there is no memory, and its resource has some");
    if (rounded > options_.most) return;
    expect(!users_.live.empty() || after.held == 0, "it says that there is no memory, and holds blocks in which nothing is in use");
    // Segregated lists need not find what is less than a thirty-second larger.
    bool const is_best = std::is_same_v<Strategy, fitting<oldest_best_fit>> || std::is_same_v<Strategy, fitting<lowest_best_fit>>;
    bytes const enough = is_best ? rounded : rounded + rounded / 32 + 1;
    pool_.for_each([&](std::uint64_t, bytes piece, bool is_free) { expect(!is_free || piece < enough, "it says that there is no memory, and a free piece would do"); });
  }
  void allocate_aligned(bytes size, bytes alignment) {
    try {
      add(pool_.allocate(size, alignment), {size, from_.u8()});
      expect(alignment <= options_.alignment, "an alignment that the pool has not");
    } catch (bad_argument const&) {
      expect(alignment > options_.alignment, "an alignment that the pool has was refused");
    } catch (out_of_memory const&) {
    } catch (resource_failed const&) {
    }
  }

  void give_back(std::uint64_t address) {
    expect_contents(address);
    bool const is_ours = users_.remove(address);
    expect(pool_.deallocate(pointer_to(address)) == is_ours, is_ours ? "what is in use was refused" : "what is not in use was taken back");
  }
  void expect_contents(std::uint64_t address) const {
    auto const found = users_.live.find(address);
    if (!is_host || found == users_.live.end()) return;
    auto const* const begin = static_cast<std::uint8_t const*>(pointer_to(address));
    expect(std::all_of(begin, begin + found->second.size, [&](std::uint8_t one) { return one == found->second.fill; }), "what was written has changed");
  }

  void release() {
    pool_.release();
    auto const counts = pool_.counts();
    expect(counts.releasable == 0 && counts.releasable_blocks == 0, "a block in which nothing is in use was kept");
    expect(!users_.live.empty() || counts.held == 0, "nothing is in use, and a block is held");
  }
  void coalesce(bytes wanted) {
    log_->fails.happened = false;
    pool_.coalesce(wanted);
    if (options_.coalesce.rules != heuristic_rules::quarry || log_->fails.happened || log_->held >= wanted) return;
    bytes const missing = wanted - log_->held;
    expect(missing > most_bytes_at_once || rounded_up(missing, options_.alignment) > left(), "coalescing did without what it could have had");
  }

  void look(std::uint64_t address) {
    auto const size = pool_.size_of(pointer_to(address));
    auto const found = users_.live.find(address);
    expect(size.has_value() == (found != users_.live.end()), "size_of knows what is not in use, or not what is");
    expect(!size || *size == found->second.size, "size_of says another size");
    if constexpr (is_host) expect_registry(address);
  }
  void expect_registry(std::uint64_t address) {
    if constexpr (is_host) {
      auto const found = registry::find(pointer_to(address));
      auto const there = users_.at(address);
      expect(found.has_value() == (knows_ && there != users_.live.end()), "the registry knows what is not in use, or not what is");
      if (!found) return;
      expect(number_of(found->begin) == there->first && found->size == there->second.size, "the registry knows another allocation");
      expect(found->allocator == pool_.id() && found->place == memory_place{}, "the registry knows another allocator");
      auto const noted = registry::note_of(pointer_to(address));
      expect(noted.has_value() == there->second.name.has_value() && found->is_noted == noted.has_value(), "a note was lost, or is there that was not made");
      expect(!noted || noted->name == *there->second.name, "another's note");
    }
  }
  void note(std::uint64_t address) {
    std::string const name = "note " + std::to_string(from_.u8());
    auto const found = users_.live.find(address);
    expect(pool_.note(pointer_to(address), name) == (knows_ && found != users_.live.end()), "a note was taken of what is not in use, or none of what is");
    if (found != users_.live.end()) found->second.name = name;
  }
  void set_limit(bytes limit) {
    if constexpr (!is_host) pool_.resource().limit(limit_ = limit);
  }

  void expect_cheaply() const {
    auto const counts = pool_.counts();
    expect_counts(counts, users_, options_.most);
    expect(counts.held == log_->held, "it holds what its resource did not give");
    expect(counts.allocations == users_.allocations && counts.deallocations == users_.deallocations, "calls are counted wrongly");
    expect(counts.blocks_taken - counts.blocks_given == log_->blocks.size(), "blocks are counted wrongly");
    expect(is_exact_ ? counts.rounded == users_.rounded : counts.rounded >= users_.rounded, "what is in use is not what users have, rounded up");
    expect(counts.rounded + counts.releasable <= counts.held, "more is in use or free than is held");
  }
  /// The pieces are the users' and tile the blocks.
  void expect_all() {
    expect_sound(pool_);
    bytes sum = 0;
    std::size_t in_use = 0;
    pool_.for_each([&](std::uint64_t begin, bytes size, bool is_free) {
      expect(log_->has(begin, size), "a piece lies outside all blocks");
      sum += size;
      if (is_free) return;
      ++in_use;
      auto const found = users_.live.find(begin);
      expect(found != users_.live.end(), "a piece is in use that no user has");
      expect(is_exact_ ? size == users_.room(found->second) : size >= users_.room(found->second), "a piece is not as large as it must be");
    });
    expect(sum == log_->held && in_use == users_.live.size(), "the pieces are not all that there is");
    for (auto const& [begin, what] : users_.live) expect_contents(begin);
    if constexpr (is_host) {
      if (knows_) expect(registry::live(pool_.id()).size() == users_.live.size(), "the registry does not list what is live");
      for (int i = 0; i < 4; ++i) expect_registry(users_.some_address(from_));
    }
  }

  byte_source& from_;
  pool_options options_;
  std::shared_ptr<block_log> log_ = std::make_shared<block_log>();
  model users_;
  bytes limit_;
  bool knows_ = false;     // the registry
  bool is_exact_ = false;  // pieces are no larger than what was asked for, rounded up
  pool_type pool_;
};

template <class Upstream, class Strategy>
void run_pool(byte_source& from, Upstream resource, bytes limit) {
  auto options = some_options<pool_options>(from, simulated<Upstream> ? 1 << 18 : 1 << 14);
  options.coalesce = some_heuristic(from);
  options.is_tracked = !from.chance(64);
  std::shared_ptr<block_log> log;
  try {
    pool_session<Upstream, Strategy> session{from, std::move(resource), options, limit};
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
void run_pool_over_any(byte_source& from) {
  bytes const limit = from.chance(128) ? 1 << 20 : from.size(1 << 20);
  if (from.chance(128)) return run_pool<simulated_resource, Strategy>(from, simulated_resource{limit}, limit);
  run_pool<limited_resource<host_resource>, Strategy>(from, limited_resource<host_resource>{host_resource{}, limit}, limit);
}

/// Pages that are watched.
struct page_log {
  explicit page_log(bytes page) : pages{page} {}
  simulated_pages pages;
  std::map<std::uint64_t, bytes> ranges;
  std::set<std::uint64_t> used;  // each page that ever was there
  failures fails;

  void use(std::uint64_t address, bytes size) {
    auto const after = ranges.upper_bound(address);
    expect(after != ranges.begin() && address + size <= std::prev(after)->first + std::prev(after)->second, "pages outside of what was reserved");
    for (bytes at = 0; at < size; at += pages.page_bytes()) expect(used.insert(address + at).second, "addresses were used twice");
  }
};
class logged_pages {
 public:
  explicit logged_pages(std::shared_ptr<page_log> log) : log_{std::move(log)} {}

  [[nodiscard]] bytes page_bytes() const { return log_->pages.page_bytes(); }
  [[nodiscard]] std::uint64_t reserve(bytes size) {
    log_->fails.maybe_throw(size);
    std::uint64_t const begin = log_->pages.reserve(size);
    log_->ranges.emplace(begin, size);
    return begin;
  }
  void give_up(std::uint64_t begin, bytes size) noexcept {
    auto const found = log_->ranges.find(begin);
    expect(found != log_->ranges.end() && found->second == size, "addresses are given up that were not reserved");
    log_->ranges.erase(found);
  }
  void map(std::uint64_t address, bytes size) {
    log_->fails.maybe_throw(size);
    log_->pages.map(address, size);
    log_->use(address, size);
  }
  void move(std::uint64_t from, std::uint64_t to, bytes size) {
    log_->fails.maybe_throw(size);
    log_->pages.move(from, to, size);
    log_->use(to, size);
  }
  void unmap(std::uint64_t address, bytes size) noexcept { log_->pages.unmap(address, size); }

 private:
  std::shared_ptr<page_log> log_;
};

template <class Strategy>
class stitched_session {
 public:
  stitched_session(byte_source& from, std::shared_ptr<page_log> log, stitched_options const& options)
      : from_{from}, log_{std::move(log)}, options_{options}, pool_{logged_pages{log_}, options} {
    users_.alignment = options_.alignment;
  }

  void run() {
    for (int step = 0; step < most_steps && !from_.is_exhausted(); ++step) {
      do_something();
      expect_cheaply();
      if (step % 8 == 7) expect_all();
    }
    log_->fails.left = 0;
    while (!users_.live.empty()) give_back(users_.live.begin()->first);
    expect_all();
    expect(pool_.counts().live == 0, "all was given back, and something is live");
    shrink(~bytes{0});
    expect(pool_.counts().held == 0, "nothing is in use, and pages are held");
    if (from_.chance(128)) allocate(100);
  }

 private:
  static constexpr bool is_exact = !std::is_same_v<Strategy, fast_fit>;

  void do_something() {
    bytes const page = log_->pages.page_bytes();
    std::uint8_t const kind = from_.u8() % 32;
    if (kind < 14) return allocate(from_.chance(128) ? from_.wild_size(page * 2) : from_.size(page * 24));
    if (kind < 26) return give_back(users_.some_address(from_));
    switch (kind) {
      case 26: return shrink(from_.wild_size(page * 16));
      case 27: log_->pages.limit(limit_ = from_.size(page * 256)); return;
      case 28: log_->fails.left = from_.u8() % 4; return;
      default: return look(users_.some_address(from_));
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
    expect(after.live == before.live && after.pieces_live == before.pieces_live && after.most_live == before.most_live, "a failed allocation changed what is live");
    expect(after.held == before.held && after.growths == before.growths, "a failed allocation was counted");
    if (!is_exact || log_->fails.happened || size > most_bytes_at_once) return;
    bytes const page = log_->pages.page_bytes();
    bytes const needed = (rounded_up(size, options_.alignment) + page - 1) & ~(page - 1);
    bytes const fresh = std::min(options_.most - std::min(options_.most, after.held), limit_ - std::min(limit_, after.held));
    bytes const free = options_.is_registered ? 0 : after.held - pages_in_use() * page;
    expect(needed > options_.most || needed > free + std::min(fresh, most_bytes_at_once * 2), "it says that there is no memory, and there are pages");
  }
  /// Pages with a piece in use on them, or a part of one.
  [[nodiscard]] bytes pages_in_use() const {
    bytes const page = log_->pages.page_bytes();
    bytes sum = 0;
    std::uint64_t next = 0;  // the first that was not counted
    for (auto const& [begin, what] : users_.live) {
      std::uint64_t const first = std::max(begin / page, next);
      next = (begin + users_.room(what) - 1) / page + 1;
      sum += next - std::min(next, first);
    }
    return sum;
  }

  void give_back(std::uint64_t address) {
    bool const is_ours = users_.remove(address);
    expect(pool_.deallocate(pointer_to(address)) == is_ours, is_ours ? "what is in use was refused" : "what is not in use was taken back");
  }
  void look(std::uint64_t address) const {
    auto const size = pool_.size_of(pointer_to(address));
    auto const found = users_.live.find(address);
    expect(size.has_value() == (found != users_.live.end()), "size_of knows what is not in use, or not what is");
    expect(!size || *size == found->second.size, "size_of says another size");
  }
  void shrink(bytes most) {
    bytes const page = log_->pages.page_bytes();
    bytes const before = pool_.counts().held;
    bytes const given = pool_.shrink(most);
    expect(given <= most && given % page == 0 && before - given == pool_.counts().held, "shrinking gave back what it did not say, or too much");
    if (is_exact) expect(given == std::min(most / page * page, before - pages_in_use() * page), "shrinking kept free pages");
  }

  void expect_cheaply() const {
    auto const counts = pool_.counts();
    expect_counts(counts, users_, options_.most);
    expect(counts.held == log_->pages.held(), "it holds pages that are not there");
    expect(log_->pages.mistakes() == 0, "a page was mapped twice, or moved from where none is");
    expect(!options_.is_registered || counts.moved == 0, "a registered page was moved");
  }
  void expect_all() const {
    expect_sound(pool_);
    bytes const page = log_->pages.page_bytes();
    for (auto const& [begin, what] : users_.live) {
      for (std::uint64_t at = begin / page; at <= (begin + users_.room(what) - 1) / page; ++at) {
        expect(log_->pages.is_mapped(at * page), "an allocation has no page behind it");
      }
    }
  }

  byte_source& from_;
  std::shared_ptr<page_log> log_;
  stitched_options options_;
  model users_;
  bytes limit_ = ~bytes{0};
  stitched_pool<logged_pages, Strategy> pool_;

 public:
  /// Pages that there are: never many, since the model knows each.
  void limit(bytes most) { log_->pages.limit(limit_ = most); }
};

template <class Strategy>
void run_stitched(byte_source& from) {
  bytes const page = bytes{4096} << from.u8() % 6;
  auto const log = std::make_shared<page_log>(page);
  stitched_options options;
  options.alignment = some_alignment(from);
  options.most = some_most(from, page * 64);
  options.range = from.chance(128) ? 0 : from.wild_size(page * 128);
  options.is_registered = from.chance(64);
  bool const is_possible = is_alignment(options.alignment) && options.alignment <= page;
  try {
    stitched_session<Strategy> session{from, log, options};
    expect(is_possible, "options were taken that cannot be");
    session.limit(page * from.range(1, 256));
    session.run();
  } catch (bad_argument const&) {
    expect(!is_possible, "options were refused that can be");
    return;
  }
  expect(log->pages.held() == 0 && log->pages.mistakes() == 0 && log->ranges.empty(), "a pool is gone, and not all that it had");
}

/// stream_pool: whoever gets memory comes after all who used it before, and so does a resource that gets a block back.
class stream_session {
 public:
  stream_session(byte_source& from, simulated_streams const& order, std::shared_ptr<block_log> log, stream_pool_options const& options)
      : from_{from}, order_{order}, log_{std::move(log)}, options_{options}, pool_{logged<simulated_resource>{simulated_resource{limit_}, log_}, order, options} {
    users_.alignment = options_.alignment;
    log_->on_give = [this](std::uint64_t begin, bytes size) { expect_done(begin, size); };
    order_.world().done_percent = from_.u8() % 101;
  }

  void run() {
    for (int step = 0; step < most_steps && !from_.is_exhausted(); ++step) {
      do_something();
      expect_cheaply();
      if (step % 8 == 7) expect_sound(pool_);
    }
    log_->fails.left = 0;
    bool const is_left_to_itself = from_.chance(128);
    while (!users_.live.empty()) give_back(users_.live.begin()->first, users_.live.begin()->second.on);
    expect_cheaply();
    expect_sound(pool_);
    expect(pool_.counts().live == 0, "all was given back, and something is live");
    if (is_left_to_itself) return;
    pool_.release();
    expect(pool_.counts().held == 0 && log_->blocks.empty(), "nothing is in use, and a block is held");
  }

 private:
  struct use {
    std::uint32_t stream;
    std::uint64_t time;
  };

  [[nodiscard]] std::uint32_t some_stream() { return from_.u8() % 6; }
  void do_something() {
    std::uint8_t const kind = from_.u8() % 32;
    if (kind < 13) return allocate(from_.chance(224) ? from_.size(options_.alignment * 64) : from_.wild_size(options_.alignment * 1024), some_stream());
    if (kind < 25) return use_and_give_back(users_.some_address(from_), some_stream());
    switch (kind) {
      case 25: return forget(some_stream());
      case 26: pool_.release(); return expect(!users_.live.empty() || pool_.counts().held == 0, "nothing is in use, and a block is held");
      case 27: pool_.resource().limit(limit_ = from_.size(1 << 19)); return;  // not more: the model knows each unit
      case 28: log_->fails.left = from_.u8() % 4; return;
      case 29: record_fails_in_ = from_.u8() % 4; return;
      case 30: wait_fails_in_ = from_.u8() % 4; return;
      default: return look(users_.some_address(from_));
    }
  }

  /// Calls the pool while events fail, if they are to. Whether any did.
  template <class Call>
  bool fails_in(Call const& call) {
    auto& world = order_.world();
    world.record_fails_in = record_fails_in_;
    world.wait_fails_in = wait_fails_in_;
    log_->fails.happened = false;
    call();
    bool const failed = log_->fails.happened || (record_fails_in_ >= 0 && world.record_fails_in < 0);
    world.record_fails_in = world.wait_fails_in = record_fails_in_ = wait_fails_in_ = -1;
    return failed;
  }
  void allocate(bytes size, std::uint32_t on) {
    auto const before = pool_.counts();
    void* result = nullptr;
    bool is_memory = true;
    bool const failed = fails_in([&] {
      try {
        result = pool_.allocate(size, on);
      } catch (out_of_memory const&) {
      } catch (std::exception const&) {
        is_memory = false;
      }
    });
    if (result == nullptr) {
      expect(is_memory || failed, "a failure that nobody caused");
      return expect_failed(size, before, failed);
    }
    auto const begin = number_of(result);
    bytes const room = rounded_up(size, options_.alignment);
    expect(log_->has(begin, room), "an allocation lies outside all blocks");
    for (auto at = last_.lower_bound(begin); at != last_.end() && at->first < begin + room; ++at) {
      expect(order_.world().is_before(at->second.stream, at->second.time, on), "a stream got memory that another may still use");
    }
    model::one what{size};
    what.on = on;
    users_.add(begin, std::move(what));
  }
  void expect_failed(bytes size, stream_pool_counts const& before, bool failed) const {
    auto const after = pool_.counts();
    expect(after.live == before.live && after.pieces_live == before.pieces_live && after.most_live == before.most_live, "a failed allocation changed what is live");
    expect(after.allocations == before.allocations, "a failed allocation was counted");
    if (failed || size > most_bytes_at_once) return;
    bytes const rounded = rounded_up(size, options_.alignment);
    bytes const most = (options_.most - std::min(options_.most, after.held)) & ~(options_.alignment - 1);
    expect(rounded > std::min(most, limit_ - std::min(limit_, after.held)), "it says that there is no memory, and its resource has some");
    expect(rounded > options_.most || !users_.live.empty() || after.held == 0, "it says that there is no memory, and holds blocks in which nothing is in use");
  }

  /// On the stream that it was allocated on, or on another that waits for that one.
  void use_and_give_back(std::uint64_t address, std::uint32_t other) {
    auto const found = users_.live.find(address);
    if (found == users_.live.end()) return give_back(address, other);
    std::uint32_t const stream = found->second.on;
    if (!from_.chance(64)) return give_back(address, stream);
    auto done = order_.record(stream);
    order_.wait(other, done);
    order_.drop(done);
    give_back(address, other);
  }
  void give_back(std::uint64_t address, std::uint32_t on) {
    if (auto const found = users_.live.find(address); found != users_.live.end()) {
      auto const time = order_.world().tick(on);
      bytes const room = users_.room(found->second);
      for (bytes at = 0; at < room; at += options_.alignment) last_[address + at] = {on, time};
    }
    bool const is_ours = users_.remove(address);
    expect(pool_.deallocate(pointer_to(address), on) == is_ours, is_ours ? "what is in use was refused" : "what is not in use was taken back");
  }
  void expect_done(std::uint64_t begin, bytes size) {
    auto const first = last_.lower_bound(begin);
    auto const end = last_.lower_bound(begin + size);
    for (auto at = first; at != end; ++at) {
      expect(order_.world().everywhere[at->second.stream] >= at->second.time, "a block went back that a stream may still use");
    }
    last_.erase(first, end);
  }
  void forget(std::uint32_t on) {
    bool is_done = false;
    bool const failed = fails_in([&] {
      try {
        pool_.forget(on);
        is_done = true;
      } catch (std::exception const&) {
      }
    });
    expect(is_done || failed, "a failure that nobody caused");
  }
  void look(std::uint64_t address) const {
    auto const size = pool_.size_of(pointer_to(address));
    auto const found = users_.live.find(address);
    expect(size.has_value() == (found != users_.live.end()), "size_of knows what is not in use, or not what is");
    expect(!size || *size == found->second.size, "size_of says another size");
  }
  void expect_cheaply() const {
    auto const counts = pool_.counts();
    expect_counts(counts, users_, options_.most);
    expect(counts.held == log_->held, "it holds what its resource did not give");
    expect(counts.allocations == users_.allocations && counts.deallocations == users_.deallocations, "calls are counted wrongly");
    expect(counts.blocks_taken - counts.blocks_given == log_->blocks.size(), "blocks are counted wrongly");
  }

  byte_source& from_;
  simulated_streams order_;
  std::shared_ptr<block_log> log_;
  stream_pool_options options_;
  model users_;
  std::map<std::uint64_t, use> last_;  // of each unit of the alignment
  bytes limit_ = 1 << 18;
  int record_fails_in_ = -1, wait_fails_in_ = -1;
  stream_pool<logged<simulated_resource>, simulated_streams> pool_;  // goes first, while what it is asked about is there
};

void run_streams(byte_source& from) {
  auto options = some_options<stream_pool_options>(from, 1 << 16);
  options.grows_first = from.chance(128);
  simulated_streams order;
  auto const log = std::make_shared<block_log>();
  try {
    stream_session session{from, order, log, options};
    expect(is_valid(options), "options were taken that cannot be");
    session.run();
  } catch (bad_argument const&) {
    expect(!is_valid(options), "options were refused that can be");
    return;
  }
  expect(log->blocks.empty(), "a pool is gone, and a block of its is not");
  expect(order.world().live_events == 0, "a pool is gone, and an event of its is not");
}

}  // namespace
}  // namespace quarry::test

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace quarry;
  using namespace quarry::test;
  byte_source from{data, size};
  switch (from.u8() % 16) {
    case 0:
    case 1: run_pool_over_any<fast_fit>(from); break;
    case 2:
    case 3: run_pool_over_any<fitting<segregated_fit>>(from); break;
    case 4:
    case 5: run_pool_over_any<fitting<oldest_best_fit>>(from); break;
    case 6:
    case 7: run_pool_over_any<fitting<lowest_best_fit>>(from); break;
    case 8: run_stitched<fast_fit>(from); break;
    case 9: run_stitched<fitting<segregated_fit>>(from); break;
    case 10: run_stitched<fitting<oldest_best_fit>>(from); break;
    case 11: run_stitched<fitting<lowest_best_fit>>(from); break;
    default: run_streams(from); break;
  }
  return 0;
}
