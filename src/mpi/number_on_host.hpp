// SPDX-License-Identifier: Apache-2.0
// Which GPU of its host a process of a program takes.
#pragma once

#include "quarry/core/abi.hpp"

#include <charconv>
#include <cstdint>
#include <cstring>

namespace quarry::inline QUARRY_ABI::mpi_processes {

/// Variables by which the program that starts processes tells each its number among those of its
/// host: quarry-mpirun; Slurm; Open MPI; MPICH and Intel MPI; PMI; Cray PALS; Flux; MVAPICH.
inline constexpr char const* number_on_host_variables[] = {"QUARRY_MPI_NUMBER_ON_HOST",
                                                           "SLURM_LOCALID",
                                                           "OMPI_COMM_WORLD_LOCAL_RANK",
                                                           "MPI_LOCALRANKID",
                                                           "PMI_LOCAL_RANK",
                                                           "PALS_LOCAL_RANKID",
                                                           "FLUX_TASK_LOCAL_ID",
                                                           "MV2_COMM_WORLD_LOCAL_RANK"};

/// The number of a process among those of its host: the first of these variables that is a number.
/// If there is none, `process`, the number among all processes. `variable(name)` returns the value
/// of a variable of the environment, or null.
template <class Lookup>
[[nodiscard]] std::uint32_t number_on_host(std::uint32_t process, Lookup const& variable) {
  for (char const* const name : number_on_host_variables) {
    char const* const text = variable(name);
    if (text == nullptr) continue;
    char const* const end = text + std::strlen(text);
    std::uint32_t value = 0;
    auto const [stop, error] = std::from_chars(text, end, value);
    if (error == std::errc{} && stop == end) return value;
  }
  return process;
}

}  // namespace quarry::inline QUARRY_ABI::mpi_processes
