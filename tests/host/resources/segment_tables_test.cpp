// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/segment_tables.hpp"

#include "support/sanitized.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>

namespace quarry::test {

using namespace detail;
namespace segment_tables_test {

/// The tables of a segment with 64 KiB of data, which this process and its children share.
class shared_tables {
 public:
  shared_tables() {
    EXPECT_EQ(ftruncate(file_, static_cast<off_t>(layout_.end)), 0);
    base_ = mmap(nullptr, layout_.end, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    tables_ = {base_, file_};
    EXPECT_EQ(tables_.make(layout_), 0);
  }
  shared_tables(shared_tables const&) = delete;
  shared_tables& operator=(shared_tables const&) = delete;
  ~shared_tables() {
    munmap(base_, layout_.end);
    close(file_);
  }
  segment_tables* operator->() { return &tables_; }

  void add(std::string const& name, record_number opening, bytes size = 64) {
    auto const place = tables_.find_gap(size, 64);
    ASSERT_TRUE(place);
    ASSERT_TRUE(tables_.add(*place, name, size, size, opening));
  }
  /// The reachable and the unused records together are all records, and no allocation overlaps.
  void audit() {
    std::uint64_t end = 0;
    record_number allocations = 0, references = 0;
    tables_.each_allocation([&](segment_allocation const& listed) {
      EXPECT_GE(listed.base, end);
      end = listed.base + listed.size;
      ++allocations;
      EXPECT_NE(listed.first_reference, 0u);
      each<segment_reference>(tables_.header().references, listed.first_reference,
                              [&](segment_reference const& listed_reference) {
                                EXPECT_NE(listed_reference.count, 0u);
                                ++references;
                              });
    });
    segment_header& all = tables_.header();
    each<segment_allocation>(all.allocations, all.allocations.unused,
                             [&](segment_allocation const&) { ++allocations; });
    each<segment_reference>(all.references, all.references.unused,
                            [&](segment_reference const&) { ++references; });
    EXPECT_EQ(allocations, all.allocations.taken);
    EXPECT_EQ(references, all.references.taken);
  }

 private:
  template <class Record, class Visit>
  void each(segment_table const& table, record_number number, Visit visit) {
    record_number limit = table.taken;
    for (; number != 0 && limit != 0; --limit) {
      auto const& record =
          reinterpret_cast<Record const*>(static_cast<char*>(base_) + table.offset)[number - 1];
      visit(record);
      number = record.next;
    }
    EXPECT_EQ(number, 0u);
  }

  segment_layout layout_{64 << 10};
  int file_ = memfd_create("quarry-test", 0);
  void* base_ = nullptr;
  segment_tables tables_;
};

TEST(SegmentTables, ReuseRecordsOfFreedAllocations) {
  shared_tables tables;
  record_number const first = tables->add_opening(1, 1), second = tables->add_opening(2, 1);
  for (int round = 0; round < 500; ++round) {
    tables.add("it", first);
    ASSERT_TRUE(tables->add_reference(*tables->find("it"), second));
    ASSERT_TRUE(tables->release(0, first));
    ASSERT_FALSE(tables->release(0, first));
    ASSERT_NE(tables->find("it"), nullptr);
    ASSERT_TRUE(tables->release(0, second));
    ASSERT_EQ(tables->find("it"), nullptr);
  }
  tables.audit();
  EXPECT_EQ(tables->header().allocations.taken, 1u);
  EXPECT_EQ(tables->header().references.taken, 2u);
  tables->remove_opening(first);
  EXPECT_EQ(tables->add_opening(3, 1), first);
}

/// Changes the tables in each way, as a child that a signal may kill at any instruction.
void change(shared_tables& tables, record_number own) {
  tables.add("new", own);
  (void)tables->add_reference(*tables->find("kept"), own);
  (void)tables->add_reference(*tables->find("kept"), own);
  (void)tables->release(tables->find("kept")->base, own);
  (void)tables->release(tables->find("new")->base, own);
  tables.add("last", own, 128);
  tables->remove_opening(own);
}

/// Runs `work` in a child, `count` instructions of it, and then kills the child. Returns the number
/// of instructions that it ran, or nullopt if children cannot be traced here.
template <class Work>
std::optional<std::uint64_t> run_instructions(std::uint64_t count, Work work) {
  pid_t const child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(2);
    raise(SIGSTOP);
    work();
    _exit(0);
  }
  int state = 0;
  waitpid(child, &state, 0);
  if (!WIFSTOPPED(state)) return std::nullopt;
  std::uint64_t done = 0;
  while (done < count && ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0) {
    waitpid(child, &state, 0);
    if (!WIFSTOPPED(state)) return done;
    ++done;
  }
  kill(child, SIGKILL);
  waitpid(child, &state, 0);
  return done;
}

TEST(SegmentTables, AreCorrectAfterAKillAtAnyInstruction) {
  auto const prepare = [](shared_tables& tables) {
    record_number const kept = tables->add_opening(1, 1);
    tables.add("freed", kept);
    tables.add("kept", kept);
    tables.add("freed, too", kept);
    tables->release(tables->find("freed")->base, kept);
    tables->release(tables->find("freed, too")->base, kept);
    return tables->add_opening(2, 1);
  };
  shared_tables whole;
  record_number const opening = prepare(whole);
  auto const length = run_instructions(~std::uint64_t{0}, [&] { change(whole, opening); });
  if (!length) GTEST_SKIP() << "no process may be traced here";
  whole.audit();
  std::mt19937_64 random{7};
  for (int round = 0; round < (is_sanitized ? 8 : 40); ++round) {
    shared_tables tables;
    record_number const own = prepare(tables);
    std::uint64_t const count = random() % *length;
    ASSERT_TRUE(run_instructions(count, [&] { change(tables, own); }));
    tables->recover();
    tables.audit();
    tables->remove_opening(own);
    tables.audit();
    int in_use = 0;
    tables->each_allocation([&](segment_allocation const&) { ++in_use; });
    ASSERT_EQ(in_use, 1) << "killed after " << count << " of " << *length << " instructions";
    ASSERT_EQ(tables->references(*tables->find("kept")), 1u);
  }
}

}  // namespace segment_tables_test
}  // namespace quarry::test
