// SPDX-License-Identifier: Apache-2.0
#include "root_window.hpp"

#include "meeting.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The first negative number, or 0. Many loads are in flight together: a loop that waited for each
/// number took up to two fifths of an MPI_Alltoallv of a few bytes on a GPU.
[[nodiscard]] QUARRY_HD int first_negative(int const* numbers, std::uint32_t size) {
  constexpr std::uint32_t batch = 16;
  QUARRY_NO_UNROLL
  for (std::uint32_t begin = 0; begin < size; begin += batch) {
    int combined = 0;
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k)
      combined |= numbers[begin + k < size ? begin + k : begin];
    if (combined >= 0) continue;
    while (numbers[begin] >= 0) ++begin;
    return numbers[begin];
  }
  return 0;
}

}  // namespace

QUARRY_SLOW int rank_parts::check_all(rank_state& rank, std::uint32_t size, MPI_Datatype type,
                                      MPI_Comm communicator, char const* function) const {
  int const wanted = counts == nullptr ? count : first_negative(counts, size);
  if (wanted < 0) return fail(rank, communicator, MPI_ERR_COUNT, function, "count", wanted);
  if (!is_type(rank, type))
    return fail(rank, communicator, MPI_ERR_TYPE, function, "datatype", type);
  return MPI_SUCCESS;
}

namespace {

[[nodiscard]] QUARRY_HD bytes elements_of(rank_parts const& of_ranks, std::uint32_t size) {
  if (of_ranks.counts == nullptr) return static_cast<bytes>(of_ranks.count) * size;
  bytes sum = 0;
  for (std::uint32_t i = 0; i < size; ++i) sum += of_ranks.count_of(i);
  return sum;
}

/// Whether others can read the array. There may be none.
[[nodiscard]] QUARRY_HD bool is_readable(int const* array) {
  return array == nullptr || is_shared_memory(array);
}

}  // namespace

QUARRY_SLOW root_window::root_window(collective const& of, std::uint32_t root, direction flow,
                                     void* buffer, rank_parts const& of_ranks, MPI_Datatype type)
    : of_{of},
      root_{root},
      flow_{flow},
      place_{},
      buffer_{buffer},
      parts_{of_ranks},
      type_{type},
      packed_{of.rank, !is_root() || is_shared_memory(buffer)
                           ? 0
                           : elements_of(of_ranks, of.size) * element_size(of.rank, type)},
      arrays_{of.rank, !is_root() || of_ranks.counts == nullptr ||
                               (is_shared_memory(buffer) && is_readable(of_ranks.counts) &&
                                is_readable(of_ranks.displacements))
                           ? 0
                           : 2 * of.size * sizeof(int)} {
  if (is_root()) {
    is_too_long().store(0, simt::relaxed);  // (F)
    bool const is_packed = packed_.data() != nullptr;
    place_ = {is_packed ? packed_.data() : buffer, of_ranks, type, is_packed ? 1u : 0u};
    if (arrays_.data() != nullptr) copy_arrays();
    move_packed(true);  // in a gather, too: ranks may write less than a part
  }
  broadcast_bytes(of.rank, *of.through.at, &place_, sizeof(place_), root, of.which);
}

QUARRY_HD simt::atomic_ref<std::uint32_t> root_window::is_too_long() const {
  // The root's place in a meeting: it is in no other collective.
  return simt::atomic_ref<std::uint32_t>{
      *reinterpret_cast<std::uint32_t*>(the_meeting().parts + owner().rank * meeting::part_bytes)};
}

QUARRY_SLOW typed_elements root_window::part(std::uint32_t rank) const {
  rank_state& root = owner();
  std::int64_t const extent = place_.is_packed != 0
                                  ? static_cast<std::int64_t>(element_size(root, place_.type))
                                  : element_extent(root, place_.type);
  return {root, static_cast<char*>(place_.data) + place_.of_ranks.place_of(rank) * extent,
          place_.is_packed != 0 ? MPI_BYTE : place_.type};
}

QUARRY_SLOW void root_window::copy_arrays() {
  auto* const counts = reinterpret_cast<int*>(arrays_.data());
  int* const displacements = counts + of_.size;
  copy_bytes(counts, parts_.counts, of_.size * sizeof(int));
  if (packed_.data() == nullptr) {
    copy_bytes(displacements, parts_.displacements, of_.size * sizeof(int));
  } else {
    int before = 0;
    for (std::uint32_t i = 0; i < of_.size; ++i) {
      displacements[i] = before;
      before += counts[i];
    }
  }
  place_.of_ranks.counts = counts;
  place_.of_ranks.displacements = displacements;
}

/// Moves all elements between the root's buffer and their packed copy, if there is one.
QUARRY_SLOW void root_window::move_packed(bool packs) const {
  if (packed_.data() == nullptr) return;
  std::int64_t const extent = element_extent(of_.rank, type_);
  bytes const element = element_size(of_.rank, type_);
  char* packed = packed_.data();
  for (std::uint32_t i = 0; i < of_.size; ++i) {
    char* const spread = static_cast<char*>(buffer_) + parts_.place_of(i) * extent;
    bytes const count = parts_.count_of(i);
    if (packs) {
      pack(of_.rank, packed, spread, count, type_);
    } else if (count != 0) {
      unpack(of_.rank, spread, type_, packed, count * element);
    }
    packed += count * element;
  }
}

QUARRY_SLOW void root_window::write(void const* sent, bytes count, MPI_Datatype type) const {
  bytes const length = count * element_size(of_.rank, type);
  bytes const room = part_bytes(of_.own);
  if (length > room) is_too_long().store(1, simt::relaxed);  // (F)
  convert_elements(of_.rank, {of_.rank, const_cast<void*>(sent), type}, part(of_.own),
                   length < room ? length : room);
}

QUARRY_SLOW void root_window::read(void* received, bytes count, MPI_Datatype type) const {
  bytes const length = part_bytes(of_.own);
  bytes const room = count * element_size(of_.rank, type);
  if (length > room) of_.note(MPI_ERR_TRUNCATE);
  convert_elements(of_.rank, part(of_.own), {of_.rank, received, type},
                   length < room ? length : room);
}

QUARRY_SLOW void root_window::wait_for_all() const {
  arrive(of_, root_);
  membership& among = *of_.through.at;
  if (!meets(among)) broadcast_bytes(of_.rank, among, nullptr, 0, root_, of_.which);
}

QUARRY_SLOW void root_window::read_all(void* received, rank_parts const& into,
                                       MPI_Datatype type) const {
  if (is_too_long().load(simt::relaxed) != 0) of_.note(MPI_ERR_TRUNCATE);  // (F)
  bytes const element = element_size(of_.rank, type);
  std::int64_t const extent = element_extent(of_.rank, type);
  bool const is_one_block = into.counts == nullptr && into.displacements == nullptr &&
                            place_.of_ranks.counts == nullptr &&
                            place_.of_ranks.displacements == nullptr &&
                            into.count_of(0) * element == part_bytes(0);
  if (is_one_block)
    return convert_elements(of_.rank, part(0), {of_.rank, received, type},
                            of_.size * part_bytes(0));
  for (std::uint32_t rank = 0; rank < of_.size; ++rank) {
    bytes const length = part_bytes(rank);
    bytes const room = into.count_of(rank) * element;
    if (length > room) of_.note(MPI_ERR_TRUNCATE);
    char* const to = static_cast<char*>(received) + into.place_of(rank) * extent;
    convert_elements(of_.rank, part(rank), {of_.rank, to, type}, length < room ? length : room);
  }
}

QUARRY_SLOW void root_window::close() const {
  arrive(of_, root_);
  if (!is_root() || flow_ == direction::scatter) return;
  if (is_too_long().load(simt::relaxed) != 0) of_.note(MPI_ERR_TRUNCATE);  // (F)
  move_packed(false);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
