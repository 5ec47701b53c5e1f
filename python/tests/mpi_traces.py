# SPDX-License-Identifier: Apache-2.0
"""Traces of MPI programs for tests, by calls of the ranks."""

import json

import numpy as np

from quarry.mpi_report import analyse
from quarry.mpi_traces import NO_PEER, RANK, RECORD, Flag, Role, read_mpi_trace


class Program:
    """Adds calls. Times are microseconds. `write` gives the file that quarry-mpirun would write.

    On the CPU a rank's own time is that of the calls, as if no other rank ran, unless `own` says
    otherwise. `ended` has the own times at which ranks ended.
    """

    def __init__(self, ranks, device="gpu", limit=1000, gpu_ranks=None, clock_error=None):
        self.calls = [[] for _ in range(ranks)]
        self.device = device
        self.limit = limit
        self.gpu_ranks = gpu_ranks  # None: a trace without this member
        self.clock_error = clock_error  # nanoseconds; None: the clocks were not compared
        self.functions = [""]
        self.ended = {}
        self.threads = 1

    def add(self, rank, begin, end, role, function, own=None, **fields):
        """The number of the call in its rank, from 1 on, as in `link`. An `end` of None: open."""
        if function not in self.functions:
            self.functions.append(function)
        row = np.zeros((), RECORD)
        row["begin"], row["end"] = begin * 1000 + 1, 0 if end is None else end * 1000 + 1
        row["role"], row["function"] = role, self.functions.index(function)
        row["peer"] = NO_PEER
        if self.device == "cpu":
            row["own_begin"], row["own_end"] = 1000 * np.array(own or (begin, end or 0)) + 1
        for name, value in ({"place": 1} | fields).items():
            row[name] = value
        self.calls[rank].append(row)
        return len(self.calls[rank])

    def send(self, rank, begin, end, peer, tag=0, size=8, communicator=0, own=None):
        """A long message waits for its receiver."""
        return self.add(
            rank, begin, end, Role.SEND, "MPI_Send", own,
            peer=peer, tag=tag, bytes=size, communicator=communicator,
            flags=Flag.SEND_WAITS if size > 4096 else 0,
        )  # fmt: skip

    def receive(self, rank, begin, end, peer, tag=0, size=8, communicator=0, own=None):
        return self.add(
            rank, begin, end, Role.RECEIVE, "MPI_Recv", own,
            peer=peer, tag=tag, bytes=size, communicator=communicator,
        )  # fmt: skip

    def barrier(self, times, end):
        """`times` are the begins by rank; None: the rank takes no part."""
        for rank, begin in enumerate(times):
            if begin is not None:
                self.add(rank, begin, end, Role.COLLECTIVE, "MPI_Barrier", place=2)

    def write(self, path, missing=0):
        """`missing`: records of each rank that did not fit before the last one."""
        head = {
            "ranks": len(self.calls), "device": self.device, "resolution_ns": 1000,
            "threads": self.threads,
            "limit": self.limit, "record_bytes": RECORD.itemsize,
            "functions": self.functions, "places": ["", "a.c:1", "a.c:2"],
        }  # fmt: skip
        if self.gpu_ranks is not None:
            head["gpu_ranks"] = self.gpu_ranks
        if self.clock_error is not None:
            head["clock_error_ns"] = self.clock_error
        ended = [1000 * self.ended[rank] + 1 if rank in self.ended else 0 for rank in range(len(self.calls))]
        table = [
            (len(rows), len(rows) + missing, end)
            for rows, end in zip(self.calls, ended, strict=True)
        ]
        rows = [row for rows in self.calls for row in rows]
        path.write_bytes(
            b"QUARRY MPI TRACE 2\n" + json.dumps(head).encode() + b"\n"
            + np.array(table, RANK).tobytes()
            + (np.array(rows, RECORD).tobytes() if rows else b"")
        )  # fmt: skip
        return path


def analysed(program, tmp_path, **options):
    return analyse(read_mpi_trace(program.write(tmp_path / "program.trace", **options)))


def losses(content):
    """(rank that waits, function, rank it waits for) -> microseconds."""
    trace, waits = content.trace, content.waits
    return {
        (int(trace.rank[one]), trace.function(trace.records["function"][one]),
         int(trace.rank[cause])): int(lost) // 1000
        for one, cause, lost in zip(waits.record, waits.cause, waits.lost, strict=True)
    }  # fmt: skip
