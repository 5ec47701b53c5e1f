// SPDX-License-Identifier: Apache-2.0
// What a process's symmetric memory has for its ranks: the same at the same places in each process.
#pragma once

#include "message_parts.hpp"

#ifdef QUARRY_MPI_PROCESSES
namespace quarry::inline QUARRY_ABI::mpi {

/// Where the parts are. `units`: of each extension; `budget`: of all blocks, in bytes; `most`: of a
/// block.
struct process_mail {
  process_mail(std::uint32_t ranks_each, std::uint32_t units, bytes budget, bytes most)
      : block_bytes{block_bytes_for(budget, ranks_each, most)},
        extensions_at{sizeof(process_words) + bytes{ranks_each} * sizeof(mail)},
        acknowledged_at{extensions_at +
                        bytes{ranks_each} * mail_slots * units * sizeof(std::uint64_t)},
        blocks_at{acknowledged_at +
                  bytes{ranks_each} * acknowledgement_words * sizeof(std::uint64_t)},
        size{blocks_at + bytes{ranks_each} * blocks_of_rank * block_bytes} {}

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

  [[nodiscard]] char* blocks(char* memory) const { return memory + blocks_at; }
  /// What ranks know about the memory, without the processes that are mapped.
  [[nodiscard]] process_layout layout(char* memory, std::uint32_t own, std::uint32_t count,
                                      std::uint32_t ranks_each) const {
    process_layout result{};
    result.own = own;
    result.count = count;
    result.ranks_each = ranks_each;
    result.block_bytes = block_bytes;
    result.words = words(memory);
    result.acknowledged = acknowledged(memory);
    result.blocks = blocks(memory);
    return result;
  }

  std::uint32_t block_bytes;
  bytes extensions_at, acknowledged_at, blocks_at, size;
};
static_assert(sizeof(process_words) % alignof(mail) == 0);

}  // namespace quarry::inline QUARRY_ABI::mpi
#endif
