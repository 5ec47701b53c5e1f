// SPDX-License-Identifier: Apache-2.0
// Compares the C API with a model of all its pools. Checks each status for any arguments that the
// contract allows. A result pointer must be valid or null.
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
#include <string>
#include <vector>

namespace quarry::test {
namespace {

constexpr int max_steps = 1500;
constexpr std::size_t max_pools = 4;
constexpr std::uint64_t too_much = std::uint64_t{1} << 46;  // larger requests always fail
constexpr std::uint64_t limit = 1 << 20;

std::uint64_t number_of(void const* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }
void* pointer_to(std::uint64_t number) { return reinterpret_cast<void*>(number); }

struct destroy {
  void operator()(quarry_pool* handle) const { quarry_pool_destroy(handle); }
};

class session {
 public:
  explicit session(byte_source& input) : input_{input} {}

  void run() {
    for (int step = 0; step < max_steps && !input_.is_exhausted(); ++step) {
      do_something();
      if (step % 32 == 31) expect_all();  // reads all allocations
    }
    expect_all();
    while (!known_.empty()) deallocate(known_.begin()->second.key, known_.begin()->first);
    for (auto& [key, entry] : pools_) {
      expect_counts(entry);
      check(QUARRY_OK, quarry_pool_release(entry.handle.get()));
      quarry_pool_counts counts{};
      check(QUARRY_OK, quarry_pool_get_counts(entry.handle.get(), &counts));
      expect(counts.allocated == 0 && counts.allocations_in_use == 0 && counts.reserved == 0,
             "a pool is not empty after all frees");
    }
    pools_.clear();
    check(QUARRY_OK, quarry_segment_close(segment_));
    for (std::size_t i = 0; i < std::min<std::size_t>(freed_.size(), 16); ++i) find(freed_[i]);
  }

 private:
  struct allocation {
    std::uint32_t key;
    std::vector<unsigned char> contents;
  };
  struct pool {
    std::unique_ptr<quarry_pool, destroy> handle;
    std::uint64_t alignment, limit;
    std::string name;
    std::uint64_t allocated = 0, peak_allocated = 0, chunks = 0, invalid_frees = 0;
    std::uint32_t id = 0;
  };

  /// Checks the status of a call, and the text of the last error.
  void check(quarry_status wanted, quarry_status status) {
    expect(status == wanted, "a status is wrong");
    check_any(status);
  }
  void check_any(quarry_status status) {
    expect(status >= QUARRY_OK && status <= QUARRY_DESTROYED && status != QUARRY_INTERNAL,
           "a status is invalid or QUARRY_INTERNAL");
    char const* const text = quarry_last_error();
    expect(text != nullptr, "the last error is null");
    if (status == QUARRY_OK) {
      expect(!has_failed_ || last_error_ == text, "the last error changed without a failure");
      return;
    }
    expect(*text != '\0', "a failure has no message");
    last_error_ = text;
    has_failed_ = true;
  }

  void do_something() {
    std::uint8_t const kind = input_.u8() % 32;
    if (pools_.empty() || kind == 0)
      return input_.chance(192) ? create_on_host() : create_elsewhere();
    std::uint32_t const key = some_pool();
    if (kind < 11)
      return allocate(key, input_.chance(250) ? input_.size(input_.chance(248) ? 1 << 12 : limit)
                                              : too_much + 1 + input_.range(0, ~too_much - 1));
    if (kind < 20) return deallocate(key, some_address());
    switch (kind) {
      case 20:
        return destroy_pool(key);
      case 21:
        return check(QUARRY_OK, quarry_pool_release(pools_.at(key).handle.get()));
      case 22:
        return size_of(key, some_address());
      case 23:
        return label(key, some_address());
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
        return call_with_null(key);
    }
  }

  [[nodiscard]] std::uint32_t some_pool() {
    return std::next(pools_.begin(), static_cast<std::ptrdiff_t>(input_.index(pools_.size())))
        ->first;
  }
  /// An address, mostly of an allocation of any pool.
  [[nodiscard]] std::uint64_t some_address() {
    std::uint8_t const kind = input_.u8() % 16;
    if (kind == 0 && !freed_.empty())
      return freed_[freed_.size() - 1 - input_.index(std::min<std::size_t>(freed_.size(), 64))];
    if (kind == 1) return input_.u64();
    if (kind == 2) return input_.u16();
    if (known_.empty()) return freed_.empty() ? 0 : freed_.back();
    auto const& [base, found] =
        *std::next(known_.begin(), static_cast<std::ptrdiff_t>(input_.index(known_.size())));
    if (kind < 6) return base + input_.range(0, found.contents.size());
    return base;
  }
  [[nodiscard]] char const* some_name(std::string& name) {
    if (input_.chance(64)) return nullptr;
    // some names are longer than an error message can be
    name.resize(input_.u8() % 40 * (input_.chance(8) ? 40u : 1u));
    for (char& letter : name) letter = static_cast<char>(1 + input_.u8() % 255);
    return name.c_str();
  }
  /// Random options, mostly valid.
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
    // the host resource ignores it
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
      return check(QUARRY_BAD_ARGUMENT,
                   quarry_pool_create(QUARRY_HOST, has_options ? &options : nullptr, nullptr));
    auto* made = static_cast<quarry_pool*>(pointer_to(16));  // the call must overwrite it
    auto const status = quarry_pool_create(QUARRY_HOST, has_options ? &options : nullptr, &made);
    check(is_valid(options) ? QUARRY_OK : QUARRY_BAD_ARGUMENT, status);
    expect((made != nullptr) == (status == QUARRY_OK), "the status and the pool do not match");
    if (made == nullptr) return;
    std::unique_ptr<quarry_pool, destroy> handle{made};
    if (pools_.size() == max_pools) return;  // the pool is destroyed at once
    pool& created = pools_[++last_];
    auto const max = options.max_bytes != 0 ? options.max_bytes : ~std::uint64_t{0};
    created = {std::move(handle), alignment_of(options), max,
               options.name != nullptr ? options.name : ""};
    check(QUARRY_OK, quarry_pool_id(made, &created.id));
    expect(created.id != 0, "a pool has no id");
    for (auto const& [key, other] : pools_)
      expect(key == last_ || other.id != created.id, "two pools have the same id");
  }
  /// Creates a pool of another resource, which must fail: without CUDA and without a directory
  /// because of these, with CUDA because of the alignment.
  void create_elsewhere() {
    std::string name;
    auto options = some_options(name);
    options.alignment = 24;
    auto const kind = static_cast<quarry_resource>(1 + input_.u8() % 7);
    bool const has_options = kind > QUARRY_MANAGED && !input_.chance(32);
    auto* made = static_cast<quarry_pool*>(pointer_to(16));
    auto const status =
        quarry_pool_create(kind, has_options || kind <= QUARRY_MANAGED ? &options : nullptr, &made);
    expect(made == nullptr, "a pool was made without its resource");
    if (kind <= QUARRY_MANAGED) {
      expect(status == QUARRY_RESOURCE_FAILED || status == QUARRY_BAD_ARGUMENT,
             "a status is wrong");
      return check_any(status);
    }
    bool const has_directory = kind == QUARRY_FILE && has_options && options.directory != nullptr;
    check(has_directory ? QUARRY_RESOURCE_FAILED : QUARRY_BAD_ARGUMENT, status);
  }
  void destroy_pool(std::uint32_t key) {
    quarry_pool* const handle = pools_.at(key).handle.release();
    check(QUARRY_OK, quarry_pool_destroy(handle));
    destroyed_.push_back(handle);
    pools_.erase(key);
    std::erase_if(known_, [&](auto const& entry) {
      if (entry.second.key != key) return false;
      freed_.push_back(entry.first);
      return true;
    });
    quarry_pool_destroy(nullptr);
  }
  void allocate(std::uint32_t key, std::uint64_t size) {
    pool& owner = pools_.at(key);
    void* memory = &memory;
    auto const status = quarry_pool_allocate(owner.handle.get(), size, &memory);
    expect((memory != nullptr) == (status == QUARRY_OK), "the status and the memory do not match");
    if (status != QUARRY_OK) {
      check(QUARRY_OUT_OF_MEMORY, status);
      return expect_full(owner, size);
    }
    check_any(status);
    expect(size <= too_much, "an impossible request succeeded");
    auto const base = number_of(memory);
    expect(base % owner.alignment == 0, "an allocation is not aligned");
    auto const next = known_.lower_bound(base);
    expect(next == known_.end() || std::max<std::uint64_t>(1, size) <= next->first - base,
           "an allocation overlaps the next one");
    if (next != known_.begin()) {
      auto const& [start, previous] = *std::prev(next);
      expect(std::max<std::size_t>(1, previous.contents.size()) <= base - start, "an overlap");
    }
    auto const value = input_.u8();
    check(QUARRY_OK, quarry_fill(memory, value, size));
    known_.emplace_hint(next, base, allocation{key, std::vector<unsigned char>(size, value)});
    owner.allocated += size;
    owner.peak_allocated = std::max(owner.peak_allocated, owner.allocated);
    ++owner.chunks;
  }
  void expect_full(pool const& owner, std::uint64_t size) const {
    if (size > too_much) return;
    quarry_pool_counts counts{};
    expect(quarry_pool_get_counts(owner.handle.get(), &counts) == QUARRY_OK, "get_counts failed");
    std::uint64_t const granted =
        std::max(owner.alignment, (size + owner.alignment - 1) & ~(owner.alignment - 1));
    auto const available = owner.limit - std::min(owner.limit, counts.reserved);
    expect(granted > (available & ~(owner.alignment - 1)),
           "a pool is out of memory below its limit");
    expect(granted > owner.limit || owner.chunks != 0 || counts.reserved == 0,
           "a pool is out of memory and has unused blocks");
  }

  void deallocate(std::uint32_t key, std::uint64_t address) {
    pool& owner = pools_.at(key);
    auto const found = known_.find(address);
    bool const is_ours = found != known_.end() && found->second.key == key;
    if (is_ours) expect_contents(*found);
    check(is_ours || address == 0 ? QUARRY_OK : QUARRY_NOT_IN_USE,
          quarry_pool_deallocate(owner.handle.get(), pointer_to(address)));
    if (!is_ours) {
      owner.invalid_frees += address != 0;
      return;
    }
    owner.allocated -= found->second.contents.size();
    --owner.chunks;
    freed_.push_back(address);
    known_.erase(found);
  }
  static void expect_contents(std::pair<std::uint64_t const, allocation> const& entry) {
    auto const& data = entry.second.contents;
    expect(data.empty() || std::memcmp(pointer_to(entry.first), data.data(), data.size()) == 0,
           "the contents of an allocation changed");
  }

  void size_of(std::uint32_t key, std::uint64_t address) {
    auto const found = known_.find(address);
    bool const is_ours = found != known_.end() && found->second.key == key;
    std::uint64_t size = 0;
    check(is_ours ? QUARRY_OK : QUARRY_NOT_IN_USE,
          quarry_pool_size_of(pools_.at(key).handle.get(), pointer_to(address), &size));
    expect(!is_ours || size == found->second.contents.size(), "size_of returned a wrong size");
  }
  void label(std::uint32_t key, std::uint64_t address) {
    auto const found = known_.find(address);
    bool const is_ours = found != known_.end() && found->second.key == key;
    std::string name;
    char const* const text = some_name(name);
    check(text == nullptr ? QUARRY_BAD_ARGUMENT
          : is_ours       ? QUARRY_OK
                          : QUARRY_NOT_IN_USE,
          quarry_pool_label(pools_.at(key).handle.get(), pointer_to(address), text));
  }
  using location = std::map<std::uint64_t, allocation>::iterator;
  /// The allocation that contains `address`.
  [[nodiscard]] location allocation_at(std::uint64_t address) {
    auto const next = known_.upper_bound(address);
    if (next == known_.begin()) return known_.end();
    auto const found = std::prev(next);
    return address - found->first < std::max<std::uint64_t>(1, found->second.contents.size())
               ? found
               : known_.end();
  }
  void find(std::uint64_t address) {
    auto const found = allocation_at(address);
    quarry_record record{};
    check(found != known_.end() ? QUARRY_OK : QUARRY_NOT_IN_USE,
          quarry_find(pointer_to(address), &record));
    if (found == known_.end()) return;
    expect(number_of(record.base) == found->first && record.size == found->second.contents.size(),
           "another allocation was found");
    expect(record.allocator == pools_.at(found->second.key).id && record.resource == QUARRY_HOST &&
               record.device == 0,
           "another pool was found");
  }
  /// Whether [address, address + size) lies in one allocation.
  [[nodiscard]] bool has(location found, std::uint64_t address, std::uint64_t size) const {
    return found != known_.end() &&
           size <= found->second.contents.size() - (address - found->first);
  }
  void copy() {
    std::uint64_t const address = some_address();
    std::uint64_t const origin = some_address();
    std::uint64_t const size = input_.wild_size(4096);
    auto const target = allocation_at(address);
    auto const source = allocation_at(origin);
    bool const fits = size == 0 || (has(target, address, size) && has(source, origin, size));
    check(fits ? QUARRY_OK : QUARRY_BAD_ARGUMENT,
          quarry_copy(pointer_to(address), pointer_to(origin), size));
    if (!fits || size == 0) return;
    std::memmove(target->second.contents.data() + (address - target->first),
                 source->second.contents.data() + (origin - source->first), size);
    expect_contents(*target);
  }
  void fill() {
    std::uint64_t const address = some_address();
    int const value = input_.chance(224) ? int{input_.u8()} : static_cast<int>(input_.u32());
    std::uint64_t const size = input_.wild_size(4096);
    auto const target = allocation_at(address);
    bool const fits = value >= 0 && value <= 255 && (size == 0 || has(target, address, size));
    check(fits ? QUARRY_OK : QUARRY_BAD_ARGUMENT, quarry_fill(pointer_to(address), value, size));
    if (fits && size != 0)
      std::memset(target->second.contents.data() + (address - target->first), value, size);
  }
  void report() {
    switch (input_.u8() % 3) {
      case 0:
        return check(QUARRY_OK, quarry_report("/dev/null"));
      case 1:
        return check(QUARRY_RESOURCE_FAILED, quarry_report("/nonexistent/directory/report"));
      default:
        return check(QUARRY_RESOURCE_FAILED, quarry_report("/dev/full"));
    }
  }

  /// Makes a call in which the pool or the result pointer is null.
  void call_with_null(std::uint32_t key) {
    quarry_pool* const owner = pools_.at(key).handle.get();
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
          return quarry_pool_allocate(owner, input_.u64(), nullptr);
        case 2:
          return quarry_pool_deallocate(nullptr, address);
        case 3:
          return quarry_pool_release(nullptr);
        case 4:
          return quarry_pool_size_of(nullptr, address, &size);
        case 5:
          return quarry_pool_size_of(owner, address, nullptr);
        case 6:
          return quarry_pool_get_counts(nullptr, &counts);
        case 7:
          return quarry_pool_get_counts(owner, nullptr);
        case 8:
          return quarry_pool_label(nullptr, address, "name");
        case 9:
          return quarry_pool_label(owner, address, nullptr);
        case 10:
          return quarry_pool_id(nullptr, &id);
        case 11:
          return quarry_pool_id(owner, nullptr);
        default:
          return quarry_find(address, nullptr);
      }
    };
    check(QUARRY_BAD_ARGUMENT, call());
    expect(memory == nullptr || memory == &memory, "a failed call returned memory");
  }

  /// Makes a call with a destroyed, a wrong or an invalid handle. The call must be refused.
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
      case 2:  // a handle of another kind, live or closed
        if (segment_ == nullptr) {
          std::string const name = "quarry-fuzz-" + std::to_string(getpid());
          check(QUARRY_OK, quarry_segment_open(name.c_str(), 1 << 14, &segment_));
        }
        handle = segment_;
        if (input_.chance(32)) {
          check(QUARRY_OK, quarry_segment_close(segment_));
          check(QUARRY_DESTROYED, quarry_segment_close(segment_));
          segment_ = nullptr;
        }
        break;
      default:  // invalid: any address, or a live handle's number with one bit changed
        handle = pointer_to(input_.chance(128) ? some_address()
                                               : number_of(pools_.begin()->second.handle.get()) ^
                                                     std::uint64_t{1} << (20 + input_.u8() % 44));
        if (handle == nullptr || is_known(handle)) return;
    }
    auto const address = pointer_to(some_address());
    if (was_pool) {
      check(QUARRY_DESTROYED, call_with(input_, static_cast<quarry_pool*>(handle), address));
      return check(QUARRY_BAD_ARGUMENT,
                   call_with(input_, static_cast<quarry_segment*>(handle), address));
    }
    check(QUARRY_BAD_ARGUMENT, call_with(input_, static_cast<quarry_pool*>(handle), address));
    check(QUARRY_BAD_ARGUMENT,
          quarry_stream_pool_destroy(static_cast<quarry_stream_pool*>(handle)));
  }
  [[nodiscard]] bool is_known(void* handle) const {
    return std::any_of(pools_.begin(), pools_.end(),
                       [&](auto const& entry) { return entry.second.handle.get() == handle; }) ||
           // a number with a changed bit may be an earlier number
           std::find(destroyed_.begin(), destroyed_.end(), handle) != destroyed_.end() ||
           number_of(handle) >> 52 == number_of(pools_.begin()->second.handle.get()) >> 52;
  }
  void expect_counts(pool const& owner) {
    quarry_pool_counts counts{};
    check(QUARRY_OK, quarry_pool_get_counts(owner.handle.get(), &counts));
    expect(counts.allocated == owner.allocated && counts.peak_allocated == owner.peak_allocated,
           "the count of allocated bytes is wrong");
    expect(counts.allocations_in_use == owner.chunks && counts.invalid_frees == owner.invalid_frees,
           "the count of chunks or of invalid frees is wrong");
    expect(counts.reserved <= owner.limit && counts.reserved <= counts.peak_reserved &&
               counts.peak_reserved <= owner.limit,
           "the reserved bytes exceed the limit or the peak");
    expect(counts.allocated <= counts.reserved, "a pool reserves less than it allocates");
    expect(counts.blocks_returned <= counts.blocks_allocated &&
               (counts.reserved == 0) == (counts.blocks_returned == counts.blocks_allocated),
           "the count of blocks is wrong");
  }
  void expect_all() {
    for (auto const& [key, entry] : pools_) expect_counts(entry);
    for (auto const& entry : known_) expect_contents(entry);
  }

  byte_source& input_;
  std::map<std::uint32_t, pool> pools_;
  std::map<std::uint64_t, allocation> known_;
  std::vector<std::uint64_t> freed_;
  std::vector<quarry_pool*> destroyed_;  // handles of destroyed pools of this run
  quarry_segment* segment_ = nullptr;
  std::uint32_t last_ = 0;
  std::string last_error_;
  bool has_failed_ = false;  // in this run; until then the last error is from an earlier run
};

}  // namespace
}  // namespace quarry::test

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  quarry::test::byte_source input{data, size};
  quarry::test::session{input}.run();
  return 0;
}
