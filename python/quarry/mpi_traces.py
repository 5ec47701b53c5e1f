# SPDX-License-Identifier: Apache-2.0
"""Traces of MPI programs, which `quarry-mpirun --trace` writes (docs/format/mpi_trace.md)."""

import enum
import json
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from quarry.errors import BadArgument

MAGIC = b"QUARRY MPI TRACE "
VERSION = b"2"
MAX_HEAD = 1 << 30  # bytes of the names and places

RECORD = np.dtype(
    [
        ("begin", "<u8"),  # ns of the machine's clock
        ("end", "<u8"),  # 0: the call has not returned
        ("bytes", "<u8"),
        ("function", "<u2"),
        ("role", "u1"),
        ("flags", "u1"),  # of Flag
        ("place", "<u4"),
        ("peer", "<i4"),  # a rank of the world, or ANY_SOURCE or NO_PEER; or a half of an address
        ("tag", "<i4"),
        ("communicator", "<u4"),
        ("link", "<u4"),
        ("own_begin", "<u8"),  # CPU: ns that the rank itself had run and slept
        ("own_end", "<u8"),
    ]
)
RANK = np.dtype([("kept", "<u4"), ("written", "<u4"), ("ended", "<u8")])
ANY_SOURCE = -1
NO_PEER = -2
SELF_COMMUNICATOR = 1  # of MPI_COMM_SELF, which each rank has for itself


class Role(enum.IntEnum):
    """What a record is about."""

    CALL = 0
    SEND = 1
    RECEIVE = 2
    WAIT = 3
    COLLECTIVE = 4
    ALLOCATE = 5
    FREE = 6
    SEND_PART = 7
    PROBE = 8
    BEGUN_SEND = 9
    BEGUN_RECEIVE = 10
    BEGUN_COLLECTIVE = 11


class Flag(enum.IntFlag):
    """What more a record says."""

    SEND_WAITS = 1  # the send lasts until its receiver has the message
    IS_STARTED = 2  # MPI_Start began it: an earlier record is the call
    FREES_OLD = 4  # the reallocation has freed the old allocation
    MAKES_COLLECTIVE = 8  # the call has made a collective operation that MPI_Start begins


@dataclass
class MpiTrace:
    """The calls of all ranks, rank by rank, each rank's in the order of its calls.

    `records` has the fields of RECORD. Times are nanoseconds since the first call. The end of a
    call that has not returned is the last time of the trace, and `is_open` is True.
    """

    ranks: int
    device: str
    gpu_ranks: list[int]  # the first rank of each GPU; empty on the CPU
    clock_error_ns: int | None  # between GPUs; None: the times are those of each GPU's own clock
    resolution_ns: int
    threads: int  # CPU: on how many the ranks took turns
    limit: int  # of each rank's records
    functions: list[str]
    places: list[str]
    records: np.ndarray
    rank: np.ndarray  # of each record
    first: np.ndarray  # of each rank: its first record; and the number of records
    written: np.ndarray  # of each rank: how many records it wrote, with those that did not fit
    ended: np.ndarray  # CPU: of each rank: its own time at its end; 0: it has not ended
    is_open: np.ndarray
    #: The rank's last record, where records before it are missing.
    is_after_gap: np.ndarray

    @property
    def missing(self) -> int:
        """How many records did not fit."""
        return int(self.written.sum()) - len(self.records)

    def has(self, flag: Flag) -> np.ndarray:
        """Of each record: whether it has the flag."""
        result: np.ndarray = (self.records["flags"] & flag) != 0
        return result

    @property
    def call(self) -> np.ndarray:
        """Of each record: that of the program's call, which is another one for what MPI_Start began
        and for the first half of MPI_Sendrecv. A record whose call did not fit is its own.
        """
        own = np.arange(len(self.records))
        is_part = self.records["role"] == Role.SEND_PART
        call = np.where(is_part, np.minimum(own + 1, max(len(own) - 1, 0)), own)
        call = np.maximum.accumulate(np.where(self.has(Flag.IS_STARTED), 0, call))
        is_known = (self.rank[call] == self.rank) & ~self.is_after_gap & ~self.is_after_gap[call]
        return np.where(is_known, call, own)

    def place(self, number: int) -> str:
        return self.places[number] if 0 < number < len(self.places) else ""

    def function(self, number: int) -> str:
        return self.functions[number] if number < len(self.functions) else "?"


def is_mpi_trace(path: str | os.PathLike[str]) -> bool:
    """Whether the file begins as a trace of an MPI program."""
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def head_of(file: Any, path: str) -> dict[str, Any]:
    line = file.readline(64)
    if line == MAGIC + b"0\n":
        raise BadArgument(f"{path}: the program has not ended, or a rank crashed: it wrote no trace")
    if line != MAGIC + VERSION + b"\n":
        raise BadArgument(
            f"{path}: not a trace of an MPI program in version {VERSION.decode()} of the format: "
            "compile and run the program with the quarry-mpicc of this package"
        )
    try:
        head = json.loads(file.readline(MAX_HEAD))
        if head["record_bytes"] != RECORD.itemsize or not 0 < head["ranks"] < 1 << 31:
            raise ValueError
        head.setdefault("threads", 1)
        for name, kind in (
            ("device", str), ("resolution_ns", int), ("limit", int), ("threads", int),
        ):  # fmt: skip
            if not isinstance(head[name], kind):
                raise ValueError
        gpu_ranks = head.setdefault("gpu_ranks", [])
        clock_error = head.setdefault("clock_error_ns", None)
        if clock_error is not None and (not isinstance(clock_error, int) or clock_error < 0):
            raise ValueError
        if not all(isinstance(rank, int) for rank in gpu_ranks) or gpu_ranks != sorted(gpu_ranks):
            raise ValueError
        if not all(isinstance(text, str) for text in head["functions"] + head["places"]):
            raise ValueError
    except (ValueError, KeyError, TypeError) as damage:
        raise BadArgument(f"{path}: the trace's head is damaged") from damage
    return dict(head)


def read_mpi_trace(path: str | os.PathLike[str]) -> MpiTrace:
    """Reads a trace. Raises BadArgument if the file is damaged, and OSError."""
    name = os.fspath(path)
    with open(path, "rb") as file:
        head = head_of(file, name)
        ranks = head["ranks"]
        table = file.read(RANK.itemsize * ranks)
        if len(table) != RANK.itemsize * ranks:
            raise BadArgument(f"{name}: the trace ends in its table of ranks")
        counts = np.frombuffer(table, RANK)
        kept, written = counts["kept"].astype(np.int64), counts["written"].astype(np.int64)
        records = _records(file)
    if len(records) != kept.sum() or (kept > written).any() or (kept > head["limit"] + 1).any():
        raise BadArgument(
            f"{name}: the trace has {len(records)} records, and its table says {kept.sum()}"
        )
    first = np.concatenate([[0], np.cumsum(kept)])
    rank = np.repeat(np.arange(ranks), kept)
    is_after_gap = np.zeros(len(records), bool)
    is_after_gap[(first[1:] - 1)[written > kept]] = True
    is_open = records["end"] == 0
    if len(records):
        origin = records["begin"].min()
        latest = max(records["begin"].max(), records["end"].max())
        records["end"][is_open] = latest
        records["begin"] -= origin
        records["end"] -= origin
        np.maximum(records["end"], records["begin"], out=records["end"])
    return MpiTrace(
        ranks=ranks,
        device=head["device"],
        gpu_ranks=head["gpu_ranks"],
        clock_error_ns=head["clock_error_ns"],
        resolution_ns=head["resolution_ns"],
        threads=head["threads"],
        limit=head["limit"],
        functions=head["functions"],
        places=head["places"],
        records=records,
        rank=rank,
        first=first,
        written=written,
        ended=counts["ended"].astype(np.int64),
        is_open=is_open,
        is_after_gap=is_after_gap,
    )


def _records(file: Any) -> np.ndarray:
    data = file.read()
    return np.frombuffer(data[: len(data) // RECORD.itemsize * RECORD.itemsize], RECORD).copy()
