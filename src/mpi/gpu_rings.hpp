// SPDX-License-Identifier: Apache-2.0
// The host's ends of the rings through which ranks of a GPU write output and call the host.
#pragma once

#include "device_memory.hpp"
#include "host_calls.hpp"
#include "launcher.hpp"
#include "output.hpp"

#include <atomic>

namespace quarry::inline QUARRY_ABI::mpi {

/// Reads the records that ranks have written, in order.
class output_reader {
 public:
  output_reader(std::uint32_t ranks, output_ring* ring) : lines_{ranks} {
    check(cudaHostAlloc(reinterpret_cast<void**>(&records_),
                        output_ring::places * sizeof(output_record), cudaHostAllocMapped),
          "cudaHostAlloc");
    check(cudaHostAlloc(reinterpret_cast<void**>(&consumed_), sizeof(*consumed_),
                        cudaHostAllocMapped),
          "cudaHostAlloc");
    std::memset(records_, 0, output_ring::places * sizeof(output_record));
    *consumed_ = 0;
    output_ring const initial{0, consumed_, records_};
    check(cudaMemcpy(ring, &initial, sizeof(initial), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~output_reader() {
    cudaFreeHost(records_);
    cudaFreeHost(consumed_);
  }
  output_reader(output_reader const&) = delete;

  /// Returns whether there was anything.
  bool read() {
    std::uint32_t const first = next_;
    for (;;) {
      output_record& record = records_[next_ % output_ring::places];
      if (std::atomic_ref{record.ticket}.load(std::memory_order_acquire) != next_ + 1) break;
      lines_.add(record.rank, record.stream, record.text, record.length);
      ++next_;
      if ((next_ - first) % 1024 == 0) publish();
    }
    publish();
    return next_ != first;
  }
  void finish() {
    while (read()) {
    }
    lines_.finish();
  }

 private:
  void publish() { std::atomic_ref{*consumed_}.store(next_, std::memory_order_release); }

  output_record* records_ = nullptr;
  std::uint32_t* consumed_ = nullptr;
  std::uint32_t next_ = 0;
  line_writer lines_;
};

/// The ring of host calls, in memory that the GPU reads and writes.
class host_calls_memory {
 public:
  explicit host_calls_memory(host_call_ring* ring) {
    constexpr std::size_t size = host_call_ring::places * sizeof(host_call_record);
    check(cudaHostAlloc(reinterpret_cast<void**>(&records_), size, cudaHostAllocMapped),
          "cudaHostAlloc");
    std::memset(static_cast<void*>(records_), 0, size);
    host_call_ring const initial{0, records_};
    check(cudaMemcpy(ring, &initial, sizeof(initial), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~host_calls_memory() { cudaFreeHost(records_); }
  host_calls_memory(host_calls_memory const&) = delete;
  [[nodiscard]] host_call_record* records() const { return records_; }

 private:
  host_call_record* records_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
