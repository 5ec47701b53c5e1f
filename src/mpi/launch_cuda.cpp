// SPDX-License-Identifier: Apache-2.0
// Runs the ranks as threads of a GPU, and serves them meanwhile.
#include "calls.hpp"
#include "launcher.hpp"
#include "output.hpp"
#include "rank.hpp"

#include "quarry/device/heap.hpp"

#include <cuda_runtime.h>

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

/// A program compiled for at most this many registers a thread.
struct variant {
  int registers;
  char const* cubin;
};

struct loaded {
  cudaLibrary_t library;
  cudaKernel_t run, prepare;
  std::uint64_t most_threads;  // that can run at once
};

loaded load(variant const& which, int block) {
  loaded result{};
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
  result.most_threads = static_cast<std::uint64_t>(blocks) *
                        static_cast<std::uint64_t>(processors) * static_cast<std::uint64_t>(block);
  return result;
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

}  // namespace

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

int run_on_gpu(launch_options const& asked, int argc, char** argv) {
  variant const variants[] = {{255, quarry_mpi_cubin_255},
                              {128, quarry_mpi_cubin_128},
                              {64, quarry_mpi_cubin_64},
                              {32, quarry_mpi_cubin_32}};
  check(cudaDeviceSetLimit(cudaLimitStackSize, asked.stack != 0 ? asked.stack : 16 * 1024),
        "cudaDeviceSetLimit");
  int const block = 256;
  loaded program{};
  std::uint64_t most = 0;
  for (auto const& which : variants) {
    program = load(which, block);
    most = program.most_threads;
    if (most >= asked.ranks) break;
    cudaLibraryUnload(program.library);
  }
  if (most < asked.ranks)
    throw bad_argument{"-n " + std::to_string(asked.ranks) + ": this GPU runs at most " +
                       std::to_string(most) + " ranks of this program at once"};
  std::uint32_t const shift = std::uint64_t{asked.ranks} * 32 <= most ? 5 : 0;

  heap const memory{
      {.bytes = asked.heap != 0 ? asked.heap : bytes{8} << 30, .backend_kind = backend::cuda}};
  bytes record_bytes = 0;
  void* symbol = nullptr;
  size_t size = 0;
  check(cudaLibraryGetGlobal(&symbol, &size, program.library, "quarry_mpi_record_bytes"),
        "cudaLibraryGetGlobal");
  check(cudaMemcpy(&record_bytes, symbol, sizeof(record_bytes), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  device_array<char> const records{record_bytes * asked.ranks};
  device_array<rank_state> const ranks{asked.ranks};
  device_array<world> const all{1};
  device_array<output_ring> const ring{1};
  output_reader output{asked.ranks, ring.data()};

  std::vector<std::uint64_t> offsets;
  std::string text;
  for (int i = 0; i < argc; ++i) {
    offsets.push_back(text.size());
    text.append(argv[i]).push_back('\0');
  }
  device_array<char> const words{text.size() + 1};
  device_array<char*> const pointers{static_cast<std::size_t>(argc) + 1};
  std::vector<char*> addresses;
  for (auto const offset : offsets) addresses.push_back(words.data() + offset);
  check(cudaMemcpy(words.data(), text.data(), text.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaMemcpy(pointers.data(), addresses.data(), addresses.size() * sizeof(char*),
                   cudaMemcpyHostToDevice),
        "cudaMemcpy");

  world initial{};
  initial.size = asked.ranks;
  initial.is_gpu = 1;
  initial.heap = memory.ref();
  initial.ranks = ranks.data();
  initial.all = {asked.ranks, 0, nullptr, asked.ranks};
  initial.next_context = 4;
  initial.output = ring.data();
  initial.argc = argc;
  initial.argv = pointers.data();
  check(cudaMemcpy(all.data(), &initial, sizeof(initial), cudaMemcpyHostToDevice), "cudaMemcpy");
  launch_layout const layout{records.data(), record_bytes, shift, 0, all.data()};
  check(cudaLibraryGetGlobal(&symbol, &size, program.library, "quarry_mpi_layout"),
        "cudaLibraryGetGlobal");
  check(cudaMemcpy(symbol, &layout, sizeof(layout), cudaMemcpyHostToDevice), "cudaMemcpy");

  cudaStream_t work = nullptr;
  cudaStream_t watch = nullptr;
  check(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking), "cudaStreamCreate");
  check(cudaStreamCreateWithFlags(&watch, cudaStreamNonBlocking), "cudaStreamCreate");
  unsigned const prepare_blocks = (asked.ranks + 255) / 256;
  void* none[] = {nullptr};
  check(cudaLaunchKernel(reinterpret_cast<void const*>(program.prepare), dim3{prepare_blocks},
                         dim3{256}, none, 0, work),
        "cudaLaunchKernel");
  auto const threads = static_cast<std::uint64_t>(asked.ranks) << shift;
  auto const blocks = static_cast<unsigned>((threads + block - 1) / block);
  check(cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(program.run), dim3{blocks},
                                    dim3{static_cast<unsigned>(block)}, none, 0, work),
        "cudaLaunchCooperativeKernel");

  std::vector<rank_state> seen(asked.ranks);
  std::vector<std::uint64_t> steps(asked.ranks);
  auto last_check = std::chrono::steady_clock::now();
  bool was_still = false;
  cudaError_t status = cudaErrorNotReady;
  while ((status = cudaStreamQuery(work)) == cudaErrorNotReady) {
    bool const has_output = output.read();
    auto const now = std::chrono::steady_clock::now();
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
      std::int32_t const code = 1;
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
