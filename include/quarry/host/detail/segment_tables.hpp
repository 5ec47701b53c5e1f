// SPDX-License-Identifier: Apache-2.0
// The tables of a shared segment: who has it open, and its allocations with their references.
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/bytes.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace quarry::inline QUARRY_ABI::detail {

/// The number of a record, from 1. 0 means no record.
using record_number = std::uint32_t;

/// A process that has the segment open.
struct segment_opening {
  std::atomic<pid_t> id;  // 0: unused record; written last
  std::uint64_t began;    // `began_at(id)`
};
/// The references of one opening to one allocation. An opening has one such record at most for an
/// allocation.
struct segment_reference {
  std::atomic<record_number> next;  // of the allocation; or the next unused record
  std::uint32_t opening;
  std::uint32_t count;
  std::uint32_t is_reachable;  // for `segment_tables::recover`
};
struct segment_allocation {
  std::atomic<record_number> next;             // by address; or the next unused record
  std::atomic<record_number> first_reference;  // never 0
  std::uint32_t is_reachable;                  // for `segment_tables::recover`
  std::uint64_t base;                          // the offset in the data
  bytes size, requested;
  char name[64];
};

/// A table of records, which grows.
struct segment_table {
  std::uint64_t offset;               // in the file
  record_number limit;                // the address range has room for so many records
  std::atomic<record_number> ready;   // the file has pages for so many records
  std::atomic<record_number> taken;   // records up to this number have been used
  std::atomic<record_number> unused;  // the first record of the stack of unused records
};

/// The start of a segment. `layout` comes first in every layout of segments, and is written last.
struct segment_header {
  std::atomic<std::uint64_t> layout;
  bytes size;  // of the data
  std::uint64_t data;
  pthread_mutex_t mutex;
  segment_table openings, allocations, references;
  std::atomic<record_number> first;  // the allocation with the lowest address
};

/// The offsets of a segment's parts in its file. The file has holes: pages that no table uses yet
/// take no memory. So the tables never move, and a process maps the file once.
struct segment_layout {
  static constexpr bytes page = 4096;
  static constexpr std::uint64_t first_text = 0x5952'5241'5551;  // "QUARRY", then two digits
  static constexpr std::uint64_t number = 0x3230;                // "02"
  static constexpr std::uint64_t mark = number << 48 | first_text;

  bytes size = 0;  // of the data
  std::uint64_t data = 0, openings = 0, allocations = 0, references = 0, end = 0;
  record_number max_openings = 0, max_allocations = 0, max_references = 0;

  /// An allocation takes 64 bytes or more. So the data is used up before the table of allocations,
  /// unless the data has more than 2^30 bytes.
  constexpr explicit segment_layout(bytes requested) : size{pages(requested)} {
    max_openings = 1 << 16;
    max_allocations = static_cast<record_number>(std::min<bytes>(size / 64, 1 << 24));
    max_references = max_allocations + (1 << 22);
    openings = pages(sizeof(segment_header));
    data = openings + pages(sizeof(segment_opening) * max_openings);
    allocations = data + size;
    references = allocations + pages(sizeof(segment_allocation) * bytes{max_allocations});
    end = references + pages(sizeof(segment_reference) * bytes{max_references});
  }
  [[nodiscard]] static constexpr bytes pages(bytes size) { return (size + page - 1) / page * page; }
};

/// The tables of one mapping of a segment. All functions require the segment's lock.
///
/// A process may be killed between any two stores. The truth is the list of allocations, ordered by
/// address, and each allocation's list of references. One store adds or removes an allocation or a
/// reference, so the truth is correct at each moment. Records that are in no list are unused. A
/// killed process can leave unused records that the stack of unused records lacks; `recover`, which
/// the next holder of the lock calls, adds them to it. All links are atomic with the strongest
/// order, so that no compiler moves a store across a store to a link.
class segment_tables {
 public:
  segment_tables() = default;
  /// `base`: the mapping of the whole file `file`.
  segment_tables(void* base, int file) : base_{static_cast<char*>(base)}, file_{file} {}

  [[nodiscard]] segment_header& header() const { return *reinterpret_cast<segment_header*>(base_); }
  [[nodiscard]] char* data() const { return base_ + header().data; }

  /// Makes the header and reserves pages for the first records. Returns 0, or the number of an
  /// error of the system.
  [[nodiscard]] int make(segment_layout const& layout) {
    segment_header& made = header();
    made.size = layout.size;
    made.data = layout.data;
    set(made.openings, layout.openings, layout.max_openings);
    set(made.allocations, layout.allocations, layout.max_allocations);
    set(made.references, layout.references, layout.max_references);
    made.first = 0;
    for (int const failed :
         {grow<segment_opening>(made.openings), grow<segment_allocation>(made.allocations),
          grow<segment_reference>(made.references)})
      if (failed != 0) return failed;
    return 0;
  }

  /// Reserves pages of the file now: a full file system is an error here, not a signal later.
  /// Returns 0, or the number of an error of the system.
  [[nodiscard]] static int reserve_pages(int file, std::uint64_t offset, bytes size) {
    int failed = 0;
    do {
      failed = posix_fallocate(file, static_cast<off_t>(offset), static_cast<off_t>(size));
    } while (failed == EINTR);
    return failed;
  }

  /// A new opening, or 0 if the table cannot grow.
  [[nodiscard]] record_number add_opening(pid_t id, std::uint64_t began) {
    segment_table& table = header().openings;
    record_number number = 1;
    while (number <= table.taken && opening(number).id != 0) ++number;
    if (number > table.taken) {
      if (number > table.ready && grow<segment_opening>(table) != 0) return 0;
      table.taken = number;
    }
    opening(number).began = began;
    opening(number).id = id;
    return number;
  }
  template <class Visit>
  void each_opening(Visit visit) const {
    for (record_number number = 1; number <= header().openings.taken; ++number)
      if (opening(number).id != 0) visit(number, opening(number));
  }
  /// Drops all references of an opening and removes it.
  void remove_opening(record_number number) {
    std::atomic<record_number>* link = &header().first;
    while (*link != 0) {
      segment_allocation& listed = allocation(*link);
      std::atomic<record_number>* const own = reference_of(listed, number);
      if (own == nullptr) {
        link = &listed.next;
      } else if (is_last(listed)) {
        remove(*link);
      } else {
        link = &listed.next;
        remove_reference(*own);
      }
    }
    opening(number).id = 0;
  }

  /// A gap of the data. The allocation in it comes before the one that `link` points to.
  struct gap {
    std::atomic<record_number>* link;
    std::uint64_t base;
  };
  /// The lowest gap that has room. O(allocations).
  [[nodiscard]] std::optional<gap> find_gap(bytes size, bytes alignment) const {
    std::uint64_t end = 0;
    for (std::atomic<record_number>* link = &header().first;;) {
      std::uint64_t const base = (end + alignment - 1) & ~(alignment - 1);
      std::uint64_t const next = *link == 0 ? header().size : allocation(*link).base;
      if (base <= next && size <= next - base) return gap{link, base};
      if (*link == 0) return std::nullopt;
      end = next + allocation(*link).size;
      link = &allocation(*link).next;
    }
  }
  /// Adds an allocation of which `opening` has one reference. Returns false and changes nothing if
  /// a table cannot grow.
  [[nodiscard]] bool add(gap const& found, std::string_view name, bytes size, bytes requested,
                         record_number opening) {
    record_number const reference_number = new_reference(opening, 0);
    if (reference_number == 0) return false;
    record_number const number = take<segment_allocation>(header().allocations);
    if (number == 0) {
      put_back<segment_reference>(header().references, reference_number);
      return false;
    }
    segment_allocation& fresh = allocation(number);
    std::memset(fresh.name, 0, sizeof fresh.name);
    std::memcpy(fresh.name, name.data(), name.size());
    fresh.base = found.base;
    fresh.size = size;
    fresh.requested = requested;
    fresh.first_reference = reference_number;
    fresh.next = found.link->load();
    *found.link = number;
    return true;
  }
  /// Returns false and changes nothing if the table of references cannot grow.
  [[nodiscard]] bool add_reference(segment_allocation& target, record_number opening) {
    if (auto* const own = reference_of(target, opening)) {
      ++reference(*own).count;
      return true;
    }
    record_number const number = new_reference(opening, target.first_reference);
    if (number == 0) return false;
    target.first_reference = number;
    return true;
  }
  /// Drops a reference of `opening` to the allocation at `base`, and removes the allocation if that
  /// was the last. Returns false and changes nothing if there is no such reference.
  bool release(std::uint64_t base, record_number opening) {
    for (std::atomic<record_number>* link = &header().first; *link != 0;
         link = &allocation(*link).next) {
      segment_allocation& listed = allocation(*link);
      if (listed.base > base) return false;
      if (listed.base != base) continue;
      std::atomic<record_number>* const own = reference_of(listed, opening);
      if (own == nullptr) return false;
      if (reference(*own).count > 1) {
        --reference(*own).count;
      } else if (is_last(listed)) {
        remove(*link);
      } else {
        remove_reference(*own);
      }
      return true;
    }
    return false;
  }
  [[nodiscard]] segment_allocation* find(std::string_view name) const {
    for (record_number number = header().first; number != 0; number = allocation(number).next)
      if (name == allocation(number).name) return &allocation(number);
    return nullptr;
  }
  template <class Visit>
  void each_allocation(Visit visit) const {
    for (record_number number = header().first; number != 0; number = allocation(number).next)
      visit(allocation(number));
  }
  [[nodiscard]] std::uint64_t references(segment_allocation const& target) const {
    std::uint64_t sum = 0;
    for (record_number number = target.first_reference; number != 0;
         number = reference(number).next)
      sum += reference(number).count;
    return sum;
  }

  /// Completes what the last holder of the lock was doing when it was killed.
  void recover() {
    segment_header& all = header();
    for (record_number number = 1; number <= all.allocations.taken; ++number)
      allocation(number).is_reachable = 0;
    for (record_number number = 1; number <= all.references.taken; ++number)
      reference(number).is_reachable = 0;
    each_allocation([&](segment_allocation& listed) {
      listed.is_reachable = 1;
      for (record_number number = listed.first_reference; number != 0;
           number = reference(number).next)
        reference(number).is_reachable = 1;
    });
    collect_unused<segment_allocation>(all.allocations);
    collect_unused<segment_reference>(all.references);
  }

 private:
  static void set(segment_table& table, std::uint64_t offset, record_number limit) {
    table.offset = offset;
    table.limit = limit;
    for (auto* const count : {&table.ready, &table.taken, &table.unused}) *count = 0;
  }
  template <class Record>
  [[nodiscard]] Record& at(segment_table const& table, record_number number) const {
    return reinterpret_cast<Record*>(base_ + table.offset)[number - 1];
  }
  [[nodiscard]] segment_opening& opening(record_number number) const {
    return at<segment_opening>(header().openings, number);
  }
  [[nodiscard]] segment_reference& reference(record_number number) const {
    return at<segment_reference>(header().references, number);
  }
  [[nodiscard]] segment_allocation& allocation(record_number number) const {
    return at<segment_allocation>(header().allocations, number);
  }

  /// Doubles the records that have pages. Returns 0, or the number of an error of the system.
  template <class Record>
  [[nodiscard]] int grow(segment_table& table) {
    record_number const first = segment_layout::page / sizeof(Record);
    record_number const ready = std::min(table.limit, std::max(first, 2 * table.ready));
    if (ready == table.ready) return ENOSPC;
    int const failed = reserve_pages(file_, table.offset, sizeof(Record) * bytes{ready});
    if (failed == 0) table.ready = ready;
    return failed;
  }
  /// An unused record, or 0 if the table cannot grow.
  template <class Record>
  [[nodiscard]] record_number take(segment_table& table) {
    record_number number = table.unused;
    if (number != 0) {
      table.unused = at<Record>(table, number).next.load();
      return number;
    }
    number = table.taken + 1;
    if (number > table.ready && grow<Record>(table) != 0) return 0;
    table.taken = number;
    return number;
  }
  template <class Record>
  void put_back(segment_table& table, record_number number) {
    at<Record>(table, number).next = table.unused.load();
    table.unused = number;
  }
  template <class Record>
  void collect_unused(segment_table& table) {
    table.unused = 0;
    for (record_number number = table.taken; number != 0; --number)
      if (at<Record>(table, number).is_reachable == 0) put_back<Record>(table, number);
  }

  [[nodiscard]] record_number new_reference(record_number opening, record_number next) {
    record_number const number = take<segment_reference>(header().references);
    if (number == 0) return 0;
    segment_reference& fresh = reference(number);
    fresh.opening = opening;
    fresh.count = 1;
    fresh.next = next;
    return number;
  }
  /// The link to the references of `opening` to the allocation; nullptr if it has no reference.
  [[nodiscard]] std::atomic<record_number>* reference_of(segment_allocation& target,
                                                         record_number opening) const {
    for (std::atomic<record_number>* link = &target.first_reference; *link != 0;
         link = &reference(*link).next)
      if (reference(*link).opening == opening) return link;
    return nullptr;
  }
  /// Whether the allocation has references of one opening only.
  [[nodiscard]] bool is_last(segment_allocation const& target) const {
    return reference(target.first_reference).next == 0;
  }
  /// Removes the allocation that `link` points to, and the references of its only opening.
  void remove(std::atomic<record_number>& link) {
    record_number const number = link;
    record_number const reference_number = allocation(number).first_reference;
    link = allocation(number).next.load();
    put_back<segment_reference>(header().references, reference_number);
    put_back<segment_allocation>(header().allocations, number);
  }
  void remove_reference(std::atomic<record_number>& link) {
    record_number const number = link;
    link = reference(number).next.load();
    put_back<segment_reference>(header().references, number);
  }

  char* base_ = nullptr;
  int file_ = -1;
};

}  // namespace quarry::inline QUARRY_ABI::detail
