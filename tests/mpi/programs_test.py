#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each program of tests/mpi/programs does the same with quarry-mpicc as with another MPI.

The order of lines does not matter. expected/NAME.txt has the output of Open MPI for each number of ranks.
Where another MPI is installed, it runs the program too, with one of these numbers; programs with such a file only if QUARRY_MPI_SEEDS is over 3.

QUARRY_MPI_TOOLS    the folder with quarry-mpicc and quarry-mpirun (else: those in the path)
QUARRY_MPI_SEEDS    how many seeds of the scheduler each program runs with (3), apart from runs on several threads
QUARRY_MPI_DEVICE   cpu or gpu (cpu); seeds and threads change nothing on a GPU
QUARRY_MPI_GPUS     how many GPUs the ranks run on (1)

usage: programs_test.py [Programs.test_NAME...]
       programs_test.py --write-expected     writes expected/ anew with the other MPI
"""

import os
import re
import sys
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import program_runs  # noqa: E402

SOURCES = Path(__file__).parent / "programs"
EXAMPLES = SOURCES.parents[2] / "examples/mpi"
SEEDS = int(os.environ.get("QUARRY_MPI_SEEDS", "3"))
IS_LONG = SEEDS > 3  # make test-mpi: all schedules with each number of ranks, and the other MPI runs each program again
DEVICE = os.environ.get("QUARRY_MPI_DEVICE", "cpu")
OPTIONS = ("-O1", "-std=gnu11", "-lm")
NEVER = "not reached"  # a program prints it where it must not come to


@dataclass
class Failure:
    """How a program fails: its status, and what the report on stderr says."""

    status: tuple
    report: str
    other_status: tuple = ()  # of another MPI; empty: the program would not end there


# The numbers of ranks of each program, and how it fails if it does. Crashes have a shell's status of the
# signal on the CPU. A report is about the last rank of four, where one rank fails.
PROGRAMS = {
    "ages": ((1, 4, 7), None),
    "c11": ((1, 4, 7), None),
    "c_library": ((1, 4, 7), None),
    "cannon": ((1, 4, 9), None),
    "conjugate_gradient": ((1, 4, 7), None),
    "copies": ((1, 4, 7), None),
    "every_line": ((1, 4, 7), None),
    "files": ((1, 4, 7), None),
    "heat_1d": ((1, 4, 7), None),
    "heat_2d": ((1, 4, 6), None),
    "large_frame": ((1, 4, 7), None),
    "layouts": ((1, 4, 7), None),
    "life": ((1, 4, 7), None),
    "long_messages": ((1, 4, 7), None),
    "many_contexts": ((1, 4, 7), None),
    "monte_carlo": ((1, 4, 7), None),
    "n_body": ((1, 4, 7), None),
    "odd_even_sort": ((1, 4, 7), None),
    "parts": ((1, 4, 20), None),
    "pi": ((1, 4, 7), None),
    "ping_pong": ((1, 4, 7), None),
    "primes": ((1, 4, 7), None),
    "profile": ((1, 4, 7), None),
    "random_collectives": ((1, 4, 7), None),
    "random_messages": ((1, 4, 7), None),
    "random_senders": ((1, 4, 7), None),
    "ring": ((1, 4, 7), None),
    "rows_and_columns": ((1, 4, 9), None),
    "sample_sort": ((1, 4, 7), None),
    "wide": ((1, 4, 7), None),
    "word_count": ((1, 4, 7), None),
    "fails_status": ((4,), Failure((5,), "", (5,))),
    "fails_abort": ((4,), Failure((7,), r"rank 3 found no input(.|\n)*rank 3\b.*MPI_Abort", (7,))),
    "fails_deadlock": (
        (4,),
        Failure((1,), r"deadlock(.|\n)*MPI_Recv.*tag 42.*fails_deadlock\.c:12"),
    ),
    "fails_divide_by_zero": ((4,), Failure((136,), r"rank 3\b.*zero", (136,))),
    "fails_early_exit": ((4,), Failure((3,), r"rank 1\b.*ended with status 3", (3,))),
    "fails_mixed_collectives": ((4,), Failure((1, 15), r"MPI_Barrier(.|\n)*MPI_Allreduce")),
    "fails_mixed_counts": ((4,), Failure((1, 15), r"MPI_Allreduce, 3 numbers(.|\n)*MPI_Allreduce, 5 numbers")),
    "fails_no_such_rank": ((4,), Failure((6,), r"rank [0-3]\b.*MPI_Send.*rank", (6,))),
    "fails_no_memory": (
        (4,),
        Failure(
            (139,),
            r"rank 3\b.*address(.|\n)*the heap had no room.*1 time.*rank 3 for 1125899906842624 bytes",
            (139,),
        ),
    ),
    "fails_refused_memory": (
        (4,),
        Failure((3,), r"the heap had no room.* 8 times, first to rank [0-3] for 1125899906842624 bytes", (3,)),
    ),
    "frees_wrong_addresses": (
        (4,),
        Failure((0,), r"an address that is not allocated, and changed nothing: 16 times(, 0x[0-9a-f]+( by rank [0-3])?)?\n"),
    ),
    "fails_null_pointer": ((4,), Failure((139,), r"rank 3\b.*address", (139,))),
    "fails_truncated": ((4,), Failure((15,), r"rank 1\b.*MPI_Recv.*longer", (15,))),
}
# Further numbers of ranks on a GPU, where a rank has a warp, half of one, and a lane.
MORE_ON_GPU = {"wide": (2200, 4300, 9000)}


def expected_file(name):
    return SOURCES / "expected" / f"{name}.txt"


def read_expected(name):
    """{number of ranks: sorted lines}; each line of the file begins with the number."""
    expected = {}
    for line in expected_file(name).read_text(encoding="utf-8").splitlines():
        ranks, _, text = line.partition("| ")
        expected.setdefault(int(ranks), []).append(text)
    return expected


def write_expected(other):
    for name, (counts, failure) in sorted(PROGRAMS.items()):
        if failure is not None and name != "fails_status":
            continue
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / name
            other.compile([SOURCES / f"{name}.c"], program, OPTIONS)
            lines = [
                f"{ranks}| {line}\n" for ranks in counts for line in other.run(program, ranks).lines()
            ]
        expected_file(name).parent.mkdir(exist_ok=True)
        expected_file(name).write_text("".join(lines), encoding="utf-8")


class Programs(unittest.TestCase):
    maxDiff = 4000

    def check(self, name):
        counts, failure = PROGRAMS[name]
        quarry = program_runs.quarry(os.environ.get("QUARRY_MPI_TOOLS"))
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / name
            compiled = quarry.compile([SOURCES / f"{name}.c"], program, OPTIONS)
            self.assertEqual(compiled.status, 0, f"quarry-mpicc {name}.c: {compiled.describe()}")
            schedules = [("--seed", seed) for seed in range(SEEDS)] + [("--threads", 2), ("--threads", 3)]
            for ranks in counts + (MORE_ON_GPU.get(name, ()) if DEVICE == "gpu" else ()):
                own = schedules if IS_LONG or ranks == 4 else [schedules[0], schedules[-1]]
                for schedule in own if DEVICE == "cpu" else [()]:
                    outcome = quarry.run(program, ranks, options=("--device", DEVICE, *schedule))
                    with self.subTest(ranks=ranks, schedule=schedule):
                        self.check_outcome(name, ranks, outcome, failure)
            self.check_other(name, folder)

    def check_outcome(self, name, ranks, outcome, failure):
        statuses = (0,) if failure is None else failure.status
        is_fault_of_gpu = DEVICE == "gpu" and 139 in statuses  # an invalid access to memory
        if is_fault_of_gpu:
            statuses = range(1, 256)  # no signal ends the process
        self.assertIn(outcome.status, statuses, outcome.describe())
        self.assertNotIn(NEVER, outcome.out, outcome.describe())
        if expected_file(name).exists():
            expected = read_expected(name)
            self.assertEqual(outcome.lines(), sorted(expected.get(ranks, expected[PROGRAMS[name][0][-1]])))
        if failure is None:
            self.assertEqual(outcome.err, "")
        elif is_fault_of_gpu:
            self.assertNotEqual(outcome.err, "")  # a GPU does not always say which rank it was
        elif not re.search(failure.report, outcome.err):
            self.fail(f"no report {failure.report!r}: {outcome.describe()}")

    def check_other(self, name, folder):
        """The other MPI gives the committed output and the expected status."""
        counts, failure = PROGRAMS[name]
        other = program_runs.other_mpi()
        if other is None:
            print(f"{name}: no other MPI is installed; compared with {expected_file(name).name} only")
            return
        if failure is not None and not failure.other_status:
            return
        if not IS_LONG and expected_file(name).exists():  # the other MPI wrote it
            return
        program = Path(folder) / f"{name}.other"
        compiled = other.compile([SOURCES / f"{name}.c"], program, OPTIONS)
        self.assertEqual(compiled.status, 0, compiled.describe())
        ranks = counts[len(counts) // 2]
        outcome = other.run(program, ranks)
        with self.subTest(other=other.compiler.name, ranks=ranks):
            self.assertIn(outcome.status, (0,) if failure is None else failure.other_status)
            if expected_file(name).exists():
                self.assertEqual(outcome.lines(), sorted(read_expected(name)[ranks]))


def add_tests():
    for name in PROGRAMS:
        setattr(Programs, f"test_{name}", lambda self, name=name: self.check(name))


class Example(unittest.TestCase):
    def test_wave(self):
        """The example is right with many ranks."""
        quarry = program_runs.quarry(os.environ.get("QUARRY_MPI_TOOLS"))
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "wave"
            compiled = quarry.compile([EXAMPLES / "wave.c"], program, OPTIONS)
            self.assertEqual(compiled.status, 0, compiled.describe())
            outcome = quarry.run(program, 1024, options=("--device", DEVICE))
            self.assertEqual(outcome.status, 0, outcome.describe())
            self.assertRegex(outcome.out, "1024 ranks, 50 steps.*as it must be")
            refused = quarry.run(program, 6, options=("--device", DEVICE))
            self.assertEqual(refused.status, 2, refused.describe())


class Random(unittest.TestCase):
    def test_more_seeds(self):
        """Messages that other seeds choose are right, and the same with another MPI."""
        quarry = program_runs.quarry(os.environ.get("QUARRY_MPI_TOOLS"))
        other = program_runs.other_mpi()
        for name in ("random_messages", "random_senders"):
            with tempfile.TemporaryDirectory() as folder:
                program = Path(folder) / name
                for tools, path in (quarry, program), (other, f"{program}.other"):
                    if tools is not None:
                        compiled = tools.compile([SOURCES / f"{name}.c"], path, OPTIONS)
                        self.assertEqual(compiled.status, 0, compiled.describe())
                for ranks, first in (2, 1000), (5, 2000), (12, 3000):
                    arguments = (first, 10 * SEEDS)
                    for schedule in (("--seed", first), ("--threads", 2)) if DEVICE == "cpu" else ((),):
                        options = ("--device", DEVICE, *schedule)
                        outcome = quarry.run(program, ranks, arguments, 300, options)
                        with self.subTest(name=name, ranks=ranks, first=first, schedule=schedule):
                            self.assertEqual(outcome.status, 0, outcome.describe())
                            self.assertEqual(len(outcome.lines()), ranks * 10 * SEEDS)
                            self.assertEqual([line for line in outcome.lines() if ": 0 wrong" not in line], [])
                    # the other MPI's ranks spin while they wait: 12 of them take seconds of all cores
                    if other is not None and ranks == 5:
                        with self.subTest(name=name, ranks=ranks, first=first, other=other):
                            same = other.run(f"{program}.other", ranks, arguments, 300)
                            self.assertEqual(outcome.lines(), same.lines())


class Table(unittest.TestCase):
    def test_it_lists_every_program(self):
        self.assertEqual(sorted(PROGRAMS), sorted(path.stem for path in SOURCES.glob("*.c")))


add_tests()

if __name__ == "__main__":
    if sys.argv[1:] == ["--write-expected"]:
        write_expected(program_runs.other_mpi())
    else:
        unittest.main()
