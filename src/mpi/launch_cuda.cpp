// SPDX-License-Identifier: Apache-2.0
// Runs the ranks as threads of a GPU, and serves them meanwhile.
#include "compared_memory.hpp"
#include "copy_pool.hpp"
#include "device_memory.hpp"
#include "fault_core.hpp"
#include "gpu_program.hpp"
#include "gpu_rings.hpp"
#include "gpu_watch.hpp"
#include "heap_share.hpp"
#include "host_call_server.hpp"
#include "launcher.hpp"
#include "meeting.hpp"
#include "rank.hpp"
#include "trace_file.hpp"

#include "quarry/device/heap.hpp"

#include <cuda_runtime.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

extern "C" char const quarry_mpi_gpu_places[], quarry_mpi_gpu_places_end[];
extern "C" char const quarry_mpi_gpu_traced[], quarry_mpi_gpu_traced_end[];

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

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

/// Gives each thread block shared memory for copies, and the rest of a multiprocessor's memory to
/// its cache. Returns the bytes of a block; 0 if the blocks would not fit on the GPU with them.
std::uint32_t reserve_shared_memory(gpu_program const& program, std::uint64_t blocks) {
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
/// where their paths differ, so each gets a warp if there are enough, and another one that helps it
/// to copy if there are twice as many.
std::uint32_t shift_for(launch_options const& asked, std::uint64_t most_threads) {
  if (asked.ranks_per_warp <= 1 && std::uint64_t{asked.ranks} * 64 <= most_threads) return 6;
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

/// The threads of a thread block. Blocks are as large as their registers allow, unless the ranks
/// share warps and smaller blocks give the busiest multiprocessor fewer threads: 16,384 ranks would
/// be 64 blocks of 256 threads, but an H100 has 132 multiprocessors. Meetings of many blocks take
/// longer, so that there are only a few for each multiprocessor.
int block_for(gpu_program const& program, std::uint32_t shift, std::uint64_t threads) {
  if (shift >= 5) return program.block;
  constexpr std::uint64_t few = 4;
  auto const blocks_of = [&](int block) {
    return (threads + static_cast<std::uint64_t>(block) - 1) / static_cast<std::uint64_t>(block);
  };
  auto const busiest = [&](int block) {
    return (blocks_of(block) + program.processors - 1) / program.processors *
           static_cast<std::uint64_t>(block);
  };
  int best = program.block;
  for (int block = best / 2; block >= 32 && blocks_of(block) <= few * program.processors;
       block /= 2)
    if (busiest(block) < busiest(best)) best = block;
  return best;
}

/// CUDA's heap for --malloc cuda and its relatives.
constexpr bytes compared_bytes = bytes{8} << 30;

struct gpu_memory {
  std::size_t free_bytes = 0, total = 0;
};

gpu_memory memory_now() {
  gpu_memory result;
  check(cudaMemGetInfo(&result.free_bytes, &result.total), "cudaMemGetInfo");
  return result;
}

constexpr bytes of_launcher = bytes{64} << 20;  // rings, tables, the program's code

/// Throws bad_argument, which says what takes how much, if the ranks do not fit on the GPU.
void check_memory(launch_options const& asked, bytes record_bytes, std::uint32_t extension_units,
                  stack_choice const& stack) {
  bytes const of_rank = sizeof(rank_state) + sizeof(mail) + 2 * meeting::part_bytes +
                        mail_slots * sizeof(std::uint64_t) * extension_units;
  auto const [free_bytes, total] = memory_now();
  bytes const records = asked.ranks * record_bytes;
  bytes const of_trace =
      asked.trace.empty() ? 0 : sizeof(trace_record) * (trace_limit(asked) + bytes{1});
  bytes const ranks = records + asked.ranks * (of_rank + of_trace) + of_launcher + stack.reserved;
  bytes const heap = asked.heap != 0 ? asked.heap : least_heap;
  if (ranks + heap > free_bytes) {
    throw bad_argument{
        "-n " + std::to_string(asked.ranks) + ": the ranks do not fit: " + gigabytes(records) +
        " of global variables (" + std::to_string(record_bytes) + " bytes of each rank), " +
        gigabytes(stack.reserved) + " of stack (" + std::to_string(stack.size) +
        " bytes for each thread that the GPU can run; from " + stack.reason + "), " +
        gigabytes(heap) + " of heap and " + gigabytes(ranks - records - stack.reserved) +
        " for the ranks' state are " + gigabytes(ranks + heap) + "; the GPU has " +
        gigabytes(free_bytes) + " of " + gigabytes(total) + " free. " +
        (ranks + heap <= total ? "Wait for other programs on the GPU, or run" : "Run") +
        " with fewer ranks or a smaller --stack or --heap"};
  }
}

/// The heap: of the size that the user asks for, or a share of what the rest of the launch leaves.
heap_taken make_heap(launch_options const& asked, std::optional<heap>& memory) {
  auto const allocate = [&](bytes size) {
    memory.emplace(heap_options{.bytes = size, .backend_kind = backend::cuda});
  };
  if (asked.heap == 0)
    return take_heap(
        [] {
          bytes const all = memory_now().free_bytes;
          return all > of_launcher ? all - of_launcher : 0;
        },
        allocate);
  allocate(asked.heap);
  return {asked.heap, 1};
}

void set_stack(stack_choice const& stack) {
  cudaError_t const status = cudaDeviceSetLimit(cudaLimitStackSize, stack.size);
  if (status != cudaSuccess)
    throw bad_argument{"a stack of " + std::to_string(stack.size) + " bytes for each rank (from " +
                       stack.reason + "), " + gigabytes(stack.reserved) +
                       " for all threads of the GPU: " + cudaGetErrorString(status) + "; " +
                       gigabytes(memory_now().free_bytes) +
                       " are free. Wait for other programs on the GPU, or run with a smaller "
                       "--stack"};
}

void describe_launch(launch_options const& asked, gpu_program const& program, std::uint32_t shift,
                     bytes record_bytes, heap_taken const& of_heap) {
  std::string const attempts = of_heap.attempts == 1
                                   ? ""
                                   : ", at attempt " + std::to_string(of_heap.attempts) +
                                         ": other programs took memory meanwhile";
  std::fprintf(stderr,
               "quarry-mpirun: %u ranks, %u a warp%s; %d threads a block, at most %d registers a "
               "thread%s\n"
               "quarry-mpirun: stack of a rank: %llu bytes, from %s; %s are reserved\n"
               "quarry-mpirun: global variables of a rank: %llu bytes; heap: %s%s\n",
               asked.ranks, shift < 5 ? 32u >> shift : 1u,
               helpers_exist(shift) ? " and a warp that helps it" : "", program.block,
               program.registers, program.is_from_driver ? ", compiled by the driver" : "",
               static_cast<unsigned long long>(program.stack.size), program.stack.reason.c_str(),
               gigabytes(program.stack.reserved).c_str(),
               static_cast<unsigned long long>(record_bytes), gigabytes(of_heap.size).c_str(),
               attempts.c_str());
}

/// The trace's memory on the GPU; one element of each without a trace.
class gpu_trace {
 public:
  explicit gpu_trace(launch_options const& asked)
      : is_wanted_{!asked.trace.empty()},
        limit_{trace_limit(asked)},
        ranks_{is_wanted_ ? asked.ranks : 1},
        records_{is_wanted_ ? std::size_t{asked.ranks} * (std::size_t{limit_} + 1) : 1} {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  ~gpu_trace() { cudaStreamDestroy(stream_); }
  gpu_trace(gpu_trace const&) = delete;
  [[nodiscard]] trace_memory memory() const {
    return {is_wanted_ ? records_.data() : nullptr, ranks_.data(), limit_, 0};
  }
  /// The kernel may run: ranks that never end are read, too.
  void read(trace_record* to, std::uint64_t first, std::uint64_t count) const {
    copy(to, records_.data() + first, count * sizeof(trace_record));
  }
  [[nodiscard]] std::vector<rank_trace> ranks(std::uint32_t count) const {
    std::vector<rank_trace> result(count);
    copy(result.data(), ranks_.data(), count * sizeof(rank_trace));
    return result;
  }

 private:
  void copy(void* to, void const* from, bytes size) const {
    check(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  bool is_wanted_;
  std::uint32_t limit_;
  device_array<rank_trace> ranks_;
  device_array<trace_record> records_;
  cudaStream_t stream_ = nullptr;
};

/// What went wrong in the ranks' heap: allocations that failed, wrong frees.
void describe_faults(heap const& memory) {
  auto const first = memory.first_fault();
  if (!first) return;
  std::ostringstream text;
  text << *first;
  for (std::uint32_t kind = 1; kind < static_cast<std::uint32_t>(fault_kind::count_); ++kind)
    if (auto const count = memory.fault_count(static_cast<fault_kind>(kind)); count != 0)
      text << "; " << count << " of kind " << name_of(static_cast<fault_kind>(kind));
  std::fprintf(stderr, "quarry-mpirun: faults in the heap: first %s\n", text.str().c_str());
}

fault_core const& core_of_faults() {
  static fault_core const core;
  return core;
}

/// Reports a kernel that has failed, with what is known. Returns the exit status.
int report_fault(std::string const& reason, int block, std::uint32_t shift) {
  std::map<std::string, std::set<std::uint64_t>> rows;  // the ranks
  auto const faults = core_of_faults().read(static_cast<std::uint32_t>(block));
  std::set<std::uint64_t> ranks;  // a rank's helpers count as the rank
  for (gpu_fault const& fault : faults) ranks.insert(fault.thread >> shift);
  for (gpu_fault const& fault : faults) {
    // If the file accuses a whole warp, its place is that of other ranks as well.
    bool const has_function = ranks.size() == 1 && !fault.function.empty();
    std::string const text =
        describe_kind(fault.kind) + (has_function ? " in " + fault.function + "()" : "");
    rows[text].insert(fault.thread >> shift);
  }
  auto const is_about_memory = [](std::string const& text) {
    return text.find("access") != std::string::npos || text.find("address") != std::string::npos;
  };
  bool is_access = is_about_memory(reason);
  for (auto const& [text, row] : rows) {
    std::string const others =
        row.size() > 1 ? " or one of the next " + std::to_string(row.size() - 1) : "";
    std::fprintf(stderr, "quarry-mpirun: rank %llu%s: %s\n",
                 static_cast<unsigned long long>(*row.begin()), others.c_str(), text.c_str());
    is_access = is_access || is_about_memory(text);
  }
  if (rows.empty()) std::fprintf(stderr, "quarry-mpirun: a rank has failed: %s\n", reason.c_str());
  std::fputs(
      "  --device cpu names the MPI call before it, and compute-sanitizer the instruction. If "
      "calls "
      "nest deeply, try a larger --stack.\n",
      stderr);
  return status_of_signal(is_access ? SIGSEGV : SIGABRT);
}

}  // namespace

bool has_gpu() {
  (void)core_of_faults();
  int count = 0;
  return has_gpu_code() && cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

int run_on_gpu(launch_options const& asked, int argc, char** argv) {
  (void)core_of_faults();
  if (!has_gpu_code())
    throw bad_argument{"--device gpu: this program was compiled with quarry-mpicc --cpu-only"};
  if (asked.malloc >= malloc_kind::cuda)  // before CUDA's heap is made with the program
    check(cudaDeviceSetLimit(cudaLimitMallocHeapSize, compared_bytes), "cudaDeviceSetLimit");
  auto const functions = texts_of(quarry_mpi_gpu_traced, quarry_mpi_gpu_traced_end);
  check_trace(asked, functions);
  gpu_program program = load_program(asked);
  std::uint32_t const shift = shift_for(asked, program.most_threads);
  auto const threads = static_cast<std::uint64_t>(asked.ranks) << shift;
  program.block = block_for(program, shift, threads);
  bytes record_bytes = 0;
  check(cudaMemcpy(&record_bytes, program.address_of("quarry_mpi_record_bytes"),
                   sizeof(record_bytes), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  std::uint32_t const extension_units = extension_units_for(
      extension_budget, asked.ranks, helpers_exist(shift) ? most_extended : most_extended_alone);
  check_memory(asked, record_bytes, extension_units, program.stack);
  set_stack(program.stack);
  device_array<char> const records{record_bytes * asked.ranks};
  device_array<rank_state> const ranks{asked.ranks};
  device_array<mail> const mailboxes{asked.ranks};
  device_array<std::uint64_t> const extensions{std::size_t{asked.ranks} * mail_slots *
                                               extension_units};
  device_array<world> const all{1};
  device_array<output_ring> const ring{1};
  auto const block = static_cast<std::uint64_t>(program.block);
  auto const blocks = static_cast<std::uint32_t>((threads + block - 1) / block);
  meeting_memory const meetings{asked.ranks, blocks};
  output_reader output{asked.ranks, texts_of(quarry_mpi_gpu_places, quarry_mpi_gpu_places_end),
                       ring.data()};

  device_array<host_call_ring> const call_ring{1};
  host_calls_memory const call_records{call_ring.data()};
  host_call_server calls{call_records.records()};
  device_strings const words{argv};
  device_strings const environment{environ};
  compared_memory const compared{asked.malloc, backend::cuda};
  gpu_trace const trace{asked};
  trace_writer trace_output{asked, functions, [&] { return trace.ranks(asked.ranks); },
                            [&](trace_record* to, std::uint64_t first, std::uint64_t count) {
                              trace.read(to, first, count);
                            }};
  auto const write_trace = [&] {
    trace_output.write(texts_of(quarry_mpi_gpu_places, quarry_mpi_gpu_places_end));
  };
  std::optional<heap> memory;  // last: it takes a share of what the others leave
  heap_taken const of_heap = make_heap(asked, memory);
  if (asked.is_verbose) describe_launch(asked, program, shift, record_bytes, of_heap);

  world initial{};
  initial.is_gpu = 1;
  initial.all = {asked.ranks, 0, nullptr, asked.ranks};
  initial.next_context = 4;
  initial.max_superblock_bytes = superblock_share(of_heap.size);
  initial.output = ring.data();
  initial.malloc = asked.malloc;
  initial.compared_heap = compared.state();
  initial.argc = argc;
  initial.argv = words.data();
  initial.host_calls = call_ring.data();
  initial.environment = environment.data();
  initial.trace = trace.memory();
  check(cudaMemcpy(all.data(), &initial, sizeof(initial), cudaMemcpyHostToDevice), "cudaMemcpy");
  launch_layout layout{
      records.data(),   record_bytes,      shift,           asked.ranks, all.data(), ranks.data(),
      mailboxes.data(), extensions.data(), extension_units, 0,           {}};
  layout.set_heap(memory->ref());
  check(cudaMemcpy(program.address_of("quarry_mpi_layout"), &layout, sizeof(layout),
                   cudaMemcpyHostToDevice),
        "cudaMemcpy");
  meeting_place const place = meetings.place();
  check(cudaMemcpy(program.address_of("quarry_mpi_meeting_place"), &place, sizeof(place),
                   cudaMemcpyHostToDevice),
        "cudaMemcpy");

  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // the copies above
  cudaStream_t work = nullptr;
  check(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking), "cudaStreamCreate");
  unsigned const prepare_blocks = (asked.ranks + 255) / 256;
  void* none[] = {nullptr};
  check(cudaLaunchKernel(reinterpret_cast<void const*>(program.prepare), dim3{prepare_blocks},
                         dim3{256}, none, 0, work),
        "cudaLaunchKernel");
  std::uint32_t const shared = reserve_shared_memory(program, blocks);
  check(cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(program.run), dim3{blocks},
                                    dim3{static_cast<unsigned>(program.block)}, none, shared, work),
        "cudaLaunchCooperativeKernel");

  // This thread and the watch's may both see a fault. One of them reports it.
  std::atomic<bool> is_reporting_fault = false;
  auto const report_and_end = [&](std::string const& reason) {
    if (is_reporting_fault.exchange(true)) return;
    output.end();
    int const status = report_fault(reason, program.block, shift);
    if (!asked.trace.empty())
      std::fputs("quarry-mpirun: no trace: the GPU's memory is lost after a fault\n", stderr);
    core_of_faults().remove();
    _exit(status);  // the driver's thread may be in abort()
  };
  auto const end_after_fault = [&](std::string const& reason) {
    report_and_end(reason);
    for (;;) pause();  // the other thread ends the process
  };
  std::string const ended_by_driver = "the driver has ended the program";
  gpu_watch watch{asked.ranks,
                  all.data(),
                  ranks.data(),
                  records.data(),
                  record_bytes,
                  of_heap.size,
                  texts_of(quarry_mpi_gpu_places, quarry_mpi_gpu_places_end),
                  [&] { report_and_end(ended_by_driver); }};
  cudaError_t status = cudaErrorNotReady;
  while ((status = cudaStreamQuery(work)) == cudaErrorNotReady) {
    if (fault_core::is_written()) end_after_fault(ended_by_driver);
    bool const has_output = output.read() | calls.serve([&] { output.read(); });
    if (has_output) watch.note_progress();
    if (!has_output) std::this_thread::sleep_for(std::chrono::microseconds{20});
    try {
      if (watch.look([&] { output.finish(); })) continue;
    } catch (std::exception const& problem) {
      status = cudaStreamQuery(work);
      if (status != cudaSuccess && status != cudaErrorNotReady) break;  // the kernel has failed
      output.end();
      std::fprintf(stderr, "quarry-mpirun: %s\n", problem.what());
      std::fflush(stderr);
      _exit(1);  // freeing memory would wait for the kernel
    }
    output.end();
    write_trace();
    std::fflush(stderr);
    _exit(watch.end_status());  // the driver ends the kernel with the process
  }
  // The driver lets a kernel go on after its fault, so that the kernel may end before the driver
  // aborts.
  for (int i = 0; core_of_faults().exists() && !fault_core::is_written() && i < 600; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  if (core_of_faults().exists()) end_after_fault(ended_by_driver);
  if (status != cudaSuccess) end_after_fault(cudaGetErrorString(status));
  output.end();
  write_trace();
  if (asked.is_verbose) describe_faults(*memory);
  return watch.end();
}

}  // namespace quarry::inline QUARRY_ABI::mpi
