// SPDX-License-Identifier: Apache-2.0
#include "trace/pytorch_snapshot.hpp"

#include "trace/address_map.hpp"
#include "trace/initial_state.hpp"
#include "trace/segment_pools.hpp"
#include "trace/snapshot_blocks.hpp"
#include "trace/unpickler.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Bytes of a text in a name. A hostile file could refer to a text of megabytes in each event.
constexpr std::size_t max_text = 4096;
/// A name of a call site that has this number of bytes gets no more frames, but says how many it
/// leaves out. Stacks of programs are shorter: a frame has some 60 bytes.
constexpr std::size_t max_stack = 16'384;

std::optional<event_kind> kind_of(std::string_view action) {
  if (action == "alloc") return event_kind::allocate;
  if (action == "free_requested" || action == "free_completed" || action == "free")
    return event_kind::deallocate;
  if (action == "oom") return event_kind::fail;
  if (action == "segment_alloc" || action == "segment_map") return event_kind::reserve;
  if (action == "segment_free" || action == "segment_unmap") return event_kind::unreserve;
  if (action == "user_defined") return event_kind::phase;
  return std::nullopt;
}

std::string_view action_of(pickled const& entry) {
  pickled const* const action = entry.find("action");
  return action == nullptr ? std::string_view{} : action->text();
}

/// A free is requested when the program drops a tensor, and complete when no stream uses the memory
/// any more (`record_stream`). Until then the memory cannot be reused, so `free_completed` becomes
/// the deallocation. In a history without completed frees, `free_requested` does.
class pytorch_reader final : public reader {
 public:
  explicit pytorch_reader(std::unique_ptr<byte_source> source)
      : source_{std::move(source)}, unpickler_{*source_, "device_traces"} {}

  std::size_t read(std::span<event> events) override {
    if (events.empty()) return 0;
    if (!is_started_) {
      find_initial_state();
      if (devices_with_events_.size() > 1) keep_histories();
    }
    std::size_t count = 0;
    for (; count < events.size() && next_initial_ < initial_.size(); ++next_initial_)
      events[count++] = initial_[next_initial_];
    while (count < events.size()) {
      auto const made = histories_.empty() ? next_converted() : next_of_histories();
      if (!made) break;
      has_allocations_ |= made->kind == event_kind::allocate;
      events[count++] = *made;
    }
    has_events_ |= count != 0;
    if (count == 0 && !is_checked_) check_contents();
    return count;
  }
  format file_format() const override { return format::pytorch; }

 private:
  std::optional<event> next_converted() {
    while (next_ < entries_.size() || next_entries()) {
      pickled const& entry = entries_[next_++];
      ++entry_count_;
      if (auto const made = convert(entry)) return made;
    }
    return std::nullopt;
  }

  /// The events of a device that are left, and the latest time of those before them.
  struct device_history {
    std::vector<event> events;
    std::size_t next = 0;
    std::uint64_t latest = 0;

    [[nodiscard]] std::uint64_t time() const { return std::max(latest, events[next].time); }
  };
  /// The snapshot has the history of one device after the other, but what the devices did happened
  /// at the same time. Keeps all events, because a file can be read in one order only.
  void keep_histories() {
    std::map<std::uint32_t, device_history> found;
    while (auto const made = next_converted()) found[device_].events.push_back(*made);
    for (auto& [device, each] : found) histories_.push_back(std::move(each));
  }
  /// The earliest event of all devices. Each device keeps the order of its events.
  std::optional<event> next_of_histories() {
    device_history* first = nullptr;
    for (device_history& each : histories_)
      if (each.next < each.events.size() && (first == nullptr || each.time() < first->time()))
        first = &each;
    if (first == nullptr) return std::nullopt;
    first->latest = first->time();
    return first->events[first->next++];
  }

  bool next_entries() {
    if (is_over_) return false;
    next_ = 0;
    entries_.clear();
    try {
      while (entries_.empty()) {
        if (!unpickler_.next(entries_)) {
          is_over_ = is_complete_ = true;
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
    if (std::exchange(device_, names_.allocators.number(name)) != device_) pending_.clear();
    return true;
  }

  /// Called at the end: reports what the snapshot does not have. A snapshot without a history is
  /// not damaged: the program may have used no memory.
  void check_contents() {
    is_checked_ = true;
    pickled const& root = unpickler_.value();
    if (is_complete_ && root.find("device_traces") == nullptr && segments_of(root) == nullptr)
      throw bad_trace{source_->path() +
                      ": the pickle is no snapshot of PyTorch: it has neither 'device_traces' nor "
                      "'segments'"};
    check_end();
    require_events(has_events_);
    if (problem_count() != 0) return;
    constexpr char const* advice =
        ". Call torch.cuda.memory._record_memory_history() before the program allocates";
    if (entry_count_ == 0) {
      add_problem(source_->path() + ": the snapshot has no history" + advice);
    } else if (!has_allocations_) {
      pickled const* const segments = segments_of(root);
      bytes total = 0;
      for (pickled const& segment : segments == nullptr ? pickled{}.items() : segments->items())
        total += natural_of(segment, "total_size");
      add_problem(source_->path() + ": the snapshot has no allocation. Its history has none, and " +
                  std::to_string(total) + " bytes of segments have none in use" + advice);
    }
  }
  /// A complete pickle must end the file.
  void check_end() {
    try {
      if (is_complete_ && !source_->peek(1).empty())
        add_problem(source_->path() + ", offset " + std::to_string(source_->offset()) +
                    ": bytes follow the end of the pickle; they are ignored");
    } catch (bad_trace const& damage) {
      add_problem(damage.what());
    }
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
          std::string_view const action = action_of(entry);
          if (action == "free_completed") histories_with_completion_.insert(device_);
          auto const made = convert(entry);
          if (!made) continue;
          first_time = std::min(first_time, made->time);
          devices_with_events_.insert(device_);
          if (action == "free_requested")
            state.add_requested_free(*made);
          else
            state.add(*made);
        }
        next_ = entries_.size();
      }
      add_blocks(unpickler_.value(), state);
    } catch (bad_trace const&) {  // the second run reports it
    }
    is_searching_ = false;
    is_over_ = is_complete_ = false;
    next_ = 0;
    entries_.clear();
    initial_ = state.take();
    for (auto& [device, pools] : pools_) pools.restart();
    for (event& each : initial_) {
      each.allocator = allocator_of(each.allocator, pools_[each.allocator].pool_of(each.address));
      each.time = first_time == ~std::uint64_t{0} ? 0 : first_time;
      if (each.call_site == 0)  // no block of the snapshot says where it was allocated
        each.call_site = names_.call_sites.number("in use before the recording began");
    }
    for (event const& each : initial_) has_allocations_ |= each.kind == event_kind::allocate;
    for (std::string const& each : segment_problems_) add_problem(each);
    segment_problems_.clear();
    unpickler_.restart();
  }

  /// The segments and allocations that the snapshot has at its end.
  void add_blocks(pickled const& snapshot, initial_state& state) {
    pickled const* const segments = segments_of(snapshot);
    if (segments == nullptr) return;
    for (pickled const& segment : segments->items()) {
      event each;
      each.allocator =
          names_.allocators.number("device " + std::to_string(natural_of(segment, "device")));
      each.stream = stream_of(segment);
      each.address = address_of(segment, "address");
      each.size = natural_of(segment, "total_size");
      if (auto const pool = pool_of(segment, "segment_pool_id"))
        pools_[each.allocator].add_final(each.address, each.size, *pool);
      state.add_final_segment(each, [&] { return call_site_of(segment); });
      auto const add = [&](snapshot_block const& found, pickled const& block) {
        event allocation = each;
        allocation.address = found.address;
        allocation.size = found.requested;
        state.add_final_allocation(allocation, [&] { return call_site_of_block(block); });
        if (found.is_freed) histories_with_completion_.insert(each.allocator);
      };
      std::string const fault = for_each_block_in_use(segment, add);
      if (!fault.empty() && segment_problems_.size() < max_problems)
        segment_problems_.push_back(source_->path() + ", segment " +
                                    std::to_string(&segment - segments->items().data()) + ": " +
                                    fault);
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
      if (action->text() != "snapshot")
        problem("has the unknown action '" + std::string{action->text().substr(0, 60)} + "'");
      return std::nullopt;
    }
    event result;
    result.kind = *kind;
    result.time = natural_of(entry, "time_us") * 1000;
    result.allocator = device_;
    result.stream = stream_of(entry);
    if (*kind == event_kind::phase) {
      pickled const* const text = entry.find("user_metadata");
      result.call_site =
          names_.call_sites.number(text == nullptr ? "" : text->text().substr(0, max_text));
      return result;
    }
    pickled const* const size = entry.find("size");
    if (size == nullptr || size->integer() < 0) {
      problem(size == nullptr ? "has no 'size'"
                              : "has the negative 'size' " + std::to_string(size->integer()));
      return std::nullopt;
    }
    result.size = size->natural();
    if (!is_searching_) result.call_site = call_site_of(entry);
    auto const stated = pool_of(entry, "pool_id");
    if (*kind == event_kind::fail) {
      result.granted = natural_of(entry, "device_free");
      if (stated && !is_searching_) result.allocator = allocator_of(device_, *stated);
      return result;
    }
    if (entry.find("addr") == nullptr) {
      problem("has no 'addr'");
      return std::nullopt;
    }
    result.address = address_of(entry, "addr");
    if (*kind == event_kind::allocate && result.address == 0 && result.size != 0) {
      problem("has bytes and the 'addr' 0");  // replays ignore null pointers
      return std::nullopt;
    }
    find_pool(result, stated);
    if (*kind == event_kind::deallocate && !is_searching_ &&
        !is_complete_free(action->text(), result))
      return std::nullopt;
    return result;
  }

  /// Follows the segments, and gives an event the allocator of its pool. `stated` is the pool that
  /// the entry names. While the initial state is searched, the allocators are those of the devices.
  void find_pool(event& each, std::optional<pool_id> stated) {
    segment_pools& pools = pools_[device_];
    if (each.kind == event_kind::reserve)
      pools.reserve(each.address, each.size, stated);
    else if (stated)
      pools.state(each.address, each.size, *stated);
    pool_id const pool = stated ? *stated : pools.pool_of(each.address);
    if (each.kind == event_kind::unreserve) pools.unreserve(each.address, each.size);
    if (!is_searching_) each.allocator = allocator_of(device_, pool);
  }

  /// The pool under a key; none if there is none.
  static std::optional<pool_id> pool_of(pickled const& entry, std::string_view key) {
    pickled const* const found = entry.find(key);
    if (found == nullptr || found->items().size() != 2) return std::nullopt;
    return pool_id{found->items()[0].integer(), found->items()[1].integer()};
  }

  /// The allocator of a pool. The default pool has the device's name.
  std::uint32_t allocator_of(std::uint32_t device, pool_id pool) {
    if (!pool.is_private()) return device;
    if (named_pool_ == pool && named_device_ == device) return named_allocator_;
    named_pool_ = pool;
    named_device_ = device;
    return named_allocator_ = names_.allocators.number(names_.allocators.name(device) + ", pool (" +
                                                       std::to_string(pool.first) + ", " +
                                                       std::to_string(pool.second) + ")");
  }

  /// Whether an entry ends an allocation. The call site of a free is that of its request: a free
  /// that waited is completed in any later call of the allocator.
  bool is_complete_free(std::string_view action, event& freed) {
    if (freed.address == 0 || !histories_with_completion_.contains(device_)) return true;
    if (action == "free_requested") {
      (void)pending_.emplace(freed.address, freed.call_site);
      return false;
    }
    if (auto const found = pending_.find(freed.address); found != pending_.end()) {
      freed.call_site = found->second;
      pending_.erase(found);
    }
    return true;
  }

  std::uint32_t stream_of(pickled const& entry) {
    std::uint64_t const handle = natural_of(entry, "stream");
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
      text_ += std::to_string(natural_of(all[i], "line"));
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
  bool is_over_ = false, is_complete_ = false;  // at the end; and the end of the pickle was read
  bool is_started_ = false, is_searching_ = false, is_checked_ = false;
  bool has_allocations_ = false, has_events_ = false;
  std::set<std::uint32_t> histories_with_completion_;         // by their devices
  std::unordered_map<std::uint64_t, std::uint32_t> pending_;  // call sites of frees, by address
  std::map<std::uint32_t, segment_pools> pools_;              // by their devices
  pool_id named_pool_;  // whose allocator `allocator_of` looked up last
  std::uint32_t named_device_ = 0, named_allocator_ = 0;
  std::vector<std::string> segment_problems_;
  std::set<std::uint32_t> devices_with_events_;
  std::vector<device_history> histories_;  // if several devices have events
  std::vector<event> initial_;             // precede the history
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
