# SPDX-License-Identifier: Apache-2.0
"""Traces of MPI programs for tests, by calls of the ranks."""

import json

import numpy as np

from quarry.mpi_traces import NO_PEER, RECORD, Role


class Program:
    """Adds calls. Times are microseconds. `write` gives the file that quarry-mpirun would write."""

    def __init__(self, ranks, device="gpu", limit=1000, gpu_ranks=None, clock_error=None):
        self.calls = [[] for _ in range(ranks)]
        self.device = device
        self.limit = limit
        self.gpu_ranks = gpu_ranks  # None: a trace without this member
        self.clock_error = clock_error  # nanoseconds; None: the clocks were not compared
        self.functions = [""]

    def add(self, rank, begin, end, role, function, **fields):
        """The number of the call in its rank, from 1 on, as in `link`. An `end` of None: open."""
        if function not in self.functions:
            self.functions.append(function)
        row = np.zeros((), RECORD)
        row["begin"], row["end"] = begin * 1000 + 1, 0 if end is None else end * 1000 + 1
        row["role"], row["function"] = role, self.functions.index(function)
        row["peer"] = NO_PEER
        for name, value in ({"place": 1} | fields).items():
            row[name] = value
        self.calls[rank].append(row)
        return len(self.calls[rank])

    def send(self, rank, begin, end, peer, tag=0, size=8, context=0):
        return self.add(
            rank, begin, end, Role.SEND, "MPI_Send",
            peer=peer, tag=tag, bytes=size, context=context,
        )  # fmt: skip

    def receive(self, rank, begin, end, peer, tag=0, size=8, context=0):
        return self.add(
            rank, begin, end, Role.RECEIVE, "MPI_Recv",
            peer=peer, tag=tag, bytes=size, context=context,
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
            "limit": self.limit, "record_bytes": RECORD.itemsize,
            "functions": self.functions, "places": ["", "a.c:1", "a.c:2"],
        }  # fmt: skip
        if self.gpu_ranks is not None:
            head["gpu_ranks"] = self.gpu_ranks
        if self.clock_error is not None:
            head["clock_error_ns"] = self.clock_error
        counts = [(len(rows), len(rows) + missing) for rows in self.calls]
        rows = [row for rows in self.calls for row in rows]
        path.write_bytes(
            b"QUARRY MPI TRACE 1\n" + json.dumps(head).encode() + b"\n"
            + np.array(counts, "<u4").tobytes()
            + (np.array(rows, RECORD).tobytes() if rows else b"")
        )  # fmt: skip
        return path
