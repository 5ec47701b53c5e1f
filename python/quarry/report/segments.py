# SPDX-License-Identifier: Apache-2.0
"""The blocks that the recorded allocator held, such as PyTorch's segments."""

from dataclasses import replace

import numpy as np

from quarry.report.lifetimes import Lifetimes, Matcher
from quarry.traces import Kind, Trace


class Segments:
    """Matches the reserves of a trace with their unreserves, as `Matcher` does with allocations.

    A block that is returned in parts ends with the part at its base address.
    """

    def __init__(self) -> None:
        self._matcher = Matcher()

    def add(self, batch: Trace) -> Lifetimes:
        """Returns the blocks that end in the next batch."""
        kind = np.full(len(batch), Kind.PHASE, np.uint8)
        kind[batch.kind == Kind.RESERVE] = Kind.ALLOCATE
        kind[batch.kind == Kind.UNRESERVE] = Kind.DEALLOCATE
        events = batch.events.copy()
        events["kind"] = kind
        return self._matcher.add(replace(batch, events=events)).ended

    def finish(self) -> Lifetimes:
        """The blocks that are held at the end."""
        return self._matcher.finish()
