#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks of several processes on the CPU, which share no addresses, do what ranks of one process do.

With a seed, words that one process puts into another arrive late and out of order.

QUARRY_MPI_TOOLS    the folder with quarry-mpicc and quarry-mpirun (else: those in the path)
QUARRY_MPI_SEEDS    how many seeds each program runs with (3)

usage: processes_test.py [Processes.test_NAME...]
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import program_runs  # noqa: E402
import programs_test  # noqa: E402

SOURCES = Path(__file__).parent / "processes"
SECONDS = 60
# Each process has a heap of its own, and reports what happened there.
REPORTS = {
    "fails_refused_memory": r"(the heap had no room.* 4 times, first to rank [0-3] for 1125899906842624 bytes(.|\n)*){2}",
    "frees_wrong_addresses": r"(an address that is not allocated, and changed nothing: 8 times, 0x[0-9a-f]+ by rank [0-3]\n(.|\n)*){2}",
}
# Faults that only meetings notice. Ranks of several processes send messages instead.
FAULTS_OF_MEETINGS = {"fails_mixed_counts"}


class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tools = program_runs.quarry(os.environ.get("QUARRY_MPI_TOOLS"))
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def compile(self, source, *options):
        """Compiles once for all tests, and for the CPU alone: programs_test.py compiles the programs for the GPU, too."""
        program = self.folder / "-".join([source.stem, *options])
        if not program.exists():
            compiled = self.tools.compile([source], program, (*programs_test.OPTIONS, "--cpu-only", *options))
            self.assertEqual(compiled.status, 0, compiled.describe())
        return program

    def run_program(self, program, ranks, processes, *arguments, options=()):
        options = ("--device", "cpu", "--processes", processes, *options)
        return self.tools.run(program, ranks, arguments, SECONDS, options)

    def check(self, name):
        counts, failure = programs_test.PROGRAMS[name]
        program = self.compile(programs_test.SOURCES / f"{name}.c", "--processes")
        runs = [(4, 2, ("--seed", seed)) for seed in range(1, programs_test.SEEDS)]
        runs += [(counts[-1], 3, ("--seed", 0))] if counts[-1] > 4 else []
        runs += [(counts[-1], 2, ("--threads", 2))] if name.startswith("random") else []
        for ranks, processes, options in runs:
            outcome = self.run_program(program, ranks, processes, options=options)
            with self.subTest(ranks=ranks, processes=processes, options=options):
                if failure is None:
                    self.assertEqual((outcome.status, outcome.err), (0, ""), outcome.describe())
                    self.assertEqual(outcome.lines(), sorted(programs_test.read_expected(name)[ranks]))
                else:
                    self.assertIn(outcome.status, failure.status, outcome.describe())
                    report = REPORTS.get(name, failure.report)
                    self.assertTrue(re.search(report, outcome.err), outcome.describe())
                    self.assertNotIn(programs_test.NEVER, outcome.out)

    def test_synchronous_sends(self):
        """A synchronous send is complete after its receive has begun, and a long one arrives whole."""
        program = self.compile(SOURCES / "synchronous.c", "--processes")
        for processes in 2, 4:
            for seed in range(programs_test.SEEDS):
                outcome = self.run_program(program, 4, processes, options=("--seed", seed))
                with self.subTest(processes=processes, seed=seed):
                    wanted = [f"rank {i}: 0 early, 0 wrong" for i in range(4)]
                    self.assertEqual((outcome.lines(), outcome.err), (wanted, ""), outcome.describe())

    def test_long_exchanges(self):
        """Long messages arrive whole and in their order, whoever sends and however they are received."""
        program = self.compile(SOURCES / "long_exchanges.c", "--processes")
        for processes, options in (2, ()), (4, ()), (2, ("--threads", 2)):
            for seed in range(1 if options else programs_test.SEEDS):
                outcome = self.run_program(program, 4, processes, options=("--seed", seed, *options))
                with self.subTest(processes=processes, seed=seed, options=options):
                    wanted = [f"rank {i}: 0 wrong" for i in range(4)]
                    self.assertEqual((outcome.lines(), outcome.err), (wanted, ""), outcome.describe())

    def test_refused_functions(self):
        """A function that needs memory which all ranks share ends the program, and says so."""
        program = self.compile(SOURCES / "refused.c", "--processes")
        for function in "MPI_Intercomm_create", "MPI_Comm_idup", "MPI_Dist_graph_create", "MPI_Cancel":
            outcome = self.run_program(program, 4, 2, function)
            with self.subTest(function=function):
                self.assertEqual((outcome.status, outcome.out), (58, ""), outcome.describe())
                self.assertRegex(outcome.err, rf"rank \d: {function}: .*several processes; processes 2")

    def test_processes_started_alone(self):
        """Processes that nobody starts together find each other by the file."""
        program = self.compile(programs_test.SOURCES / "ring.c", "--processes")
        words = [self.tools.launcher, "-n", "4", "--processes", "2", "--device", "cpu"]
        words += ["--meeting-file", self.folder / "meeting"]
        started = [
            subprocess.Popen([*words, "--process", str(i), program], stdout=subprocess.PIPE, text=True) for i in (1, 0)
        ]
        outputs = [each.communicate(timeout=SECONDS)[0] for each in started]
        self.assertEqual([each.returncode for each in started], [0, 0])
        self.assertEqual(sorted("".join(outputs).splitlines()), sorted(programs_test.read_expected("ring")[4]))

    def test_slow_ranks(self):
        """Ranks that wait for one that computes are in no deadlock."""
        program = self.compile(SOURCES / "slow_ranks.c", "--processes")
        for processes, options in (2, ()), (4, ("--seed", 1)), (2, ("--threads", 2)):
            outcome = self.run_program(program, 4, processes, options=options)
            with self.subTest(processes=processes, options=options):
                wanted = [f"rank {i}: equal" for i in range(4)]
                self.assertEqual((outcome.lines(), outcome.err), (wanted, ""), outcome.describe())

    def test_two_programs_at_once(self):
        """Programs that run at the same time on one host do not disturb each other."""
        program = self.compile(SOURCES / "synchronous.c", "--processes")
        words = [self.tools.launcher, "-n", "4", "--processes", "2", "--device", "cpu", program]
        started = [subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(2)]
        outputs = [each.communicate(timeout=SECONDS)[0] for each in started]
        wanted = [f"rank {i}: 0 early, 0 wrong" for i in range(4)]
        self.assertEqual([sorted(each.splitlines()) for each in outputs], [wanted, wanted])
        self.assertEqual([each.returncode for each in started], [0, 0])

    def test_a_signal_shows_what_ranks_wait_for(self):
        """SIGTERM ends all processes of a program that is in no deadlock, and each shows it."""
        program = self.compile(SOURCES / "endless.c", "--processes")
        command = [self.tools.launcher, "-n", "4", "--processes", "2", "--device", "cpu", program]
        # the first rank of each process
        wanted = [rf"rank {rank}.*: MPI_Recv, peer rank . 1, tag 42.*endless\.c:11" for rank in (0, 2)]
        for seconds in 0.5, 4, 30:  # a busy machine needs longer until all wait
            with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
                time.sleep(seconds)
                process.terminate()
                _, err = process.communicate(timeout=SECONDS)
            self.assertEqual(process.returncode, 143, err)
            if all(re.search(row, err) for row in wanted):
                return
        self.fail(err)

    def test_wrong_options(self):
        program = self.compile(programs_test.SOURCES / "ring.c", "--processes")
        for ranks, processes, report in (2, 3, "2 ranks are too few"), (4, 0, "at least 1"):
            outcome = self.run_program(program, ranks, processes)
            self.assertEqual(outcome.status, 2, outcome.describe())
            self.assertIn(report, outcome.err)
        plain = self.compile(programs_test.SOURCES / "pi.c")
        outcome = self.run_program(plain, 4, 2)
        self.assertEqual(outcome.status, 2, outcome.describe())
        self.assertIn("--processes 2: the program was compiled without quarry-mpicc --processes", outcome.err)


def add_tests():
    for name in sorted(set(programs_test.PROGRAMS) - FAULTS_OF_MEETINGS):
        setattr(Processes, f"test_{name}", lambda self, name=name: self.check(name))


add_tests()

if __name__ == "__main__":
    unittest.main()
