// SPDX-License-Identifier: Apache-2.0
#include "cpu_world.hpp"

#include "heap_share.hpp"
#include "mailbox.hpp"
#include "meeting.hpp"
#ifdef QUARRY_MPI_PROCESSES
#include "process_mail.hpp"
#include "process_memory.hpp"
#endif

#include "quarry/simt/clock.hpp"

#include <unistd.h>
#include <cstdlib>
#include <cstring>

quarry::mpi::launch_layout quarry_mpi_layout;

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

constexpr bytes default_heap = bytes{1} << 30;
constexpr bytes page = 4096;
constexpr bytes cpu_extension_budget = bytes{64} << 20;
#ifdef QUARRY_MPI_PROCESSES
constexpr bytes cpu_block_budget = bytes{64} << 20;
constexpr bytes most_in_cpu_block = bytes{64} << 10;
#endif

}  // namespace

/// Where the ranks meet.
struct cpu_world::meeting_memory {
  meeting_memory(std::uint32_t ranks, std::uint32_t block_ranks, bool joins_lanes)
      : blocks((ranks + block_ranks - 1) / block_ranks),
        counters(block_place::kinds * seat::counter_stride),
        values(2 * values_of(static_cast<std::uint32_t>(blocks.size()))),
        nodes(ranks),
        parts(ranks * meeting::part_bytes),
        results(2 * meeting::result_bytes),
        place{blocks.data(), block_ranks,  joins_lanes,   0, 0, counters.data(), values.data(),
              nodes.data(),  parts.data(), results.data()} {}

  std::vector<block_place> blocks;
  std::vector<std::uint64_t> counters, values;
  std::vector<std::uint32_t> nodes;
  std::vector<char> parts, results;
  meeting_place place;
};

#ifdef QUARRY_MPI_PROCESSES
/// What senders of other processes write.
struct cpu_world::mail_memory {
  mail_memory(needs const& wanted, std::uint32_t units)
      : places{wanted.ranks_each(), units, cpu_block_budget, most_in_cpu_block},
        shared{wanted.meeting_file, wanted.process, wanted.processes, places.size, wanted.seed} {
    quarry_mpi_processes =
        places.layout(shared.own(), wanted.process, wanted.processes, wanted.ranks_each());
  }
  mail_memory(mail_memory const&) = delete;
  ~mail_memory() { quarry_mpi_processes = {}; }

  [[nodiscard]] mail* mailboxes() const { return process_mail::mailboxes(shared.own()); }
  [[nodiscard]] std::uint64_t* extensions() const { return places.extensions(shared.own()); }
  /// The memory is zero, which is an empty mailbox. Other processes may have written already.
  void initialise(std::uint32_t) const {}

  process_mail places;
  process_memory shared;
};
#else
/// What senders write.
struct cpu_world::mail_memory {
  mail_memory(needs const& wanted, std::uint32_t units)
      : boxes(wanted.ranks),
        words{static_cast<std::uint64_t*>(std::calloc(
                  std::size_t{wanted.ranks} * mail_slots * units + 1, sizeof(std::uint64_t))),
              &std::free} {
    if (words == nullptr)
      throw out_of_memory{"long messages", cpu_extension_budget, "the host has no memory"};
  }
  [[nodiscard]] mail* mailboxes() { return boxes.data(); }
  [[nodiscard]] std::uint64_t* extensions() const { return words.get(); }
  void initialise(std::uint32_t rank) { boxes[rank].initialise(); }

  std::vector<mail> boxes;
  std::unique_ptr<std::uint64_t, void (*)(void*)> words;
};
#endif

cpu_world::cpu_world(needs const& wanted)
    : heap_bytes_{wanted.heap != 0 ? wanted.heap : default_heap},
      memory_{{.bytes = heap_bytes_, .backend_kind = backend::cpu}},
      records_{static_cast<char*>(std::aligned_alloc(
                   page, (wanted.record * wanted.ranks + page - 1) / page * page)),
               &std::free},
      ranks_(wanted.ranks),
      extension_units_{
          extension_units_for(cpu_extension_budget, wanted.ranks_each(), most_extended)},
      mail_{std::make_unique<mail_memory>(wanted, extension_units_)},
      ends_(wanted.ranks),
      activity_(wanted.threads),
      meeting_{
          std::make_unique<meeting_memory>(wanted.ranks, wanted.block_ranks, wanted.joins_lanes)} {
  bytes const record_bytes = wanted.record * wanted.ranks;
  if (records_ == nullptr)
    throw out_of_memory{"the ranks' global variables", record_bytes, "the host has no memory"};
  std::memset(records_.get(), 0, record_bytes);
  std::uint32_t const all_ranks = wanted.world_ranks();
  std::uint32_t const first_rank = wanted.process * wanted.ranks_each();
  all_.all = {all_ranks, 0, nullptr, all_ranks};
  all_.meeting = meeting_->place;
  all_.next_context = 4 + 2 * wanted.process;
  all_.max_superblock_bytes = superblock_share(heap_bytes_);
  all_.argc = wanted.argc;
  all_.argv = wanted.argv;
  all_.environment = environ;
  all_.start_ns = simt::clock_ns();
  all_.ends = ends_.data();
  all_.activity = activity_.data();
  all_.threads = wanted.threads;
  all_.refused = &refused_;
  quarry_mpi_layout = {records_.get(),
                       wanted.record,
                       0,
                       all_ranks,
                       &all_,
                       ranks_.data(),
                       mail_->mailboxes(),
                       mail_->extensions(),
                       extension_units_,
                       first_rank,
                       {},
                       nullptr};
  quarry_mpi_layout.set_heap(memory_.ref());
  for (std::uint32_t i = 0; i < wanted.ranks; ++i) {
    mail_->initialise(i);
    ranks_[i].rank = first_rank + i;
    ranks_[i].polled_at = ranks_[i].refused_at = no_activity;
  }
}

cpu_world::~cpu_world() { quarry_mpi_layout = {}; }

void cpu_world::run_own_rank() {
  if (local_rank() < ranks_.size()) run_rank(own_rank());
}

bool cpu_world::is_stuck(std::uint64_t activity) const {
  for (std::uint32_t i = 0; i < ranks_.size(); ++i) {
    rank_state& state = state_of(i);
    if (simt::atomic_ref<life>{state.stage}.load(simt::acquire) == life::done) continue;   // (Q)
    if (simt::atomic_ref<std::uint64_t>{state.polled_at}.load(simt::acquire) != activity)  // (Q)
      return false;
  }
#ifdef QUARRY_MPI_PROCESSES
  if (process_memory::has_late_words()) return false;
#endif
  return activity_now() == activity;
}

int cpu_world::status() const {
  if (all_.aborted == 2) throw heap_too_small(heap_bytes_);
  if (all_.aborted != 0) return all_.abort_code;
  for (auto const& rank : ranks_)
    if (rank.exit_code != 0) return rank.exit_code;
  return 0;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
