// SPDX-License-Identifier: Apache-2.0
// Runs the ranks as threads of a GPU, and serves them meanwhile.
#include "block_memory.hpp"
#include "compared_memory.hpp"
#include "copy_board.hpp"
#include "copy_pool.hpp"
#include "device_memory.hpp"
#include "fault_core.hpp"
#include "gpu_clocks.hpp"
#include "gpu_mail.hpp"
#include "gpu_memory.hpp"
#include "gpu_program.hpp"
#include "gpu_rings.hpp"
#include "gpu_watch.hpp"
#include "host_call_server.hpp"
#include "launcher.hpp"
#include "meeting.hpp"
#include "rank.hpp"
#include "short_run.hpp"
#include "size_text.hpp"
#include "spread_memory.hpp"
#include "trace_file.hpp"
#include "wrong_addresses.hpp"

#include <cuda_runtime.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <set>
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

/// How many threads a rank has, as a power of two. Ranks that share a warp run one after another
/// where their paths differ, so each gets a warp if there are enough, and another one that helps it
/// to copy if there are twice as many. Two ranks share a warp if there are half as many.
std::uint32_t shift_for(launch_options const& asked, std::uint64_t most_threads) {
  std::uint64_t const ranks = ranks_of_gpu(asked);
  if (asked.ranks_per_warp <= 1 && ranks << helper_warp_shift <= most_threads)
    return helper_warp_shift;
  if (asked.ranks_per_warp == 0) {
    for (std::uint32_t const shift : {5u, least_shared_shift})
      if (ranks << shift <= most_threads) return shift;
    return 0;
  }
  if (asked.ranks_per_warp > 32 || !std::has_single_bit(asked.ranks_per_warp))
    throw bad_argument{"--ranks-per-warp " + std::to_string(asked.ranks_per_warp) +
                       ": must be 1, 2, 4, 8, 16 or 32"};
  auto const shift = static_cast<std::uint32_t>(5 - std::countr_zero(asked.ranks_per_warp));
  if (ranks << shift > most_threads)
    throw bad_argument{"--ranks-per-warp " + std::to_string(asked.ranks_per_warp) + ": " +
                       std::to_string(ranks << shift) + " threads on a GPU, which runs at most " +
                       std::to_string(most_threads) +
                       " of this program; use a larger number, or leave it out"};
  return shift;
}

/// The threads of a thread block. Blocks are as large as their registers allow, unless the ranks
/// share warps and smaller blocks give the busiest multiprocessor fewer threads: 16,384 ranks would
/// be 64 blocks of 256 threads, but an H100 has 132 multiprocessors. Meetings of many blocks take
/// longer, so that there are only a few for each multiprocessor.
int block_on_one(gpu_program const& program, std::uint32_t shift, std::uint64_t threads) {
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

/// The same for several GPUs, each of which gets a block at least if there are enough ranks.
int block_for(gpu_program const& program, std::uint32_t shift, launch_options const& asked) {
  std::uint64_t const threads = std::uint64_t{ranks_of_gpu(asked)} << shift;
  int block = block_on_one(program, shift, threads);
  while (asked.gpus > 1 && block >= 64 && static_cast<std::uint64_t>(block / 2) >= threads &&
         block / 2 >= 1 << shift)
    block /= 2;
  return block;
}

/// How many thread blocks copy for the ranks of a GPU: one on each multiprocessor without ranks.
std::uint32_t copiers_beside(gpu_part const& part, std::uint64_t processors,
                             block_memory const& memory) {
  return memory.pieces == 0 || part.blocks >= processors
             ? 0
             : static_cast<std::uint32_t>(processors) - part.blocks;
}

/// CUDA's heap for --malloc cuda and its relatives.
constexpr bytes compared_bytes = bytes{8} << 30;

void describe_launch(launch_options const& asked, gpu_program const& program, std::size_t gpus,
                     std::uint32_t shift, bytes record_bytes, heap_taken const& of_heap) {
  std::string const attempts = of_heap.attempts == 1
                                   ? ""
                                   : ", at attempt " + std::to_string(of_heap.attempts) +
                                         ": other programs took memory meanwhile";
  std::string const on_gpus = gpus == 1 ? "" : " on " + std::to_string(gpus) + " GPUs";
  std::fprintf(
      stderr,
      "quarry-mpirun: %u ranks%s, %u a warp%s; %d threads a block, at most %d registers a "
      "thread%s\n"
      "quarry-mpirun: stack of a rank: %s, from %s; %s are reserved\n"
      "quarry-mpirun: global variables of a rank: %llu bytes; heap: %s%s\n",
      asked.own_ranks(), on_gpus.c_str(), shift < 5 ? 32u >> shift : 1u,
      shift == helper_warp_shift ? " and a warp that helps it"
      : helpers_exist(shift)     ? " and lanes that help"
                                 : "",
      program.block, program.registers, program.is_from_driver ? ", compiled by the driver" : "",
      size_text{program.stack.size}.c_str(), program.stack.reason.c_str(),
      size_text{program.stack.reserved}.c_str(), static_cast<unsigned long long>(record_bytes),
      size_text{of_heap.size}.c_str(), attempts.c_str());
}

/// The trace's memory on the GPU; one element of each without a trace.
class gpu_trace {
 public:
  gpu_trace(launch_options const& asked, std::vector<gpu_part> const& parts)
      : is_wanted_{!asked.trace.empty()},
        limit_{trace_limit(asked)},
        ranks_{is_wanted_ ? parts : no_ranks},
        records_{is_wanted_ ? parts : no_ranks, std::size_t{limit_} + 1} {
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

  inline static std::vector<gpu_part> const no_ranks{{0, 0, 1, 0, 1}};

  bool is_wanted_;
  std::uint32_t limit_;
  per_rank<rank_trace> ranks_;
  per_rank<trace_record> records_;
  cudaStream_t stream_ = nullptr;
};

fault_core const& core_of_faults() {
  static fault_core const core;
  return core;
}

/// Reports a kernel that has failed, with what is known. Returns the exit status.
int report_fault(std::string const& reason, std::vector<gpu_part> const& parts, int block,
                 std::uint32_t shift, refused_memory const& refused) {
  std::map<std::string, std::set<std::uint64_t>> rows;  // the ranks
  auto const faults = core_of_faults().read(static_cast<std::uint32_t>(block));
  auto const rank_of = [&](gpu_fault const& fault) {
    std::uint64_t const local = fault.thread >> shift;
    return local + (fault.device < parts.size() ? parts[fault.device].first_rank : 0);
  };
  auto const is_copier = [&](gpu_fault const& fault) {
    return fault.device < parts.size() && fault.thread >> shift >= parts[fault.device].ranks;
  };
  std::set<std::uint64_t> ranks;  // a rank's helpers count as the rank
  std::string of_copier;
  for (gpu_fault const& fault : faults)
    if (!is_copier(fault)) ranks.insert(rank_of(fault));
  for (gpu_fault const& fault : faults) {
    if (is_copier(fault)) {
      of_copier = describe_kind(fault.kind);
      continue;
    }
    // If the file accuses a whole warp, its place is that of other ranks as well.
    bool const has_function = ranks.size() == 1 && !fault.function.empty();
    std::string const text =
        describe_kind(fault.kind) + (has_function ? " in " + fault.function + "()" : "");
    rows[text].insert(rank_of(fault));
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
  if (!of_copier.empty()) {
    std::fprintf(stderr, "quarry-mpirun: the copy of a long buffer for a rank: %s\n",
                 of_copier.c_str());
    is_access = is_access || is_about_memory(of_copier);
  }
  if (rows.empty() && of_copier.empty())
    std::fprintf(stderr, "quarry-mpirun: a rank has failed: %s\n", reason.c_str());
  std::fputs(describe_refusals(refused).c_str(), stderr);
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
  if (asked.gpus > 1 && asked.malloc >= malloc_kind::cuda)
    throw bad_argument{"--malloc: CUDA's malloc serves the ranks of one GPU only, not --gpus " +
                       std::to_string(asked.gpus)};
  if (asked.malloc >= malloc_kind::cuda)  // before CUDA's heap is made with the program
    check(cudaDeviceSetLimit(cudaLimitMallocHeapSize, compared_bytes), "cudaDeviceSetLimit");
  auto const functions = texts_of(quarry_mpi_gpu_traced, quarry_mpi_gpu_traced_end);
  check_trace(asked, functions);
  connect_gpus(asked.gpus);
  int const first_gpu = choose_gpu(asked);
  gpu_program program = load_program(asked);
  std::uint32_t const shift = shift_for(asked, program.most_threads);
  program.block = block_for(program, shift, asked);
  std::uint32_t const own_ranks = asked.own_ranks();
  auto parts =
      divide_ranks(own_ranks, asked.gpus, static_cast<std::uint32_t>(program.block) >> shift);
  parts.front().device = first_gpu;
  bytes record_bytes = 0;
  check(cudaMemcpy(&record_bytes, program.address_of("quarry_mpi_record_bytes"),
                   sizeof(record_bytes), cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  std::uint32_t const extension_units = extension_units_for(
      extension_budget, spans_processes ? asked.ranks_each() : parts.front().ranks,
      helpers_exist(shift) ? most_extended : most_extended_alone);
  for (gpu_part const& part : parts) {
    check_memory(asked, part, parts.size(), record_bytes, extension_units, program.stack);
    set_stack(part, program.stack);
    current_gpu const current{part};
    (void)program.address_of("quarry_mpi_layout");  // loads the code, before others take the memory
  }
  per_rank<char> const records{parts, record_bytes};
  per_rank<rank_state> const ranks{parts};
  mail_memory mails{asked, parts, extension_units};
  device_array<world> const all{1};
  device_array<output_ring> const ring{1};
  std::uint32_t const blocks = parts.back().first_block + parts.back().blocks;
  meeting_memory const meetings{own_ranks, blocks};
  output_reader output{asked.ranks, texts_of(quarry_mpi_gpu_places, quarry_mpi_gpu_places_end),
                       ring.data()};

  host_array<refused_memory> const refused{1};
  device_array<host_call_ring> const call_ring{1};
  host_calls_memory const call_records{call_ring.data()};
  host_call_server calls{call_records.records()};
  device_strings const words{argv};
  device_strings const environment{environ};
  compared_memory const compared{asked.malloc, backend::cuda};
  gpu_trace const trace{asked, parts};
  traced_gpus gpus;
  for (gpu_part const& part : parts) gpus.first_ranks.push_back(part.first_rank);
  if (!asked.trace.empty() && parts.size() > 1) gpus.clocks = compare_clocks(program, parts);
  trace_writer trace_output{asked, gpus, functions, [&] { return trace.ranks(asked.ranks); },
                            [&](trace_record* to, std::uint64_t first, std::uint64_t count) {
                              trace.read(to, first, count);
                            }};
  auto const write_trace = [&] {
    trace_output.write(texts_of(quarry_mpi_gpu_places, quarry_mpi_gpu_places_end));
  };
  gpu_heaps const heaps{asked, parts};  // last: they take a share of what the others leave
  if (asked.is_verbose)
    describe_launch(asked, program, parts.size(), shift, record_bytes, heaps.taken());

  world initial{};
  initial.is_gpu = 1;
  initial.gpus = static_cast<std::uint32_t>(parts.size());
  initial.all = {asked.ranks, 0, nullptr, asked.ranks};
  initial.next_context = 4 + 2 * asked.process;
  initial.max_superblock_bytes = superblock_share(heaps.taken().size / parts.size());
  initial.output = ring.data();
  initial.malloc = asked.malloc;
  initial.compared_heap = compared.state();
  initial.argc = argc;
  initial.argv = words.data();
  initial.host_calls = call_ring.data();
  initial.environment = environment.data();
  initial.trace = trace.memory();
  initial.refused = refused.data();
  check(cudaMemcpy(all.data(), &initial, sizeof(initial), cudaMemcpyHostToDevice), "cudaMemcpy");
  for (std::size_t i = 0; i < parts.size(); ++i) {
    current_gpu const current{parts[i]};
    launch_layout layout{records.data() + parts[i].first_rank * record_bytes,
                         record_bytes,
                         shift,
                         asked.ranks,
                         all.data(),
                         ranks.data(),
                         mails.mailboxes(),
                         mails.extensions(),
                         extension_units,
                         asked.first_rank() + parts[i].first_rank,
                         {},
                         heaps.table()};
    layout.set_heap(heaps.ref(i));
    check(cudaMemcpy(program.address_of("quarry_mpi_layout"), &layout, sizeof(layout),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
    meeting_place place = meetings.place();
    place.first_block = parts[i].first_block;
    place.all_blocks = blocks;
    check(cudaMemcpy(program.address_of("quarry_mpi_meeting_place"), &place, sizeof(place),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  mails.add_code(program);
  unsigned const prepare_blocks = (own_ranks + 255) / 256;
  void* none[] = {nullptr};
  check(cudaLaunchKernel(reinterpret_cast<void const*>(program.prepare), dim3{prepare_blocks},
                         dim3{256}, none, 0, nullptr),
        "cudaLaunchKernel");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  mails.meet();
  std::vector<cudaStream_t> work;
  block_memory shared;
  for (gpu_part const& part : parts) {
    current_gpu const current{part};
    check(cudaStreamCreateWithFlags(&work.emplace_back(), cudaStreamNonBlocking),
          "cudaStreamCreate");
    shared = reserve_shared_memory(program, parts.front().blocks, shift);
  }
  for (gpu_part const& part : parts) {
    current_gpu const current{part};
    copier_layout const copiers{part.ranks, part.blocks,
                                copiers_beside(part, program.processors, shared)};
    check(cudaMemcpy(program.address_of("quarry_mpi_copiers"), &copiers, sizeof(copiers),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  mpi_tuning::short_run tuning;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    current_gpu const current{parts[i]};
    cudaError_t const launched = cudaLaunchCooperativeKernel(
        reinterpret_cast<void const*>(program.run),
        dim3{parts[i].blocks + copiers_beside(parts[i], program.processors, shared)},
        dim3{static_cast<unsigned>(program.block)}, none, shared.size(), work[i]);
    if (launched == cudaSuccess) continue;
    std::fprintf(stderr, "quarry-mpirun: GPU %d: cudaLaunchCooperativeKernel: %s\n",
                 parts[i].device, cudaGetErrorString(launched));
    std::fflush(stderr);
    _exit(1);  // freeing memory would wait for the kernels of other GPUs
  }
  // Success when all kernels have ended; an error as soon as one has failed.
  auto const status_of_work = [&] {
    cudaError_t result = cudaSuccess;
    for (cudaStream_t const stream : work) {
      cudaError_t const status = cudaStreamQuery(stream);
      if (status != cudaSuccess && status != cudaErrorNotReady) return status;
      if (status != cudaSuccess) result = status;
    }
    return result;
  };

  // This thread and the watch's may both see a fault. One of them reports it.
  std::atomic<bool> is_reporting_fault = false;
  auto const report_and_end = [&](std::string const& reason) {
    if (is_reporting_fault.exchange(true)) return;
    output.end();
    int const status = report_fault(reason, parts, program.block, shift, *refused.data());
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
  gpu_watch watch{asked.first_rank(),
                  own_ranks,
                  all.data(),
                  ranks.data(),
                  records.data(),
                  record_bytes,
                  heaps.taken().size,
                  texts_of(quarry_mpi_gpu_places, quarry_mpi_gpu_places_end),
                  [&] { report_and_end(ended_by_driver); }};
  mails.join(watch);
  cudaError_t status = cudaErrorNotReady;
  while ((status = status_of_work()) == cudaErrorNotReady) {
    if (fault_core::is_written()) end_after_fault(ended_by_driver);
    bool const has_output = output.read() | calls.serve([&] { output.read(); });
    if (has_output) watch.note_progress();
    if (!has_output) std::this_thread::sleep_for(std::chrono::microseconds{20});
    try {
      if (tuning.is_over() && !core_of_faults().exists() && !watch.is_aborted()) {
        tuning.report(tuning.stopped, watch.steps());
        _exit(0);
      }
      if (watch.look([&] { output.finish(); })) continue;
    } catch (std::exception const& problem) {
      status = status_of_work();
      if (status != cudaSuccess && status != cudaErrorNotReady) break;  // the kernel has failed
      output.end();
      std::fprintf(stderr, "quarry-mpirun: %s\n", problem.what());
      std::fflush(stderr);
      _exit(1);  // freeing memory would wait for the kernel
    }
    output.end();
    write_trace();
    std::fputs(describe_refusals(*refused.data()).c_str(), stderr);
    tuning.report(tuning.failed, 0);  // the status may be the launcher's for a wrong option
    std::fflush(stderr);
    _exit(trace_output.status_after(
        watch.end_status()));  // the driver ends the kernel with the process
  }
  // The driver lets a kernel go on after its fault, so that the kernel may end before the driver
  // aborts.
  for (int i = 0; core_of_faults().exists() && !fault_core::is_written() && i < 600; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  if (core_of_faults().exists()) end_after_fault(ended_by_driver);
  if (status != cudaSuccess) end_after_fault(cudaGetErrorString(status));
  tuning.report(tuning.done, 0);
  output.end();
  write_trace();
  if (asked.is_verbose) heaps.describe_faults();
  int const end_status = trace_output.status_after(watch.end());
  world ended{};
  check(cudaMemcpy(&ended, all.data(), sizeof(ended), cudaMemcpyDeviceToHost), "cudaMemcpy");
  std::function<std::uint64_t(fault const&)> rank_of;  // a heap does not know the GPU of the caller
  if (parts.size() == 1)
    rank_of = [&](fault const& each) {
      auto const thread =
          std::uint64_t{each.block} * static_cast<std::uint32_t>(program.block) + each.thread;
      return asked.first_rank() + (thread >> shift);
    };
  std::fputs(describe_wrong_addresses(heaps.all(), ended.wrong_addresses, rank_of).c_str(), stderr);
  if (end_status != 0) std::fputs(describe_refusals(*refused.data()).c_str(), stderr);
  return end_status;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
