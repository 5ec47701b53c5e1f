// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/select_allocator.hpp"

#include "trace/joined_devices.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Whether an event concerns the memory of its allocator.
bool has_allocator(event const& each) {
  return each.kind != event_kind::wait && each.kind != event_kind::phase;
}

/// Reads another trace. Has its names and problems.
class reader_of_events : public reader {
 public:
  explicit reader_of_events(std::unique_ptr<reader> source) : source_{std::move(source)} {}
  format file_format() const override { return source_->file_format(); }

 protected:
  [[nodiscard]] std::size_t read_source(std::span<event> events) {
    std::size_t const count = source_->read(events);
    copy_names();
    return count;
  }

 private:
  static void copy(name_table const& source, name_table& target) {
    for (std::size_t i = target.size(); i < source.size(); ++i) (void)target.add(source.names()[i]);
  }
  void copy_names() {
    name_tables const& names = source_->names();
    copy(names.call_sites, names_.call_sites);
    copy(names.allocators, names_.allocators);
    copy(names.threads, names_.threads);
    copy(names.streams, names_.streams);
    while (problem_count() < source_->problem_count()) {
      std::size_t const next = problem_count();
      add_problem(next < source_->problems().size() ? source_->problems()[next] : std::string{});
    }
  }

  std::unique_ptr<reader> source_;
};

class joining_reader final : public reader_of_events {
 public:
  using reader_of_events::reader_of_events;

  std::size_t read(std::span<event> events) override {
    std::size_t const count = read_source(events);
    for (event& each : events.first(count)) devices_.join(each, names_.allocators);
    return count;
  }

 private:
  joined_devices devices_;
};

class selecting_reader final : public reader_of_events {
 public:
  selecting_reader(std::unique_ptr<reader> source, std::string allocator, std::string trace)
      : reader_of_events{std::move(source)},
        selected_{std::move(allocator)},
        trace_{std::move(trace)} {}

  std::size_t read(std::span<event> events) override {
    if (events.empty()) return 0;
    for (;;) {
      std::size_t const count = read_source(events);
      if (count == 0) {
        if (!selected_.empty() && !was_found_) refuse_selection();
        return 0;
      }
      auto const read = events.first(count);
      std::size_t const passed = static_cast<std::size_t>(
          std::remove_if(read.begin(), read.end(),
                         [&](event const& each) { return !passes(each); }) -
          read.begin());
      if (passed != 0) return passed;
    }
  }

 private:
  [[nodiscard]] bool passes(event const& each) {
    if (!has_allocator(each)) return true;
    if (each.allocator != last_ || seen_.empty()) find(each.allocator);
    return selected_.empty() || is_selected_;
  }
  void find(std::uint32_t number) {
    auto const& names = names_.allocators;
    std::string const name = number < names.size() ? names.name(number) : std::string{};
    last_ = number;
    std::string_view const device = device_of(name);
    is_selected_ = name == selected_ || (!device.empty() && device == selected_);
    was_found_ |= is_selected_;
    if (std::find(seen_.begin(), seen_.end(), name) == seen_.end()) seen_.push_back(name);
    if (!selected_.empty() || device.empty()) return;
    if (device_.empty()) device_ = device;
    if (device_ != device) refuse("has several devices");
  }
  /// A log may name an allocator of which it records nothing, such as the resource below a pool.
  [[noreturn]] void refuse_selection() const {
    auto const& names = names_.allocators.names();
    bool const is_named = std::find(names.begin(), names.end(), selected_) != names.end();
    refuse(is_named ? "names the allocator '" + selected_ +
                          "', but has no events of it. What a pool allocates belongs to the pool, "
                          "and not to the resource below it"
                    : "has no allocator '" + selected_ + "'");
  }
  [[noreturn]] void refuse(std::string const& fault) const {
    std::string const message = trace_ + ' ' + fault;
    std::string names;
    for (std::string const& each : seen_)
      if (!each.empty()) names += (names.empty() ? "" : ", ") + each;
    if (names.empty())
      throw bad_argument{message + ": it names no allocators. Select none, to use all events"};
    throw bad_argument{message + ". Its allocators: " + names + ". Choose one of them, or '" +
                       all_allocators + "' for one pool that serves all"};
  }

  std::string selected_;  // empty: the events of all allocators
  std::string trace_;     // its name in messages
  std::vector<std::string> seen_;
  std::string device_;      // the first one, if none is selected
  std::uint32_t last_ = 0;  // the allocator that `find` looked up last
  bool is_selected_ = false, was_found_ = false;
};

}  // namespace

std::unique_ptr<reader> select_allocator(std::unique_ptr<reader> source, std::string allocator,
                                         std::string trace) {
  if (allocator == all_allocators) return std::make_unique<joining_reader>(std::move(source));
  return std::make_unique<selecting_reader>(std::move(source), std::move(allocator),
                                            std::move(trace));
}

}  // namespace quarry::inline QUARRY_ABI::trace
