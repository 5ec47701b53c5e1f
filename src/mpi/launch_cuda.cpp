// SPDX-License-Identifier: Apache-2.0
// Runs the ranks as threads of a GPU, and serves them meanwhile.
#include "calls.hpp"
#include "copy_pool.hpp"
#include "host_call_server.hpp"
#include "launcher.hpp"
#include "meeting.hpp"
#include "output.hpp"
#include "rank.hpp"

#include "quarry/device/heap.hpp"

#include <cuda_runtime.h>
#include <unistd.h>

#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

extern "C" char const quarry_mpi_cubin_32[], quarry_mpi_cubin_64[], quarry_mpi_cubin_128[],
    quarry_mpi_cubin_255[];
extern "C" char const quarry_mpi_gpu_places[], quarry_mpi_gpu_places_end[];

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

void check(cudaError_t status, char const* call) {
  if (status != cudaSuccess) throw resource_failed{call, cudaGetErrorString(status)};
}

/// Memory of the GPU, zero at first.
template <class T>
class device_array {
 public:
  explicit device_array(std::size_t count) {
    check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), "cudaMalloc");
    check(cudaMemset(data_, 0, count * sizeof(T)), "cudaMemset");
  }
  ~device_array() { cudaFree(data_); }
  device_array(device_array const&) = delete;
  [[nodiscard]] T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

/// Where the ranks meet, except the places of blocks.
class meeting_memory {
 public:
  meeting_memory(std::uint32_t ranks, std::uint32_t blocks)
      : counters_{block_place::kinds * seat::counter_stride},
        values_{2 * values_of(blocks)},
        nodes_{ranks},
        parts_{ranks * meeting::part_bytes},
        results_{2 * meeting::result_bytes} {}
  [[nodiscard]] meeting_place place() const {
    meeting_place result{};
    result.counters = counters_.data();
    result.values = values_.data();
    result.nodes = nodes_.data();
    result.parts = parts_.data();
    result.results = results_.data();
    return result;
  }

 private:
  device_array<std::uint64_t> counters_, values_;
  device_array<std::uint32_t> nodes_;
  device_array<char> parts_, results_;
};

/// A program compiled for at most this many registers a thread.
struct variant {
  int registers;
  char const* cubin;
};

struct loaded {
  cudaLibrary_t library;
  cudaKernel_t run, prepare;
  int block;                   // threads of a block
  std::uint64_t most_threads;  // that can run at once
  std::uint64_t processors;
};

loaded load(variant const& which) {
  loaded result{};
  // Large blocks, since the ranks of a block meet in its shared memory. As many as a multiprocessor
  // has registers for: 65,536.
  int const block = which.registers <= 64 ? 1024 : which.registers <= 128 ? 512 : 256;
  result.block = block;
  check(cudaLibraryLoadData(&result.library, which.cubin, nullptr, nullptr, 0, nullptr, nullptr, 0),
        "cudaLibraryLoadData");
  check(cudaLibraryGetKernel(&result.run, result.library, "quarry_mpi_run"),
        "cudaLibraryGetKernel");
  check(cudaLibraryGetKernel(&result.prepare, result.library, "quarry_mpi_prepare"),
        "cudaLibraryGetKernel");
  int blocks = 0;
  int processors = 0;
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0),
        "cudaDeviceGetAttribute");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, reinterpret_cast<void const*>(result.run), block, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  result.processors = static_cast<std::uint64_t>(processors);
  result.most_threads =
      static_cast<std::uint64_t>(blocks) * result.processors * static_cast<std::uint64_t>(block);
  return result;
}

/// Gives each thread block shared memory for copies, and the rest of a multiprocessor's memory to
/// its cache. Returns the bytes of a block; 0 if the blocks would not fit on the GPU with them.
std::uint32_t reserve_shared_memory(loaded const& program, std::uint64_t blocks) {
  auto const* const kernel = reinterpret_cast<void const*>(program.run);
  cudaFuncAttributes fixed{};  // the ranks of a block meet in shared memory, too
  check(cudaFuncGetAttributes(&fixed, kernel), "cudaFuncGetAttributes");
  std::uint64_t const blocks_of_processor = (blocks + program.processors - 1) / program.processors;
  std::uint32_t const size =
      copy_pool::bytes_for(blocks_of_processor, static_cast<std::uint64_t>(program.block),
                           static_cast<std::uint32_t>(fixed.sharedSizeBytes));
  if (size == 0) return 0;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(size)),
        "cudaFuncSetAttribute");
  int fitting = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fitting, kernel, program.block, size),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  if (static_cast<std::uint64_t>(fitting) < blocks_of_processor) return 0;
  int all = 0;
  check(cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0),
        "cudaDeviceGetAttribute");
  int reserved = 0;
  check(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, 0),
        "cudaDeviceGetAttribute");
  std::uint64_t const needed =
      blocks_of_processor * (size + fixed.sharedSizeBytes + static_cast<std::uint64_t>(reserved));
  auto const percent = static_cast<int>((needed * 100 + static_cast<std::uint64_t>(all) - 1) /
                                        static_cast<std::uint64_t>(all));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent),
        "cudaFuncSetAttribute");
  return size;
}

/// How many threads a rank has, as a power of two. Ranks that share a warp run one after another
/// where their paths differ, so each gets a warp if there are enough.
std::uint32_t shift_for(launch_options const& asked, std::uint64_t most_threads) {
  if (asked.ranks_per_warp == 0) return std::uint64_t{asked.ranks} * 32 <= most_threads ? 5 : 0;
  if (asked.ranks_per_warp > 32 || !std::has_single_bit(asked.ranks_per_warp))
    throw bad_argument{"--ranks-per-warp " + std::to_string(asked.ranks_per_warp) +
                       ": must be 1, 2, 4, 8, 16 or 32"};
  auto const shift = static_cast<std::uint32_t>(5 - std::countr_zero(asked.ranks_per_warp));
  if (std::uint64_t{asked.ranks} << shift > most_threads)
    throw bad_argument{"--ranks-per-warp " + std::to_string(asked.ranks_per_warp) +
                       ": the GPU has no room for " + std::to_string(asked.ranks) + " ranks so"};
  return shift;
}

std::string gigabytes(std::uint64_t size) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GB", static_cast<double>(size) * 1e-9);
  return text;
}

/// The size of the heap: what the user asks for, or half of what the ranks leave, at most 16 GiB.
/// Throws bad_argument, which says what takes how much, if the ranks do not fit.
bytes choose_heap(launch_options const& asked, bytes record_bytes) {
  std::size_t free_bytes = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free_bytes, &total), "cudaMemGetInfo");
  constexpr bytes of_rank = sizeof(rank_state) + sizeof(mail) + 2 * meeting::part_bytes;
  bytes const ranks = asked.ranks * (record_bytes + of_rank) + (bytes{64} << 20);
  constexpr bytes least_heap = bytes{64} << 20;
  bytes const heap = asked.heap != 0 ? asked.heap : least_heap;
  if (ranks + heap > free_bytes) {
    throw bad_argument{"-n " + std::to_string(asked.ranks) +
                       ": the ranks do not fit: " + std::to_string(asked.ranks) + " times " +
                       std::to_string(record_bytes) + " bytes of global variables, and " +
                       gigabytes(heap) + " of heap, are " + gigabytes(ranks + heap) +
                       "; the GPU has " + gigabytes(free_bytes) + " free. Run with fewer ranks"};
  }
  if (asked.heap != 0) return asked.heap;
  bytes const half = (free_bytes - ranks) / 2 >> 26 << 26;
  return half < least_heap ? least_heap : half < (bytes{16} << 30) ? half : bytes{16} << 30;
}

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

/// A null-terminated array of strings in memory of the GPU.
class device_strings {
 public:
  explicit device_strings(char** strings)
      : count_{count(strings)}, text_{bytes_of(strings) + 1}, pointers_{count_ + 1} {
    std::string text;
    std::vector<char*> addresses;
    for (std::size_t i = 0; i < count_; ++i) {
      addresses.push_back(text_.data() + text.size());
      text.append(strings[i]).push_back('\0');
    }
    check(cudaMemcpy(text_.data(), text.data(), text.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemcpy(pointers_.data(), addresses.data(), count_ * sizeof(char*),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
  }
  [[nodiscard]] char** data() const { return pointers_.data(); }

 private:
  static std::size_t count(char** strings) {
    std::size_t number = 0;
    while (strings[number] != nullptr) ++number;
    return number;
  }
  static std::size_t bytes_of(char** strings) {
    std::size_t total = 0;
    for (; *strings != nullptr; ++strings) total += std::strlen(*strings) + 1;
    return total;
  }

  std::size_t count_;
  device_array<char> text_;
  device_array<char*> pointers_;
};

}  // namespace

bool has_gpu() {
  int count = 0;
  if (quarry_mpi_cubin_255[0] == 0) return false;  // quarry-mpicc --cpu-only
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

int run_on_gpu(launch_options const& asked, int argc, char** argv) {
  if (quarry_mpi_cubin_255[0] == 0)
    throw bad_argument{"--device gpu: this program was compiled with quarry-mpicc --cpu-only"};
  variant const variants[] = {{255, quarry_mpi_cubin_255},
                              {128, quarry_mpi_cubin_128},
                              {64, quarry_mpi_cubin_64},
                              {32, quarry_mpi_cubin_32}};
  check(cudaDeviceSetLimit(cudaLimitStackSize, asked.stack != 0 ? asked.stack : 16 * 1024),
        "cudaDeviceSetLimit");
  loaded program{};
  std::uint64_t most = 0;
  for (auto const& which : variants) {
    program = load(which);
    most = program.most_threads;
    if (most >= asked.ranks) break;
    cudaLibraryUnload(program.library);
  }
  if (most < asked.ranks)
    throw bad_argument{"-n " + std::to_string(asked.ranks) + ": this GPU runs at most " +
                       std::to_string(most) + " ranks of this program at once"};
  std::uint32_t const shift = shift_for(asked, most);

  bytes record_bytes = 0;
  void* symbol = nullptr;
  size_t size = 0;
  check(cudaLibraryGetGlobal(&symbol, &size, program.library, "quarry_mpi_record_bytes"),
        "cudaLibraryGetGlobal");
  check(cudaMemcpy(&record_bytes, symbol, sizeof(record_bytes), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  heap const memory{{.bytes = choose_heap(asked, record_bytes), .backend_kind = backend::cuda}};
  device_array<char> const records{record_bytes * asked.ranks};
  device_array<rank_state> const ranks{asked.ranks};
  device_array<mail> const mailboxes{asked.ranks};
  device_array<world> const all{1};
  device_array<output_ring> const ring{1};
  auto const threads = static_cast<std::uint64_t>(asked.ranks) << shift;
  auto const block = static_cast<std::uint64_t>(program.block);
  auto const blocks = static_cast<std::uint32_t>((threads + block - 1) / block);
  meeting_memory const meetings{asked.ranks, blocks};
  output_reader output{asked.ranks, ring.data()};

  device_array<host_call_ring> const call_ring{1};
  host_calls_memory const call_records{call_ring.data()};
  host_call_server calls{call_records.records()};
  device_strings const words{argv};
  device_strings const environment{environ};

  world initial{};
  initial.is_gpu = 1;
  initial.all = {asked.ranks, 0, nullptr, asked.ranks};
  initial.next_context = 4;
  initial.output = ring.data();
  initial.argc = argc;
  initial.argv = words.data();
  initial.host_calls = call_ring.data();
  initial.environment = environment.data();
  check(cudaMemcpy(all.data(), &initial, sizeof(initial), cudaMemcpyHostToDevice), "cudaMemcpy");
  launch_layout layout{records.data(), record_bytes,     shift, asked.ranks, all.data(),
                       ranks.data(),   mailboxes.data(), {}};
  layout.set_heap(memory.ref());
  check(cudaLibraryGetGlobal(&symbol, &size, program.library, "quarry_mpi_layout"),
        "cudaLibraryGetGlobal");
  check(cudaMemcpy(symbol, &layout, sizeof(layout), cudaMemcpyHostToDevice), "cudaMemcpy");
  meeting_place const place = meetings.place();
  check(cudaLibraryGetGlobal(&symbol, &size, program.library, "quarry_mpi_meeting_place"),
        "cudaLibraryGetGlobal");
  check(cudaMemcpy(symbol, &place, sizeof(place), cudaMemcpyHostToDevice), "cudaMemcpy");

  cudaStream_t work = nullptr;
  cudaStream_t watch = nullptr;
  check(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaStreamCreateWithFlags(&watch, cudaStreamNonBlocking), "cudaStreamCreate");
  unsigned const prepare_blocks = (asked.ranks + 255) / 256;
  void* none[] = {nullptr};
  check(cudaLaunchKernel(reinterpret_cast<void const*>(program.prepare), dim3{prepare_blocks},
                         dim3{256}, none, 0, work),
        "cudaLaunchKernel");
  std::uint32_t const shared = reserve_shared_memory(program, blocks);
  check(cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(program.run), dim3{blocks},
                                    dim3{static_cast<unsigned>(program.block)}, none, shared, work),
        "cudaLaunchCooperativeKernel");

  std::vector<rank_state> seen(asked.ranks);
  std::vector<std::uint64_t> steps(asked.ranks);
  auto last_check = std::chrono::steady_clock::now();
  bool was_still = false;
  cudaError_t status = cudaErrorNotReady;
  while ((status = cudaStreamQuery(work)) == cudaErrorNotReady) {
    bool has_output = output.read();
    has_output |= calls.serve([&] { output.read(); });
    auto const now = std::chrono::steady_clock::now();
    if (calls.is_blocked()) {  // the ranks wait for the user
      last_check = now;
      was_still = false;
    }
    if (has_output || now - last_check < std::chrono::milliseconds{500}) {
      if (!has_output) std::this_thread::sleep_for(std::chrono::microseconds{20});
      continue;
    }
    last_check = now;
    check(cudaMemcpyAsync(seen.data(), ranks.data(), asked.ranks * sizeof(rank_state),
                          cudaMemcpyDeviceToHost, watch),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(watch), "cudaStreamSynchronize");
    bool is_still = true;
    for (std::uint32_t i = 0; i < asked.ranks; ++i) {
      is_still = is_still && (seen[i].stage == life::done || seen[i].waiting.call != 0) &&
                 seen[i].steps == steps[i];
      steps[i] = seen[i].steps;
    }
    if (is_still && was_still) {
      output.finish();
      auto const places = places_of(quarry_mpi_gpu_places, quarry_mpi_gpu_places_end);
      std::fprintf(stderr, "quarry-mpirun: deadlock: no rank can continue\n%s",
                   describe_waits(seen, places).c_str());
      std::fflush(stderr);
      std::uint32_t const aborted = 1;
      std::int32_t const code = status_of_deadlock(seen);
      check(cudaMemcpyAsync(&all.data()->abort_code, &code, sizeof(code), cudaMemcpyHostToDevice,
                            watch),
            "cudaMemcpyAsync");
      check(cudaMemcpyAsync(&all.data()->aborted, &aborted, sizeof(aborted), cudaMemcpyHostToDevice,
                            watch),
            "cudaMemcpyAsync");
      check(cudaStreamSynchronize(watch), "cudaStreamSynchronize");
      is_still = false;
    }
    was_still = is_still;
  }
  output.finish();
  check(status, "the program's kernel");
  check(cudaMemcpy(&initial, all.data(), sizeof(initial), cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::fputs(describe_failure(initial.first_failure,
                              places_of(quarry_mpi_gpu_places, quarry_mpi_gpu_places_end))
                 .c_str(),
             stderr);
  if (initial.aborted == 2)
    throw out_of_memory{"the ranks", asked.heap, "run with a larger --heap"};
  if (initial.aborted != 0) return initial.abort_code;
  check(cudaMemcpy(seen.data(), ranks.data(), asked.ranks * sizeof(rank_state),
                   cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  for (auto const& rank : seen)
    if (rank.exit_code != 0) return rank.exit_code;
  return 0;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
