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

__device__ void write_record(rank_state& rank, std::uint8_t stream, char const* text,
                             std::uint32_t length) {
  output_ring& ring = *the_world().output;
  std::uint32_t const ticket =
      simt::atomic_ref<std::uint32_t>{ring.next}.fetch_add(1, simt::relaxed);
  auto const has_room = [&] { return ticket - load_host(ring.consumed) < output_ring::places; };
  // The host always reads on, so this wait ends; the rank serves its messages meanwhile. It ends
  // after an abort, too, because the host waits for the record of each ticket.
  own_mail_reader mails = reader_of(rank);
  while (!has_room()) {
    if (mails.has_message()) progress(rank);
    return_slots(mails);
    __nanosleep(20);
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
