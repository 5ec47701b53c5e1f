// SPDX-License-Identifier: Apache-2.0
// The C API against a model of all its pools: each status, whatever the arguments are that its
// contract allows. Results that go nowhere but to null are not among these.
//
// Link with libFuzzer, or with main.cpp.
#include "fuzz/byte_source.hpp"
#include "fuzz/c_calls.hpp"
#include "quarry/host/c_api.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace quarry::test {
namespace {

constexpr int max_steps = 1500;
constexpr std::size_t max_pools = 4;
constexpr std::uint64_t too_much = std::uint64_t{1} << 46;  // beyond this nothing is asked
constexpr std::uint64_t limit = 1 << 20;

std::uint64_t number_of(void const* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
void* pointer_to(std::uint64_t number) { return reinterpret_cast<void*>(number); }

struct destroy {
  void operator()(quarry_pool* ended) const { quarry_pool_destroy(ended); }
};

class session {
 public:
  explicit session(byte_source& input) : input_{input} {}

  void run() {
    for (int step = 0; step < max_steps && !input_.is_exhausted(); ++step) {
      do_something();
      if (step % 32 == 31) expect_all();  // it reads all there is
    }
    expect_all();
    while (!known_.empty()) give_back(known_.begin()->second.whose, known_.begin()->first);
    for (auto& [number, one] : pools_) {
      expect_counts(one);
      is(QUARRY_OK, quarry_pool_release(one.handle.get()));
      quarry_pool_counts counts{};
      is(QUARRY_OK, quarry_pool_get_counts(one.handle.get(), &counts));
      expect(counts.allocated == 0 && counts.chunks_allocated == 0 && counts.reserved == 0,
             "all was returned, and something is live, or held");
    }
    pools_.clear();
    is(QUARRY_OK, quarry_segment_close(segment_));
    for (std::size_t i = 0; i < std::min<std::size_t>(freed_.size(), 16); ++i) find(freed_[i]);
  }

 private:
  struct allocation {
    std::uint32_t whose;
    std::vector<unsigned char> contents;
  };
  struct pool {
    std::unique_ptr<quarry_pool, destroy> handle;
    std::uint64_t alignment, limit;
    std::string name;
    std::uint64_t allocated = 0, peak_allocated = 0, chunks = 0, invalid_frees = 0;
    std::uint32_t id = 0;
  };

  /// Each call goes through here: that it gave what it should, and what was said of it.
  void is(quarry_status wanted, quarry_status given) {
    expect(given == wanted, "a status is wrong");
    is_any(given);
  }
  void is_any(quarry_status given) {
    expect(given >= QUARRY_OK && given <= QUARRY_DESTROYED && given != QUARRY_INTERNAL,
           "a status that is none, or that must not be");
    char const* const said = quarry_last_error();
    expect(said != nullptr, "the last error is null");
    if (given == QUARRY_OK) {
      expect(!has_failed_ || said_ == said, "what a failure said did not last until the next");
      return;
    }
    expect(*said != '\0', "a failure says nothing");
    said_ = said;
    has_failed_ = true;
  }

  void do_something() {
    std::uint8_t const kind = input_.u8() % 32;
    if (pools_.empty() || kind == 0)
      return input_.chance(192) ? create_on_host() : create_elsewhere();
    std::uint32_t const whose = some_pool();
    if (kind < 11)
      return allocate(whose, input_.chance(250) ? input_.size(input_.chance(248) ? 1 << 12 : limit)
                                                : too_much + 1 + input_.range(0, ~too_much - 1));
    if (kind < 20) return give_back(whose, some_address());
    switch (kind) {
      case 20:
        return destroy_pool(whose);
      case 21:
        return is(QUARRY_OK, quarry_pool_release(pools_.at(whose).handle.get()));
      case 22:
        return size_of(whose, some_address());
      case 23:
        return label(whose, some_address());
      case 24:
      case 25:
        return find(some_address());
      case 26:
      case 27:
        return copy();
      case 28:
      case 29:
        return fill();
      case 30:
        return input_.chance(64) ? report() : call_with_wrong_handle();
      default:
        return call_with_null(whose);
    }
  }

  [[nodiscard]] std::uint32_t some_pool() {
    return std::next(pools_.begin(), static_cast<std::ptrdiff_t>(input_.index(pools_.size())))
        ->first;
  }
  /// Mostly of what is live, be it whose it may.
  [[nodiscard]] std::uint64_t some_address() {
    std::uint8_t const kind = input_.u8() % 16;
    if (kind == 0 && !freed_.empty())
      return freed_[freed_.size() - 1 - input_.index(std::min<std::size_t>(freed_.size(), 64))];
    if (kind == 1) return input_.u64();
    if (kind == 2) return input_.u16();
    if (known_.empty()) return freed_.empty() ? 0 : freed_.back();
    auto const& [base, what] =
        *std::next(known_.begin(), static_cast<std::ptrdiff_t>(input_.index(known_.size())));
    if (kind < 6) return base + input_.range(0, what.contents.size());
    return base;
  }
  [[nodiscard]] char const* some_name(std::string& name) {
    if (input_.chance(64)) return nullptr;
    // some are longer than an error message may be
    name.resize(input_.u8() % 40 * (input_.chance(8) ? 40u : 1u));
    for (char& one : name) one = static_cast<char>(1 + input_.u8() % 255);
    return name.c_str();
  }
  /// Any values, and mostly such as can be.
  [[nodiscard]] quarry_pool_options some_options(std::string& name) {
    quarry_pool_options options = quarry_pool_default_options();
    options.first_block = input_.wild_size(1 << 16);
    options.next_block = input_.wild_size(1 << 14);
    options.growth_percent = input_.chance(248) ? input_.u8() : input_.u32();
    if (input_.chance(128))
      options.alignment =
          input_.chance(240) ? std::uint64_t{16} << input_.u8() % 11 : input_.wild_size(1 << 16);
    options.max_bytes = std::max<std::uint64_t>(1, input_.size(limit));  // 0: no limit
    options.device = static_cast<int>(input_.chance(128) ? input_.u32() : 0u);
    // nobody looks at it
    options.directory = input_.chance(128) ? "/nonexistent/directory" : nullptr;
    options.name = some_name(name);
    return options;
  }
  [[nodiscard]] static std::uint64_t alignment_of(quarry_pool_options const& options) {
    return options.alignment != 0 ? options.alignment : 16;
  }
  [[nodiscard]] static bool is_valid(quarry_pool_options const& options) {
    std::uint64_t const alignment = alignment_of(options);
    return (alignment & (alignment - 1)) == 0 && alignment >= 16 && alignment <= 1 << 14 &&
           options.first_block <= too_much && options.next_block <= too_much &&
           options.growth_percent <= 1000;
  }

  void create_on_host() {
    std::string name;
    auto options = some_options(name);
    bool const has_options = !input_.chance(16);
    if (!has_options) options = quarry_pool_default_options();
    if (input_.chance(16))
      return is(QUARRY_BAD_ARGUMENT,
                quarry_pool_create(QUARRY_HOST, has_options ? &options : nullptr, nullptr));
    auto* made = static_cast<quarry_pool*>(pointer_to(16));  // is to be overwritten in any case
    auto const status = quarry_pool_create(QUARRY_HOST, has_options ? &options : nullptr, &made);
    is(is_valid(options) ? QUARRY_OK : QUARRY_BAD_ARGUMENT, status);
    expect((made != nullptr) == (status == QUARRY_OK),
           "a pool and no success, or success and no pool");
    if (made == nullptr) return;
    std::unique_ptr<quarry_pool, destroy> handle{made};
    if (pools_.size() == max_pools) return;  // is destroyed at once
    pool& fresh = pools_[++last_];
    auto const max = options.max_bytes != 0 ? options.max_bytes : ~std::uint64_t{0};
    fresh = {std::move(handle), alignment_of(options), max,
             options.name != nullptr ? options.name : ""};
    is(QUARRY_OK, quarry_pool_id(made, &fresh.id));
    expect(fresh.id != 0, "a pool has no number");
    for (auto const& [number, other] : pools_)
      expect(number == last_ || other.id != fresh.id, "two pools have one number");
  }
  /// Elsewhere there is nothing to be had: without CUDA, and in no page map; with CUDA, because of
  /// the alignment.
  void create_elsewhere() {
    std::string name;
    auto options = some_options(name);
    options.alignment = 24;
    auto const where = static_cast<quarry_resource>(1 + input_.u8() % 7);
    bool const has_options = where > QUARRY_MANAGED && !input_.chance(32);
    auto* made = static_cast<quarry_pool*>(pointer_to(16));
    auto const status = quarry_pool_create(
        where, has_options || where <= QUARRY_MANAGED ? &options : nullptr, &made);
    expect(made == nullptr, "a pool of what there is not");
    if (where <= QUARRY_MANAGED) {
      expect(status == QUARRY_RESOURCE_FAILED || status == QUARRY_BAD_ARGUMENT,
             "a status is wrong");
      return is_any(status);
    }
    bool const has_directory = where == QUARRY_FILE && has_options && options.directory != nullptr;
    is(has_directory ? QUARRY_RESOURCE_FAILED : QUARRY_BAD_ARGUMENT, status);
  }
  void destroy_pool(std::uint32_t whose) {
    quarry_pool* const handle = pools_.at(whose).handle.release();
    is(QUARRY_OK, quarry_pool_destroy(handle));
    destroyed_.push_back(handle);
    pools_.erase(whose);
    std::erase_if(known_, [&](auto const& one) {
      if (one.second.whose != whose) return false;
      freed_.push_back(one.first);
      return true;
    });
    quarry_pool_destroy(nullptr);
  }

  void allocate(std::uint32_t whose, std::uint64_t size) {
    pool& its = pools_.at(whose);
    void* memory = &memory;
    auto const status = quarry_pool_allocate(its.handle.get(), size, &memory);
    expect((memory != nullptr) == (status == QUARRY_OK), "memory and status contradict");
    if (status != QUARRY_OK) {
      is(QUARRY_OUT_OF_MEMORY, status);
      return expect_full(its, size);
    }
    is_any(status);
    expect(size <= too_much, "more than anything has");
    auto const base = number_of(memory);
    expect(base % its.alignment == 0, "an allocation is not aligned");
    auto const next = known_.lower_bound(base);
    expect(next == known_.end() || std::max<std::uint64_t>(1, size) <= next->first - base,
           "an allocation overlaps the next one");
    if (next != known_.begin()) {
      auto const& [start, before] = *std::prev(next);
      expect(std::max<std::size_t>(1, before.contents.size()) <= base - start, "two overlap");
    }
    auto const value = input_.u8();
    is(QUARRY_OK, quarry_fill(memory, value, size));
    known_.emplace_hint(next, base, allocation{whose, std::vector<unsigned char>(size, value)});
    its.allocated += size;
    its.peak_allocated = std::max(its.peak_allocated, its.allocated);
    ++its.chunks;
  }
  void expect_full(pool const& its, std::uint64_t size) const {
    if (size > too_much) return;
    quarry_pool_counts counts{};
    expect(quarry_pool_get_counts(its.handle.get(), &counts) == QUARRY_OK, "there are no counts");
    std::uint64_t const granted =
        std::max(its.alignment, (size + its.alignment - 1) & ~(its.alignment - 1));
    auto const left = its.limit - std::min(its.limit, counts.reserved);
    expect(granted > (left & ~(its.alignment - 1)),
           "it says that there is no memory, and may hold more");
    expect(granted > its.limit || its.chunks != 0 || counts.reserved == 0,
           "it says that there is no memory, and holds blocks in which nothing is in use");
  }

  void give_back(std::uint32_t whose, std::uint64_t address) {
    pool& its = pools_.at(whose);
    auto const found = known_.find(address);
    bool const is_ours = found != known_.end() && found->second.whose == whose;
    if (is_ours) expect_contents(*found);
    is(is_ours || address == 0 ? QUARRY_OK : QUARRY_NOT_IN_USE,
       quarry_pool_deallocate(its.handle.get(), pointer_to(address)));
    if (!is_ours) {
      its.invalid_frees += address != 0;
      return;
    }
    its.allocated -= found->second.contents.size();
    --its.chunks;
    freed_.push_back(address);
    known_.erase(found);
  }
  static void expect_contents(std::pair<std::uint64_t const, allocation> const& one) {
    auto const& wanted = one.second.contents;
    expect(wanted.empty() || std::memcmp(pointer_to(one.first), wanted.data(), wanted.size()) == 0,
           "what was written has changed");
  }

  void size_of(std::uint32_t whose, std::uint64_t address) {
    auto const found = known_.find(address);
    bool const is_ours = found != known_.end() && found->second.whose == whose;
    std::uint64_t size = 0;
    is(is_ours ? QUARRY_OK : QUARRY_NOT_IN_USE,
       quarry_pool_size_of(pools_.at(whose).handle.get(), pointer_to(address), &size));
    expect(!is_ours || size == found->second.contents.size(), "size_of says another size");
  }
  void label(std::uint32_t whose, std::uint64_t address) {
    auto const found = known_.find(address);
    bool const is_ours = found != known_.end() && found->second.whose == whose;
    std::string name;
    char const* const given = some_name(name);
    is(given == nullptr ? QUARRY_BAD_ARGUMENT
       : is_ours        ? QUARRY_OK
                        : QUARRY_NOT_IN_USE,
       quarry_pool_label(pools_.at(whose).handle.get(), pointer_to(address), given));
  }
  using location = std::map<std::uint64_t, allocation>::iterator;
  /// What `address` lies inside.
  [[nodiscard]] location at(std::uint64_t address) {
    auto const after = known_.upper_bound(address);
    if (after == known_.begin()) return known_.end();
    auto const found = std::prev(after);
    return address - found->first < std::max<std::uint64_t>(1, found->second.contents.size())
               ? found
               : known_.end();
  }
  void find(std::uint64_t address) {
    auto const found = at(address);
    quarry_record record{};
    is(found != known_.end() ? QUARRY_OK : QUARRY_NOT_IN_USE,
       quarry_find(pointer_to(address), &record));
    if (found == known_.end()) return;
    expect(number_of(record.base) == found->first && record.size == found->second.contents.size(),
           "another allocation was found");
    expect(record.allocator == pools_.at(found->second.whose).id &&
               record.resource == QUARRY_HOST && record.device == 0,
           "another pool was found");
  }
  /// Whether [address, address + size) lies in one allocation.
  [[nodiscard]] bool has(location found, std::uint64_t address, std::uint64_t size) const {
    return found != known_.end() &&
           size <= found->second.contents.size() - (address - found->first);
  }
  void copy() {
    std::uint64_t const to = some_address();
    std::uint64_t const input = some_address();
    std::uint64_t const size = input_.wild_size(4096);
    auto const target = at(to);
    auto const source = at(input);
    bool const can = size == 0 || (has(target, to, size) && has(source, input, size));
    is(can ? QUARRY_OK : QUARRY_BAD_ARGUMENT, quarry_copy(pointer_to(to), pointer_to(input), size));
    if (!can || size == 0) return;
    std::memmove(target->second.contents.data() + (to - target->first),
                 source->second.contents.data() + (input - source->first), size);
    expect_contents(*target);
  }
  void fill() {
    std::uint64_t const to = some_address();
    int const value = input_.chance(224) ? int{input_.u8()} : static_cast<int>(input_.u32());
    std::uint64_t const size = input_.wild_size(4096);
    auto const target = at(to);
    bool const can = value >= 0 && value <= 255 && (size == 0 || has(target, to, size));
    is(can ? QUARRY_OK : QUARRY_BAD_ARGUMENT, quarry_fill(pointer_to(to), value, size));
    if (can && size != 0)
      std::memset(target->second.contents.data() + (to - target->first), value, size);
  }
  void report() {
    switch (input_.u8() % 3) {
      case 0:
        return is(QUARRY_OK, quarry_report("/dev/null"));
      case 1:
        return is(QUARRY_RESOURCE_FAILED, quarry_report("/nonexistent/directory/report"));
      default:
        return is(QUARRY_RESOURCE_FAILED, quarry_report("/dev/full"));
    }
  }

  /// Where the pool, or where the result goes, is null.
  void call_with_null(std::uint32_t whose) {
    quarry_pool* const its = pools_.at(whose).handle.get();
    void* memory = &memory;
    std::uint64_t size = 0;
    std::uint32_t id = 0;
    quarry_pool_counts counts{};
    auto const address = pointer_to(some_address());
    auto const call = [&]() -> quarry_status {
      switch (input_.u8() % 13) {
        case 0:
          return quarry_pool_allocate(nullptr, input_.u64(), &memory);
        case 1:
          return quarry_pool_allocate(its, input_.u64(), nullptr);
        case 2:
          return quarry_pool_deallocate(nullptr, address);
        case 3:
          return quarry_pool_release(nullptr);
        case 4:
          return quarry_pool_size_of(nullptr, address, &size);
        case 5:
          return quarry_pool_size_of(its, address, nullptr);
        case 6:
          return quarry_pool_get_counts(nullptr, &counts);
        case 7:
          return quarry_pool_get_counts(its, nullptr);
        case 8:
          return quarry_pool_label(nullptr, address, "name");
        case 9:
          return quarry_pool_label(its, address, nullptr);
        case 10:
          return quarry_pool_id(nullptr, &id);
        case 11:
          return quarry_pool_id(its, nullptr);
        default:
          return quarry_find(address, nullptr);
      }
    };
    is(QUARRY_BAD_ARGUMENT, call());
    expect(memory == nullptr || memory == &memory, "there is memory, and no success");
  }

  /// A handle that was destroyed, is of another kind, or is none: it is refused.
  void call_with_wrong_handle() {
    void* handle = nullptr;
    bool was_pool = false;
    switch (input_.u8() % 4) {
      case 0:  // destroyed
      case 1:
        if (destroyed_.empty()) return;
        handle = destroyed_[input_.index(destroyed_.size())];
        was_pool = true;
        break;
      case 2:  // another kind's, live or closed
        if (segment_ == nullptr) {
          std::string const name = "quarry-fuzz-" + std::to_string(getpid());
          is(QUARRY_OK, quarry_segment_open(name.c_str(), 1 << 14, &segment_));
        }
        handle = segment_;
        if (input_.chance(32)) {
          is(QUARRY_OK, quarry_segment_close(segment_));
          is(QUARRY_DESTROYED, quarry_segment_close(segment_));
          segment_ = nullptr;
        }
        break;
      default:  // none: an address of ours or of nobody, or a live one's number with a bit changed
        handle = pointer_to(input_.chance(128) ? some_address()
                                               : number_of(pools_.begin()->second.handle.get()) ^
                                                     std::uint64_t{1} << (20 + input_.u8() % 44));
        if (handle == nullptr || is_known(handle)) return;
    }
    auto const address = pointer_to(some_address());
    if (was_pool) {
      is(QUARRY_DESTROYED, call_with(input_, static_cast<quarry_pool*>(handle), address));
      return is(QUARRY_BAD_ARGUMENT,
                call_with(input_, static_cast<quarry_segment*>(handle), address));
    }
    is(QUARRY_BAD_ARGUMENT, call_with(input_, static_cast<quarry_pool*>(handle), address));
    is(QUARRY_BAD_ARGUMENT, quarry_stream_pool_destroy(static_cast<quarry_stream_pool*>(handle)));
  }
  [[nodiscard]] bool is_known(void* handle) const {
    return std::any_of(pools_.begin(), pools_.end(),
                       [&](auto const& one) { return one.second.handle.get() == handle; }) ||
           // a changed bit of a number may make an earlier one
           std::find(destroyed_.begin(), destroyed_.end(), handle) != destroyed_.end() ||
           number_of(handle) >> 52 == number_of(pools_.begin()->second.handle.get()) >> 52;
  }
  void expect_counts(pool const& its) {
    quarry_pool_counts counts{};
    is(QUARRY_OK, quarry_pool_get_counts(its.handle.get(), &counts));
    expect(counts.allocated == its.allocated && counts.peak_allocated == its.peak_allocated,
           "the bytes that are live are counted wrongly");
    expect(counts.chunks_allocated == its.chunks && counts.invalid_frees == its.invalid_frees,
           "allocations or refusals are counted wrongly");
    expect(counts.reserved <= its.limit && counts.reserved <= counts.peak_reserved &&
               counts.peak_reserved <= its.limit,
           "it holds more than it may, or than it says");
    expect(counts.allocated <= counts.reserved, "it reserves less than it allocates");
    expect(counts.blocks_returned <= counts.blocks_allocated &&
               (counts.reserved == 0) == (counts.blocks_returned == counts.blocks_allocated),
           "blocks are counted wrongly");
  }
  void expect_all() {
    for (auto const& [number, its] : pools_) expect_counts(its);
    for (auto const& one : known_) expect_contents(one);
  }

  byte_source& input_;
  std::map<std::uint32_t, pool> pools_;
  std::map<std::uint64_t, allocation> known_;
  std::vector<std::uint64_t> freed_;
  std::vector<quarry_pool*> destroyed_;  // handles that this run's pools had
  quarry_segment* segment_ = nullptr;
  std::uint32_t last_ = 0;
  std::string said_;
  bool has_failed_ = false;  // in this run; before, what an earlier one said is there
};

}  // namespace
}  // namespace quarry::test

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  quarry::test::byte_source input{data, size};
  quarry::test::session{input}.run();
  return 0;
}
