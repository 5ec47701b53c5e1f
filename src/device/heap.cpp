// SPDX-License-Identifier: Apache-2.0
#include "heap_implementation.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <ostream>
#include <utility>

namespace quarry::inline QUARRY_ABI {

using namespace detail;
namespace {

constexpr std::size_t destroyed_heaps_kept = 16;

/// The length of a class's first run: a small share of the segments, and at most the slices that
/// all lanes of a large GPU need for a few allocations each.
constexpr std::uint32_t slices_of_first_run = 1u << 21;
constexpr std::uint32_t first_runs_share = 32;

/// Retains the states of the last destroyed heaps, so that a stale ref finds a state that rejects
/// it.
void keep_destroyed(std::shared_ptr<void> state) {
  static std::mutex mutex;
  static std::deque<std::shared_ptr<void>> kept;
  std::shared_ptr<void> oldest;  // freed after the unlock: the driver may own its memory
  std::lock_guard const lock{mutex};
  kept.push_back(std::move(state));
  if (kept.size() <= destroyed_heaps_kept) return;
  oldest = std::move(kept.front());
  kept.pop_front();
}

/// A new number for each reset of a heap. By chance, resets of heaps with different secrets may get
/// the same number.
std::uint32_t next_canary_secret(std::uint32_t secret) {
  static std::atomic<std::uint32_t> counter{0};
  return mix(secret ^ mix(counter.fetch_add(1, std::memory_order_relaxed)));
}

/// The default segment size of a heap of `size` bytes. There are enough segments that each of the
/// classes that programs commonly mix can have some. Heaps below 1 GiB have more segments, because
/// the classes need a larger share of the segments. `max_bytes` have at most 2^20 segments.
bytes default_segment_bytes(bytes size, bytes max_bytes) {
  bytes const segments = size < 1_GiB ? 1024 : 512;
  bytes const by_size = std::bit_floor(std::clamp(size / segments, 64_KiB, 16_MiB));
  return std::max(by_size, std::bit_ceil(max_bytes >> 20));
}

heap_options checked(heap_options options) {
  auto const refuse = [](std::string const& problem) {
    throw bad_argument{"heap_options: " + problem};
  };
  if (options.bytes == 0) refuse("bytes is 0; at least 1 is needed");
  options.max_bytes = std::max(options.max_bytes, options.bytes);
  if (options.segment_bytes == 0)
    options.segment_bytes = default_segment_bytes(options.bytes, options.max_bytes);
  if (options.segment_bytes < 64_KiB || options.segment_bytes > 64_MiB ||
      !std::has_single_bit(options.segment_bytes)) {
    refuse("segment_bytes is " + std::to_string(options.segment_bytes) +
           "; it must be a power of two from 64 KiB to 64 MiB");
  }
  if (options.max_bytes > options.segment_bytes << 20 || options.max_bytes > bytes{4} << 40) {
    refuse("max_bytes is " + std::to_string(options.max_bytes) +
           "; the limits are 2^20 segments and 4 TiB");
  }
  auto const round = [&](bytes size) {
    return (size + options.segment_bytes - 1) / options.segment_bytes * options.segment_bytes;
  };
  options.bytes = round(options.bytes);
  options.max_bytes = round(options.max_bytes);
  if (options.backend_kind == backend::automatic)
    options.backend_kind = has_cuda_device() ? backend::cuda : backend::cpu;
  if (options.backend_kind == backend::cpu && !options.peers.empty())
    refuse("peers has device " + std::to_string(options.peers.front()) +
           "; a heap of backend::cpu has no peers");
  if (options.seed == 0) {
    options.seed =
        static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) | 1;
  }
  return options;
}

bytes aligned(bytes size) { return (size + 255) / 256 * 256; }

/// A zeroed state in host memory.
std::shared_ptr<heap_state> make_state(std::uint32_t max_segments) {
  bytes const size = aligned(heap_state::bytes_for(max_segments));
  void* const memory = std::aligned_alloc(256, size);
  if (memory == nullptr)
    throw out_of_memory{"heap", size, "the host has no memory for the heap's state"};
  std::memset(memory, 0, size);
  return {static_cast<heap_state*>(memory), &std::free};
}

/// A segment tree in which all mapped segments can be claimed.
std::vector<word> full_segment_tree(std::uint32_t mapped, std::uint32_t max_segments) {
  std::vector<word> words(bit_tree::words_for(max_segments));
  bit_tree{words.data(), max_segments}.insert_range(0, mapped);
  return words;
}

}  // namespace

class_layout make_class_layout(size_class id, bytes segment_bytes, std::uint32_t segments) {
  class_layout layout{};
  layout.size = size_of_class(id);
  auto slices = static_cast<std::uint32_t>(segment_bytes / layout.size);
  // The largest units that give every ticket counter several units of a segment, and leave less
  // than 1/128 of the segment unused.
  layout.unit_shift = 10;
  auto const fits = [&](std::uint32_t shift) {
    std::uint32_t const units = slices >> shift;
    return shift == 0 ||
           (units >= 4 * counters_per_class && slices - (units << shift) <= slices / 128);
  };
  while (!fits(layout.unit_shift)) --layout.unit_shift;
  layout.units = slices >> layout.unit_shift;
  slices = layout.units << layout.unit_shift;
  auto const share = std::clamp(segments / first_runs_share, 1u, 16u);
  layout.run_segments =
      static_cast<std::uint8_t>(std::clamp(slices_of_first_run / slices, 1u, share));
  auto const by_units = divider::for_divisor(layout.units);
  layout.unit_multiplier = by_units.multiplier;
  layout.unit_divider_shift = static_cast<std::uint8_t>(by_units.shift);
  auto const by_size = divider::for_divisor(layout.size);
  layout.slice = slice_layout{slices, by_size};
  return layout;
}

heap::implementation::implementation(heap_options const& unchecked) {
  auto const options = checked(unchecked);
  backend_kind_ = options.backend_kind;
  memory_ = backend_kind_ == backend::cuda
                ? make_cuda_memory(options.device, options.peers, options.max_bytes,
                                   options.segment_bytes)
                : make_cpu_memory(options.max_bytes, options.segment_bytes);
  memory_->map(0, options.bytes);

  initial_ = make_state(static_cast<std::uint32_t>(options.max_bytes / options.segment_bytes));
  heap_state& state = *initial_;
  state.magic = heap_state::magic_alive;
  state.version = layout_version;
  state.segment_shift = static_cast<std::uint32_t>(std::countr_zero(options.segment_bytes));
  state.base = reinterpret_cast<std::uint64_t>(memory_->region());
  state.segments_mapped = static_cast<std::uint32_t>(options.bytes >> state.segment_shift);
  state.free_segments.bits = state.segments_mapped;
  state.max_segments = static_cast<std::uint32_t>(options.max_bytes >> state.segment_shift);
  state.words_per_tree = bit_tree::words_for(state.max_segments);
  state.classes = size_class_of(static_cast<std::uint32_t>(options.segment_bytes / 2)) + 1;
  state.blocks_per_segment =
      static_cast<std::uint32_t>(options.segment_bytes / min_alignment / slices_per_block);
  state.secret = mix(static_cast<std::uint32_t>(options.seed ^ options.seed >> 32));
  segment_run const no_run;
  for (size_class id = 0; id < state.classes; ++id) {
    state.layouts[id] = make_class_layout(id, options.segment_bytes, state.segments_mapped);
    state.runs[id].value = class_run::encode(no_run, counters_per_class, false);
  }

  lay_out(nullptr);
  metadata_memory_ = memory_->allocate(metadata_bytes_);
  metadata_ = static_cast<std::byte*>(metadata_memory_.get());
  lay_out(metadata_);
  state_memory_ = memory_->allocate(heap_state::bytes_for(state.max_segments));
  shared_ = static_cast<heap_state*>(state_memory_.get());
  reset();
}

heap::implementation::~implementation() {
  try {
    auto const destroyed = make_state(initial_->max_segments);
    destroyed->magic = heap_state::magic_destroyed;
    destroyed->version = layout_version;
    destroyed->segment_shift = initial_->segment_shift;
    std::copy(std::begin(initial_->layouts), std::end(initial_->layouts), destroyed->layouts);
    memory_->synchronize();
    memory_->upload(shared_, destroyed.get(), heap_state::bytes_for(initial_->max_segments));
    keep_destroyed(std::move(state_memory_));
  } catch (std::exception const&) {
    // The device failed, and its memory is lost.
  }
}

/// Sets the state's pointers to parts of `metadata`, and `metadata_bytes_` to the total size.
void heap::implementation::lay_out(std::byte* metadata) {
  heap_state& state = *initial_;
  bytes const segments = state.max_segments;
  bytes const tree_words = state.words_per_tree;
  bytes offset = 0;
  auto const assign = [&](auto*& pointer, bytes count) {
    if (metadata != nullptr)  // else only the sizes matter
      pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(metadata + offset);
    offset += aligned(count * sizeof(*pointer));
  };
  assign(state.bits, segments * state.stride_of_bits());
  assign(state.joins, segments * state.joins_per_segment());
  assign(state.advertised, segments * state.masks_per_segment());
  assign(state.class_tree_words, tree_words * state.classes);
  assign(state.segment_tree_words, tree_words);
  assign(state.quarantine, is_on(mitigation::quarantine) ? quarantine_entries : 1);
  assign(state.formats, is_on(mitigation::poison) ? segments : 1);
  metadata_bytes_ = offset;
}

void heap::implementation::reset() {
  memory_->synchronize();
  learn();
  memory_->zero(metadata_, metadata_bytes_);
  auto tree = full_segment_tree(initial_->segments_mapped, initial_->max_segments);
  auto const fresh = make_state(initial_->max_segments);
  std::memcpy(fresh.get(), initial_.get(), heap_state::bytes_for(initial_->max_segments));
  fresh->canary_secret = next_canary_secret(fresh->secret);
  open_learned_runs(*fresh, {tree.data(), initial_->max_segments});
  memory_->upload(initial_->segment_tree_words, tree.data(), tree.size() * sizeof(word));
  memory_->upload(shared_, fresh.get(), heap_state::bytes_for(initial_->max_segments));
  memory_->synchronize();
  used_ = true;
}

/// Records how many segments each class needed. After a reset, open_learned_runs prepares that many
/// segments, because the program is likely to need a similar number again.
void heap::implementation::learn() {
  if (!used_) return;
  auto const last = make_state(1);
  memory_->download(last.get(), shared_, sizeof(heap_state));
  for (size_class id = 0; id < initial_->classes; ++id) {
    std::uint32_t used_units = 0;
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      std::uint32_t const tickets =
          ticket_counter::ticket_of(last->ticket_counter_at(id, i).peek());
      used_units += (tickets >> last->layouts[id].unit_shift) + 1;
    }
    // Of the last run, only the used part counts. A margin of a quarter is added, because the
    // ticket counters are not equally used.
    std::uint32_t const maximum = last->segment_counts[id].peak;
    std::uint32_t const last_run_segments = class_run::run_of(last->run(id).peek()).count();
    std::uint32_t const used = used_units / last->layouts[id].units + 1;
    std::uint32_t const needed =
        maximum - std::min(maximum, last_run_segments) + used + used / 4 + 1;
    learned_[id] = std::min(maximum, needed);
  }
}

void heap::implementation::open_learned_runs(heap_state& state, bit_tree const& tree) const {
  std::uint32_t const start =
      is_on(mitigation::random_start) ? state.secret % (state.segments_mapped / 4 + 1) : 0;
  std::uint32_t const end = start + state.segments_mapped / 4 * 3;
  std::uint32_t next = start;
  for (size_class id = 0; id < state.classes; ++id) {
    std::uint32_t const wanted =
        std::min(learned_[id], ticket_counter::longest_run(state.layouts[id]));
    bool const fits = wanted != 0 && next + wanted <= end;
    if (!fits) continue;
    run_segments::format_run(state, id, segment_run{}.next(next, wanted));
    state.runs[id].value &= ~class_run::busy_bit;
    run_supply::set_has_run(state, id, true);
    for (std::uint32_t i = 0; i < wanted; ++i) (void)tree.claim(next + i);
    state.segment_counts[id] = {wanted, wanted};
    next += wanted;
  }
  state.free_segments.add(-static_cast<std::int32_t>(next - start));
}

heap_snapshot heap::implementation::snapshot() const {
  memory_->synchronize();
  heap_snapshot copy;
  copy.state = make_state(initial_->max_segments);
  copy.metadata.resize(metadata_bytes_);
  memory_->download(copy.state.get(), shared_, heap_state::bytes_for(initial_->max_segments));
  memory_->download(copy.metadata.data(), metadata_, metadata_bytes_);
  auto const move = [&](auto*& pointer) {
    auto const offset = reinterpret_cast<std::byte*>(pointer) - metadata_;
    pointer =
        reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(copy.metadata.data() + offset);
  };
  heap_state& state = *copy.state;
  move(state.bits);
  move(state.joins);
  move(state.advertised);
  move(state.class_tree_words);
  move(state.segment_tree_words);
  move(state.quarantine);
  move(state.formats);
  return copy;
}

fault_log heap::implementation::faults() const {
  memory_->synchronize();
  fault_log log;
  memory_->download(&log, &shared_->faults, sizeof(log));
  return log;
}

void heap::implementation::clear_faults() {
  memory_->synchronize();
  memory_->upload(&shared_->faults, &initial_->faults, sizeof(fault_log));
}

void heap::implementation::set_mapped(std::uint32_t segments) {
  free_segment_count free_segments{};
  memory_->download(&free_segments, &shared_->free_segments, sizeof(free_segments));
  free_segments.add(static_cast<std::int32_t>(segments - initial_->segments_mapped));
  initial_->segments_mapped = segments;
  initial_->free_segments.bits = segments;
  memory_->upload(&shared_->segments_mapped, &segments, sizeof(segments));
  memory_->upload(&shared_->free_segments, &free_segments, sizeof(free_segments));
}

namespace {

/// The segments that `size` bytes need; right for every size up to the largest number.
bytes segments_for(bytes size, std::uint32_t shift) {
  return (size >> shift) + ((size & ((bytes{1} << shift) - 1)) != 0 ? 1 : 0);
}

}  // namespace

void heap::implementation::grow(quarry::bytes size) {
  auto const shift = initial_->segment_shift;
  auto const old_count = initial_->segments_mapped;
  bytes const wanted = segments_for(size, shift);
  if (wanted > initial_->max_segments) {
    throw bad_argument{"heap::grow: a size of " + std::to_string(size) +
                       " bytes exceeds max_bytes (" +
                       std::to_string(bytes{initial_->max_segments} << shift) + ")"};
  }
  if (wanted <= old_count) return;
  auto const new_count = static_cast<std::uint32_t>(wanted);
  memory_->map(bytes{old_count} << shift, bytes{new_count} << shift);
  std::vector<word> words(bit_tree::words_for(initial_->max_segments));
  memory_->synchronize();
  memory_->download(words.data(), initial_->segment_tree_words, words.size() * sizeof(word));
  bit_tree{words.data(), initial_->max_segments}.insert_range(old_count, new_count - old_count);
  memory_->upload(initial_->segment_tree_words, words.data(), words.size() * sizeof(word));
  set_mapped(new_count);
}

quarry::bytes heap::implementation::shrink(quarry::bytes size) {
  auto const shift = initial_->segment_shift;
  auto const old_count = initial_->segments_mapped;
  auto const wanted =
      static_cast<std::uint32_t>(std::min<bytes>(segments_for(size, shift), old_count));
  std::vector<word> words(bit_tree::words_for(initial_->max_segments));
  memory_->synchronize();
  memory_->download(words.data(), initial_->segment_tree_words, words.size() * sizeof(word));
  bit_tree const tree{words.data(), initial_->max_segments};
  std::uint32_t new_count = old_count;
  while (new_count > wanted && tree.contains(new_count - 1)) (void)tree.claim(--new_count);
  auto const kept = static_cast<std::uint32_t>(
      memory_->unmappable_from(bytes{new_count} << shift, bytes{old_count} << shift) >> shift);
  tree.insert_range(new_count, kept - new_count);
  new_count = kept;
  if (new_count == old_count) return bytes{old_count} << shift;
  memory_->upload(initial_->segment_tree_words, words.data(), words.size() * sizeof(word));
  memory_->unmap(bytes{new_count} << shift, bytes{old_count} << shift);
  set_mapped(new_count);
  return bytes{new_count} << shift;
}

heap::heap(heap_options options) : implementation_{new implementation{options}} {}
heap::~heap() { delete implementation_; }
heap::heap(heap&& other) noexcept
    : implementation_{std::exchange(other.implementation_, nullptr)} {}
heap& heap::operator=(heap&& other) noexcept {
  if (this != &other)
    delete std::exchange(implementation_, std::exchange(other.implementation_, nullptr));
  return *this;
}

heap_ref heap::ref() const { return implementation_->ref(); }
backend heap::backend_kind() const { return implementation_->backend_kind(); }
void* heap::region() const { return implementation_->region(); }
quarry::bytes heap::region_bytes() const { return implementation_->region_bytes(); }
void heap::reset() { implementation_->reset(); }
void heap::grow(quarry::bytes size) { implementation_->grow(size); }
quarry::bytes heap::shrink(quarry::bytes size) { return implementation_->shrink(size); }
void heap::clear_faults() { implementation_->clear_faults(); }

std::optional<fault> heap::first_fault() const {
  auto const log = implementation_->faults();
  if (log.ready == 0) return std::nullopt;
  return log.first;
}

std::uint64_t heap::fault_count(fault_kind kind) const {
  return implementation_->faults().counts[static_cast<std::uint32_t>(kind)];
}

char const* name_of(fault_kind kind) {
  switch (kind) {
    case fault_kind::none:
      return "no fault";
    case fault_kind::out_of_memory:
      return "out of memory";
    case fault_kind::double_free:
      return "double free";
    case fault_kind::foreign_pointer:
      return "free of a foreign pointer";
    case fault_kind::interior_pointer:
      return "free of an interior pointer";
    case fault_kind::size_mismatch:
      return "sized free with a wrong size";
    case fault_kind::bad_alignment:
      return "unsupported alignment";
    case fault_kind::overrun:
      return "bytes after an allocation were overwritten";
    case fault_kind::use_after_free:
      return "freed memory was written to";
    case fault_kind::wrong_version:
      return "kernel built for another heap layout, or with other mitigations than the library";
    case fault_kind::destroyed:
      return "use of a destroyed heap";
    case fault_kind::table_full:
      return "map of superblocks is full";
    case fault_kind::stalled:
      return "malloc gave up after other lanes took or held the memory for 0.2 s";
    case fault_kind::count_:
      break;
  }
  return "unknown fault";
}

std::ostream& operator<<(std::ostream& out, fault const& entry) {
  out << "quarry: " << name_of(entry.kind) << " by block " << entry.block << " thread "
      << entry.thread;
  if (entry.size != 0) out << ", " << entry.size << " bytes";
  if (entry.address != 0) out << ", address 0x" << std::hex << entry.address << std::dec;
  if (entry.kind == fault_kind::out_of_memory)
    out << "; " << entry.free_segments_bytes << " bytes of whole segments were free";
  return out;
}

}  // namespace quarry::inline QUARRY_ABI
