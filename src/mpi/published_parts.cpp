// SPDX-License-Identifier: Apache-2.0
#include "published_parts.hpp"

#include "copy_bytes.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

[[nodiscard]] QUARRY_HD bytes bytes_in(rank_state& rank, part_buffer const& parts,
                                       std::uint32_t member) {
  return static_cast<bytes>(parts.count_of(member)) * element_size(rank, parts.type_of(member));
}

[[nodiscard]] QUARRY_HD bytes bytes_in_all(rank_state& rank, part_buffer const& parts,
                                           std::uint32_t members) {
  bytes sum = 0;
  for (std::uint32_t i = 0; i < members; ++i) sum += bytes_in(rank, parts, i);
  return sum;
}

/// Whether others can read the arrays.
[[nodiscard]] QUARRY_HD bool has_readable_arrays(part_buffer const& parts) {
  return is_shared_memory(parts.counts) && is_shared_memory(parts.displacements) &&
         (parts.types == nullptr || is_shared_memory(parts.types));
}

}  // namespace

QUARRY_SLOW published_parts::published_parts(collective const& of, part_buffer const& parts,
                                             bool changes)
    : of_{of},
      packed_{of.rank,
              is_shared_memory(parts.data) && !changes ? 0 : bytes_in_all(of.rank, parts, of.size)},
      arrays_{of.rank, packed_.data() == nullptr && has_readable_arrays(parts)
                           ? 0
                           : of.size * (parts.types == nullptr ? 2 : 3) * sizeof(int)} {
  published_place& own = of.places()[of.own];
  own.data = static_cast<char const*>(parts.data);
  own.counts = parts.counts;
  own.displacements = parts.displacements;
  own.type = parts.type;
  own.types = parts.types;
  bool const is_simple = parts.types == nullptr && is_dense(of.rank, parts.type);
  own.size = is_simple ? element_size(of.rank, parts.type) : 0;
  if (packed_.data() != nullptr) {
    pack_all(parts);
  } else if (arrays_.data() != nullptr) {
    copy_arrays(parts);
  }
  of.meet();
}

QUARRY_SLOW void published_parts::copy_arrays(part_buffer const& parts) const {
  published_place& own = of_.places()[of_.own];
  bytes const size = of_.size * sizeof(int);
  copy_bytes(arrays_.data(), parts.counts, size);
  copy_bytes(arrays_.data() + size, parts.displacements, size);
  own.counts = reinterpret_cast<int const*>(arrays_.data());
  own.displacements = own.counts + of_.size;
  if (parts.types == nullptr) return;
  static_assert(sizeof(MPI_Datatype) == sizeof(int));
  copy_bytes(arrays_.data() + 2 * size, parts.types, size);
  own.types = reinterpret_cast<MPI_Datatype const*>(arrays_.data() + 2 * size);
}

/// Packs the parts one behind another. Parts of different types become parts of bytes.
QUARRY_SLOW void published_parts::pack_all(part_buffer const& parts) const {
  published_place& own = of_.places()[of_.own];
  bool const has_types = parts.types != nullptr;
  auto* const counts = reinterpret_cast<int*>(arrays_.data());
  int* const displacements = counts + of_.size;
  char* next = packed_.data();
  int before = 0;
  for (std::uint32_t i = 0; i < of_.size; ++i) {
    buffer_part const part = parts.part_of(of_.rank, i);
    bytes const size = bytes_in(of_.rank, parts, i);
    pack(of_.rank, next, part.data, part.count, part.type);
    counts[i] = has_types ? static_cast<int>(size) : parts.count_of(i);
    displacements[i] = before;
    before += counts[i];
    next += size;
  }
  own.data = packed_.data();
  own.counts = counts;
  own.displacements = displacements;
  own.types = nullptr;
  own.size = has_types ? 1 : element_size(of_.rank, parts.type);
}

QUARRY_SLOW void published_parts::read(std::uint32_t member, typed_elements const& target,
                                       bytes room) const {
  published_place const& source = of_.places()[member];
  rank_state& owner = state_of(of_.through.at->shared->world_rank(member, of_.rank.rank));
  MPI_Datatype const type = source.size != 0          ? MPI_BYTE
                            : source.types != nullptr ? source.types[of_.own]
                                                      : source.type;
  bytes const element = source.size != 0 ? source.size : element_size(owner, type);
  std::int64_t const distance = source.size != 0          ? static_cast<std::int64_t>(source.size)
                                : source.types != nullptr ? 1
                                                          : element_extent(owner, type);
  char const* const from = source.data + source.displacements[of_.own] * distance;
  bytes const length = static_cast<bytes>(source.counts[of_.own]) * element;
  if (length > room) of_.note(MPI_ERR_TRUNCATE);
  convert_elements(of_.rank, {owner, const_cast<char*>(from), type}, target,
                   length < room ? length : room);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
