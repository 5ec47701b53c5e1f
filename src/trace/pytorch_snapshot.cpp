// SPDX-License-Identifier: Apache-2.0
#include "trace/pytorch_snapshot.hpp"

#include "trace/address_map.hpp"
#include "trace/range_set.hpp"
#include "trace/unpickler.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Bytes of a text in a name. A hostile file could refer to a text of megabytes in each event.
constexpr std::size_t max_text = 4096;
/// A name of a call site that has this number of bytes gets no more frames, but says how many it
/// leaves out. Stacks of programs are shorter: a frame has some 60 bytes.
constexpr std::size_t max_stack = 16'384;

std::optional<event_kind> kind_of(std::string_view action) {
  if (action == "alloc") return event_kind::allocate;
  if (action == "free_requested" || action == "free") return event_kind::deallocate;
  if (action == "oom") return event_kind::fail;
  if (action == "segment_alloc" || action == "segment_map") return event_kind::reserve;
  if (action == "segment_free" || action == "segment_unmap") return event_kind::unreserve;
  if (action == "user_defined") return event_kind::phase;
  return std::nullopt;
}

std::uint64_t number(pickled const& entry, std::string_view key) {
  pickled const* const found = entry.find(key);
  return found == nullptr ? 0 : found->natural();
}

/// What a history does not say: the allocations and segments in use before its first entry. A
/// history is a ring, or begins when the program has run for a while. Found are the allocations
/// that are freed without being allocated, and those that the snapshot has without being allocated.
/// Devices may use equal addresses.
class initial_state {
 public:
  void add(event const& each) {
    if (each.address == 0) return;
    device& memory = devices_[each.allocator];
    switch (each.kind) {
      case event_kind::allocate:
        (void)memory.allocations.insert(each.address, true);
        break;
      case event_kind::deallocate:
        if (!memory.allocations.remove(each.address)) add_initial(each, event_kind::allocate);
        break;
      case event_kind::reserve:
        memory.segments.add(each.address, each.size);
        break;
      case event_kind::unreserve:
        remove_segment(each);
        break;
      default:
        break;
    }
  }
  /// Adds what the snapshot has at its end and the history did not allocate. `call_site()` is the
  /// number of its call site; it is called only for what is added.
  template <class CallSite>
  void add_final_allocation(event each, CallSite const& call_site) {
    if (each.address == 0 || devices_[each.allocator].allocations.remove(each.address)) return;
    each.call_site = call_site();
    add_initial(each, event_kind::allocate);
  }
  template <class CallSite>
  void add_final_segment(event const& each, CallSite const& call_site) {
    if (each.address == 0) return;
    std::size_t const count = events_.size();
    remove_segment(each);
    for (std::size_t i = count; i < events_.size(); ++i) events_[i].call_site = call_site();
  }
  /// The segments, then the allocations.
  [[nodiscard]] std::vector<event> take() {
    std::stable_partition(events_.begin(), events_.end(),
                          [](event const& each) { return each.kind == event_kind::reserve; });
    return std::move(events_);
  }

 private:
  void add_initial(event each, event_kind kind) {
    each.kind = kind;
    events_.push_back(each);
  }
  /// Expandable segments grow and shrink by parts, so a part may be of several reserved ranges.
  void remove_segment(event each) {
    devices_[each.allocator].segments.remove(each.address, each.size,
                                             [&](std::uint64_t base, bytes size) {
                                               each.address = base;
                                               each.size = size;
                                               add_initial(each, event_kind::reserve);
                                             });
  }

  struct device {
    address_map<bool> allocations;
    range_set segments;
  };
  std::map<std::uint32_t, device> devices_;  // by their allocators
  std::vector<event> events_;
};

class pytorch_reader final : public reader {
 public:
  explicit pytorch_reader(std::unique_ptr<byte_source> source)
      : source_{std::move(source)}, unpickler_{*source_, "device_traces"} {}

  std::size_t read(std::span<event> events) override {
    if (events.empty()) return 0;
    if (!is_started_) find_initial_state();
    std::size_t count = 0;
    for (; count < events.size() && next_initial_ < initial_.size(); ++next_initial_)
      events[count++] = initial_[next_initial_];
    while (count < events.size() && (next_ < entries_.size() || next_entries())) {
      pickled const& entry = entries_[next_++];
      ++entry_count_;
      auto const made = convert(entry);
      if (made) events[count++] = *made;
    }
    if (count == 0) check_contents();
    return count;
  }
  format file_format() const override { return format::pytorch; }

 private:
  bool next_entries() {
    if (is_over_) return false;
    next_ = 0;
    entries_.clear();
    try {
      while (entries_.empty()) {
        if (!unpickler_.next(entries_)) {
          is_over_ = true;
          return false;
        }
      }
    } catch (bad_trace const& failure) {
      is_over_ = true;
      entries_.clear();
      if (entry_count_ == 0 || is_searching_) throw;
      add_problem(failure.what());
      return false;
    }
    char name[32];
    std::snprintf(name, sizeof name, "device %u", unpickler_.list_index());
    device_ = names_.allocators.number(name);
    return true;
  }

  /// An empty history is a snapshot that was taken without a record.
  void check_contents() {
    if (entry_count_ != 0 || problem_count() != 0) return;
    if (unpickler_.value().find("device_traces") == nullptr &&
        unpickler_.value().find("segments") == nullptr)
      throw bad_trace{source_->path() +
                      ": the pickle is no snapshot of PyTorch: it has neither 'device_traces' nor "
                      "'segments'"};
    add_problem(source_->path() +
                ": the snapshot has no history. Call torch.cuda.memory._record_memory_history() "
                "before the program allocates");
  }

  /// Runs over the whole file once. Its memory is that of the allocations in use.
  void find_initial_state() {
    is_started_ = true;
    initial_state state;
    std::uint64_t first_time = ~std::uint64_t{0};
    is_searching_ = true;
    try {
      while (next_entries()) {
        for (pickled const& entry : entries_) {
          if (auto const made = convert(entry)) {
            first_time = std::min(first_time, made->time);
            state.add(*made);
          }
        }
        next_ = entries_.size();
      }
      add_blocks(unpickler_.value(), state);
    } catch (bad_trace const&) {  // the second run reports it
    }
    is_searching_ = false;
    is_over_ = false;
    next_ = 0;
    entries_.clear();
    initial_ = state.take();
    for (event& each : initial_) {
      each.time = first_time == ~std::uint64_t{0} ? 0 : first_time;
      if (each.call_site == 0)  // no block of the snapshot says where it was allocated
        each.call_site = names_.call_sites.number("in use before the recording began");
    }
    unpickler_.restart();
  }

  /// The segments and allocations that the snapshot has at its end.
  void add_blocks(pickled const& snapshot, initial_state& state) {
    pickled const* const segments = snapshot.find("segments");
    if (segments == nullptr) return;
    for (pickled const& segment : segments->items()) {
      event each;
      each.allocator =
          names_.allocators.number("device " + std::to_string(number(segment, "device")));
      each.stream = stream_of(segment);
      each.address = number(segment, "address");
      each.size = number(segment, "total_size");
      state.add_final_segment(each, [&] { return call_site_of(segment); });
      pickled const* const blocks = segment.find("blocks");
      if (blocks == nullptr) continue;
      for (pickled const& block : blocks->items()) {
        pickled const* const status = block.find("state");
        if (status == nullptr || status->text() != "active_allocated") continue;
        each.address = number(block, "address");
        each.size = number(block, "requested_size");
        state.add_final_allocation(each, [&] { return call_site_of_block(block); });
      }
    }
  }

  std::optional<event> convert(pickled const& entry) {
    pickled const* const action = entry.find("action");
    if (action == nullptr) {
      problem("has no 'action'");
      return std::nullopt;
    }
    auto const kind = kind_of(action->text());
    if (!kind) {
      if (action->text() != "free_completed" && action->text() != "snapshot")
        problem("has the unknown action '" + std::string{action->text().substr(0, 60)} + "'");
      return std::nullopt;
    }
    event result;
    result.kind = *kind;
    result.time = number(entry, "time_us") * 1000;
    result.allocator = device_;
    result.stream = stream_of(entry);
    if (*kind == event_kind::phase) {
      pickled const* const text = entry.find("user_metadata");
      result.call_site =
          names_.call_sites.number(text == nullptr ? "" : text->text().substr(0, max_text));
      return result;
    }
    if (entry.find("size") == nullptr) {
      problem("has no 'size'");
      return std::nullopt;
    }
    result.size = number(entry, "size");
    if (!is_searching_) result.call_site = call_site_of(entry);
    if (*kind == event_kind::fail) {
      result.granted = number(entry, "device_free");
      return result;
    }
    if (entry.find("addr") == nullptr) {
      problem("has no 'addr'");
      return std::nullopt;
    }
    result.address = number(entry, "addr");
    return result;
  }

  std::uint32_t stream_of(pickled const& entry) {
    std::uint64_t const handle = number(entry, "stream");
    if (handle == 0) return 0;
    char name[32];
    std::snprintf(name, sizeof name, "0x%llx", static_cast<unsigned long long>(handle));
    return names_.streams.number(name);
  }

  /// `file:line function`, the innermost frame first, separated by ` < `.
  std::uint32_t call_site_of(pickled const& entry) {
    pickled const* const frames = entry.find("frames");
    if (frames == nullptr) return 0;
    text_.clear();
    auto const& all = frames->items();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (text_.size() >= max_stack) {
        text_ += " < … " + std::to_string(all.size() - i) + " more frames";
        break;
      }
      pickled const* const file = all[i].find("filename");
      pickled const* const function = all[i].find("name");
      if (!text_.empty()) text_ += " < ";
      if (file != nullptr) text_ += file->text().substr(0, max_text);
      text_ += ':';
      text_ += std::to_string(number(all[i], "line"));
      text_ += ' ';
      if (function != nullptr) text_ += function->text().substr(0, max_text);
    }
    return names_.call_sites.number(text_);
  }

  /// Where a block of the snapshot was allocated. PyTorch before 2.1 writes the frames only into
  /// the block's history, whose first entry is the latest allocation.
  std::uint32_t call_site_of_block(pickled const& block) {
    if (block.find("frames") != nullptr) return call_site_of(block);
    pickled const* const history = block.find("history");
    return history == nullptr || history->items().empty() ? 0
                                                          : call_site_of(history->items().front());
  }

  void problem(std::string const& reason) {
    if (is_searching_) return;
    add_problem(source_->path() + ", entry " + std::to_string(entry_count_ - 1) +
                " of the history: " + reason);
  }

  std::unique_ptr<byte_source> source_;
  unpickler unpickler_;
  std::vector<pickled> entries_;
  std::size_t next_ = 0;
  std::uint64_t entry_count_ = 0;
  std::uint32_t device_ = 0;
  std::string text_;
  bool is_over_ = false;
  bool is_started_ = false, is_searching_ = false;
  std::vector<event> initial_;  // precede the history
  std::size_t next_initial_ = 0;
};

}  // namespace

bool looks_like_pickle(std::span<unsigned char const> first_bytes) {
  return first_bytes.size() >= 2 && first_bytes[0] == 0x80 && first_bytes[1] >= 2 &&
         first_bytes[1] <= 5;
}

std::unique_ptr<reader> open_pytorch(std::unique_ptr<byte_source> source) {
  return std::make_unique<pytorch_reader>(std::move(source));
}

}  // namespace quarry::inline QUARRY_ABI::trace
