#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The classes of allocations hold in random programs, and wrong classes change no result.

QUARRY_MPI_TOOLS       the folder with quarry-mpicc and quarry-mpirun (else: those in the path)
QUARRY_MPI_FUNCTIONS   how many random functions are compiled and run (1000)
QUARRY_MPI_SECONDS     goes on with further functions for this time (0)
QUARRY_MPI_FIRST_SEED  the seed of the first program (1)
QUARRY_MPI_SEEDS       how many seeds of the scheduler programs with an order that is prone to deadlock get (100)
QUARRY_MPI_MEETINGS    how many random programs run with meetings at their sync-safe allocations (15)
QUARRY_MPI_JOBS        how many programs are compiled and run at a time (the number of processors)
QUARRY_MPI_KEEP        a folder for programs that contradict their classes

usage: analysis_fuzz.py [-v] [Classes | WrongClasses | MergedArms | Meetings | Order]
"""

import collections
import concurrent.futures
import os
import shutil
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import allocation_oracle  # noqa: E402
import program_runs  # noqa: E402
import random_programs  # noqa: E402

FUNCTIONS = int(os.environ.get("QUARRY_MPI_FUNCTIONS", "1000"))
SECONDS = float(os.environ.get("QUARRY_MPI_SECONDS", "0"))
FIRST_SEED = int(os.environ.get("QUARRY_MPI_FIRST_SEED", "1"))
JOBS = int(os.environ.get("QUARRY_MPI_JOBS", str(os.cpu_count())))
SEEDS = int(os.environ.get("QUARRY_MPI_SEEDS", "100"))
MEETING_PROGRAMS = int(os.environ.get("QUARRY_MPI_MEETINGS", "15"))
TOOLS = program_runs.quarry(os.environ.get("QUARRY_MPI_TOOLS"))
FOLDER = TOOLS.compiler.parent
FUNCTIONS_OF_A_PROGRAM = 100
RUNS = ((1, ()), (2, ("x",)), (3, ()), (5, ("x", "y")), (8, ()))  # ranks and arguments
ONE_RUN = ((3, ()),)

# Rank 1 receives before it allocates, rank 0 sends after it allocates: who waits in malloc for all ranks waits for ever.
ORDER = """#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int rank, size, token = 0, sum = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (int round = 0; round < 20; round++) {
    if (rank > 0) MPI_Recv(&token, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int *first = malloc(64);
    first[0] = token + 1;
    if (rank + 1 < size) MPI_Send(first, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
    int *own = rank % 3 == round % 3 ? malloc(16 + 16 * rank) : NULL;
    if (own != NULL) own[0] = first[0];
    sum += own != NULL ? own[0] : first[0] * 2;
    int *last = calloc(rank + 4, 4);
    sum += last[3];
    free(first);
    free(own);
    free(last);
  }
  printf("%d %d\\n", rank, sum);
  MPI_Finalize();
  return 0;
}
"""

# Ranks call malloc in other orders, with other sizes and not equally often. At most 20 allocations of a rank live at a time.
UNEQUAL = """#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int rank, size;
  char *kept[20] = {0};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  unsigned state = rank + 1, sum = 0;
  for (int call = 0; call < 4000; call++) {
    state = state * 1664525u + 1013904223u;
    if (rank > 0 && state >> 31) continue;
    int at = (state >> 16) % 20;
    if (kept[at]) sum += kept[at][0];
    free(kept[at]);
    int bytes = 1 + (state >> 8) % (rank % 2 ? 300 : 9000);
    kept[at] = call % 2 ? malloc(bytes) : calloc(1, bytes);
    if (kept[at] == NULL) { printf("rank %d has no memory at call %d\\n", rank, call); MPI_Abort(MPI_COMM_WORLD, 9); }
    kept[at][bytes - 1] = kept[at][0] = (char)rank;
  }
  printf("%d %u\\n", rank, sum);
  MPI_Finalize();
  return 0;
}
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def compile(self, source, name, options=()):
        program = self.folder / name
        outcome = TOOLS.compile([source], program, ("-w", "-O0", "--cpu-only", *options))
        self.assertEqual(outcome.status, 0, outcome.describe())
        return program

    def run_ranks(self, program, ranks, arguments, seed, options=()):
        outcome = TOOLS.run(program, ranks, arguments, options=("--device", "cpu", "--seed", seed, *options))
        self.assertEqual(outcome.status, 0, f"{ranks} ranks, seed {seed}: {outcome.describe()}")
        return outcome.lines()


def write_program(folder, seed, functions=FUNCTIONS_OF_A_PROGRAM, waits=None):
    source = Path(folder) / f"random_{seed}.c"
    source.write_text(random_programs.program(seed, functions, waits))
    return source


def check(seed, functions, options=()):
    """The contradictions of a program, how many sites were like CU in all runs, and how many of these are CU."""
    with tempfile.TemporaryDirectory() as folder:
        source = write_program(folder, seed, functions)
        program = source.with_suffix("")
        sites = allocation_oracle.compile_recorded(FOLDER, [source], program, ("-O0", *options))
        found = []
        alike, called = set(range(len(sites))), set()
        for ranks, arguments in RUNS:
            calls = allocation_oracle.run_recorded(FOLDER, program, ranks, arguments, seed)
            if calls is None:
                found.append(f"seed {seed} fails with {ranks} ranks")
                continue
            found += [f"seed {seed}, {ranks} ranks: {each}" for each in allocation_oracle.contradictions(sites, calls)]
            by_rank = [collections.defaultdict(list) for _ in calls]
            for sizes, own in zip(by_rank, calls.values()):
                for site, size in own:
                    sizes[site].append(size)
            called.update(*by_rank)
            alike = {site for site in alike if all(sizes.get(site) == by_rank[0].get(site) for sizes in by_rank)}
        keep = os.environ.get("QUARRY_MPI_KEEP")
        if found and keep and not options:
            shutil.copy(source, keep)
    alike &= called
    return found, len(alike), sum(sites[site]["class"] == "CU" for site in alike)


class Classes(Case):
    def programs(self):
        """Seeds, and the number of functions of each program."""
        begin = time.monotonic()
        done, seed = 0, FIRST_SEED
        while done < FUNCTIONS or time.monotonic() - begin < SECONDS:
            count = FUNCTIONS_OF_A_PROGRAM if SECONDS else min(FUNCTIONS_OF_A_PROGRAM, FUNCTIONS - done)
            yield seed, count
            done += count
            seed += 1

    def test_hold_in_random_programs(self):
        begin = time.monotonic()
        found, done, alike, known = [], 0, 0, 0
        programs = self.programs()
        with concurrent.futures.ProcessPoolExecutor(JOBS) as workers:
            running = {}
            while True:
                while len(running) < JOBS and (program := next(programs, None)):
                    running[workers.submit(check, *program)] = program
                if not running:
                    break
                for each in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                    done += running.pop(each)[1]
                    more, of_runs, of_both = each.result()
                    for text in more[:1]:
                        print(text, file=sys.stderr, flush=True)
                    found += more
                    alike += of_runs
                    known += of_both
        seconds = time.monotonic() - begin
        print(f"{done} functions in {seconds:.0f} s; of {alike} sites that all ranks call alike in these runs, {known} are CU", file=sys.stderr)
        self.assertEqual(found, [])

    def test_that_are_wrong_are_found(self):
        found, _, _ = check(FIRST_SEED, 5, ("--assume-collective",))
        self.assertTrue(found)


class WrongClasses(Case):
    def test_change_no_result(self):
        source = write_program(self.folder, FIRST_SEED, 20)
        right, wrong = self.compile(source, "right"), self.compile(source, "wrong", ("--assume-collective",))
        for ranks, arguments in (*RUNS, (40, ())):
            for seed in range(3):
                with self.subTest(ranks=ranks, seed=seed):
                    expected = self.run_ranks(right, ranks, arguments, 0)
                    self.assertEqual(len(expected), ranks)
                    self.assertEqual(self.run_ranks(wrong, ranks, arguments, seed), expected)

    def test_keep_memory_bounded(self):
        source = self.folder / "unequal.c"
        source.write_text(UNEQUAL)
        heap = ("--heap", 16 << 20)  # the ranks allocate 600 MB in all
        right, wrong = self.compile(source, "right"), self.compile(source, "wrong", ("--assume-collective",))
        for seed in range(3):
            expected = self.run_ranks(right, 64, (), seed, heap)
            self.assertEqual(self.run_ranks(wrong, 64, (), seed, heap), expected)


class MergedArms(Case):
    def test_change_no_result(self):
        source = write_program(self.folder, FIRST_SEED, 50)
        sites = allocation_oracle.explain(FOLDER, [source], ("--cpu-only",))
        self.assertTrue(any("branch" in site for site in sites))
        merged, apart = self.compile(source, "merged"), self.compile(source, "apart", ("--separate-arms",))
        for ranks, arguments in RUNS:
            self.assertEqual(self.run_ranks(merged, ranks, arguments, 1), self.run_ranks(apart, ranks, arguments, 2))


class Meetings(Case):
    """Random programs end if ranks wait for all others at each sync-safe allocation."""

    def ends(self, program, ranks, arguments, seed):
        outcome = TOOLS.run(program, ranks, arguments, options=("--device", "cpu", "--seed", seed))
        self.assertIsNotNone(outcome.status, f"{program.name}, {ranks} ranks, seed {seed}: {outcome.describe()}")
        return outcome.status == 0

    def test_at_sync_safe_allocations_end(self):
        safe = collective = stuck = 0
        for seed in range(FIRST_SEED, FIRST_SEED + MEETING_PROGRAMS):
            source = write_program(self.folder, seed, 1 + seed % 3, "unequal" if seed % 4 == 0 else "chains")
            sites = allocation_oracle.explain(FOLDER, [source], ("--cpu-only",))
            safe += sum(site["sync_safe"] for site in sites)
            collective += sum(site["class"] != "NO" for site in sites)
            program = self.compile(source, f"meets_{seed}", ("--meet-at-safe",))
            for ranks, arguments in RUNS[1:]:
                for order in range(2):
                    self.assertTrue(self.ends(program, ranks, arguments, seed + order), f"{source.name} is stuck with {ranks} ranks")
            if seed < FIRST_SEED + 3:
                program = self.compile(source, f"stuck_{seed}", ("--meet-at-collective",))
                stuck += not all(self.ends(program, ranks, arguments, seed) for ranks, arguments in RUNS[1:])
            for each in self.folder.iterdir():
                each.unlink()
        print(f"{MEETING_PROGRAMS} programs end; {safe} of {collective} collective sites are sync-safe", file=sys.stderr)
        self.assertGreater(safe, 0)
        self.assertGreater(stuck, 0, "no program is stuck if ranks wait at all collective allocations")


class Order(Case):
    def test_of_messages_and_allocations_needs_no_other_rank(self):
        source = self.folder / "order.c"
        source.write_text(ORDER)
        expected = {}
        for options in ((), ("--assume-collective",)):
            program = self.compile(source, "order", options)
            for seed in range(SEEDS):
                ranks = (2, 3, 8, 40)[seed % 4]
                lines = self.run_ranks(program, ranks, (), seed)
                self.assertEqual(lines, expected.setdefault(ranks, lines))


if __name__ == "__main__":
    unittest.main()
