// SPDX-License-Identifier: Apache-2.0
#include "direct_collectives.hpp"

#include "shared_reads.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Whether others can read elements of `size` bytes at the address.
[[nodiscard]] QUARRY_HD bool is_readable(void const* elements, bytes size) {
  return is_shared_memory(elements) && reinterpret_cast<std::uint64_t>(elements) % size == 0;
}

}  // namespace

QUARRY_SLOW void broadcast_directly(collective const& of, void* data, bytes count,
                                    MPI_Datatype type, std::uint32_t root) {
  bool const is_root = of.own == root;
  published_data const published{of, data, is_root ? count : 0, type};
  published_place const& source = of.places()[root];
  bytes const room = count * element_size(of.rank, type);
  bool const is_simple = source.size <= room && is_dense(of.rank, type);
  read_common(of, is_simple && !is_root ? static_cast<char*>(data) : nullptr, source.data,
              source.size);
  if (is_root || is_simple) return;
  published.read(root, 0, room, data, type);
  if (source.size > room) of.note(MPI_ERR_TRUNCATE);
}

QUARRY_SLOW bool reduces_directly(membership const& among, int count, MPI_Datatype type,
                                  MPI_Op op) {
  return meets(among) && count > 0 && op < first_user_op &&
         small_reduction::number_of(type) != small_reduction::number::none;
}

QUARRY_SLOW void reduce_directly(collective const& of, void const* sent, void* received,
                                 bytes count, MPI_Datatype type, MPI_Op op) {
  bytes const element = element_size(of.rank, type);
  bytes const size = count * element;
  bool const is_first = of.own % reduction_job::radix == 0;
  bool const is_own_result = received != nullptr && is_readable(received, element);
  scratch const operand{of.rank, is_readable(sent, element) ? 0 : size};
  scratch const partial{of.rank, is_first && !is_own_result ? size : 0};
  if (operand.data() != nullptr) copy_bytes(operand.data(), sent, size);
  char* const result = is_own_result ? static_cast<char*>(received) : partial.data();
  of.places()[of.own].publish(
      operand.data() != nullptr ? operand.data() : static_cast<char const*>(sent), size, result);
  of.meet();
  reduction_job const job{of.places(), 0, 1, 0, op, small_reduction::number_of(type), size};
  reduce_in_levels(job, of.own, of.size, reduce_share, [&] { of.meet(); });
  published_place const& all = of.places()[0];
  bool const has_room = all.size <= size;
  bool const is_wanted = received != nullptr && received != all.result && has_room;
  read_common(of, is_wanted ? static_cast<char*>(received) : nullptr, all.result, all.size);
  if (!has_room) of.note(MPI_ERR_TRUNCATE);
  of.meet();
}

}  // namespace quarry::inline QUARRY_ABI::mpi
