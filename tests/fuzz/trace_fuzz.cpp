// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a trace, twice, writes the events with file_writer, reads them again, and
// replays them.
//
// The first byte of the input selects what the file is made of. Link with libFuzzer, or with
// main.cpp.
#include "fuzz/byte_source.hpp"
#include "fuzz/fuzz_file.hpp"
#include "quarry/trace.hpp"
#include "trace/codec.hpp"

#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

namespace quarry::test {
namespace {

using trace::event;
using trace::event_kind;

/// Chunks with right checksums and any payloads, between other bytes.
std::string quarry_file(byte_source& input) {
  std::string result{"QUARRYTR\1\0\0\0\0\0\0\0", 16};
  while (!input.is_exhausted()) {
    if (input.chance(16)) result += static_cast<char>(input.u8());
    auto const kind = static_cast<trace::codec::chunk_kind>(1 + input.u8() % 3);
    std::uint32_t const count = input.chance(16) ? input.u32() : input.u8();
    std::vector<unsigned char> payload(input.range(0, 200));
    for (auto& byte : payload) byte = input.u8();
    unsigned char header[trace::codec::chunk_header_bytes];
    trace::codec::put_chunk_header(header, kind, count, payload);
    if (input.chance(8)) header[input.index(sizeof header)] ^= 1;
    result.append(header, header + sizeof header);
    result.append(payload.begin(), payload.end());
  }
  return result;
}

/// Opcodes of plain containers, mostly; `prefix` may open the lists of a snapshot.
std::string pickle_file(byte_source& input, std::string_view prefix) {
  constexpr std::string_view codes{
      "(.012NJKMGX\x88\x89\x8a\x8c]ae)t\x85\x86\x87}su\x8f\x90\x91qhrj\x94(((KKNhhqq"};
  constexpr std::string_view texts[] = {"action",  "alloc",  "free_requested", "segment_map",
                                        "addr",    "size",   "segment_unmap",  "frames",
                                        "time_us", "stream", "user_defined",   "segments"};
  std::string result{prefix};
  while (!input.is_exhausted()) {
    unsigned const choice = input.u8();
    if (choice < 60) {
      std::string_view const text = texts[choice % std::size(texts)];
      result += '\x8c';
      result += static_cast<char>(text.size());
      result += text;
    } else if (choice < 70) {  // a whole entry
      result += std::string_view{"}(\x8c\6action\x8c\5alloc\x8c\4addrM", 23};
      result += static_cast<char>(input.u8());
      result += static_cast<char>(input.u8());
      result += "\x8c\4sizeK";
      result += static_cast<char>(input.u8());
      result += "ua";
    } else if (choice < 220) {
      result += codes[choice % codes.size()];
      if (input.chance(128)) result += static_cast<char>(input.u8() % 8);
    } else {
      result += static_cast<char>(input.u8());
    }
  }
  return result;
}

std::string gzip_of(std::string_view data) {
  z_stream stream = {};
  expect(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflate");
  std::string result(deflateBound(&stream, data.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  expect(deflate(&stream, Z_FINISH) == Z_STREAM_END, "deflate");
  result.resize(stream.total_out);
  deflateEnd(&stream);
  return result;
}

/// All that a reader hands out.
struct outcome {
  std::vector<event> events;
  std::vector<std::string> problems;
  trace::name_tables names;
  std::string refusal;
};

outcome read_trace_file(std::string const& path, std::size_t batch) {
  outcome result;
  try {
    auto const reader = trace::open_trace(path);
    std::vector<event> events(batch);
    try {
      while (std::size_t const count = reader->read(events)) {
        expect(count <= batch, "more events than there is room for");
        result.events.insert(result.events.end(), events.begin(),
                             events.begin() + static_cast<std::ptrdiff_t>(count));
        expect(result.events.size() < 1'000'000, "more events than bytes");
      }
      expect(reader->read(events) == 0, "events behind the end");
    } catch (trace::bad_trace const& failure) {
      result.refusal = failure.what();
    }
    result.problems = reader->problems();
    result.names = reader->names();
  } catch (trace::bad_trace const& failure) {
    result.refusal = failure.what();
  }
  if (!result.refusal.empty())
    expect(result.refusal.starts_with(path), "a refusal that does not name the file");
  for (auto const& each : result.problems)
    expect(each.starts_with(path), "a problem that does not name the file");
  for (event const& each : result.events) {
    expect(static_cast<std::uint8_t>(each.kind) < trace::event_kinds, "an unknown kind of event");
    expect(each.call_site < result.names.call_sites.size() &&
               each.allocator < result.names.allocators.size() &&
               each.thread < result.names.threads.size() &&
               each.stream < result.names.streams.size(),
           "an event refers to a name that the trace does not have");
  }
  return result;
}

void replay_events(std::vector<event> const& events, byte_source& options) {
  std::vector<trace::strategy> strategies;
  for (trace::strategy_text const& each : trace::strategy_texts())
    if (!each.needs_plan) strategies.push_back(trace::strategy_named(each.name));
  trace::replay_options choice{.placement = strategies[options.index(strategies.size())]};
  if (options.chance(128)) choice.pool.max_bytes = options.size(bytes{1} << 30);
  choice.max_samples = options.range(0, 20);
  trace::replayer memory{choice};
  memory.add(events);
  auto const found = memory.result();
  expect(found.events == events.size(), "not all events are replayed");
  expect(found.pool.reserved <= choice.pool.max_bytes, "the pool exceeds its capacity");
  expect(found.pool.allocated <= found.pool.reserved, "the pool reserves less than it allocates");
  expect(found.pool.invalid_frees == 0, "a replay frees an address twice");
  expect(found.samples.size() <= std::max<std::size_t>(choice.max_samples, 2), "too many samples");
  bytes peak = 0;
  for (auto const& each : found.samples) peak = std::max(peak, each.allocated);
  expect(peak == found.pool.peak_allocated, "the samples lost the peak");
}

void run_trace(byte_source& input) {
  static fuzz_file const file{"-trace"}, copy{"-trace-copy"};
  std::uint8_t const choice = input.u8();
  std::uint8_t const settings[] = {input.u8(), input.u8(), input.u8(), input.u8(), input.u8()};
  byte_source replay_settings{settings, sizeof settings};
  std::size_t const batch = 1 + input.u8() % 40;
  std::string contents;
  switch (choice % 4) {
    case 0:
      contents = quarry_file(input);
      break;
    case 1:
      contents = pickle_file(input, std::string_view{"\x80\4", 2});
      break;
    case 2:
      contents = pickle_file(input, std::string_view{"\x80\4}(X\x0d\0\0\0device_traces](](", 26});
      break;
    default:
      contents = input.chance(128) ? "QUARRYTR\1" + std::string(7, '\0') : std::string{};
      while (!input.is_exhausted()) contents += static_cast<char>(input.u8());
  }
  if (choice >= 192) {
    contents = gzip_of(contents);
    if (choice >= 224)
      contents.resize(contents.size() - std::min<std::size_t>(choice % 32, contents.size()));
  }
  file.write(contents);
  outcome const first = read_trace_file(file.path(), batch);
  outcome const second = read_trace_file(file.path(), 1000);
  if (first.refusal.empty() || second.refusal.empty()) {
    expect(first.events == second.events, "two readings differ");
    expect(first.problems == second.problems, "two readings have different problems");
  }
  {
    trace::file_writer writer{copy.path()};
    writer.add(first.events, first.names);
    writer.close();
  }
  outcome const copied = read_trace_file(copy.path(), batch);
  expect(copied.refusal.empty() && copied.problems.empty(), "the copy has problems");
  expect(copied.events == first.events, "the copy differs");
  replay_events(first.events, replay_settings);
}

}  // namespace
}  // namespace quarry::test

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  quarry::test::byte_source input{data, size};
  quarry::test::run_trace(input);
  return 0;
}
