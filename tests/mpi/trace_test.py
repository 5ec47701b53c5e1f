#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces of programs: quarry-mpicc --trace, quarry-mpirun --trace, and the file (docs/format/mpi_trace.md).

usage: trace_test.py FOLDER [unittest's arguments]
FOLDER has quarry-mpicc and quarry-mpirun. The programs run on the CPU, or where QUARRY_TRACE_DEVICE says (gpu).
"""

import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import unittest
from collections import Counter, namedtuple
from pathlib import Path

TOOLS = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path("build/dev/mpi").resolve()
DEVICE = os.environ.get("QUARRY_TRACE_DEVICE", "cpu")
THREADS = [("--threads", "2"), ("--threads", "4")] if DEVICE == "cpu" else []
ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tests/mpi/traces"
SENDS, RECEIVES, WAIT, COLLECTIVE, ALLOCATE, FREE = (1, 7, 9), (2, 10), 3, 4, 5, 6
PROC_NULL = -2

SEND_WAITS, IS_STARTED, FREES_OLD, MAKES_COLLECTIVE = 1, 2, 4, 8  # flags

Record = namedtuple("Record", "begin end bytes function role flags place peer tag communicator link own_begin own_end")


class Head(dict):
    """The head, and of each rank: its own time at its end."""

    ended = ()


def read(path):
    """The head; of each rank: its records; and of each rank: how many it wrote."""
    data = Path(path).read_bytes()
    magic, line, body = data.split(b"\n", 2)
    assert magic == b"QUARRY MPI TRACE 2", magic
    head = Head(json.loads(line))
    table = [struct.unpack_from("<IIQ", body, 16 * rank) for rank in range(head["ranks"])]
    head.ended = [ended for _, _, ended in table]
    offset, ranks = 16 * head["ranks"], []
    for kept, _, _ in table:
        rows = [Record(*row) for row in struct.iter_unpack("<QQQHBBIiiIIQQ", body[offset : offset + 64 * kept])]
        ranks.append([row._replace(function=head["functions"][row.function], place=head["places"][row.place]) for row in rows])
        offset += 64 * kept
    assert offset == len(body), (offset, len(body))
    return head, ranks, [written for _, written, _ in table]


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)
        for source in SOURCES.glob("*.c"):
            cls.compile(source.name, source.stem, "--trace")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def compile(cls, source, program, *options):
        command = [TOOLS / "quarry-mpicc", "-O1", *(["--cpu-only"] if DEVICE == "cpu" else []), *options, source, "-o", cls.folder / program]
        subprocess.run(command, cwd=SOURCES, check=True, timeout=120)

    def run_program(self, program, ranks, *arguments, options=()):
        words = [TOOLS / "quarry-mpirun", "-n", ranks, "--device", DEVICE, *options, self.folder / program, *arguments]
        return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=100, check=False)

    def trace(self, program, ranks, *arguments, options=(), status=0):
        path = self.folder / "program.trace"
        path.unlink(missing_ok=True)
        done = self.run_program(program, ranks, *arguments, options=("--trace", path, *options))
        self.assertEqual(done.returncode, status, done.stderr)
        return *read(path), done

    def test_have_each_call_with_its_arguments_and_place(self):
        head, ranks, written, _ = self.trace("late", 4)
        self.assertEqual((head["ranks"], head["device"], len(ranks)), (4, DEVICE, 4))
        self.assertEqual([len(rows) for rows in ranks], list(written))
        names = [[row.function for row in rows] for rows in ranks]
        self.assertEqual(names[3], ["MPI_Init", "malloc", "MPI_Barrier", "MPI_Recv", "free", "MPI_Finalize"])
        self.assertEqual(names[1].count("MPI_Send"), 3)
        made, freed = ranks[3][1], ranks[3][4]
        self.assertEqual((made.role, made.bytes, freed.role), (ALLOCATE, 1000, FREE))
        self.assertEqual((made.peer, made.tag), (freed.peer, freed.tag))  # the address
        source = (SOURCES / "late.c").read_text().splitlines()
        for row in ranks[3]:
            file, line = row.place.rsplit(":", 1)
            self.assertEqual(file, "late.c")
            self.assertIn(row.function + "(", source[int(line) - 1])
        for rows in ranks:
            for row in rows:
                self.assertLessEqual(row.begin, row.end)

    def test_know_the_sender_of_a_receive_from_any_source_whose_status_is_ignored(self):
        _, ranks, _, _ = self.trace("late", 4)
        receive = ranks[3][3]
        self.assertEqual((receive.peer, receive.tag, receive.bytes, receive.role), (1, 5, 4, 2))
        begun = next(row for row in ranks[0] if row.function == "MPI_Irecv")
        self.assertEqual((begun.peer, begun.tag, begun.bytes, begun.role), (1, 5, 4, 10))
        self.assertEqual(ranks[0][begun.link - 1].function, "MPI_Wait")

    def test_show_which_rank_the_others_waited_for(self):
        """Rank 2 computes before the barrier, and rank 1 before its sends. A rank computes only outside of calls."""
        _, ranks, _, _ = self.trace("late", 4)

        def work(rank, function):
            at = next(i for i, row in enumerate(ranks[rank]) if row.function == function)
            return ranks[rank][at].begin - ranks[rank][at - 1].end

        barrier = [work(rank, "MPI_Barrier") for rank in range(4)]
        self.assertEqual(max(range(4), key=lambda rank: barrier[rank]), 2, barrier)
        self.assertGreater(barrier[2], 10 * barrier[3])
        self.assertGreater(work(1, "MPI_Send"), 10 * work(3, "MPI_Recv"))

    def test_have_each_message_that_the_program_counts(self):
        for ranks_wanted, rounds, options in ((7, 40, ()), (1000, 4, ()), *((7, 40, threads) for threads in THREADS)):
            _, ranks, _, done = self.trace("counts", ranks_wanted, rounds, options=options)
            sends = [(rank, row) for rank, rows in enumerate(ranks) for row in rows if row.role in SENDS and row.peer != PROC_NULL]
            self.assertEqual(done.stdout.split(), [str(len(sends)), str(sum(row.bytes for _, row in sends))])
            received = [(rank, row) for rank, rows in enumerate(ranks) for row in rows if row.role in RECEIVES and row.peer != PROC_NULL]
            by_channel = lambda rows: Counter((*ends, row.communicator, row.tag, row.bytes) for ends, row in rows)
            self.assertEqual(
                by_channel(((rank, row.peer), row) for rank, row in sends), by_channel(((row.peer, rank), row) for rank, row in received)
            )
            for rows in ranks:  # each receive that has begun is complete
                for row in rows:
                    if row.role == 10:
                        self.assertEqual(rows[row.link - 1].role, WAIT)

    def test_have_no_messages_of_calls_that_failed(self):
        _, ranks, _, done = self.trace("failures", 3)
        self.assertEqual(done.stdout.split(), ["19"])
        for rank, rows in enumerate(ranks):
            sends = [(row.function, row.peer, row.tag) for row in rows if row.role in SENDS and row.peer != PROC_NULL]
            self.assertEqual(sends, [(function, (rank + 1) % 3, 1) for function in ("MPI_Isend", "MPI_Send", "MPI_Send_init")])
            received = [(row.function, row.peer, row.tag, row.bytes) for row in rows if row.role in RECEIVES and row.peer != PROC_NULL]
            self.assertEqual(received, 3 * [("MPI_Recv", (rank + 2) % 3, 1, 4)])
            for function in ("MPI_Isend", "MPI_Send_init"):
                begun = next(row for row in rows if row.function == function and row.role == 9 and row.peer != PROC_NULL)
                self.assertEqual(rows[begun.link - 1].function, "MPI_Wait")
            self.assertTrue(all(row.end >= row.begin for row in rows))
            operations = [(row.role, row.flags) for row in rows if row.function in ("MPI_Bcast", "MPI_Ibcast", "MPI_Bcast_init")]
            self.assertEqual(operations, 3 * [(0, 0)])  # no operation that others take part in

    def test_link_what_has_begun_to_the_call_that_completed_it(self):
        _, ranks, _, _ = self.trace("requests", 4)
        source = (SOURCES / "requests.c").read_text().splitlines()
        for rank, rows in enumerate(ranks):
            messages = [row for row in rows if row.function in ("MPI_Ssend_init", "MPI_Recv_init") and row.role in (9, 10)]
            self.assertEqual([(row.role, row.peer) for row in messages], 3 * [(10, (rank + 3) % 4), (9, (rank + 1) % 4)])
            self.assertEqual([rows[row.link - 1].function for row in messages], 6 * ["MPI_Waitall"])
            self.assertEqual(len({row.link for row in messages}), 3)
            self.assertTrue(all("MPI_Start(" in source[int(row.place.split(":")[1]) - 1] for row in messages))
            started = [row for row in rows if row.function in ("MPI_Barrier_init", "MPI_Bcast_init") and row.role == 11]
            self.assertEqual([(row.peer, row.bytes) for row in started], 3 * [(PROC_NULL, 0), (2, 4)])
            self.assertEqual([rows[row.tag - 1][3:6] for row in started], [(row.function, 0, MAKES_COLLECTIVE) for row in started])
            waits = sorted(row.link for row in started)
            self.assertEqual([rows[link - 1].role for link in waits], 6 * [WAIT])
            self.assertEqual(len(set(waits)), 6)
            barrier, reduction = (row for row in rows if row.role == 11 and row not in started)
            self.assertEqual((barrier.function, reduction.function, reduction.bytes), ("MPI_Ibarrier", "MPI_Iallreduce", 4))
            # completed in the other order, or at once
            completed = [rows[row.link - 1].function for row in (barrier, reduction)]
            if completed == ["MPI_Wait", "MPI_Wait"]:
                self.assertGreater(barrier.link, reduction.link)
            for row, function in zip((barrier, reduction), completed):
                self.assertIn(function, ("MPI_Wait", row.function))
        through_pointer = next(row for row in ranks[0] if row.function == "MPI_Send")
        place = next(i for i, line in enumerate(source, 1) if "ways[argc" in line)
        self.assertEqual((through_pointer.peer, through_pointer.tag, through_pointer.place), (1, 8, f"requests.c:{place}"))

    def test_say_which_sends_last_until_their_receivers_have_them(self):
        """The tags of the program say which."""
        head, ranks, _, done = self.trace("waits", 4, "messages")
        sends = [row for rows in ranks for row in rows if row.role in SENDS]
        self.assertEqual(len(sends), 9 + 2 * 4)
        self.assertEqual([(row.function, bool(row.flags & SEND_WAITS)) for row in sends], [(row.function, row.tag == 1) for row in sends])
        started = [row.function for row in ranks[0] if row.flags & IS_STARTED]
        self.assertEqual(started, ["MPI_Ssend_init", "MPI_Send_init"])
        calls = sum(row.role != 7 and not row.flags & IS_STARTED for rows in ranks for row in rows)
        self.assertIn(f"trace of {calls} calls in", done.stderr)
        others = [row.flags for rows in ranks for row in rows if row.role not in SENDS]
        self.assertEqual(set(others), {0})
        if DEVICE == "cpu":
            self.assertEqual(head["threads"], 1)

    def test_name_the_root_of_an_operation_between_two_groups(self):
        _, ranks, _, _ = self.trace("waits", 4, "groups")
        roots = [next(row.peer for row in rows if row.function == "MPI_Bcast") for rows in ranks]
        self.assertEqual(roots, [0, 0, PROC_NULL, 0])

    def test_tell_allocations_from_what_was_refused(self):
        _, ranks, _, _ = self.trace("waits", 2, "memory")
        for rows in ranks:
            memory = [(row.function, row.role, row.bytes, (row.peer, row.tag) != (0, 0), row.flags) for row in rows if row.role in (ALLOCATE, FREE)]
            self.assertEqual(
                memory[1:],
                [
                    ("free", FREE, 0, False, 0),
                    ("malloc", ALLOCATE, 100, True, 0),
                    ("realloc", ALLOCATE, 5000, True, FREES_OLD),
                    ("free", FREE, 0, True, 0),
                    ("posix_memalign", ALLOCATE, (2**64 - 1) // 4, False, 0),
                ],
            )
            self.assertEqual((memory[0][0], memory[0][3]), ("malloc", False))

    def test_have_the_time_of_each_rank_apart_from_that_of_the_others(self):
        """A thread's time is that of the ranks that it runs, and of nothing twice. Rank 0 also sleeps for 3 ms."""
        for options in ((), *THREADS) if DEVICE == "cpu" else ():
            head, ranks, _, _ = self.trace("waits", 5, "turns", options=options)
            self.assertEqual(head["threads"], int(options[1]) if options else 1)
            for rows, ended in zip(ranks, head.ended):
                own = [time for row in rows for time in (row.own_begin, row.own_end)]
                self.assertEqual(own + [ended], sorted(own + [ended]))
            last = [rows[-1] for rows in ranks]
            self.assertGreaterEqual(last[0].own_end, 3_000_000)
            if not options:
                passed = max(row.end for row in last) - min(rows[0].begin for rows in ranks)
                spent = sum(rows[-1].own_end - rows[0].own_begin for rows in ranks)
                self.assertLessEqual(spent - 3_000_000, passed)

    def test_keep_the_first_calls_and_the_last_where_all_do_not_fit(self):
        _, whole, _, _ = self.trace("late", 3)
        head, ranks, written, done = self.trace("late", 3, options=("--trace-events", "3"))
        self.assertEqual(head["limit"], 3)
        self.assertEqual(list(written), [len(rows) for rows in whole])
        for rows, all_rows in zip(ranks, whole):
            self.assertEqual([row.function for row in rows], [row.function for row in all_rows[:3] + all_rows[-1:]])
        missing = sum(written) - sum(map(len, ranks))
        self.assertIn(f"{missing} later ones did not fit", done.stderr)

    def test_count_no_call_that_finds_nothing_where_all_do_not_fit(self):
        _, whole, _, _ = self.trace("counts", 4, 40)
        _, _, written, done = self.trace("counts", 4, 40, options=("--trace-events", "9"))
        self.assertEqual(list(written), [len(rows) for rows in whole], done.stderr)

    def test_of_a_deadlock_end_with_the_calls_that_wait(self):
        for options in ((), ("--trace-events", "5"), *THREADS):
            _, ranks, _, done = self.trace("deadlock", 5, options=options, status=1)
            self.assertIn("deadlock", done.stderr)
            self.assertEqual([rows[-1].function for rows in ranks], ["MPI_Recv"] + 4 * ["MPI_Barrier"])
            self.assertEqual([rows[-1].end for rows in ranks], 5 * [0])
            self.assertEqual((ranks[0][-1].peer, ranks[0][-1].tag), (1, 9))

    def test_of_an_aborted_program_are_written(self):
        for options in ((), *THREADS):
            _, ranks, _, _ = self.trace("deadlock", 5, "abort", options=options, status=3)
            self.assertEqual((ranks[0][-1].function, ranks[0][-1].end), ("MPI_Abort", 0))

    def test_of_several_threads_have_one_clock(self):
        for options in THREADS:
            _, ranks, written, _ = self.trace("late", 4, options=options)
            self.assertEqual([len(rows) for rows in ranks], list(written))
            self.assertEqual([row.function for row in ranks[3]][1:4], ["malloc", "MPI_Barrier", "MPI_Recv"])
            for rows in ranks:
                times = [time for row in rows for time in (row.begin, row.end)]
                self.assertEqual(times, sorted(times))
            barriers = [next(row for row in rows if row.function == "MPI_Barrier") for rows in ranks]
            self.assertLess(max(row.begin for row in barriers), min(row.end for row in barriers))
            begun = ranks[1][[row.function for row in ranks[1]].index("MPI_Send")]
            self.assertLess(begun.begin, ranks[3][3].end)  # what is received was sent before

    def test_of_a_program_that_crashes_say_so(self):
        path = self.folder / "crash.trace"
        done = self.run_program("deadlock", 5, "crash", "now", options=("--trace", path))
        self.assertIn(done.returncode, (-signal.SIGSEGV, 128 + signal.SIGSEGV))
        self.assertEqual(path.read_bytes(), b"QUARRY MPI TRACE 0\n")

    def test_are_refused_where_they_cannot_be_written(self):
        self.compile("late.c", "untraced")
        none = self.run_program("untraced", 2, options=("--trace", self.folder / "none"))
        self.assertEqual(none.returncode, 1)
        self.assertIn("compile it with quarry-mpicc --trace", none.stderr)
        self.assertFalse((self.folder / "none").exists())
        bad = self.run_program("late", 3, options=("--trace", self.folder / "missing" / "file"))
        self.assertEqual(bad.returncode, 1)
        self.assertIn("cannot be written", bad.stderr)
        full = self.run_program("late", 3, options=("--trace", "/dev/full"))  # takes no byte
        self.assertEqual(full.returncode, 1)
        self.assertIn("--trace /dev/full: cannot be written: No space left", full.stderr)
        alone = self.run_program("late", 3, options=("--trace-events", "3"))
        self.assertIn("no effect without --trace", alone.stderr)
        self.assertEqual(self.run_program("late", 3).returncode, 0)  # compiled with --trace, run without

    def test_table_fits_the_declarations_of_mpi(self):
        """The numbers of arguments in compiler/traced_calls.hpp, by the names of parameters in the headers."""
        headers = " ".join(path.read_text() for path in (ROOT / "include/quarry/mpi").glob("*.h"))
        parameters = {
            name: [re.split(r"[\s*]", each.strip())[-1] for each in text.split(",")]
            for name, text in re.findall(r"\bint (MPI_\w+)\(([^;{]*?)\);", headers)
        }
        table = (ROOT / "compiler/traced_calls.hpp").read_text().split("traced_calls[]", 1)[1].split("};", 1)[0]
        columns = {
            0: {"communicator", "grid", "local"}, 1: {"count", "sent_count", "received_count"}, 2: {"type", "sent_type", "received_type"},
            3: {"to", "from", "root"}, 4: {"tag", "sent_tag"}, 5: {"request", "requests"}, 6: {"flag", "done_count", "done"},
            7: {"index", "indices"}, 8: {"status", "statuses"}, 9: {"from"}, 10: {"received_tag"},
        }  # fmt: skip
        rows = re.findall(r'\{"(MPI_\w+)",\s*tracing::\w+([^}]*)\}', table)
        known = [(name, text) for name, text in rows if name in parameters]
        self.assertGreater(len(known), 45)
        for name, text in known:
            for column, word in enumerate(text.replace("\n", " ").split(",")[1:]):
                word = word.strip()
                if word not in ("-1", "traced_call::world"):
                    self.assertIn(parameters[name][int(word)], columns[column], (name, column))
        with_communicator = {
            name for name, words in parameters.items()
            if words[-1] == "communicator" and words[0] in ("sent", "data") and not name.startswith("MPI_Neighbor")
        }  # fmt: skip
        self.assertEqual(with_communicator - {name for name, _ in rows}, set())


if __name__ == "__main__":
    unittest.main(verbosity=1)
