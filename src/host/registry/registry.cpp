// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/registry.hpp"

#include "host/registry/process_lists.hpp"
#include "quarry/core/errors.hpp"

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#define QUARRY_HAS_BACKTRACE 1
#else
#define QUARRY_HAS_BACKTRACE 0
#endif

#include <cstdlib>
#include <iterator>
#include <memory>
#include <new>
#include <ostream>

namespace quarry::inline QUARRY_ABI {

using namespace detail;
namespace {

struct free_memory {
  void operator()(void* memory) const { std::free(memory); }
};

/// Prints a line for each frame, with its module and symbol if memory suffices to look them up.
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

/// A copy of an allocation's record and label. It copies the label's file name, too: that string
/// may lie in a plugin, which can be unloaded.
struct labelled_allocation {
  chunk_table::record memory;
  std::string name, call_site;
  std::vector<void*> frames;

  labelled_allocation(chunk_table::record const& found, registration const& owner) : memory{found} {
    auto label = found.is_labelled ? owner.label_of(found.base) : std::nullopt;
    if (!label) return;
    name = std::move(label->name);
    frames = std::move(label->frames);
    if (label->call_site.line() != 0)
      call_site =
          std::string{label->call_site.file_name()} + ':' + std::to_string(label->call_site.line());
  }
};
void print(std::ostream& out, labelled_allocation const& allocation) {
  out << "  " << reinterpret_cast<void*>(allocation.memory.base) << "  " << allocation.memory.size
      << " bytes";
  if (!allocation.name.empty()) out << "  " << allocation.name;
  if (!allocation.call_site.empty()) out << "  (" << allocation.call_site << ')';
  out << '\n';
  print_frames(out, allocation.frames);
}

/// An allocator and its allocations.
struct summary {
  registry::allocator_info allocator;
  std::vector<labelled_allocation> allocations;
};
/// Copies the content of a report on one allocator, or on all allocators (0). The report prints the
/// copies while it holds no lock. A stream may call pools. And the dynamic linker, which looks up
/// the symbols of frames, has a lock that plugins hold while they make pools.
std::vector<summary> summaries(allocator_id allocator) {
  std::vector<summary> result;
  process_lists& lists = lists_of_process();
  std::lock_guard const lock{lists.registrations.mutex};
  for (auto const& [id, owner] : lists.registrations.by_id) {
    if (allocator != 0 && allocator != id) continue;
    summary copy{{id, owner->name(), owner->location(), 0, 0}, {}};
    owner->view().for_each([&, &registered = *owner](chunk_table::record const& found) {
      ++copy.allocator.allocations_in_use;
      copy.allocator.allocated += found.size;
      copy.allocations.emplace_back(found, registered);
    });
    result.push_back(std::move(copy));
  }
  return result;
}

}  // namespace

registration::registration(chunk_table& table, memory_location location, std::string name,
                           bool is_blockless)
    : table_{table}, location_{location}, name_{std::move(name)} {
  process_lists& lists = lists_of_process();
  std::lock_guard const lock{lists.registrations.mutex};
  if (is_blockless) blockless_ = &lists.unused_view();
  id_ = lists.registrations.last + 1;
  if (name_.empty()) name_ = "allocator " + std::to_string(id_);
  lists.registrations.by_id.emplace(id_, this);
  try {
    table_.keep_starts(registry::packed(id_, location_));
  } catch (...) {
    lists.registrations.by_id.erase(id_);
    throw;
  }
  lists.registrations.last = id_;
  if (!is_blockless) return;
  lists.registrations.unused_views.pop_back();
  *blockless_ = &table_.public_view();
}

registration::~registration() {
  process_lists& lists = lists_of_process();
  std::lock_guard const lock{lists.registrations.mutex};
  lists.registrations.by_id.erase(id_);
  table_.stop_keeping_starts();
  if (blockless_ == nullptr) return;
  *blockless_ = nullptr;
  lists.registrations.unused_views.push_back(blockless_);
}

std::string registration::name() const {
  std::lock_guard const lock{mutex_};
  return name_;
}
void registration::rename(std::string name) {
  std::lock_guard const lock{mutex_};
  name_ = std::move(name);
}

void registration::add_block(std::uint64_t base, bytes size) {
  if (!page_map::is_known(base, size)) return;
  table_.reserve_starts(base, size);
  page_map::add(table_.public_view(), base, size);
}

void registration::label(std::uint64_t base, allocation_label label) {
  std::lock_guard const lock{mutex_};
  allocation_label& kept = labels_[base];
  if (label.frames.empty()) label.frames = std::move(kept.frames);
  kept = std::move(label);
}
void registration::prepare_backtraces() noexcept {
#if QUARRY_HAS_BACKTRACE
  void* frame = nullptr;
  (void)backtrace(&frame, 1);
#endif
}
bool registration::label_backtrace([[maybe_unused]] std::uint64_t base) noexcept {
#if QUARRY_HAS_BACKTRACE
  void* frames[33];
  int const count = backtrace(frames, 33);
  if (count < 2) return false;
  try {
    label(
        base,
        {{}, {}, std::vector<void*>(frames + 1, frames + count)});  // without this function's frame
    return true;
  } catch (std::bad_alloc const&) {
  }
#endif
  return false;
}
void registration::forget(std::uint64_t base) noexcept {
  std::lock_guard const lock{mutex_};
  labels_.erase(base);
}
bytes registration::footprint() const {
  std::lock_guard const lock{mutex_};
  bytes sum = name_.capacity() + labels_.bucket_count() * sizeof(void*);
  for (auto const& [base, label] : labels_)
    sum += sizeof(base) + sizeof(label) + 2 * sizeof(void*) + label.name.capacity() +
           label.frames.capacity() * sizeof(void*);
  return sum;
}
std::optional<allocation_label> registration::label_of(std::uint64_t base) const {
  std::lock_guard const lock{mutex_};
  auto const found = labels_.find(base);
  if (found == labels_.end()) return std::nullopt;
  return found->second;
}

namespace registry {

void mark_below(std::uint64_t address) noexcept {
  if (address >= object_starts::end) return;
  auto const mark = [&](chunk_view const& view) {
    std::uint64_t const owner = view.owner.load_acquire();
    // Another thread may write at the same time, but only this value: the pool cannot be destroyed
    // meanwhile.
    if ((owner & is_below_others) == 0 && view.find(address)) view.owner = owner | is_below_others;
  };
  while (!page_map::visit(address, mark)) {
  }
}

std::optional<allocation_record> find_slowly(std::uint64_t address) {
  chunk_table::record best;
  std::uint64_t owner = 0;
  auto const ask = [&](chunk_view const& view) {
    auto const found = view.find(address);
    if (!found) return;
    std::uint64_t const candidate = view.owner.load_acquire();
    // Ids increase, and an allocator is made after the allocators that it takes memory from.
    bool const is_younger = (owner & ~is_below_others) < (candidate & ~is_below_others);
    bool const is_inner = found.size != best.size ? found.size < best.size : is_younger;
    if (owner != 0 && !is_inner) return;
    best = found;
    owner = candidate;
  };
  while (!page_map::visit(address, ask)) {
  }
  if (owner == 0 || (owner & is_below_others) != 0) {
    process_lists const& lists = lists_of_process();
    std::size_t rest = lists.blockless_count.load_acquire();
    for (auto const* page = &lists.blockless; rest != 0; page = page->next.load_acquire()) {
      for (std::size_t i = 0; i < std::size(page->views) && rest != 0; ++i, --rest)
        if (chunk_view const* const view = page->views[i].load_acquire()) ask(*view);
    }
  }
  if (owner == 0) return std::nullopt;
  return record_of(owner, best);
}

std::optional<allocation_label> label_of(void const* address) {
  auto const found = find(address);
  if (!found || !found->is_labelled) return std::nullopt;
  process_lists& lists = lists_of_process();
  std::lock_guard const lock{lists.registrations.mutex};
  auto const registered = lists.registrations.by_id.find(found->allocator);
  if (registered == lists.registrations.by_id.end()) return std::nullopt;
  return registered->second->label_of(reinterpret_cast<std::uint64_t>(found->base));
}

std::vector<allocator_info> allocators() {
  std::vector<allocator_info> result;
  process_lists& lists = lists_of_process();
  std::lock_guard const lock{lists.registrations.mutex};
  for (auto const& [id, owner] : lists.registrations.by_id) {
    allocator_info info{id, owner->name(), owner->location(), 0, 0};
    owner->view().for_each([&](chunk_table::record const& found) {
      ++info.allocations_in_use;
      info.allocated += found.size;
    });
    result.push_back(std::move(info));
  }
  return result;
}

std::string name_of(allocator_id id) {
  process_lists& lists = lists_of_process();
  std::lock_guard const lock{lists.registrations.mutex};
  auto const registered = lists.registrations.by_id.find(id);
  return registered == lists.registrations.by_id.end() ? std::string{} : registered->second->name();
}

std::vector<allocation_record> allocations(allocator_id allocator) {
  std::vector<allocation_record> result;
  process_lists& lists = lists_of_process();
  std::lock_guard const lock{lists.registrations.mutex};
  for (auto const& [id, owner] : lists.registrations.by_id) {
    if (allocator != 0 && allocator != id) continue;
    owner->view().for_each(
        [&, packed_owner = packed(id, owner->location())](chunk_table::record const& found) {
          result.push_back(record_of(packed_owner, found));
        });
  }
  return result;
}

void report(std::ostream& out, allocator_id allocator) {
  for (summary const& copy : summaries(allocator)) {
    for (labelled_allocation const& allocation : copy.allocations) print(out, allocation);
    auto const& [id, name, location, count, allocated] = copy.allocator;
    out << name << " (allocator " << id << ", " << quarry::name_of(location.kind);
    if (!location.is_touchable()) out << ' ' << int{location.device};
    out << "): " << count << " allocations, " << allocated << " bytes\n";
  }
}

}  // namespace registry
}  // namespace quarry::inline QUARRY_ABI
