// SPDX-License-Identifier: Apache-2.0
// Reads, converts and replays traces.
#include "quarry/trace/file_writer.hpp"
#include "quarry/trace/plan.hpp"
#include "quarry/trace/reader.hpp"
#include "quarry/trace/replay.hpp"
#include "quarry/trace/rmm_writer.hpp"
#include "quarry/trace/select_allocator.hpp"

#include "array_reader.hpp"
#include "event_buffer.hpp"
#include "names.hpp"
#include "options.hpp"
#include "problems.hpp"
#include "progress.hpp"
#include "replays.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

namespace quarry::python {
namespace {

using namespace nb::literals;
using trace::event;
using trace::replay_sample;

constexpr std::size_t batch = 1 << 14;

/// The members of a struct, in the form that numpy.dtype takes.
class record_layout {
 public:
  explicit record_layout(std::size_t size) { result_["itemsize"] = size; }
  record_layout& add(char const* name, char const* format, std::size_t offset) {
    names_.append(name);
    formats_.append(format);
    offsets_.append(offset);
    return *this;
  }
  [[nodiscard]] text_dict layout() {
    result_["names"] = names_;
    result_["formats"] = formats_;
    result_["offsets"] = offsets_;
    return result_;
  }

 private:
  text_dict result_;
  nb::list names_, formats_, offsets_;
};

text_dict event_layout() {
  return record_layout{sizeof(event)}
      .add("time", "u8", offsetof(event, time))
      .add("kind", "u1", offsetof(event, kind))
      .add("address", "u8", offsetof(event, address))
      .add("size", "u8", offsetof(event, size))
      .add("granted", "u8", offsetof(event, granted))
      .add("thread", "u4", offsetof(event, thread))
      .add("stream", "u4", offsetof(event, stream))
      .add("allocator", "u4", offsetof(event, allocator))
      .add("call_site", "u4", offsetof(event, call_site))
      .layout();
}

text_dict sample_layout() {
  return record_layout{sizeof(replay_sample)}
      .add("event", "u8", offsetof(replay_sample, event))
      .add("time", "u8", offsetof(replay_sample, time))
      .add("allocated", "u8", offsetof(replay_sample, allocated))
      .add("granted", "u8", offsetof(replay_sample, granted))
      .add("reserved", "u8", offsetof(replay_sample, reserved))
      .add("releasable", "u8", offsetof(replay_sample, releasable))
      .add("largest_free", "u8", offsetof(replay_sample, largest_free))
      .add("upstream_allocations", "u8", offsetof(replay_sample, upstream_allocations))
      .add("coalesces", "u8", offsetof(replay_sample, coalesces))
      .layout();
}

void add_tables(nb::dict& result, trace::name_tables const& names) {
  result["call_sites"] = names.call_sites.names();
  result["allocators"] = names.allocators.names();
  result["threads"] = names.threads.names();
  result["streams"] = names.streams.names();
}

/// Adds the format of a trace, and what its reader skipped.
void add_file(nb::dict& result, trace::reader const& source) {
  result["format"] = trace::name_of(source.file_format());
  add_problems(result, source);
}

text_dict read_trace(std::string const& path, nb::object callback) {
  record_buffer<event> events;
  std::unique_ptr<trace::reader> source;
  {
    released_gil const no_gil;
    progress_reporter progress{std::move(callback)};
    source = trace::open_trace(path);
    while (std::size_t const count = source->read(events.room(batch))) {
      events.add(count);
      progress.add(count);
    }
    progress.report();
  }
  text_dict result;
  result["events"] = events.take();
  add_tables(result, source->names());
  add_file(result, *source);
  return result;
}

/// Writes all events of `source` by `write(events, names)`.
template <class Write>
void copy_events(trace::reader& source, progress_reporter& progress, Write const& write) {
  std::vector<event> buffer(batch);
  while (std::size_t const count = source.read(buffer)) {
    write(std::span<event const>{buffer}.first(count), source.names());
    progress.add(count);
  }
  progress.report();
}

text_dict convert(std::string const& path, std::string const& output, std::string const& target,
                  nb::object callback) {
  std::unique_ptr<trace::reader> source;
  std::uint64_t events = 0, skipped = 0;
  {
    released_gil const no_gil;
    progress_reporter progress{std::move(callback)};
    if (target != "quarry" && target != "rmm")
      throw bad_argument{"convert: there is no format '" + target +
                         "' to write; there are quarry and rmm"};
    source = trace::open_trace(path);
    if (target == "quarry") {
      trace::file_writer writer{output};
      copy_events(*source, progress,
                  [&](auto const& some, auto const& names) { writer.add(some, names); });
      writer.close();
      events = writer.events();
    } else {
      // RMM's format names no devices, which may have addresses in common
      source = trace::select_allocator(std::move(source), trace::all_allocators);
      trace::rmm_writer writer{output};
      copy_events(*source, progress,
                  [&](auto const& some, auto const& names) { writer.write(some, names); });
      writer.flush();
      events = writer.written();
      skipped = writer.skipped();
    }
  }
  text_dict result;
  result["events"] = events;
  result["skipped_events"] = skipped;
  add_file(result, *source);
  return result;
}

void write_trace(std::string const& path, record_view bytes, std::vector<std::string> const& sites,
                 std::vector<std::string> const& allocators,
                 std::vector<std::string> const& threads, std::vector<std::string> const& streams) {
  auto const events = records_of<event>(bytes);
  released_gil const no_gil;
  trace::name_tables const names = name_tables_of(threads, streams, allocators, sites);
  trace::file_writer writer{path};
  for (std::size_t first = 0; first < events.size(); first += batch)
    writer.add(events.subspan(first, std::min(batch, events.size() - first)), names);
  writer.close();
}

text_dict dict_of_request(event const& request) {
  text_dict result;
  result["kind"] = static_cast<int>(request.kind);
  result["time"] = request.time;
  result["address"] = request.address;
  result["size"] = request.size;
  result["granted"] = request.granted;
  result["thread"] = request.thread;
  result["stream"] = request.stream;
  result["allocator"] = request.allocator;
  result["call_site"] = request.call_site;
  return result;
}

}  // namespace

text_dict dict_of(trace::replay_result const& replayed) {
  text_dict result;
  result["events"] = replayed.events;
  result["pool"] = nb::cast(replayed.pool);
  result["upstream_us"] = replayed.upstream_us;
  result["measured_us"] = nb::cast(replayed.measured_us);
  result["failures"] = replayed.failures;
  result["first_failure"] = nb::none();
  if (auto const& failure = replayed.first_failure) {
    nb::dict first;
    first["event"] = failure->event;
    first["request"] = dict_of_request(failure->request);
    first["reason"] = failure->reason;
    first["pool"] = nb::cast(failure->pool);
    result["first_failure"] = first;
  }
  result["unknown_frees"] = replayed.unknown_frees;
  result["repeated_addresses"] = replayed.repeated_addresses;
  result["recorded_failures"] = replayed.recorded_failures;
  result["retried_failures"] = replayed.retried_failures;
  result["repeated_failures"] = replayed.repeated_failures;
  result["peak_with_failures"] = replayed.peak_with_failures;
  result["recorded_peak_reserved"] = replayed.recorded_peak_reserved;
  result["max_live"] = replayed.max_live;
  result["plan"] = nb::none();
  if (auto const& use = replayed.plan) {
    nb::dict plan;
    plan["planned"] = use->planned;
    plan["occupied"] = use->occupied;
    plan["unplanned"] = use->unplanned;
    plan["jumps"] = use->jumps;
    plan["fallback_peak"] = use->fallback_peak;
    result["plan"] = plan;
  }
  record_buffer<replay_sample> samples;
  std::ranges::copy(replayed.samples, samples.room(replayed.samples.size()).begin());
  samples.add(replayed.samples.size());
  result["samples"] = samples.take();
  return result;
}

text_dict dict_of(trace::replay_result const& replayed, trace::name_table const& call_sites) {
  text_dict result = dict_of(replayed);
  if (auto const& failure = replayed.first_failure) {
    auto const site = failure->request.call_site;
    if (site < call_sites.size()) result["failed_call_site"] = call_sites.name(site);
  }
  return result;
}

namespace {

text_dict replay_file(std::string const& path, std::string const& allocator,
                      replay_settings const& settings, nb::object callback) {
  std::unique_ptr<trace::reader> source;
  trace::replay_result replayed;
  {
    released_gil const no_gil;
    progress_reporter progress{std::move(callback)};
    source = trace::select_allocator(trace::open_trace(path), allocator, path);
    trace::replayer pool{settings.options_for(source->names().call_sites)};
    std::vector<event> buffer(batch);
    while (std::size_t const count = source->read(buffer)) {
      pool.add(std::span{buffer}.first(count));
      progress.add(count);
    }
    progress.report();
    replayed = pool.result();
  }
  text_dict result = dict_of(replayed, source->names().call_sites);
  add_file(result, *source);
  return result;
}

text_dict replay_events(record_view bytes, std::vector<std::string> const& sites,
                        replay_settings const& settings, nb::object callback) {
  auto const events = records_of<event>(bytes);
  trace::name_table call_sites;
  trace::replay_result replayed;
  {
    released_gil const no_gil;
    progress_reporter progress{std::move(callback)};
    call_sites = name_table_of(sites);
    trace::replayer pool{settings.options_for(call_sites)};
    for (std::size_t first = 0; first < events.size(); first += batch) {
      auto const part = events.subspan(first, std::min(batch, events.size() - first));
      pool.add(part);
      progress.add(part.size());
    }
    progress.report();
    replayed = pool.result();
  }
  return dict_of(replayed, call_sites);
}

/// The events of a `Trace`, with its allocators. Their numbers are one higher than in the trace:
/// entry 0 of a reader's table has no name, but in a `Trace` it may have one.
class named_events final : public array_reader {
 public:
  named_events(std::span<event const> events, std::vector<std::string> const& allocators)
      : array_reader{events} {
    for (std::string const& each : allocators) (void)names_.allocators.add(each);
  }
  [[nodiscard]] std::size_t read(std::span<event> target) override {
    std::size_t const count = array_reader::read(target);
    for (event& each : target.first(count)) ++each.allocator;
    return count;
  }
};

record_bytes select_events(record_view bytes, std::vector<std::string> const& allocators,
                           std::string const& allocator, std::string const& trace) {
  auto const events = records_of<event>(bytes);
  record_buffer<event> selected;
  {
    released_gil const no_gil;
    auto const source = trace::select_allocator(std::make_unique<named_events>(events, allocators),
                                                allocator, trace);
    for (;;) {
      auto const room = selected.room(batch);
      std::size_t const count = source->read(room);
      if (count == 0) break;
      for (event& each : room.first(count)) --each.allocator;
      selected.add(count);
    }
  }
  return selected.take();
}

}  // namespace

void add_traces(nb::module_& core) {
  core.def("event_layout", event_layout);
  core.def("sample_layout", sample_layout);
  core.def("read_trace", read_trace, "path"_a, "progress"_a = nb::none());
  core.def("convert", convert, "path"_a, "output"_a, "target"_a, "progress"_a = nb::none());
  core.def("write_trace", write_trace, "path"_a, "events"_a, "call_sites"_a, "allocators"_a,
           "threads"_a, "streams"_a);
  core.def("select_events", select_events, "events"_a, "allocators"_a, "allocator"_a, "trace"_a);
  nb::class_<replay_settings>(core, "ReplaySettings")
      .def(nb::init<std::string, std::string, pool_options, double, double, double, std::uint64_t,
                    std::size_t, std::uint64_t, std::optional<std::uint64_t>,
                    std::optional<std::string>, int, std::optional<routing_table>,
                    std::optional<plan>>(),
           nb::kw_only(), "strategy"_a, "heuristic"_a, "pool"_a, "us_per_allocation"_a,
           "us_per_gib"_a, "us_per_free"_a, "stream_delay"_a, "max_samples"_a, "sample_begin"_a,
           "sample_end"_a.none(), "resource"_a.none(), "device"_a, "routing"_a.none(),
           "plan"_a.none());
  core.def("replay_file", replay_file, "path"_a, "allocator"_a, "settings"_a,
           "progress"_a = nb::none());
  core.def("replay_events", replay_events, "events"_a, "call_sites"_a, "settings"_a,
           "progress"_a = nb::none());
}

}  // namespace quarry::python
