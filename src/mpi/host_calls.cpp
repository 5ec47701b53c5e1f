// SPDX-License-Identifier: Apache-2.0
#include "host_calls.hpp"

#include "c_layouts.hpp"

#include "quarry/simt/clock.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

namespace {

QUARRY_HD std::uint64_t load_turn(std::uint64_t& turn) {
#ifdef __CUDA_ARCH__
  std::uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(&turn) : "memory");
  return value;
#else
  return simt::atomic_ref<std::uint64_t>{turn}.load(simt::acquire);
#endif
}
QUARRY_HD void store_turn(std::uint64_t& turn, std::uint64_t value) {
#ifdef __CUDA_ARCH__
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(&turn), "l"(value) : "memory");
#else
  simt::atomic_ref<std::uint64_t>{turn}.store(value, simt::release);
#endif
}

/// Copies an answer. Each load takes a trip to the host, so 16 bytes at a time where possible.
QUARRY_HD void copy_answer(char* to, char const* from, std::uint32_t length) {
  struct alignas(16) words {
    std::uint64_t low, high;
  };
  std::uint32_t i = 0;
  if (reinterpret_cast<std::uint64_t>(to) % sizeof(words) == 0) {
    QUARRY_UNROLL_4
    for (; i + sizeof(words) <= length; i += sizeof(words))
      *reinterpret_cast<words*>(to + i) = *reinterpret_cast<words const*>(from + i);
  }
  for (; i < length; ++i) to[i] = from[i];
}

QUARRY_HD host_answer post_and_wait(rank_state& rank, host_request const& request) {
  if (is_aborted()) end_rank(0);  // a rank that calls again and again may never wait
  host_call_ring& ring = *the_world().host_calls;
  std::uint64_t const ticket =
      simt::atomic_ref<std::uint64_t>{ring.next}.fetch_add(1, simt::relaxed);
  host_call_record& record = ring.records[ticket % host_call_ring::places];
  std::uint64_t const round = 3 * (ticket / host_call_ring::places);
  wait_until(rank, reason_of(call::output), [&] { return load_turn(record.turn) == round; });
  record.request = request;
  if (request.function != host_function::read)
    for (std::uint32_t i = 0; i < request.length; ++i) record.text[i] = request.text[i];
  store_turn(record.turn, round + 1);
  wait_until(rank, reason_of(call::output), [&] { return load_turn(record.turn) == round + 2; });
  host_answer const answer = record.answer;
  if (request.function == host_function::read && answer.result > 0)
    copy_answer(request.text, record.text, static_cast<std::uint32_t>(answer.result));
  store_turn(record.turn, round + 3);
  return answer;
}

/// The host does not wait for input, because it would keep other ranks waiting. So the rank asks
/// again each millisecond.
QUARRY_HD host_answer ask_until_answered(rank_state& rank, host_request const& request) {
  constexpr std::uint64_t pause = 1'000'000;
  for (;;) {
    host_answer const answer = post_and_wait(rank, request);
    if (answer.error != host_answer::no_input_yet) return answer;
    std::uint64_t const start = simt::clock_ns();
    while (simt::clock_ns() - start < pause) wait_briefly(rank);
  }
}

/// CPU: the rank makes the call.
QUARRY_HD host_answer call_directly([[maybe_unused]] rank_state& rank,
                                    [[maybe_unused]] host_request const& request) {
#ifndef __CUDACC__
  while (!is_ready(request)) wait_briefly(rank);
  return perform(request);
#else
  return {-1, error_not_available};
#endif
}

}  // namespace

[[nodiscard]] QUARRY_SLOW host_answer ask_host(rank_state& rank, host_request const& request) {
  host_answer const answer = the_world().host_calls != nullptr ? ask_until_answered(rank, request)
                                                               : call_directly(rank, request);
  if (answer.error != 0) rank.error_number = answer.error;
  return answer;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
