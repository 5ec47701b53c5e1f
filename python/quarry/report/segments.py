# SPDX-License-Identifier: Apache-2.0
"""The blocks that the recorded allocator held, such as PyTorch's segments."""

from dataclasses import dataclass

import numpy as np

from quarry.report.lifetimes import Lifetimes, Naturals, address_spaces, no_lifetimes
from quarry.traces import Kind, Trace


@dataclass(frozen=True)
class Block:
    """A range of addresses from event `start` on."""

    start: int
    time: int
    address: int
    size: int
    call_site: int
    stream: int
    allocator: int
    space: int  # of addresses

    @property
    def end(self) -> int:
        return self.address + self.size


class Segments:
    """Follows the reserves and unreserves of a trace.

    Most unreserves return one block. PyTorch's expandable segments may also return a part of a block
    or several blocks at once: what is left is a block that begins with this event.
    """

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], Block] = {}  # by address space and address
        self._ended: list[tuple[Block, int, int]] = []  # with the event and the time of the end

    def add(self, batch: Trace, first: int, times: Naturals) -> Lifetimes:
        """Returns the blocks that end in the next batch, whose first event is number `first`."""
        is_reserve = batch.kind == Kind.RESERVE
        chosen = np.flatnonzero(is_reserve | (batch.kind == Kind.UNRESERVE))
        columns = ("address", "size", "call_site", "stream", "allocator")
        spaces = dict(enumerate(address_spaces(batch.allocators)))
        rows = zip(
            (chosen + first).tolist(),
            times[chosen].tolist(),
            is_reserve[chosen].tolist(),
            *(batch.events[name][chosen].tolist() for name in columns),
            strict=True,
        )
        for event, time, is_new, address, size, *names in rows:
            block = Block(event, time, address, size, *names, spaces.get(names[-1], 0))
            if is_new:
                if size:
                    self._end(block, remains=False)
                    self._held[block.space, address] = block
            else:
                self._end(block, remains=True)
        ended, self._ended = self._ended, []
        return lifetimes_of_blocks(ended)

    def finish(self, events: int, time: int) -> Lifetimes:
        """The blocks that are held at the end."""
        return lifetimes_of_blocks([(block, events, time) for block in self._held.values()])

    def _end(self, gone: Block, remains: bool) -> None:
        """Ends the blocks that share addresses with `gone`; with `remains`, keeps their other
        parts."""
        same = self._held.get((gone.space, gone.address))
        if same is not None and gone.size in (same.size, 0):
            del self._held[gone.space, gone.address]
            self._ended.append((same, gone.start, gone.time))
            return
        if same is None and not remains:
            return  # a new block; a search for others below it would take too long
        for block in [each for each in self._held.values() if overlap(each, gone)]:
            del self._held[block.space, block.address]
            self._ended.append((block, gone.start, gone.time))
            parts = [(block.address, gone.address), (gone.end, block.end)] if remains else []
            for low, high in parts:
                if low < high:
                    names = (block.call_site, block.stream, block.allocator, block.space)
                    left = Block(gone.start, gone.time, low, high - low, *names)
                    self._held[left.space, left.address] = left


def overlap(one: Block, other: Block) -> bool:
    is_same_space = one.space == other.space
    return is_same_space and one.address < other.end and other.address < one.end


def lifetimes_of_blocks(ended: list[tuple[Block, int, int]]) -> Lifetimes:
    if not ended:
        return no_lifetimes()
    blocks = [block for block, _, _ in ended]

    def column(name: str, dtype: type) -> np.ndarray:
        return np.array([getattr(block, name) for block in blocks], dtype)

    return Lifetimes(
        column("start", np.int64),
        np.array([event for _, event, _ in ended], np.int64),
        column("time", np.uint64),
        np.array([time for _, _, time in ended], np.uint64),
        column("address", np.uint64),
        column("size", np.int64),
        column("size", np.int64),
        column("call_site", np.uint32),
        column("stream", np.uint32),
        column("allocator", np.uint32),
    )
