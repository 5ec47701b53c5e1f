// SPDX-License-Identifier: Apache-2.0
#include "context_numbers.hpp"

#include "orders.hpp"
#include "shared_once.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW void freed_contexts::put(std::uint32_t context) {
  std::uint32_t const number = context / 2;
  part* const in = shared_once(parts_[number / in_part]);
  if (in == nullptr) return;
  std::uint32_t const bit = number % in_part;
  simt::atomic_ref<std::uint32_t>{in->count}.fetch_add(1, simt::relaxed);
  simt::atomic_ref<std::uint64_t> const bits{in->words[bit / 64]};
  bits.fetch_or(std::uint64_t{1} << bit % 64, context_freed_order);  // (F)
}

QUARRY_SLOW std::uint32_t freed_contexts::take() {
  std::uint32_t const first = simt::atomic_ref<std::uint32_t>{first_}.fetch_add(1, simt::relaxed);
  QUARRY_NO_UNROLL
  for (std::uint32_t step = 0; step < parts; ++step) {
    std::uint32_t const i = (first + step) % parts;
    part* const in = simt::atomic_ref<part*>{parts_[i]}.load(once_found_order);  // (I)
    if (in == nullptr || simt::atomic_ref<std::uint32_t>{in->count}.load(simt::relaxed) == 0)
      continue;
    QUARRY_NO_UNROLL
    for (std::uint32_t word = 0; word < in_part / 64; ++word) {
      simt::atomic_ref<std::uint64_t> const bits{in->words[word]};
      std::uint64_t seen = bits.load(simt::relaxed);
      while (seen != 0) {
        std::uint64_t const lowest = seen & (~seen + 1);
        seen = bits.fetch_and(~lowest, context_taken_order);  // (C)
        if ((seen & lowest) == 0) continue;                   // another rank was faster
        simt::atomic_ref<std::uint32_t>{in->count}.fetch_sub(1, simt::relaxed);
        std::uint32_t bit = 0;
        while ((lowest >> bit & 1) == 0) ++bit;
        return 2 * (i * in_part + word * 64 + bit);
      }
    }
  }
  return 0;
}

QUARRY_SLOW std::uint32_t new_contexts() {
  world& all = the_world();
  simt::atomic_ref<std::uint32_t> const next{all.next_context};
#ifdef QUARRY_MPI_PROCESSES
  std::uint32_t const step = 2 * the_processes().count;  // each process has numbers of its own
#else
  std::uint32_t const step = 2;
#endif
  if (next.load(simt::relaxed) + 1 < end_of_contexts) {
    std::uint32_t const context = next.fetch_add(step, simt::relaxed);
    if (context + 1 < end_of_contexts) return context;
    (void)next.fetch_sub(step, simt::relaxed);
  }
  freed_contexts* const freed =
      simt::atomic_ref<freed_contexts*>{all.freed}.load(once_found_order);  // (I)
  return freed == nullptr ? 0 : freed->take();
}

QUARRY_SLOW void free_contexts(std::uint32_t context) {
  if constexpr (spans_processes) return;
  if (freed_contexts* const freed = shared_once(the_world().freed)) freed->put(context);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
