// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

#ifdef __CUDACC__
namespace {

__device__ std::uint32_t load_host(std::uint32_t const* word) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ void store_host(std::uint32_t* word, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

/// How many records the host must read before the record of `ticket` has a place.
///
/// If all ranks print at once, a quarter of a million wait. Would each of them read the host's
/// memory, these reads would fill the bus, and the host would read a few thousand records a second.
/// So only ranks that are near the front read it, and leave what they saw for the others. There is
/// always one: `seen` never decreases, and the rank before the first that waits has seen that there
/// is room for itself.
__device__ std::uint32_t records_before_room(output_ring& ring, std::uint32_t ticket) {
  simt::atomic_ref<std::uint32_t> const seen{ring.seen};
  auto const before_room = [&](std::uint32_t consumed) {
    std::uint32_t const waiting = ticket - consumed;
    return waiting < output_ring::places ? 0 : waiting - output_ring::places + 1;
  };
  // (S) with (T): a rank that overwrites a record has seen, through another rank, that the host has
  // read it.
  std::uint32_t known = seen.load(simt::acquire);  // (S)
  std::uint32_t const distance = before_room(known);
  if (distance == 0 || distance > output_ring::places / 4) return distance;
  std::uint32_t const consumed = load_host(ring.consumed);
  while (static_cast<std::int32_t>(consumed - known) > 0 &&
         !seen.compare_exchange(known, consumed, simt::release)) {  // (T)
  }
  return before_room(consumed);
}

/// Nanoseconds. The host reads about a record in a microsecond.
constexpr std::uint32_t sleep_per_record = 500;
constexpr std::uint32_t most_sleep = 500'000;

__device__ void write_record(rank_state& rank, std::uint8_t stream, char const* text,
                             std::uint32_t length) {
  output_ring& ring = *the_world().output;
  std::uint32_t const ticket =
      simt::atomic_ref<std::uint32_t>{ring.next}.fetch_add(1, simt::relaxed);
  // The host always reads on, so this wait ends; the rank serves its messages meanwhile. It ends
  // after an abort, too, because the host waits for the record of each ticket.
  own_mail_reader mails = reader_of(rank);
  for (;;) {
    std::uint32_t const distance = records_before_room(ring, ticket);
    if (distance == 0) break;
    if (mails.has_message()) progress(rank);
    return_slots(mails);
    __nanosleep(distance < most_sleep / sleep_per_record ? distance * sleep_per_record
                                                         : most_sleep);
  }
  output_record& record = ring.records[ticket % output_ring::places];
  record.rank = rank.rank;
  record.length = static_cast<std::uint16_t>(length);
  record.stream = stream;
  for (std::uint32_t i = 0; i < length; ++i) record.text[i] = text[i];
  store_host(&record.ticket, ticket + 1);
}

}  // namespace
#endif

QUARRY_SLOW void write_text(rank_state& rank, std::uint8_t stream, char const* text, bytes length) {
#ifdef __CUDA_ARCH__
  QUARRY_NO_UNROLL
  while (length != 0) {
    auto const part = static_cast<std::uint32_t>(
        length < output_record::text_bytes ? length : output_record::text_bytes);
    write_record(rank, stream, text, part);
    text += part;
    length -= part;
  }
#elif !defined(__CUDACC__)
  quarry_mpi_write(rank.rank, stream, text, length);
#else
  (void)rank, (void)stream, (void)text, (void)length;
#endif
  if (is_aborted()) end_rank(0);  // a rank that writes on may never wait
}

QUARRY_SLOW void flush_output(rank_state& rank) {
#ifdef __CUDA_ARCH__
  write_record(rank, 3, nullptr, 0);
#elif !defined(__CUDACC__)
  quarry_mpi_write(rank.rank, 3, nullptr, 0);
#else
  (void)rank;
#endif
}

}  // namespace quarry::inline QUARRY_ABI::mpi
