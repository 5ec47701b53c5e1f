// SPDX-License-Identifier: Apache-2.0
#include "fault_report.hpp"

#include "size_text.hpp"

#include <unistd.h>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

extern "C" char const quarry_mpi_cpu_places[], quarry_mpi_cpu_places_end[];

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

constexpr int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
rank_stacks const* stacks_in_use = nullptr;
line_writer* lines_in_use = nullptr;
std::timed_mutex* lines_lock = nullptr;
std::atomic<pid_t> reporter{0};  // the thread whose rank was the first to crash
constexpr std::size_t stack_bytes = 64 * 1024;

/// The name of a place; empty if it is unknown. Allocates nothing: the heap may be damaged.
std::string_view name_of_place(std::uint32_t number) {
  char const* name = quarry_mpi_cpu_places;
  for (; number != 0 && name < quarry_mpi_cpu_places_end; --number) name += std::strlen(name) + 1;
  return name < quarry_mpi_cpu_places_end ? name : std::string_view{};
}

/// Of other faults of memory, x86 tells no address (the general-protection fault).
bool has_known_address(int number, int code) {
  return (number == SIGSEGV || number == SIGBUS) && code != SI_KERNEL;
}

char const* describe(int number, int code) {
  if (number == SIGFPE) return code == FPE_INTDIV ? "integer division by zero" : "arithmetic error";
  if (number == SIGILL) return "invalid instruction";
  if (!has_known_address(number, code))
    return "invalid access to an unknown address: an unaligned operand, or no valid address";
  return "invalid access to the address ";
}

/// Returns only on the first thread that crashes, at its first crash there.
void become_reporter(int number) {
  pid_t expected = 0;
  pid_t const own = gettid();
  if (reporter.compare_exchange_strong(expected, own)) return;
  if (expected == own) {  // the report itself crashes
    std::signal(number, SIG_DFL);
    sigset_t crash;
    sigemptyset(&crash);
    sigaddset(&crash, number);
    pthread_sigmask(SIG_UNBLOCK, &crash, nullptr);
    std::raise(number);
  }
  for (;;) pause();  // until the reporter ends the process
}

void report(int number, siginfo_t* details, void*) {
  become_reporter(number);
  char text[512];
  bool const has_address = has_known_address(number, details->si_code);
  char address[32] = "";
  if (has_address) std::snprintf(address, sizeof(address), "%p", details->si_addr);
  if (details->si_addr == nullptr && has_address) std::strcpy(address, "0");
  int length = 0;
  auto const overflow = has_address && stacks_in_use != nullptr
                            ? stacks_in_use->overflowed(details->si_addr)
                            : std::nullopt;
  if (overflow && *overflow < layout().size && *overflow == own_rank()) {
    auto const place = name_of_place(own_record().place);
    length = std::snprintf(
        text, sizeof(text),
        "quarry-mpirun: rank %u: its stack of %s has overflowed%s%.*s; run with a larger "
        "--stack\n",
        *overflow, size_text{stacks_in_use->size()}.c_str(),
        place.empty() ? "" : ", after the MPI call at ", static_cast<int>(place.size()),
        place.data());
  } else if (quarry_mpi_layout.all != nullptr && own_rank() < layout().size) {
    auto const place = name_of_place(own_record().place);
    length = std::snprintf(text, sizeof(text), "quarry-mpirun: rank %u: %s%s%s%.*s\n", own_rank(),
                           describe(number, details->si_code), address,
                           place.empty() ? "" : ", after the MPI call at ",
                           static_cast<int>(place.size()), place.data());
  } else {
    length = std::snprintf(text, sizeof(text), "quarry-mpirun: outside of ranks: %s%s\n",
                           describe(number, details->si_code), address);
  }
  auto const size = static_cast<std::size_t>(length) < sizeof(text)
                        ? static_cast<std::size_t>(length)
                        : sizeof(text) - 1;
  if (length > 0 && ::write(STDERR_FILENO, text, size) < 0) return;
  char refusals[256];
  std::size_t const refusals_size =
      layout().all == nullptr ? 0 : describe_refusals(*layout().all->refused, refusals);
  if (refusals_size > 0 && ::write(STDERR_FILENO, refusals, refusals_size) < 0) return;
  // Comes last, because the lines may be damaged. It allocates nothing. Ranks of other threads may
  // write meanwhile. If this thread has the lock itself, it does not get it.
  if (lines_in_use != nullptr) {
    (void)lines_lock->try_lock_for(std::chrono::milliseconds{200});
    lines_in_use->finish();
  }
  std::signal(number, SIG_DFL);  // the faulting instruction runs again
}

}  // namespace

void set_stacks(rank_stacks const* stacks) { stacks_in_use = stacks; }
void set_output(line_writer* lines, std::timed_mutex* lock) {
  lines_in_use = lines;
  lines_lock = lock;
}

handler_stack::handler_stack() : memory_{std::make_unique<char[]>(stack_bytes)} {
  stack_t const stack{.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = stack_bytes};
  (void)sigaltstack(&stack, nullptr);  // then an overflow of a rank's stack has no report
}

handler_stack::~handler_stack() {
  stack_t const none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
  (void)sigaltstack(&none, nullptr);
}

void report_faults() {
  struct sigaction action{};
  action.sa_sigaction = report;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK);
  for (int const number : signals) sigaction(number, &action, nullptr);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
