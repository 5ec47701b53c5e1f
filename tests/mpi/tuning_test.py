#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quarry-mpirun --tune chooses the best placement by short runs, and keeps it. Scripts stand in for programs on a GPU.

usage: tuning_test.py FOLDER [unittest's arguments]
FOLDER has quarry-mpirun.
"""

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TOOLS = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path("build/dev/mpi").resolve()

# A short run writes a report; the other run says how it is placed. `times` has lines «RANKS-PER-WARP REGISTERS REPORT».
PROGRAM = """#!/bin/bash
folder=$(dirname "$0")
placement="${QUARRY_MPI_RANKS_PER_WARP:-0} ${QUARRY_MPI_REGISTERS:-0}"
if [ -z "${QUARRY_MPI_TUNE_REPORT:-}" ]; then echo "placed $placement $*"; exit; fi
echo "short run $placement" >>"$folder/runs"
echo hidden
report=$(grep "^$placement " "$folder/times" | cut -d' ' -f3-)
[ -n "$report" ] || exit 1
echo "$report" >&"$QUARRY_MPI_TUNE_REPORT"
"""


class Tuning(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        self.program = self.folder / "program"
        self.file = self.folder / "tuning.txt"
        self.write_program()

    def write_program(self):
        self.program.write_text(PROGRAM)
        self.program.chmod(0o755)

    def run_with(self, times, *arguments, options=(), stdin=None):
        (self.folder / "times").write_text("\n".join(times) + "\n")
        (self.folder / "runs").write_text("")
        words = [TOOLS / "quarry-mpirun", "-n", "64", "--tune", self.file, *options, self.program, *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QUARRY_MPI_")}
        return subprocess.run([str(w) for w in words], stdin=stdin, capture_output=True, text=True, timeout=60, env=environment)

    def runs(self):
        return (self.folder / "runs").read_text().splitlines()

    def test_the_placement_that_ends_first_is_chosen_and_kept(self):
        times = ["0 0 done 2.0 0", "1 128 done 1.5 0", "32 64 done 1.0 0", "32 32 done 1.01 0"]
        result = self.run_with(times, "one")
        self.assertEqual((result.returncode, result.stdout), (0, "placed 32 64 one\n"), result.stderr)
        self.assertIn("--tune: --ranks-per-warp 32, --registers 64: 1 s; without: 2 s\n", result.stderr)
        self.assertEqual(len(self.runs()), 25)  # the default, and all combinations
        again = self.run_with(times, "one")
        self.assertEqual((again.stdout, again.stderr, self.runs()), ("placed 32 64 one\n", "", []))

    def test_other_arguments_and_a_new_program_are_tuned_anew(self):
        times = ["0 0 done 2.0 0", "1 128 done 1.5 0"]
        self.run_with(times, "one")
        self.assertEqual(self.run_with(times, "two").stdout, "placed 1 128 two\n")
        self.assertEqual(len(self.runs()), 25)
        self.program.unlink()
        self.write_program()
        self.assertEqual(self.run_with(["0 0 done 2.0 0", "2 255 done 1.5 0"], "one").stdout, "placed 2 255 one\n")

    def test_a_program_that_was_stopped_is_judged_by_its_steps(self):
        times = ["0 0 stopped 1.0 1000", "1 64 stopped 1.0 3000", "8 64 stopped 1.1 3100"]
        self.assertEqual(self.run_with(times).stdout, "placed 1 64 \n")
        times = ["0 0 stopped 1.0 1000", "1 64 stopped 1.0 3000", "4 32 done 0.9 0"]
        self.assertEqual(self.run_with(times, "end").stdout, "placed 4 32 end\n")

    def test_the_default_stays_unless_another_placement_is_clearly_better(self):
        self.assertEqual(self.run_with(["0 0 done 1.0 0", "1 64 done 0.98 0"]).stdout, "placed 0 0 \n")

    def test_what_the_user_gives_stays(self):
        times = ["1 0 done 2.0 0", "1 64 done 1.0 0", "32 64 done 0.1 0"]
        result = self.run_with(times, options=("--ranks-per-warp", "1"))
        self.assertEqual(result.stdout, "placed 1 64 \n")
        self.assertEqual(len(self.runs()), 5)

    def test_a_program_that_fails_in_all_short_runs_runs_as_without_tuning(self):
        result = self.run_with(["nothing"])
        self.assertEqual((result.returncode, result.stdout), (0, "placed 0 0 \n"))
        self.assertIn("--tune: the program fails in all short runs", result.stderr)
        self.assertEqual((len(self.runs()), self.file.read_text()), (25, ""))

    def test_a_program_that_refuses_to_start_is_not_tried_again(self):
        self.program.write_text(PROGRAM.replace("|| exit 1", "|| exit 2"))
        result = self.run_with(["nothing"])
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "placed 0 0 \n", ""))
        self.assertEqual(len(self.runs()), 1)

    def test_a_program_that_aborts_with_the_status_of_a_refusal_is_no_refusal(self):
        self.program.write_text(PROGRAM.replace("[ -n", "if [ $placement == '0 0' ]; then exit 2; fi; [ -n").replace(
            "exit 2", 'echo "failed 0.1 0" >&"$QUARRY_MPI_TUNE_REPORT"; exit 2'))
        result = self.run_with(["8 32 done 1.0 0"])
        self.assertEqual((result.returncode, result.stdout), (0, "placed 8 32 \n"))
        self.assertIn("--tune: --ranks-per-warp 8, --registers 32: 1 s; without: fails\n", result.stderr)
        self.assertEqual(len(self.runs()), 25)

    def test_placements_that_fail_are_not_chosen(self):
        endings = {"1 255": "kill -SEGV $$", "2 255": "exit 1", "4 255": "kill -KILL $$"}
        cases = "".join(f"if [ '{placement}' == \"$placement\" ]; then {how}; fi\n" for placement, how in endings.items())
        self.program.write_text(PROGRAM + cases)  # they fail after a good report
        times = ["0 0 done 2.0 0", "1 255 done 0.1 0", "2 255 done 0.1 0", "4 255 done 0.1 0", "8 255 done 1.0 0", "16 255 failed 0.1 0"]
        self.assertEqual(self.run_with(times).stdout, "placed 8 255 \n")

    def test_reports_that_are_none_are_not_chosen(self):
        times = ["0 0 done 2.0 0", "1 255 done", "2 255 done -1 0", "4 255 done x 0", "8 255 done 0 0", "16 255 nonsense 0.1 0"]
        self.assertEqual(self.run_with(times).stdout, "placed 0 0 \n")

    def test_the_input_is_left_to_the_run_that_follows(self):
        self.program.write_text(PROGRAM.replace('echo "placed', 'cat; echo "placed').replace("echo hidden", "cat >>$folder/input"))
        with tempfile.TemporaryFile() as source:
            source.write(b"some input\n")
            source.seek(0)
            result = self.run_with(["0 0 done 2.0 0", "1 64 done 1.0 0"], stdin=source)
        self.assertEqual(result.stdout, "some input\nplaced 1 64 \n")
        self.assertEqual((self.folder / "input").read_text(), "")

    def test_much_output_of_short_runs_is_hidden_and_holds_nothing_up(self):
        self.program.write_text(PROGRAM.replace("echo hidden", "head -c 1000000 /dev/zero; head -c 1000000 /dev/zero >&2"))
        result = self.run_with(["1 0 done 2.0 0", "1 64 done 1.0 0"], options=("--ranks-per-warp", "1"))
        self.assertEqual(result.stdout, "placed 1 64 \n")
        self.assertEqual(len(result.stderr.splitlines()), 1)

    def test_an_entry_holds_for_the_options_with_which_it_was_made(self):
        self.run_with(["0 32 done 2.0 0", "1 32 done 1.0 0"], options=("--registers", "32"))
        result = self.run_with(["0 0 done 2.0 0", "1 128 done 1.0 0"])
        self.assertEqual((result.stdout, len(self.runs())), ("placed 1 128 \n", 25))

    def test_words_with_spaces_are_other_commands(self):
        times = ["0 0 done 2.0 0", "1 128 done 1.0 0"]
        for words in ("a b", "c"), ("a", "b c"):
            self.assertEqual(self.run_with(times, *words).stdout, "placed 1 128 a b c\n")
            self.assertEqual(len(self.runs()), 25)

    def test_a_process_that_the_program_leaves_behind_does_not_hold_it_up(self):
        self.program.write_text(PROGRAM.replace("echo hidden", "sleep 20 &"))
        begin = time.monotonic()
        self.run_with(["1 0 done 2.0 0"], options=("--ranks-per-warp", "1"))
        self.assertLess(time.monotonic() - begin, 15)

    def test_on_the_cpu_there_is_nothing_to_choose(self):
        result = self.run_with(["0 0 cpu 0 0"])
        self.assertEqual((result.returncode, result.stdout), (0, "placed 0 0 \n"))
        self.assertIn("the ranks run on the CPU", result.stderr)
        self.assertEqual(len(self.runs()), 1)

    def test_a_file_that_cannot_be_written_is_named(self):
        self.file = self.folder / "missing/tuning.txt"
        result = self.run_with(["0 0 done 1.0 0"])
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn(f"quarry-mpirun: --tune {self.file}: No such file or directory\n", result.stderr)


if __name__ == "__main__":
    unittest.main()
