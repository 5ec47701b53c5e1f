// SPDX-License-Identifier: Apache-2.0
// The host's ends of the rings through which ranks of a GPU write output and call the host.
#pragma once

#include "device_memory.hpp"
#include "host_calls.hpp"
#include "launcher.hpp"
#include "record_reader.hpp"

#include <chrono>
#include <cstdio>
#include <mutex>
#include <optional>

namespace quarry::inline QUARRY_ABI::mpi {

/// Reads the records that ranks have written, in order, and writes their text.
class output_reader {
 public:
  output_reader(std::uint32_t ranks, std::vector<std::string> places, output_ring* ring)
      : lines_{ranks, std::move(places)} {
    output_ring const initial{0, 0, consumed_.data(), records_.data()};
    check(cudaMemcpy(ring, &initial, sizeof(initial), cudaMemcpyHostToDevice), "cudaMemcpy");
    reader_.emplace(records_.data(), consumed_.data());
  }
  output_reader(output_reader const&) = delete;

  /// Writes what ranks have written. Returns whether there was anything.
  bool read() {
    std::lock_guard const guard{lock_};
    bool const has_text = reader_->read([this](output_record const& record) { add(record); });
    if (auto const now = clock::now(); now - last_errors_ > std::chrono::milliseconds{100}) {
      last_errors_ = now;
      lines_.write_errors();
    }
    return has_text;
  }
  /// Before a report: writes all text, also lines without an end.
  void finish() {
    read();
    std::lock_guard const guard{lock_};
    lines_.finish();
  }
  /// When ranks write no more, before the process ends: writes all text that there is. Another
  /// thread may be in a write that never ends; then the text is lost.
  void end() {
    std::unique_lock const guard{lock_, std::chrono::seconds{1}};
    if (!guard) return;
    std::uint32_t const missing =
        reader_->read_past_holes([this](output_record const& record) { add(record); });
    lines_.finish();
    if (missing != 0)
      std::fprintf(stderr, "quarry-mpirun: output is lost: at most %llu bytes in %u parts\n",
                   static_cast<unsigned long long>(missing) * output_record::text_bytes, missing);
  }

 private:
  using clock = std::chrono::steady_clock;

  void add(output_record const& record) {
    lines_.add(record.rank, record.stream, record.text, record.length);
  }

  host_array<output_record> records_{output_ring::places};
  host_array<std::uint32_t> consumed_{1};
  std::optional<record_reader> reader_;
  std::timed_mutex lock_;  // of the two: a fault is reported by another thread
  line_writer lines_;
  clock::time_point last_errors_ = clock::now();
};

/// The ring of host calls, in memory that the GPU reads and writes.
class host_calls_memory {
 public:
  explicit host_calls_memory(host_call_ring* ring) {
    host_call_ring const initial{0, records_.data()};
    check(cudaMemcpy(ring, &initial, sizeof(initial), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  [[nodiscard]] host_call_record* records() const { return records_.data(); }

 private:
  host_array<host_call_record> records_{host_call_ring::places};
};

}  // namespace quarry::inline QUARRY_ABI::mpi
