// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry.hpp"

#include "process_lists.hpp"
#include "quarry/host/errors.hpp"

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define QUARRY_HAS_BACKTRACE 1
#else
#define QUARRY_HAS_BACKTRACE 0
#endif

#include <cstdlib>
#include <new>
#include <ostream>

namespace quarry {
namespace {

/// A child of fork can make pools, allocate, look up and report. A pool that another thread was in
/// is lost to it, as its lock would be.
void before_fork() {
  process_lists& all = lists_of_process();
  if (all.fork.thread.load(std::memory_order_relaxed) == pthread_self()) {  // (T)
    ++all.fork.copies;
    return;
  }
  all.ledgers.mutex.lock();
  for (auto const& [id, each] : all.ledgers.by_id) each->lock();
  all.nodes.mutex.lock();
  all.waiting.mutex.lock();
  all.fork.thread.store(pthread_self(), std::memory_order_relaxed);  // (T)
  all.fork.copies = 1;
}
template <void (ledger::*Unlock)()>
void after_fork() {
  process_lists& all = lists_of_process();
  if (all.fork.thread.load(std::memory_order_relaxed) != pthread_self() ||  // (T)
      --all.fork.copies != 0)
    return;
  all.fork.thread.store({}, std::memory_order_relaxed);  // (T) only tells a thread of itself
  all.waiting.mutex.unlock();
  all.nodes.mutex.unlock();
  for (auto const& [id, each] : all.ledgers.by_id) (each->*Unlock)();
  all.ledgers.mutex.unlock();
}

/// The process's lists, which a fork finds at rest from now on. Each copy of the library sees to
/// that: who unloads one takes its handlers away.
process_lists& every() {
  static process_lists& it = []() -> process_lists& {
    process_lists& lists = lists_of_process();
    pthread_atfork(&before_fork, &after_fork<&ledger::unlock>,
                   &after_fork<&ledger::unlock_in_child>);
    return lists;
  }();
  return it;
}
// Before there are threads: a fork must not find one of them in the midst of that.
[[maybe_unused]] process_lists& made_early = every();

/// A line for each frame, with its module and symbol if there is memory to look them up.
void print_frames(std::ostream& out, std::vector<void*> const& frames) {
  if (frames.empty()) return;
  char** symbols = nullptr;
#if QUARRY_HAS_BACKTRACE
  symbols = backtrace_symbols(frames.data(), static_cast<int>(frames.size()));
#endif
  for (std::size_t i = 0; i < frames.size(); ++i) {
    out << "      #" << i << ' ';
    if (symbols != nullptr) {
      out << symbols[i] << '\n';
    } else {
      out << frames[i] << '\n';
    }
  }
  std::free(symbols);
}

}  // namespace

void watch_registry_at_fork() { (void)every(); }

ledger::ledger(piece_table& table, memory_place place, std::string name, bool is_everywhere)
    : table_{table}, place_{place}, is_everywhere_{is_everywhere}, name_{std::move(name)} {
  process_lists& all = every();
  std::lock_guard const held{all.ledgers.mutex};
  std::size_t free = 0;
  while (is_everywhere && all.everywhere[free] != nullptr) {
    if (++free == process_lists::most_everywhere)
      throw bad_argument{
          "ledger: there are 64 tracked resources already; put pools upon fewer of them"};
  }
  id_ = all.ledgers.last + 1;
  if (name_.empty()) name_ = "allocator " + std::to_string(id_);
  all.ledgers.by_id.emplace(id_, this);
  try {
    table_.keep_starts(registry::packed(id_, place_));
  } catch (...) {
    all.ledgers.by_id.erase(id_);
    throw;
  }
  all.ledgers.last = id_;
  if (!is_everywhere) return;
  all.everywhere[free] = &table_.public_book();
  if (all.everywhere_count <= free) all.everywhere_count = free + 1;
}

ledger::~ledger() {
  process_lists& all = every();
  std::lock_guard const held{all.ledgers.mutex};
  all.ledgers.by_id.erase(id_);
  table_.stop_keeping_starts();
  for (std::size_t i = 0; is_everywhere_ && i < all.everywhere_count; ++i) {
    if (all.everywhere[i] == &table_.public_book()) all.everywhere[i] = nullptr;
  }
}

std::string ledger::name() const {
  std::lock_guard const held{mutex_};
  return name_;
}
void ledger::rename(std::string name) {
  std::lock_guard const held{mutex_};
  name_ = std::move(name);
}

void ledger::add_block(std::uint64_t begin, bytes size) {
  if (!directory::is_known(begin, size)) return;
  table_.reserve_starts(begin, size);
  directory::add(table_.public_book(), begin, size);
}

void ledger::note(std::uint64_t begin, allocation_note what) {
  std::lock_guard const held{mutex_};
  allocation_note& kept = notes_[begin];
  if (what.frames.empty()) what.frames = std::move(kept.frames);
  kept = std::move(what);
}
bool ledger::note_backtrace([[maybe_unused]] std::uint64_t begin) noexcept {
#if QUARRY_HAS_BACKTRACE
  void* frames[33];
  int const count = backtrace(frames, 33);
  if (count < 2) return false;
  try {
    note(begin, {{}, {}, std::vector<void*>(frames + 1, frames + count)});  // without this function
    return true;
  } catch (std::bad_alloc const&) {
  }
#endif
  return false;
}
void ledger::forget(std::uint64_t begin) noexcept {
  std::lock_guard const held{mutex_};
  notes_.erase(begin);
}
std::optional<allocation_note> ledger::note_of(std::uint64_t begin) const {
  std::lock_guard const held{mutex_};
  auto const found = notes_.find(begin);
  if (found == notes_.end()) return std::nullopt;
  return found->second;
}

namespace registry {

std::optional<allocation_record> find_slowly(std::uint64_t address) {
  piece_table::record best;
  std::uint64_t owner = 0;
  auto const ask = [&](piece_book const& book) {
    auto const found = book.find(address);
    if (!found || (owner != 0 && best.size <= found.size)) return;
    best = found;
    owner = book.owner.seen();
  };
  while (!directory::visit(address, ask)) {
  }
  if (owner == 0) {
    process_lists const& all = every();
    std::size_t const count = all.everywhere_count.seen();
    for (std::size_t i = 0; i < count; ++i) {
      if (piece_book const* const book = all.everywhere[i].seen()) ask(*book);
    }
  }
  if (owner == 0) return std::nullopt;
  return record_of(owner, best);
}

std::optional<allocation_note> note_of(void const* address) {
  auto const found = find(address);
  if (!found || !found->is_noted) return std::nullopt;
  process_lists& all = every();
  std::lock_guard const held{all.ledgers.mutex};
  auto const whose = all.ledgers.by_id.find(found->allocator);
  if (whose == all.ledgers.by_id.end()) return std::nullopt;
  return whose->second->note_of(reinterpret_cast<std::uint64_t>(found->begin));
}

std::vector<allocator_info> allocators() {
  std::vector<allocator_info> result;
  process_lists& all = every();
  std::lock_guard const held{all.ledgers.mutex};
  for (auto const& [id, whose] : all.ledgers.by_id) {
    allocator_info info{id, whose->name(), whose->place(), 0, 0};
    whose->book().for_each([&](piece_table::record const& one) {
      ++info.allocations;
      info.live += one.size;
    });
    result.push_back(std::move(info));
  }
  return result;
}

std::string name_of(allocator_id id) {
  process_lists& all = every();
  std::lock_guard const held{all.ledgers.mutex};
  auto const whose = all.ledgers.by_id.find(id);
  return whose == all.ledgers.by_id.end() ? std::string{} : whose->second->name();
}

std::vector<allocation_record> live(allocator_id allocator) {
  std::vector<allocation_record> result;
  process_lists& all = every();
  std::lock_guard const held{all.ledgers.mutex};
  for (auto const& [id, whose] : all.ledgers.by_id) {
    if (allocator != 0 && allocator != id) continue;
    whose->book().for_each([&, owner = packed(id, whose->place())](piece_table::record const& one) {
      result.push_back(record_of(owner, one));
    });
  }
  return result;
}

void report(std::ostream& out, allocator_id allocator) {
  process_lists& all = every();
  std::lock_guard const held{all.ledgers.mutex};
  for (auto const& [id, whose] : all.ledgers.by_id) {
    if (allocator != 0 && allocator != id) continue;
    std::size_t count = 0;
    bytes sum = 0;
    whose->book().for_each([&, &owner = *whose](piece_table::record const& one) {
      ++count;
      sum += one.size;
      out << "  " << reinterpret_cast<void*>(one.begin) << "  " << one.size << " bytes";
      auto const note = one.is_noted ? owner.note_of(one.begin) : std::nullopt;
      if (note && !note->name.empty()) out << "  " << note->name;
      if (note && note->where.line() != 0)
        out << "  (" << note->where.file_name() << ':' << note->where.line() << ')';
      out << '\n';
      if (note) print_frames(out, note->frames);
    });
    out << whose->name() << " (allocator " << id << ", " << quarry::name_of(whose->place().kind);
    if (!whose->place().is_touchable()) out << ' ' << int{whose->place().device};
    out << "): " << count << " allocations, " << sum << " bytes\n";
  }
}

}  // namespace registry
}  // namespace quarry
