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
#include <memory>
#include <new>
#include <ostream>

namespace quarry::inline QUARRY_ABI {
namespace {

struct free_memory {
  void operator()(void* memory) const { std::free(memory); }
};

/// A line for each frame, with its module and symbol if there is memory to look them up.
void print_frames(std::ostream& out, std::vector<void*> const& frames) {
  if (frames.empty()) return;
  std::unique_ptr<char*, free_memory> symbols;
#if QUARRY_HAS_BACKTRACE
  symbols.reset(backtrace_symbols(frames.data(), static_cast<int>(frames.size())));
#endif
  for (std::size_t i = 0; i < frames.size(); ++i) {
    out << "      #" << i << ' ';
    if (symbols != nullptr) {
      out << symbols.get()[i] << '\n';
    } else {
      out << frames[i] << '\n';
    }
  }
}

/// A copy of all that is said of an allocation: the name of a note's file may lie in a plugin.
struct noted_allocation {
  piece_table::record memory;
  std::string name, place_of_call;
  std::vector<void*> frames;

  noted_allocation(piece_table::record const& found, ledger const& owner) : memory{found} {
    auto note = found.is_noted ? owner.note_of(found.begin) : std::nullopt;
    if (!note) return;
    name = std::move(note->name);
    frames = std::move(note->frames);
    if (note->where.line() != 0)
      place_of_call =
          std::string{note->where.file_name()} + ':' + std::to_string(note->where.line());
  }
};
void print(std::ostream& out, noted_allocation const& one) {
  out << "  " << reinterpret_cast<void*>(one.memory.begin) << "  " << one.memory.size << " bytes";
  if (!one.name.empty()) out << "  " << one.name;
  if (!one.place_of_call.empty()) out << "  (" << one.place_of_call << ')';
  out << '\n';
  print_frames(out, one.frames);
}

/// An allocator, and what is live of it.
struct account {
  registry::allocator_info summary;
  std::vector<noted_allocation> allocations;
};
/// Copies of what a report says of one allocator, or of all (0). A report prints them when no lock
/// is held: a stream may call pools, and the dynamic linker, which tells the symbols of frames,
/// has a lock that plugins hold while they make pools.
std::vector<account> accounts(allocator_id allocator) {
  std::vector<account> result;
  process_lists& all = lists_of_process();
  std::lock_guard const held{all.ledgers.mutex};
  for (auto const& [id, whose] : all.ledgers.by_id) {
    if (allocator != 0 && allocator != id) continue;
    account one{{id, whose->name(), whose->place(), 0, 0}, {}};
    whose->book().for_each([&, &owner = *whose](piece_table::record const& found) {
      ++one.summary.allocations;
      one.summary.live += found.size;
      one.allocations.emplace_back(found, owner);
    });
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace

ledger::ledger(piece_table& table, memory_place place, std::string name, bool is_everywhere)
    : table_{table}, place_{place}, is_everywhere_{is_everywhere}, name_{std::move(name)} {
  process_lists& all = lists_of_process();
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
  process_lists& all = lists_of_process();
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
void ledger::prepare_backtraces() noexcept {
#if QUARRY_HAS_BACKTRACE
  void* frame = nullptr;
  (void)backtrace(&frame, 1);
#endif
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
bytes ledger::footprint() const {
  std::lock_guard const held{mutex_};
  bytes sum = name_.capacity() + notes_.bucket_count() * sizeof(void*);
  for (auto const& [begin, note] : notes_)
    sum += sizeof(begin) + sizeof(note) + 2 * sizeof(void*) + note.name.capacity() +
           note.frames.capacity() * sizeof(void*);
  return sum;
}
std::optional<allocation_note> ledger::note_of(std::uint64_t begin) const {
  std::lock_guard const held{mutex_};
  auto const found = notes_.find(begin);
  if (found == notes_.end()) return std::nullopt;
  return found->second;
}

namespace registry {

void mark_below(std::uint64_t address) noexcept {
  if (address >= address_starts::end) return;
  auto const mark = [&](piece_book const& book) {
    std::uint64_t const owner = book.owner.seen();
    // Who else writes at this moment writes the same: the pool cannot be destroyed meanwhile.
    if ((owner & is_below_others) == 0 && book.find(address)) book.owner = owner | is_below_others;
  };
  while (!directory::visit(address, mark)) {
  }
}

std::optional<allocation_record> find_slowly(std::uint64_t address) {
  piece_table::record best;
  std::uint64_t owner = 0;
  auto const ask = [&](piece_book const& book) {
    auto const found = book.find(address);
    if (!found) return;
    std::uint64_t const its = book.owner.seen();
    // numbers go up, and what takes memory of another allocator is made after it
    bool const is_inner = found.size != best.size
        ? found.size<best.size : (its & ~is_below_others)>(owner & ~is_below_others);
    if (owner != 0 && !is_inner) return;
    best = found;
    owner = its;
  };
  while (!directory::visit(address, ask)) {
  }
  if (owner == 0 || (owner & is_below_others) != 0) {
    process_lists const& all = lists_of_process();
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
  process_lists& all = lists_of_process();
  std::lock_guard const held{all.ledgers.mutex};
  auto const whose = all.ledgers.by_id.find(found->allocator);
  if (whose == all.ledgers.by_id.end()) return std::nullopt;
  return whose->second->note_of(reinterpret_cast<std::uint64_t>(found->begin));
}

std::vector<allocator_info> allocators() {
  std::vector<allocator_info> result;
  process_lists& all = lists_of_process();
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
  process_lists& all = lists_of_process();
  std::lock_guard const held{all.ledgers.mutex};
  auto const whose = all.ledgers.by_id.find(id);
  return whose == all.ledgers.by_id.end() ? std::string{} : whose->second->name();
}

std::vector<allocation_record> live(allocator_id allocator) {
  std::vector<allocation_record> result;
  process_lists& all = lists_of_process();
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
  for (account const& each : accounts(allocator)) {
    for (noted_allocation const& one : each.allocations) print(out, one);
    auto const& [id, name, place, count, live] = each.summary;
    out << name << " (allocator " << id << ", " << quarry::name_of(place.kind);
    if (!place.is_touchable()) out << ' ' << int{place.device};
    out << "): " << count << " allocations, " << live << " bytes\n";
  }
}

}  // namespace registry
}  // namespace quarry::inline QUARRY_ABI
