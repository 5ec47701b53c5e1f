// SPDX-License-Identifier: Apache-2.0
#include "gpu_memory.hpp"

#include "mailbox.hpp"
#include "meeting.hpp"
#include "message_parts.hpp"
#include "rank.hpp"
#include "size_text.hpp"
#include "trace_file.hpp"

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

struct memory_of_gpu {
  std::size_t free_bytes = 0, total = 0;
};

memory_of_gpu memory_now() {
  memory_of_gpu result;
  check(cudaMemGetInfo(&result.free_bytes, &result.total), "cudaMemGetInfo");
  return result;
}

constexpr bytes of_launcher = bytes{64} << 20;  // rings, tables, the program's code

/// What the user asks for all ranks is divided among the GPUs.
bytes heap_of_gpu(launch_options const& asked, std::size_t gpus) {
  return (asked.heap / asked.processes + gpus - 1) / gpus;
}

/// The GPUs in `users` can use the heap.
heap_taken make_heap(bytes asked, int device, std::unique_ptr<heap>& memory,
                     std::vector<int> const& users) {
  auto const allocate = [&](bytes size) {
    memory = std::make_unique<heap>(heap_options{
        .bytes = size, .backend_kind = backend::cuda, .device = device, .peers = users});
  };
  if (asked == 0)
    return take_heap(
        [] {
          bytes const all = memory_now().free_bytes;
          return all > of_launcher ? all - of_launcher : 0;
        },
        allocate);
  allocate(asked);
  return {asked, 1};
}

}  // namespace

void check_memory(launch_options const& asked, gpu_part const& part, std::size_t gpus,
                  bytes record_bytes, std::uint32_t extension_units, stack_choice const& stack) {
  current_gpu const current{part};
  bytes const of_blocks =
      spans_processes
          ? bytes{blocks_of_rank} * block_bytes_for(block_budget, part.ranks, most_in_block)
          : 0;
  bytes const of_rank = sizeof(rank_state) + sizeof(mail) + 2 * meeting::part_bytes +
                        mail_slots * sizeof(std::uint64_t) * extension_units + of_blocks;
  auto const [free_bytes, total] = memory_now();
  bytes const records = part.ranks * record_bytes;
  bytes const of_trace =
      asked.trace.empty() ? 0 : sizeof(trace_record) * (trace_limit(asked) + bytes{1});
  bytes const ranks = records + part.ranks * (of_rank + of_trace) + of_launcher + stack.reserved;
  bytes const heap = asked.heap != 0 ? heap_of_gpu(asked, gpus) : least_heap;
  if (ranks + heap > free_bytes) {
    throw bad_argument{
        "-n " + std::to_string(asked.ranks) + ": the ranks do not fit: " + text_of_size(records) +
        " of global variables (" + std::to_string(record_bytes) + " bytes of each rank), " +
        text_of_size(stack.reserved) + " of stack (" + text_of_size(stack.size) +
        " for each thread that the GPU can run; from " + stack.reason + "), " + text_of_size(heap) +
        " of heap and " + text_of_size(ranks - records - stack.reserved) +
        " for the ranks' state are " + text_of_size(ranks + heap) + "; GPU " +
        std::to_string(part.device) + " has " + text_of_size(free_bytes) + " of " +
        text_of_size(total) + " free. " +
        (ranks + heap <= total ? "Wait for other programs on the GPU, or run" : "Run") +
        " with fewer ranks or a smaller --stack or --heap"};
  }
}

void set_stack(gpu_part const& part, stack_choice const& stack) {
  current_gpu const current{part};
  cudaError_t const status = cudaDeviceSetLimit(cudaLimitStackSize, stack.size);
  if (status != cudaSuccess)
    throw bad_argument{"a stack of " + text_of_size(stack.size) + " for each rank (from " +
                       stack.reason + "), " + text_of_size(stack.reserved) +
                       " for all threads of the GPU: " + cudaGetErrorString(status) + "; " +
                       text_of_size(memory_now().free_bytes) + " of GPU " +
                       std::to_string(part.device) +
                       " are free. Wait for other programs on the GPU, or run with a smaller "
                       "--stack"};
}

gpu_heaps::gpu_heaps(launch_options const& asked, std::vector<gpu_part> const& parts)
    : heaps_(parts.size()) {
  std::vector<heap_ref> table;
  std::vector<int> devices;
  for (gpu_part const& part : parts) devices.push_back(part.device);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    current_gpu const current{parts[i]};
    auto const [size, attempts] =
        make_heap(heap_of_gpu(asked, parts.size()), parts[i].device, heaps_[i], devices);
    taken_ = {taken_.size + size, std::max(taken_.attempts, attempts)};
    table.push_back(heaps_[i]->ref());
  }
  if (parts.size() == 1) return;
  table_ = std::make_unique<device_array<heap_ref>>(table.size());
  check(cudaMemcpy(table_->data(), table.data(), table.size() * sizeof(heap_ref),
                   cudaMemcpyHostToDevice),
        "cudaMemcpy");
}

std::vector<heap const*> gpu_heaps::all() const {
  std::vector<heap const*> result;
  for (auto const& each : heaps_) result.push_back(each.get());
  return result;
}

void gpu_heaps::describe_faults() const {
  for (std::size_t i = 0; i < heaps_.size(); ++i) {
    heap const& memory = *heaps_[i];
    auto const first = memory.first_fault();
    if (!first) continue;
    std::ostringstream text;
    text << *first;
    for (std::uint32_t kind = 1; kind < static_cast<std::uint32_t>(fault_kind::count_); ++kind)
      if (auto const count = memory.fault_count(static_cast<fault_kind>(kind)); count != 0)
        text << "; " << count << " of kind " << name_of(static_cast<fault_kind>(kind));
    std::string const where = heaps_.size() == 1 ? "" : " of GPU " + std::to_string(i);
    std::fprintf(stderr, "quarry-mpirun: faults in the heap%s: first %s\n", where.c_str(),
                 text.str().c_str());
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
