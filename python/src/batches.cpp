// SPDX-License-Identifier: Apache-2.0
// Reads a trace a batch at a time, as NumPy's columns or as a stream of Arrow's record batches.
#include "quarry/trace/reader.hpp"
#include "quarry/trace/select_allocator.hpp"

#include "arrow_stream.hpp"
#include "event_buffer.hpp"
#include "names.hpp"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>
#include <algorithm>
#include <array>
#include <mutex>

namespace quarry::python {
namespace {

using namespace nb::literals;
using trace::event;

/// The events of a NumPy array, which the source keeps.
class array_source final : public event_source {
 public:
  array_source(record_view bytes, trace::name_tables names)
      : bytes_{std::move(bytes)}, events_{records_of<event>(bytes_)}, names_{std::move(names)} {}
  array_source(array_source const&) = delete;
  array_source& operator=(array_source const&) = delete;
  ~array_source() override {
    held_gil const gil;
    bytes_ = {};
  }
  [[nodiscard]] std::size_t read(std::span<event> events) override {
    std::size_t const count = std::min(events.size(), events_.size());
    std::ranges::copy(events_.first(count), events.begin());
    events_ = events_.subspan(count);
    return count;
  }
  [[nodiscard]] trace::name_tables const& names() const override { return names_; }

 private:
  record_view bytes_;
  std::span<event const> events_;
  trace::name_tables names_;
};

/// What Python reads batches from. Any thread may call it.
class batch_reader {
 public:
  batch_reader(std::string const& path, std::string const& allocator)
      : reader_{opened(path, allocator)} {}

  /// The events with their own addresses, which devices may have in common.
  [[nodiscard]] static std::unique_ptr<trace::reader> opened(std::string const& path,
                                                             std::string const& allocator) {
    auto source = trace::open_trace(path);
    if (allocator == trace::all_allocators) return source;
    return trace::select_allocator(std::move(source), allocator, path);
  }
  /// Calls `use(reader)` while no other thread uses the reader.
  template <class Use>
  auto with_reader(Use const& use) {
    std::scoped_lock const lock{mutex_};
    return use(*reader_);
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<trace::reader> reader_;
};

/// The events that are left of a file.
class file_source final : public event_source {
 public:
  explicit file_source(std::shared_ptr<batch_reader> file) : file_{std::move(file)} {}
  [[nodiscard]] std::size_t read(std::span<event> events) override {
    return file_->with_reader([&](trace::reader& source) {
      std::size_t const count = source.read(events);
      names_ = &source.names();
      return count;
    });
  }
  [[nodiscard]] trace::name_tables const& names() const override { return *names_; }

 private:
  std::shared_ptr<batch_reader> file_;
  trace::name_tables const* names_ = nullptr;
};

/// Up to `count` events, and the names of which there are more than `known` says. None at the end.
nb::object next_batch(batch_reader& file, std::size_t count,
                      std::array<std::size_t, 4> const& known) {
  record_buffer<event> events;
  std::array<std::vector<std::string>, 4> names;
  {
    released_gil const no_gil;
    file.with_reader([&](trace::reader& source) {
      while (events.size() < count) {
        constexpr std::size_t step = 1 << 14;
        std::size_t const read = source.read(events.room(std::min(step, count - events.size())));
        if (read == 0) break;
        events.add(read);
      }
      trace::name_tables const& tables = source.names();
      std::size_t i = 0;
      for (auto const* const table :
           {&tables.threads, &tables.streams, &tables.allocators, &tables.call_sites}) {
        if (table->size() != known[i]) names[i] = table->names();
        ++i;
      }
    });
  }
  if (events.size() == 0) return nb::none();
  nb::dict result;
  result["events"] = events.take();
  std::size_t i = 0;
  for (char const* const key : {"threads", "streams", "allocators", "call_sites"}) {
    if (!names[i].empty()) result[key] = names[i];
    ++i;
  }
  return result;
}

}  // namespace

void add_batches(nb::module_& core) {
  nb::class_<batch_reader>(core, "BatchReader", "Reads a trace a batch at a time.")
      .def(nb::init<std::string, std::string>(), "path"_a, "allocator"_a, without_gil{})
      .def(
          "next",
          [](batch_reader& file, std::size_t count, std::size_t threads, std::size_t streams,
             std::size_t allocators, std::size_t call_sites) {
            return next_batch(file, count, {threads, streams, allocators, call_sites});
          },
          "count"_a, "threads"_a, "streams"_a, "allocators"_a, "call_sites"_a,
          nb::sig("def next(self, count: int, threads: int, streams: int, allocators: int, "
                  "call_sites: int) -> dict[str, typing.Any] | None"))
      .def_prop_ro("format",
                   [](batch_reader& file) {
                     return file.with_reader([](trace::reader const& source) {
                       return trace::name_of(source.file_format());
                     });
                   })
      .def_prop_ro(
          "problems",
          [](batch_reader& file) {
            released_gil const no_gil;
            return file.with_reader([](trace::reader const& source) { return source.problems(); });
          })
      .def_prop_ro("problem_count", [](batch_reader& file) {
        released_gil const no_gil;
        return file.with_reader([](trace::reader const& source) { return source.problem_count(); });
      });
  core.def(
      "arrow_stream_of_file",
      [](std::shared_ptr<batch_reader> file, std::size_t count) {
        return arrow_stream_of(std::make_unique<file_source>(std::move(file)), count);
      },
      "file"_a, "count"_a);
  core.def(
      "arrow_stream_of_events",
      [](record_view events, std::vector<std::string> const& threads,
         std::vector<std::string> const& streams, std::vector<std::string> const& allocators,
         std::vector<std::string> const& call_sites, std::size_t count) {
        return arrow_stream_of(
            std::make_unique<array_source>(
                std::move(events), name_tables_of(threads, streams, allocators, call_sites)),
            count);
      },
      "events"_a, "threads"_a, "streams"_a, "allocators"_a, "call_sites"_a, "count"_a);
}

}  // namespace quarry::python
