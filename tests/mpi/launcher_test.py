#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How quarry-mpirun ends programs on the CPU: signals, aborts, overflows of the stack, too many ranks.

usage: launcher_test.py FOLDER [unittest's arguments]
FOLDER has quarry-mpicc and quarry-mpirun.
"""

import os
import platform
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

TOOLS = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path("build/dev/mpi").resolve()
SOURCES = Path(__file__).resolve().parent / "launcher"
GRACE = 2  # seconds that ranks have to end (src/mpi/signal_watch.hpp)


class Launcher(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        for source in SOURCES.glob("*.c"):
            command = [TOOLS / "quarry-mpicc", "-O1", source.name, "-o", cls.folder / source.stem]
            subprocess.run(command, cwd=SOURCES, check=True, timeout=120)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def command(self, program, ranks, *arguments, options=()):
        words = [TOOLS / "quarry-mpirun", "-n", ranks, "--device", "cpu", *options, self.folder / program, *arguments]
        return [str(word) for word in words]

    def run_program(self, *words, **options):
        return subprocess.run(self.command(*words, **options), capture_output=True, text=True, timeout=100, check=False)

    def interrupt(self, program, number, wanted_output, ranks=4, options=()):
        """Sends the signal after the program has written what is wanted. Returns the result and the seconds until the end."""
        process = subprocess.Popen(self.command(program, ranks, options=options), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        begin = b""
        while wanted_output not in begin:
            self.assertTrue(select.select([process.stdout], [], [], 60)[0], "the program writes nothing")
            begin += os.read(process.stdout.fileno(), 4096)
        time.sleep(0.1)  # an abort ends a rank that is still writing
        start = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        return process.returncode, (begin + out).decode(), err.decode(), time.monotonic() - start

    def test_ranks_change_their_own_arguments_and_send_constants(self):
        result = self.run_program("arguments", 3, "one,two")
        self.assertEqual((result.returncode, sorted(result.stdout.splitlines())), (0, ["one 5", "one 5", "one 5"]), result.stderr)

    def test_a_status_that_is_a_multiple_of_256_is_no_success(self):
        self.assertEqual(self.run_program("arguments", 3, "one", "abort").returncode, 1)

    def test_help_names_every_option_that_the_guide_names(self):
        result = subprocess.run([TOOLS / "quarry-mpirun", "--help"], capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        guide = (Path(__file__).resolve().parents[2] / "docs/guide/mpi.md").read_text()
        table = guide.split("## Options of `quarry-mpirun`")[1].split("## ")[0]
        options = re.findall(r"^\| `(-+[a-z-]+)", table, re.MULTILINE)
        self.assertEqual(sorted(re.findall(r"^  (-+[a-z-]+)", result.stdout, re.MULTILINE)), sorted(options))
        self.assertIn("--seed", options)

    def test_an_unknown_option_is_named(self):
        result = subprocess.run([TOOLS / "quarry-mpirun", "--ranks", "3"], capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode, 2)
        self.assertIn("quarry-mpirun: unknown option --ranks\n", result.stderr)

    def test_options_that_are_no_numbers_in_range_are_refused(self):
        for option in ("--heap", "4GB"), ("--heap", "4X"), ("--heap", "1.5"), ("--heap", ".5G"), ("--heap", "65T"), ("--heap", "16777216T"), ("--stack", "64"), ("--stack", "2G"), ("--stack", "-1"), ("--ranks-per-warp", "33"), ("--registers", "256"), ("--gpus", "0"), ("--gpus", "1025"), ("-n", "4294967297"), ("-n", "8x"):
            result = self.run_program("arguments", 3, "one", options=option)
            self.assertEqual(result.returncode, 2, option)
            self.assertIn(f"quarry-mpirun: {option[0]} {option[1]}: must be", result.stderr)

    def test_a_heap_in_which_the_ranks_cannot_begin_is_named(self):
        result = self.run_program("arguments", 1000, "one", options=("--heap", "1000"))
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, "^quarry-mpirun: a heap of 1000 bytes has no room for .*; run with a larger --heap\n$")

    def test_a_local_array_for_which_the_heap_has_no_room_names_rank_and_size(self):
        self.assertEqual(self.run_program("large_local", 3).returncode, 0)
        lines = (SOURCES / "large_local.c").read_text().splitlines()
        place = 1 + next(i for i, line in enumerate(lines) if line.endswith("// before the array"))
        for options in (), ("--threads", "2"):
            result = self.run_program("large_local", 3, options=("--heap", "2000000", *options))
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertEqual(
                result.stderr,
                "quarry-mpirun: rank 2: the heap has no memory for a local variable of 3000000 bytes; run with a larger --heap; "
                f"after the MPI call at large_local.c:{place}\n",
            )

    def test_programs_of_other_mpis_are_refused(self):
        program, library = self.folder / "other", self.folder / "libmpi.so.40"
        for source, options in (("int MPI_Init(int* a, char*** b) { return a == 0 && b == 0; }", ["-shared", "-fPIC", "-Wl,-soname,libmpi.so.40", "-o", library]),
                                ("int MPI_Init(int*, char***); int main(void) { return MPI_Init(0, 0); }", ["-o", program, library])):
            subprocess.run(["cc", "-x", "c", "-", "-x", "none", *options], input=source, text=True, check=True, timeout=60)
        result = self.run_program("other", 3)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertEqual(result.stderr, f"quarry-mpirun: {program} was compiled for another MPI; use quarry-mpicc\n")

    def test_an_empty_value_is_refused(self):
        for option in "-n", "--seed", "--trace":
            result = self.run_program("arguments", 3, "one", options=(option, ""))
            self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", f"quarry-mpirun: option {option} needs a value\n"))

    def test_devices_are_cpu_and_gpu(self):
        result = self.run_program("arguments", 3, "one", options=("--device", "tpu"))
        self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", "quarry-mpirun: --device tpu: must be cpu or gpu\n"))

    def test_options_that_only_the_cpu_has_are_refused_on_a_gpu(self):
        for option, value in ("--seed", "3"), ("--threads", "2"):
            result = self.run_program("arguments", 3, "one", options=("--device", "gpu", option, value))
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertRegex(result.stderr, rf"^quarry-mpirun: {option} {value}: the ranks run on a GPU.*; add --device cpu\n$")

    def test_options_that_only_a_gpu_has_are_refused_on_the_cpu(self):
        for option, value in ("--gpus", "2"), ("--ranks-per-warp", "8"), ("--registers", "64"):
            result = self.run_program("arguments", 3, "one", options=(option, value))
            expected = f"quarry-mpirun: {option} {value}: the ranks run on the CPU, as --device says\n"
            self.assertEqual((result.returncode, result.stdout, result.stderr), (2, "", expected))

    def test_signals_end_ranks_that_wait_and_print_all_output(self):
        for number, name in (signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM"):
            status, out, err, seconds = self.interrupt("waits", number, b"first line\n")
            self.assertEqual(status, 128 + number)
            self.assertEqual(out, "first line\nno end of line")
            self.assertEqual(err, f"quarry-mpirun: {name} ends the program\n")
            self.assertLess(seconds, GRACE)

    def test_a_signal_ends_a_rank_that_never_waits_long(self):
        """Alone it meets itself, so that no wait looks for an abort; on a GPU, many ranks can have such short waits."""
        status, _, err, seconds = self.interrupt("waits", signal.SIGINT, b"first line\n", ranks=1)
        self.assertEqual((status, err), (130, "quarry-mpirun: SIGINT ends the program\n"))
        self.assertLess(seconds, GRACE)

    def test_a_signal_ends_ranks_that_compute(self):
        status, out, err, seconds = self.interrupt("computes", signal.SIGINT, b"first line\n")
        self.assertEqual(status, 130)
        self.assertEqual(out, "first line\nno end of line")
        self.assertIn("rank 1: after the MPI call at computes.c:", err)
        self.assertGreater(seconds, GRACE * 0.9)

    def test_a_second_signal_ends_the_program_at_once(self):
        process = subprocess.Popen(self.command("computes", 4), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        process.stdout.readline()
        start = time.monotonic()
        while process.poll() is None and time.monotonic() - start < 60:
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        self.assertEqual(process.wait(), 130)
        self.assertLess(time.monotonic() - start, GRACE)
        process.stdout.close()

    def test_a_signal_ends_ranks_that_write_without_end(self):
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(self.command("writes", 3, "endless"), stdout=output, stderr=subprocess.PIPE)
            time.sleep(0.5)
            start = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, err), (130, b"quarry-mpirun: SIGINT ends the program\n"))
            self.assertLess(time.monotonic() - start, GRACE)

    def test_ignored_signals_stay_ignored(self):
        """A shell lets its background jobs ignore SIGINT."""
        command = self.command("waits", 2, "3")  # ends by itself after 3 seconds
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (0, b""))

    def test_an_abort_ends_although_a_rank_computes(self):
        result = self.run_program("computes", 4, "abort")
        self.assertEqual(result.returncode, 9)
        self.assertEqual(result.stdout, "first line\nno end of line")
        self.assertRegex(result.stderr, r"MPI_Abort with code 9.*\n.*have not ended after 2 seconds.*\n  rank 1: after the MPI call")

    def test_an_overflow_of_the_stack_names_rank_and_option(self):
        result = self.run_program("recurs", 4, "3000")
        self.assertEqual(result.returncode, -signal.SIGSEGV)
        self.assertRegex(result.stderr, r"rank 2: its stack of 1 MiB has overflowed, after the MPI call at recurs.c:\d+; run with a larger --stack")
        result = self.run_program("recurs", 4, "3000", options=("--stack", "7.6M"))
        self.assertEqual((result.returncode, result.stdout), (0, "sum 3000\n"))
        result = self.run_program("recurs", 4, "300", options=("--stack", "97.6k"))
        self.assertRegex(result.stderr, "rank 2: its stack of 100 KiB has overflowed")

    def test_a_full_heap_is_named_by_ranks_that_wait_and_ranks_that_look(self):
        heap = ("--heap", "4M")
        result = self.run_program("full_heap", 3, options=heap)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"rank 1: MPI_Probe, peer rank - 1, tag 1, communicator 0, full_heap.c:\d+, waits for memory\n")
        self.assertIn("the heap is full: run with a larger --heap\n", result.stderr)
        result = self.run_program("full_heap", 3, "look", options=heap)
        self.assertEqual(result.returncode, 20)
        self.assertRegex(result.stderr, r"rank 1: MPI_Iprobe: the heap has no memory; run with a larger --heap \(for a message of rank 0\), full_heap.c:\d+\n")

    def test_more_ranks_than_65536(self):
        result = self.run_program("recurs", 70000, "1")
        self.assertEqual((result.returncode, result.stdout), (0, "sum 1\n"), result.stderr)

    def test_ranks_that_do_not_fit_are_refused_with_the_sum(self):
        result = self.run_program("recurs", 400000000, "1")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"-n 400000000: the ranks do not fit: .* of global variables .* are .* [GT]iB; the host has .* GiB")

    def test_static_variables_that_do_not_fit_are_refused_with_the_sum(self):
        result = self.run_program("statics", 100000)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"-n 100000: the ranks do not fit: 14.55 TiB of global variables \(1600000\d\d bytes of each rank\) "
                                        r"and .* GiB for stacks and the ranks' state are 14.55 TiB; the host has .* GiB\. Run with fewer ranks")

    def test_frees_of_what_is_not_allocated_are_reported_and_change_nothing(self):
        line = r"quarry-mpirun: free or realloc got an address that is not allocated, and changed nothing: 1 time"
        for what, end in (("double", ", 0x.* by rank 2"), ("inside", ""), ("stack", ", 0x.* by rank 2"), ("realloc", "")):
            for options in ((), ("--threads", 2)):
                result = self.run_program("wrong_frees", 3, what, options=options)
                self.assertEqual((result.returncode, result.stdout), (0, "done\n"), what)
                self.assertRegex(result.stderr, f"^{line}{end}\n$", what)
        self.assertEqual(self.run_program("wrong_frees", 3).stderr, "")

    def test_text_on_standard_error_appears_without_an_end_of_line(self):
        process = subprocess.Popen(self.command("writes", 2, "waits"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.assertTrue(select.select([process.stderr], [], [], 10)[0], "the text does not appear")
        self.assertEqual(os.read(process.stderr.fileno(), 100), b"progress ..")
        process.kill()
        process.communicate(timeout=60)

    def test_text_before_a_crash_is_not_lost(self):
        result = self.run_program("writes", 2, "crashes")
        self.assertEqual(result.returncode, -signal.SIGSEGV)
        self.assertEqual(result.stdout, "begun")
        self.assertIn("progress ..", result.stderr)

    def test_output_to_a_pipe_that_does_not_block_is_complete(self):
        """A program that shares the pipe, such as Node.js, may have set this."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        with open(reader, encoding="ascii") as output:
            process = subprocess.Popen(self.command("writes", 3, "much"), stdout=writer)
            os.close(writer)
            time.sleep(0.5)  # the pipe is full
            lines = output.read().splitlines()
        self.assertEqual(process.wait(timeout=60), 0)
        self.assertEqual(sorted(lines), sorted(f"rank {rank}: line {line} of many" for rank in range(3) for line in range(20000)))

    def test_one_signal_may_come_twice(self):
        """timeout(1) sends its signal to the process and to its group."""
        process = subprocess.Popen(self.command("computes", 4), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(0.1)  # an abort ends a rank that is still writing
        start = time.monotonic()
        for pause in 0.02, 0:
            process.send_signal(signal.SIGINT)
            time.sleep(pause)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertGreater(time.monotonic() - start, GRACE * 0.9)  # as after one signal
        self.assertIn(b"rank 1: after the MPI call", err)

    def test_verbose_shows_the_stack(self):
        result = self.run_program("recurs", 3, "1", options=("--verbose",))
        self.assertEqual(result.stderr, "quarry-mpirun: 3 ranks on the CPU; stack of a rank: 1 MiB\n")

    def test_there_are_no_more_threads_than_ranks(self):
        for ranks, threads, line in (4, "2", "4 ranks on 2 threads of the CPU"), (3, "100", "3 ranks on 3 threads of the CPU"):
            result = self.run_program("recurs", ranks, "1", options=("--verbose", "--threads", threads))
            self.assertEqual(result.returncode, 0)
            self.assertEqual(result.stderr, f"quarry-mpirun: {line}; stack of a rank: 1 MiB\n")
        threads = min(len(os.sched_getaffinity(0)), 64)
        result = self.run_program("recurs", 64, "1", options=("--verbose", "--threads", "0"))
        self.assertIn("64 ranks on the CPU" if threads == 1 else f"64 ranks on {threads} threads", result.stderr)

    def test_what_needs_one_thread_is_refused_with_several(self):
        result = self.run_program("recurs", 4, "1", options=("--threads", "2", "--seed", "3"))
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertRegex(result.stderr, r"^quarry-mpirun: --seed 3: .*--threads 1\n$")
        one = self.run_program("arguments", 1, "one", options=("--threads", "2", "--seed", "3"))
        self.assertEqual(one.returncode, 0, one.stderr)  # one rank needs one thread

    def test_a_crash_on_any_thread_names_its_rank(self):
        result = self.run_program("recurs", 4, "3000", options=("--threads", "2"))
        self.assertEqual(result.returncode, -signal.SIGSEGV)
        self.assertRegex(result.stderr, r"rank 2: its stack of 1 MiB has overflowed, after the MPI call at recurs.c:\d+")
        for _ in range(5):
            result = self.run_program("writes", 4, "crashes", options=("--threads", "4"))  # all ranks crash at once
            self.assertEqual(result.returncode, -signal.SIGSEGV)
            self.assertEqual((result.stdout, result.stderr.count("invalid access")), ("begun", 1), result.stderr)

    def test_a_crash_names_no_call_of_a_pointer_to_another_function(self):
        lines = (SOURCES / "pointers.c").read_text().splitlines()
        place = 1 + next(i for i, line in enumerate(lines) if line.endswith("/* the last call of MPI */"))
        result = self.run_program("pointers", 2)
        self.assertEqual(result.returncode, -signal.SIGSEGV)
        self.assertEqual(result.stderr, f"quarry-mpirun: rank 1: invalid access to the address 0x8, after the MPI call at pointers.c:{place}\n")

    @unittest.skipIf(platform.machine() != "x86_64", "other processors tell the address")
    def test_a_crash_without_an_address_names_none(self):
        result = self.run_program("wild", 2)
        self.assertEqual(result.returncode, -signal.SIGSEGV)
        self.assertRegex(
            result.stderr, r"rank 1: invalid access to an unknown address: an unaligned operand, or no valid address, after the MPI call at wild.c:\d+\n$"
        )

    def test_an_abort_names_the_ranks_that_compute_on_any_thread(self):
        result = self.run_program("computes", 4, "abort", options=("--threads", "2"))
        self.assertEqual((result.returncode, result.stdout), (9, "first line\nno end of line"))
        self.assertRegex(result.stderr, r"MPI_Abort with code 9.*\n.*have not ended after 2 seconds.*\n  rank 1: after the MPI call at computes.c:\d+\n$")

    def test_a_signal_ends_ranks_that_wait_on_several_threads(self):
        status, out, err, seconds = self.interrupt("waits", signal.SIGINT, b"first line\n", options=("--threads", "3"))
        self.assertEqual((status, out, err), (130, "first line\nno end of line", "quarry-mpirun: SIGINT ends the program\n"))
        self.assertLess(seconds, GRACE)


if __name__ == "__main__":
    unittest.main()
