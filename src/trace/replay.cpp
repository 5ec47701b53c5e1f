// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/replay.hpp"

#include "quarry/trace/reader.hpp"
#include "trace/replay/running_replay.hpp"
#include "trace/strategies.hpp"

#include <new>
#include <string>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Takes and returns a block. The first call of a GPU also makes its context, which takes longer
/// than all other calls, and must not count as time of the upstream.
void warm_up(any_resource& upstream) {
  constexpr bytes size = 256, alignment = 256;
  try {
    upstream.deallocate(upstream.allocate(size, alignment), size, alignment);
  } catch (std::bad_alloc const&) {  // the first allocation fails, too, and is counted
  }
}

std::unique_ptr<running_replay> start(replay_options const& options) {
  strategy_entry const* const entry = entry_of(options.placement);
  if (entry == nullptr) throw bad_argument{"replay: there is no such strategy"};
  if (options.sample_begin >= options.sample_end)
    throw bad_argument{"replay: the range of samples is empty: it begins at event " +
                       std::to_string(options.sample_begin) + " and ends before event " +
                       std::to_string(options.sample_end)};
  if (options.upstream != nullptr) warm_up(*options.upstream);
  if (options.routing != nullptr && options.upstream != nullptr)
    throw bad_argument{"replay: a routing table needs simulated memory, but `upstream` is set"};
  if (options.routing != nullptr && !entry->is_placement)
    throw bad_argument{"replay: the strategy " + std::string{entry->name} +
                       " takes no routing table"};
  if (has_published_rules(options) &&
      (options.routing != nullptr || (entry->coalesces && entry->needs_plan)))
    throw bad_argument{"replay: the heuristic " + name_of({options.pool.coalesce, options.rules}) +
                       " has rules of Umpire, which pools with a plan or a routing table cannot "
                       "follow; leave out +2022 and +2024"};
  return entry->factory(options);
}

}  // namespace

replayer::replayer(replay_options const& options) : running_{start(options)} {}
replayer::replayer(replayer&&) noexcept = default;
replayer& replayer::operator=(replayer&&) noexcept = default;
replayer::~replayer() = default;

void replayer::add(std::span<event const> events) { running_->add(events); }
replay_result replayer::result() const { return running_->result(); }

replay_result replay(reader& trace, replay_options const& options) {
  replayer memory{options};
  std::vector<event> events(4096);
  while (std::size_t const count = trace.read(events)) memory.add(std::span{events}.first(count));
  return memory.result();
}

}  // namespace quarry::inline QUARRY_ABI::trace
