// SPDX-License-Identifier: Apache-2.0
#include "trace_file.hpp"

#include "quarry/core/errors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr bytes default_trace = bytes{256} * 1000 * 1000;  // of all ranks

/// `text` as a string of JSON.
std::string quoted(std::string const& text) {
  std::string result = "\"";
  for (char const letter : text) {
    if (letter == '"' || letter == '\\') {
      result += {'\\', letter};
    } else if (static_cast<unsigned char>(letter) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", static_cast<unsigned>(letter));
      result += code;
    } else {
      result += letter;
    }
  }
  result += '"';
  return result;
}

std::string list_of(std::vector<std::string> const& texts) {
  std::string result = "[";
  for (auto const& text : texts) {
    if (result.size() > 1) result += ',';
    result += quoted(text);
  }
  result += ']';
  return result;
}

/// A rank's records in the file: the first ones, and the last if some are missing between them.
struct kept_records {
  std::uint32_t kept;
  std::uint32_t written;
  std::uint64_t ended;
};

/// Whether the record is that of a call, and not a part of one.
bool is_call(trace_record const& record) {
  return record.role != static_cast<std::uint8_t>(trace_role::send_part) &&
         (record.flags & trace_flag::is_started) == 0;
}

template <class Number>
std::string list_of(std::vector<Number> const& numbers) {
  std::string result;
  for (Number const each : numbers) {
    if (!result.empty()) result += ',';
    result += std::to_string(each);
  }
  return '[' + result + ']';
}

/// Converts times of a GPU to times of the first GPU.
void correct_times(std::vector<trace_record>& records, std::int64_t offset) {
  auto const change = static_cast<std::uint64_t>(offset);
  for (trace_record& each : records) {
    each.begin += change;
    if (each.end != 0) each.end += change;
  }
}

std::string head_of(launch_options const& asked, traced_gpus const& gpus,
                    std::vector<std::string> const& functions,
                    std::vector<std::string> const& places) {
  std::string clocks;
  if (!gpus.clocks.offsets.empty())
    clocks = ",\"clock_offsets_ns\":" + list_of(gpus.clocks.offsets) +
             ",\"clock_error_ns\":" + std::to_string(gpus.clocks.error);
  return "QUARRY MPI TRACE 2\n{\"ranks\":" + std::to_string(asked.ranks) +
         ",\"device\":" + (asked.uses_gpu ? "\"gpu\"" : "\"cpu\"") +
         // globaltimer's step on GPUs of today
         ",\"gpu_ranks\":" + list_of(gpus.first_ranks) + clocks +
         (asked.uses_gpu ? "" : ",\"threads\":" + std::to_string(asked.threads)) +
         ",\"resolution_ns\":" + (asked.uses_gpu ? "1000" : "1") +
         ",\"limit\":" + std::to_string(trace_limit(asked)) +
         ",\"record_bytes\":" + std::to_string(sizeof(trace_record)) +
         ",\"functions\":" + list_of(functions) + ",\"places\":" + list_of(places) + "}\n";
}

}  // namespace

std::uint32_t trace_limit(launch_options const& asked) {
  if (asked.trace_events != 0) return asked.trace_events;
  constexpr bytes most = 1u << 20;
  bytes const limit = default_trace / (sizeof(trace_record) * asked.ranks);
  return static_cast<std::uint32_t>(std::clamp(limit, bytes{2}, most) - 1);
}

void check_trace(launch_options const& asked, std::vector<std::string> const& functions) {
  if (asked.trace.empty()) {
    if (asked.trace_events != 0)
      throw bad_argument{"--trace-events has no effect without --trace FILE"};
    return;
  }
  if (functions.empty())
    throw bad_argument{"--trace " + asked.trace +
                       ": the program records no calls; compile it with quarry-mpicc --trace"};
  std::FILE* const file = std::fopen(asked.trace.c_str(), "wb");
  if (file == nullptr)
    throw bad_argument{"--trace " + asked.trace + ": cannot be written: " + std::strerror(errno)};
  std::fputs("QUARRY MPI TRACE 0\n", file);  // until the trace replaces it
  std::fclose(file);
}

trace_writer::trace_writer(launch_options const& asked, traced_gpus gpus,
                           std::vector<std::string> functions, rank_reader ranks,
                           record_reader records)
    : asked_{asked},
      gpus_{std::move(gpus)},
      functions_{std::move(functions)},
      read_ranks_{std::move(ranks)},
      read_records_{std::move(records)} {}

void trace_writer::write(std::vector<std::string> const& places) {
  if (asked_.trace.empty()) return;
  std::call_once(once_, [&] {
    std::uint64_t const limit = trace_limit(asked_);
    std::vector<kept_records> kept;
    std::uint64_t missing = 0;
    std::uint64_t calls = 0;
    for (rank_trace const& rank : read_ranks_()) {
      auto const fitting = static_cast<std::uint32_t>(std::min<std::uint64_t>(rank.written, limit));
      kept.push_back({fitting + (rank.written > limit ? 1u : 0u), rank.written, rank.ended});
      missing += rank.written - kept.back().kept;
    }
    std::FILE* const file = std::fopen(asked_.trace.c_str(), "wb");
    bool is_written = file != nullptr;
    auto const put = [&](void const* data, bytes size) {
      is_written = is_written && std::fwrite(data, 1, size, file) == size;
    };
    std::string const head = head_of(asked_, gpus_, functions_, places);
    put(head.data(), head.size());
    put(kept.data(), kept.size() * sizeof(kept_records));
    std::vector<trace_record> records;
    for (std::size_t rank = 0; rank < kept.size(); ++rank) {
      records.resize(kept[rank].kept);
      if (records.empty()) continue;
      read_records_(records.data(), rank * (limit + 1), records.size());
      if (auto const& offsets = gpus_.clocks.offsets; !offsets.empty()) {
        auto const gpu = std::ranges::upper_bound(gpus_.first_ranks, rank);
        correct_times(records,
                      offsets[static_cast<std::size_t>(gpu - gpus_.first_ranks.begin()) - 1]);
      }
      put(records.data(), records.size() * sizeof(trace_record));
      calls += static_cast<std::uint64_t>(std::ranges::count_if(records, &is_call));
    }
    if (file != nullptr) is_written = std::fclose(file) == 0 && is_written;
    has_failed_ = !is_written;
    if (has_failed_) {
      std::fprintf(stderr, "quarry-mpirun: --trace %s: cannot be written: %s\n",
                   asked_.trace.c_str(), std::strerror(errno));
      return;
    }
    std::fprintf(stderr, "quarry-mpirun: trace of %llu calls in %s",
                 static_cast<unsigned long long>(calls), asked_.trace.c_str());
    if (missing != 0)
      std::fprintf(stderr, "; %llu later ones did not fit: see --trace-events",
                   static_cast<unsigned long long>(missing));
    std::fputc('\n', stderr);
  });
}

}  // namespace quarry::inline QUARRY_ABI::mpi
