#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Private arrays that quarry-mpicc interleaves: which they are, and that programs do the same with them.

usage: lane_arrays_test.py FOLDER [unittest's arguments]
FOLDER has quarry-mpicc and quarry-mpirun. The programs are in tests/mpi/arrays. A comment at the end of the line of an allocation says what
is expected of each array that it makes, after functions have been inserted where they are called:

    p = malloc(n * sizeof *p);  // interleaved 8
    p = malloc(n * sizeof *p);  // contiguous: a part of the reason

Programs run on the CPU with --check-arrays. Then an array is that of a rank between two others, whose elements must not change.

QUARRY_MPI_DEVICE      gpu: compares programs on a GPU with the CPU instead
QUARRY_MPI_PROGRAMS    how many random programs (10)
QUARRY_MPI_LEVELS      at how many levels of optimisation the other programs are compiled (3)
QUARRY_MPI_FIRST_SEED  the seed of the first (1)
QUARRY_MPI_KEEP        a folder for random programs that differ
"""

import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import program_runs  # noqa: E402
import random_arrays  # noqa: E402

TOOLS = program_runs.quarry(sys.argv.pop(1)) if len(sys.argv) > 1 else program_runs.quarry(None)
SOURCES = Path(__file__).resolve().parent / "arrays"
DEVICE = os.environ.get("QUARRY_MPI_DEVICE", "cpu")
PROGRAMS = int(os.environ.get("QUARRY_MPI_PROGRAMS", "10"))
FIRST_SEED = int(os.environ.get("QUARRY_MPI_FIRST_SEED", "1"))
FUNCTIONS = 20
LEVELS = ("-O1", "-O2", "-O3")
LEVELS_OF_A_PROGRAM = int(os.environ.get("QUARRY_MPI_LEVELS", "3"))
EXPECTED = re.compile(r"// ((?:interleaved|contiguous).*)$")
SITE = re.compile(r"^\w+ at .*?:(\d+): (.*)$")

# The program's rank is the middle one of three. It writes an element of the next rank.
WRONG = """#include <mpi.h>
void* quarry_mpi_checked_allocate_array(unsigned long, unsigned long, unsigned, unsigned, unsigned long*);
void quarry_mpi_checked_free_array(void*, unsigned long, unsigned);
int main(int argc, char** argv) {
  unsigned long distance;
  int* data = quarry_mpi_checked_allocate_array(1, 40, 4, 1, &distance);
  data[argc == 1 ? 3 : 1] = 7;
  quarry_mpi_checked_free_array(data, distance, 4);
  return data == 0;
}
"""


class LaneArrays(unittest.TestCase):
    maxDiff = 4000

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compile(self, source, name, *options):
        done = TOOLS.compile([source], self.folder / name, ("-w", *options))
        self.assertEqual(done.status, 0, done.describe())
        return done.out

    def lines(self, name, ranks, device, *options):
        done = TOOLS.run(self.folder / name, ranks, ("x",), options=("--device", device, *options))
        self.assertEqual(done.status, 0, done.describe())
        return done.lines()

    def compare(self, source, *levels):
        """Compares the program, compiled at each level, with one that has contiguous arrays."""
        self.compile(source, "plain", levels[0], "--cpu-only")
        for level in levels:
            self.compare_with_plain(source, level)

    def compare_with_plain(self, source, level):
        if DEVICE == "gpu":
            self.compile(source, "interleaved", level)
            for ranks, of_warp in ((3, 1), (5, 32), (100, 32), (100, 8)):
                self.assertEqual(self.lines("plain", ranks, "cpu"),
                                 self.lines("interleaved", ranks, "gpu", "--ranks-per-warp", str(of_warp)))
        else:
            self.compile(source, "checked", level, "--check-arrays")
            self.assertEqual(self.lines("plain", 5, "cpu"), self.lines("checked", 5, "cpu"))

    def test_the_explanation_names_width_or_reason(self):
        for source in sorted(SOURCES.glob("*.c")):
            wanted = []
            for number, line in enumerate(source.read_text().splitlines(), 1):
                found = EXPECTED.search(line)
                wanted += [(number, each) for each in found[1].split(", ")] if found else []
            out = self.compile(source, "unused", "--explain=arrays")
            sites = sorted((int(number), text) for number, text in (SITE.match(line).groups() for line in out.splitlines()))
            self.assertEqual([number for number, _ in wanted], [number for number, _ in sites], f"{source.name}:\n{out}")
            for (number, expected), (_, text) in zip(wanted, sites):
                if expected.startswith("interleaved"):
                    expected = expected.replace("interleaved", "interleaved, elements of") + " byte"
                self.assertIn(expected.removeprefix("contiguous: "), text, f"{source.name}:{number}")
                self.assertEqual(expected.split()[0].strip(",:"), text.split()[0].strip(",:"), f"{source.name}:{number}")

    def test_programs_do_the_same(self):
        for number, source in enumerate(sorted(SOURCES.glob("*.c"))):
            self.compare(source, *(LEVELS[(number + i) % 3] for i in range(LEVELS_OF_A_PROGRAM)))

    def test_random_programs_do_the_same(self):
        source = self.folder / "program.c"
        interleaved = 0
        for seed in range(FIRST_SEED, FIRST_SEED + PROGRAMS):
            source.write_text(random_arrays.program(seed, FUNCTIONS))
            try:
                interleaved += self.compile(source, "unused", "--explain=arrays").count("interleaved")
                self.compare(source, LEVELS[seed % 3])
            except AssertionError:
                if keep := os.environ.get("QUARRY_MPI_KEEP"):
                    (Path(keep) / f"arrays{seed}.c").write_text(source.read_text())
                raise
        self.assertGreater(interleaved, 20 * PROGRAMS)

    def test_without_optimisation_and_on_request_arrays_stay_contiguous(self):
        for options in ("-O0",), ("--contiguous-arrays",):
            self.assertEqual(self.compile(SOURCES / "interleaved.c", "unused", *options, "--explain=arrays"), "")

    def test_a_write_to_another_rank_is_noticed(self):
        (self.folder / "wrong.c").write_text(WRONG)
        self.compile(self.folder / "wrong.c", "wrong", "--cpu-only")
        done = TOOLS.run(self.folder / "wrong", 1, options=("--device", "cpu"))
        self.assertEqual(done.status, 0, done.describe())
        done = TOOLS.run(self.folder / "wrong", 1, ("x",), options=("--device", "cpu"))
        self.assertIn("an element of another rank has changed", done.err)


if __name__ == "__main__":
    unittest.main()
