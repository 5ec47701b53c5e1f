#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What programs that quarry-mpicc --check made report of faults in their use of MPI.

usage: checks_test.py FOLDER [unittest's arguments]
FOLDER has quarry-mpicc and quarry-mpirun.
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path

TOOLS = Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else Path("build/dev/mpi").resolve()
FOLDER = Path(__file__).resolve().parent / "checks"
SOURCES = ("faults.c", "other_faults.c")
DEVICE = os.environ.get("QUARRY_MPI_DEVICE", "cpu")
SCHEDULES = [("--seed", "0"), ("--seed", "1"), ("--seed", "2"), ("--threads", "2")] if DEVICE == "cpu" else [()]


def line_of(mark):
    """The place of the line with a comment that ends with the mark."""
    for source in SOURCES:
        for number, line in enumerate((FOLDER / source).read_text().splitlines(), 1):
            if line.endswith("// " + mark):
                return f"{source}:{number}"
    raise ValueError(mark)


class Checks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.programs = {}
        for name, source, options in (
            ("checked", SOURCES[0], ["--check"]),
            ("plain", SOURCES[0], []),
            ("traced", SOURCES[0], ["--check", "--trace"]),
            ("other", SOURCES[1], ["--check"]),
            ("other_traced", SOURCES[1], ["--check", "--trace"]),
        ):
            cls.programs[name] = Path(cls.temporary.name) / name
            command = [TOOLS / "quarry-mpicc", "-O1", *options, source, "-o", cls.programs[name]]
            subprocess.run(command, cwd=FOLDER, check=True, timeout=120)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_case(self, case, ranks=3, program="checked", schedule=(), options=()):
        common = [TOOLS / "quarry-mpirun", "-n", str(ranks), "--device", DEVICE]
        command = [*common, *schedule, *options, self.programs[program], case]
        result = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        return result, result.stderr.splitlines()

    def expect(self, case, pattern, ranks=3, count=None, status=1, program="checked"):
        """Each line of the report has the pattern, and all ranks or so many report."""
        for schedule in SCHEDULES:
            result, lines = self.run_case(case, ranks, program, schedule)
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertEqual(len(lines), ranks if count is None else count, result.stderr)
            for line in lines:
                self.assertRegex(line, r"^quarry-mpirun: check: rank \d+: " + pattern)

    def test_objects_that_are_not_freed(self):
        result, lines = self.run_case("leak")
        self.assertEqual((result.returncode, len(lines)), (1, 9), result.stderr)
        for kind in ("communicator", "datatype", "group"):
            found = [line for line in lines if line.endswith(f"the {kind} of {line_of('LEAK ' + kind)} is not freed")]
            self.assertEqual(len(found), 3, result.stderr)

    def test_a_request_that_nobody_completes(self):
        self.expect("request", rf"no call completes the receive of {line_of('NEVER COMPLETED')}$")

    def test_buffers_that_overlap(self):
        self.expect(
            "overlap", rf"this call receives into bytes that the unfinished receive of {line_of('FIRST')} uses: {line_of('OVERLAPS')}$"
        )

    def test_buffers_that_one_call_both_sends_and_receives_into(self):
        marks = {"IN ONE BUFFER": 3, "IN THE LAST BYTES": 3, "IN SOME PARTS": 3, "IN AN EXCHANGE": 3, "IN THE ROOT": 1}
        self.expect_all("one_buffer", {rf"this call receives into bytes that it sends: {line_of(mark)}$": count for mark, count in marks.items()})

    def test_calls_while_mpi_does_not_run(self):
        reports = {
            rf"this call is before MPI_Init: {line_of('TOO EARLY')}$": 3,
            rf"MPI_Init was called before this call of it: {line_of('SECOND')}$": 3,
            rf"this call is after MPI_Finalize: {line_of('TOO LATE')}$": 3,
        }
        self.expect_all("outside", reports)
        for case in ("no_end", "only_init", "exits"):
            self.expect(case, "the program has ended without MPI_Finalize$")

    def test_parts_of_one_call_that_overlap(self):
        marks = {"BY THE ROOT": 1, "IN PLACE": 3, "BY ALL": 3, "COLUMNS": 3}
        self.expect_all(
            "received_twice", {rf"this call receives into the same bytes twice: {line_of(mark)}$": count for mark, count in marks.items()}, "other"
        )

    def test_nothing_of_buffers_of_ranks_without_targets(self):
        for ranks in (1, 2, 3):
            for schedule in SCHEDULES:
                result, _ = self.run_case("no_targets", ranks, "other", schedule)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_what_a_rank_sends_to_itself_and_does_not_receive(self):
        own = r"MPI_{0} sends {1} bytes to its own rank, and receives {2} from it: {3}$"
        reports = {
            own.format("Gather", 8, 16, line_of("MORE OF EACH")): 1,
            own.format("Scatter", 8, 16, line_of("MORE OF THE ROOT")): 1,
            own.format("Allgather", 4, 8, line_of("MORE OF ALL")): 3,
            own.format("Alltoallv", 4, 8, line_of("MORE ITSELF")): 3,
            rf"MPI_Alltoall sends other types to its own rank than it receives from it: {line_of('OTHER TYPES')}$": 3,
            rf"rank 1: MPI_Gather gets MPI_IN_PLACE from a rank that is not the root: {line_of('NOT THE ROOT')}$": 1,
        }
        self.expect_all("own_parts", reports, "other")

    def test_counts_of_all_ranks_and_reductions_of_programs_that_differ(self):
        for case, what, function, mark in (
            ("user_reductions", "reductions", "Allreduce", "USER"),
            ("scattered_counts", "sizes", "Reduce_scatter", "COUNTS"),
            ("gathered_counts", "sizes", "Allgatherv", "ALL COUNTS"),
        ):
            place = line_of(mark)
            self.expect_difference(case, rf"{what} differ: MPI_{function} of {place}, but rank \d calls MPI_{function} of {place}$", "other")

    def test_requests_of_the_program_and_info_objects_of_mpi(self):
        reports = {
            rf"no call completes the generalized request of {line_of('OWN REQUEST')}$": 3,
            rf"the info object of {line_of('INFO OF MPI')} is not freed$": 3,
        }
        self.expect_all("leaves_more", reports, "other")

    def test_requests_that_the_program_looks_at(self):
        for ranks in (1, 2, 3):
            for schedule in SCHEDULES:
                result, _ = self.run_case("looks_at_requests", ranks, "other", schedule)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        reports = {
            rf"the buffer of the send of {line_of('LOOKED AT')} changed before the send was complete: {line_of('LOOKS')}$": 3,
            rf"no call completes the send of {line_of('LOOKED AT')}$": 3,
        }
        self.expect_all("looks_too_late", reports, "other")

    def test_calls_through_pointers(self):
        reports = {
            rf"this call is before MPI_Init: {line_of('POINTED TOO EARLY')}$": 3,
            rf"this call sends bytes that the unfinished receive of {line_of('POINTED RECEIVE')} uses: {line_of('POINTED SEND')}$": 3,
            rf"no call completes the receive of {line_of('POINTED RECEIVE')}$": 3,
            rf"this call is after MPI_Finalize: {line_of('POINTED TOO LATE')}$": 3,
        }
        for program in ("other", "other_traced"):
            self.expect_all("pointers", reports, program)

    def test_a_buffer_that_changes_before_the_send_is_complete(self):
        self.expect("changed", rf"the buffer of the send of {line_of('CHANGED')} changed before the send was complete: faults.c:\d+$")

    def test_buffers_of_persistent_requests(self):
        reports = {
            rf"this call sends bytes that the unfinished receive of {line_of('STARTED RECEIVE')} uses: {line_of('SENDS WHAT IS RECEIVED')}$": 3,
            rf"the buffer of the send of {line_of('STARTED SEND')} changed before the send was complete: {line_of('SENT AND CHANGED')}$": 3,
            rf"no call frees the persistent request of the send of {line_of('NEVER FREED')}$": 3,
        }
        self.expect_all("persistent_buffers", reports)

    def test_buffers_of_exchanges(self):
        use = rf"this call receives into bytes that the unfinished exchange of {line_of('EXCHANGE')} uses: {line_of('OVERWRITES')}$"
        change = rf"the buffer of the exchange of {line_of('EXCHANGE')} changed before the exchange was complete: faults.c:\d+$"
        for schedule in SCHEDULES:  # the bytes that arrive are the same
            _, lines = self.run_case("exchanges", schedule=schedule)
            self.assertEqual(sum(re.search(use, line) is not None for line in lines), 3)
            self.assertLessEqual(len(lines), 6)
            self.assertTrue(all(re.search(f"{use}|{change}", line) for line in lines), lines)

    def test_types_of_messages_that_are_buffered_or_replaced(self):
        differ = "datatypes differ: the receive of {0} has {1}, the message of {2} from rank \\d of the world has {3}$"
        self.expect("buffered", differ.format(line_of("UNBUFFERED"), "MPI_FLOAT", line_of("BUFFERED"), "MPI_INT"))
        place = line_of("REPLACED")
        one = differ.format(place, "MPI_FLOAT", place, "MPI_INT")
        other = differ.format(place, "MPI_INT", place, "MPI_FLOAT")
        self.expect("replaced", f"(?:{one}|{other})", count=2)

    def test_buffers_of_collective_operations(self):
        self.expect(
            "collective_buffers",
            rf"this call (?:receives into|sends) bytes that the unfinished collective operation of {line_of('REDUCES')} "
            rf"uses: {line_of('TOUCHES THE RESULT')}$",
        )
        what = "collective operation"
        self.expect("collective_changed", rf"the buffer of the {what} of {line_of('GATHERS')} changed before the {what} was complete: faults")

    def test_types_of_messages_of_other_kinds(self):
        differ = "datatypes differ: the receive of {0} has {1}, the message of {2} from rank \\d of the world has {3}$"
        reports = {
            differ.format(line_of("RECEIVES PERSISTENT"), "MPI_FLOAT", line_of("PERSISTENT SEND"), "MPI_INT"): 3,
            differ.format(line_of("EXCHANGES TYPES"), "MPI_FLOAT", line_of("EXCHANGES TYPES"), "MPI_INT"): 3,
            differ.format(line_of("PERSISTENT RECEIVE"), "MPI_INT", line_of("FLOATS"), "MPI_FLOAT"): 3,
            differ.format(line_of("LONG UNBUFFERED"), "MPI_FLOAT", line_of("LONG BUFFERED"), "MPI_INT"): 3,
        }
        self.expect_all("other_types", reports)

    def test_parts_of_buffers_and_persistent_collectives(self):
        uses = r"this call (?:receives into|sends) bytes that the unfinished collective operation of {0} uses: {1}$"
        changed = r"the buffer of the collective operation of {0} changed before the collective operation was complete: faults"
        part = line_of("MOVES PARTS")
        self.expect_all("part_buffers", {uses.format(part, line_of("TOUCHES A PART")): 3, changed.format(part): 3})
        freed = rf"no call frees the persistent request of the collective operation of {line_of('NEVER FREED EITHER')}$"
        used = uses.format(line_of("STARTED OPERATION"), line_of("TOUCHES ITS RESULT"))
        self.expect_all("persistent_collective", {used: 3, freed: 3})

    def test_buffers_of_types_with_gaps(self):
        reports = {
            rf"this call receives into bytes that the unfinished receive of {line_of('RECEIVES A COLUMN')} uses: {line_of('TOUCHES A COLUMN')}$": 3,
            rf"the buffer of the send of {line_of('SENDS A COLUMN')} changed before the send was complete: faults.c:\d+$": 3,
        }
        self.expect_all("columns", reports)

    def test_all_parts_of_buffers_of_many_ranks(self):
        uses = rf"bytes that the unfinished collective operation of {line_of('MOVES MANY PARTS')} uses: {line_of('TOUCHES THE LAST PART')}$"
        for schedule in SCHEDULES:
            result, lines = self.run_case("many_parts", 70, schedule=schedule)
            self.assertEqual(result.returncode, 1)
            shown, left_out = [line for line in lines if ": rank " in line], [line for line in lines if ": rank " not in line]
            for line in shown:
                self.assertRegex(line, rf"this call (?:receives into|sends) {uses}")
            # of lines that differ in the rank alone, ten are shown
            texts = Counter(re.sub(".* rank [0-9]*: ", "", line) for line in shown)
            more = {text: int(count) for count, text in (re.fullmatch(r"quarry-mpirun: check: (\d+) more: (.*)", line).groups() for line in left_out)}
            self.assertEqual(sum(texts.values()) + sum(more.values()), 70)
            for text, count in texts.items():
                self.assertEqual(count, 10 if text in more else min(count, 10))

    def test_functions_with_large_counts(self):
        receive = line_of("LARGE RECEIVE")
        reports = {
            rf"bytes that the unfinished receive of {receive} uses: {line_of('LARGE BCAST')}$": 3,
            rf"the receive of {receive} has MPI_FLOAT, the message of {line_of('LARGE SEND')} from rank \d of the world has MPI_INT$": 3,
            rf"the datatype of {line_of('LARGE TYPE')} is not freed$": 3,
        }
        self.expect_all("large", reports)

    def expect_all(self, case, reports, program="checked"):
        for schedule in SCHEDULES:
            result, lines = self.run_case(case, program=program, schedule=schedule)
            self.assertEqual((result.returncode, len(lines)), (1, sum(reports.values())), result.stderr)
            for pattern, count in reports.items():
                self.assertEqual(sum(re.search(pattern, line) is not None for line in lines), count, result.stderr)

    def test_a_message_that_nobody_receives(self):
        self.expect("unreceived", "nobody has received a message of 12 bytes, tag 5, from rank 0 of communicator 0$", count=1)

    def test_types_of_messages_that_differ_from_those_of_their_receives(self):
        differ = "datatypes differ: the receive of {0} has {1}, the message of {2} from rank \\d of the world has {3}$"
        self.expect("messages", differ.format(line_of("RECEIVED"), "MPI_FLOAT", line_of("SENT"), "MPI_INT"))
        self.expect("structs", differ.format(line_of("RECEIVED STRUCT"), "several types", line_of("SENT STRUCT"), "several types"))

    def test_nonblocking_and_persistent_collectives(self):
        sides = (("Ibarrier", line_of("IBARRIER")), ("Iallreduce", line_of("IALLREDUCE")))
        differ = r"operations differ: MPI_{0} of {1}, but rank \d calls MPI_{2} of {3}$"
        self.expect_difference("nonblocking", "|".join(differ.format(a, b, c, d) for (a, b), (c, d) in (sides, sides[::-1])))
        sides = (("Allreduce", line_of("IN GROUP")), ("Barrier", line_of("OTHERS IN GROUP")))
        self.expect_difference("groups", "|".join(differ.format(a, b, c, d) for (a, b), (c, d) in (sides, sides[::-1])))
        self.expect_difference("persistent", rf"roots differ: MPI_Bcast_init of {line_of('INIT')}, but rank \d")
        self.expect("unfinished", rf"no call completes the collective operation of {line_of('UNFINISHED')}$")

    def test_nothing_of_what_only_looks_like_a_fault(self):
        for ranks in (1, 4):
            for schedule in SCHEDULES:
                result, _ = self.run_case("allowed", ranks, schedule=schedule)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_collective_operations_that_differ(self):
        place = line_of("ROOT")
        differ = r"{0} differ: MPI_{1} of {2}, but rank \d calls MPI_{3} of {4}$"
        for case, what, one in (("roots", "roots", "Bcast"), ("reductions", "reductions", "Allreduce"), ("types", "datatypes", "Bcast")):
            where = place if case == "roots" else r"faults.c:\d+"
            self.expect_difference(case, differ.format(what, one, where, one, where))
        self.expect_difference("sizes", differ.format("sizes", "Bcast", r"faults.c:\d+", "Bcast", r"faults.c:\d+"))
        sides = (("Barrier", line_of("BARRIER")), ("Allreduce", line_of("ALLREDUCE")))
        either = "|".join(differ.format("operations", a, b, c, d) for (a, b), (c, d) in (sides, sides[::-1]))
        self.expect_difference("operations", f"(?:{either})")

    def expect_difference(self, case, pattern, program="checked"):
        for schedule in SCHEDULES:
            result, lines = self.run_case(case, program=program, schedule=schedule)
            self.assertNotEqual(result.returncode, 0)
            self.assertTrue(any(re.search(pattern, line) for line in lines), result.stderr)
            self.assertNotIn("deadlock", result.stderr)

    def test_nothing_of_a_program_without_faults(self):
        for ranks in (1, 2, 5):
            for schedule in SCHEDULES:
                result, _ = self.run_case("good", ranks, schedule=schedule)
                self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_a_program_with_a_trace_too(self):
        trace = Path(self.temporary.name) / "a.trace"
        for case, status, reports in (("good", 0, 0), ("messages", 1, 3)):
            result, lines = self.run_case(case, program="traced", options=["--trace", trace])
            self.assertEqual((result.returncode, len(lines)), (status, reports + 1), result.stderr)
            self.assertRegex(result.stderr, r"quarry-mpirun: trace of [1-9]\d* calls in ")
            self.assertEqual(sum("datatypes differ" in line for line in lines), reports)

    def test_nothing_of_programs_that_are_compiled_without(self):
        result, _ = self.run_case("leak", program="plain")
        self.assertEqual((result.returncode, result.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
