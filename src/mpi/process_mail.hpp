// SPDX-License-Identifier: Apache-2.0
// What a process's symmetric memory has for its ranks: the same at the same places in each process.
#pragma once

#include "message_parts.hpp"

#ifdef QUARRY_MPI_PROCESSES
namespace quarry::inline QUARRY_ABI::mpi {

/// Where the parts are. `units`: of each extension.
struct process_mail {
  process_mail(std::uint32_t ranks_each, std::uint32_t units)
      : extensions_at{sizeof(process_words) + bytes{ranks_each} * sizeof(mail)},
        acknowledged_at{extensions_at +
                        bytes{ranks_each} * mail_slots * units * sizeof(std::uint64_t)},
        size{acknowledged_at + bytes{ranks_each} * acknowledgement_words * sizeof(std::uint64_t)} {}

  [[nodiscard]] static process_words* words(char* memory) {
    return reinterpret_cast<process_words*>(memory);
  }
  [[nodiscard]] static mail* mailboxes(char* memory) {
    return reinterpret_cast<mail*>(memory + sizeof(process_words));
  }
  [[nodiscard]] std::uint64_t* extensions(char* memory) const {
    return reinterpret_cast<std::uint64_t*>(memory + extensions_at);
  }
  [[nodiscard]] std::uint64_t* acknowledged(char* memory) const {
    return reinterpret_cast<std::uint64_t*>(memory + acknowledged_at);
  }

  bytes extensions_at, acknowledged_at, size;
};
static_assert(sizeof(process_words) % alignof(mail) == 0);

}  // namespace quarry::inline QUARRY_ABI::mpi
#endif
