// SPDX-License-Identifier: Apache-2.0
// What senders write on GPUs: in the memory of the GPUs of one process, or in that of NVSHMEM.
#pragma once

#include "gpu_program.hpp"
#include "gpu_watch.hpp"
#include "spread_memory.hpp"

#include <cstdlib>

#ifdef QUARRY_MPI_PROCESSES
#include "device_memory.hpp"
#include "number_on_host.hpp"
#include "nvshmem_memory.hpp"
#include "process_mail.hpp"
#endif

namespace quarry::inline QUARRY_ABI::mpi {

#ifdef QUARRY_MPI_PROCESSES
/// Mailboxes and extensions of this process's ranks, which other processes write.
class mail_memory {
 public:
  mail_memory(launch_options const& asked, std::vector<gpu_part> const&, std::uint32_t units)
      : asked_{asked},
        states_{asked.meeting_file, asked.process, asked.processes, asked.ranks,
                asked.ranks_each()},
        places_{asked.ranks_each(), units, block_budget, most_in_block},
        memory_{asked, places_.size} {}
  [[nodiscard]] mail* mailboxes() const { return process_mail::mailboxes(memory_.own()); }
  [[nodiscard]] std::uint64_t* extensions() const { return places_.extensions(memory_.own()); }
  /// Tells the program's code about the processes.
  void add_code(gpu_program const& program) const {
    process_layout layout =
        places_.layout(memory_.own(), asked_.process, asked_.processes, asked_.ranks_each());
    find_mapped(layout);
    check(cudaMemcpy(program.address_of("quarry_mpi_processes"), &layout, sizeof(layout),
                     cudaMemcpyHostToDevice),
          "cudaMemcpy");
    memory_.add_code(program.library);
  }
  /// Waits until all processes have prepared their mailboxes.
  void meet() const { memory_.meet(); }
  /// Lets the watch look for deadlocks together with those of the other processes.
  void join(gpu_watch& watch) {
    if (asked_.processes == 1) return;
    states_.join();
    watch.join(states_);
  }

 private:
  /// Notes the mapped processes with consecutive numbers around this one. NVSHMEM reaches all
  /// others, also those of this host.
  void find_mapped(process_layout& layout) const {
    std::uint32_t const own = asked_.process;
    auto const is_mapped = [&](std::uint32_t process) {
      return memory_.mapped(process) != nullptr;
    };
    std::uint32_t first = own;
    while (first != 0 && own - first + 1 < layout.most_mapped && is_mapped(first - 1)) --first;
    layout.first_mapped = first;
    for (std::uint32_t i = 0; i < layout.most_mapped && first + i < asked_.processes; ++i) {
      if (first + i != own && !is_mapped(first + i)) break;
      layout.distances[layout.mapped++] =
          first + i == own ? 0 : memory_.mapped(first + i) - memory_.own();
    }
  }

  launch_options const& asked_;
  process_states states_;  // before `memory_`, in which the processes meet
  process_mail places_;
  nvshmem_memory memory_;
};

/// Makes the process's GPU of this host CUDA's current device, and returns it.
inline int choose_gpu(launch_options const& asked) {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  auto const variable = [](char const* name) { return std::getenv(name); };
  auto const number = mpi_processes::number_on_host(asked.process, variable);
  int const device = static_cast<int>(number % static_cast<std::uint32_t>(count));
  check(cudaSetDevice(device), "cudaSetDevice");
  return device;
}
#else
/// Mailboxes and extensions of all ranks.
class mail_memory {
 public:
  mail_memory(launch_options const&, std::vector<gpu_part> const& parts, std::uint32_t units)
      : mailboxes_{parts}, extensions_{parts, std::size_t{mail_slots} * units} {}
  [[nodiscard]] mail* mailboxes() const { return mailboxes_.data(); }
  [[nodiscard]] std::uint64_t* extensions() const { return extensions_.data(); }
  void add_code(gpu_program const&) const {}
  void meet() const {}
  void join(gpu_watch&) const {}

 private:
  per_rank<mail> mailboxes_;
  per_rank<std::uint64_t> extensions_;
};
/// The first GPU.
inline int choose_gpu(launch_options const&) { return 0; }
#endif

}  // namespace quarry::inline QUARRY_ABI::mpi
