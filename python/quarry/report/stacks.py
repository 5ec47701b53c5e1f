# SPDX-License-Identifier: Apache-2.0
"""Names of call sites: whole ones for tips and tables, short ones for charts."""

import itertools
from collections.abc import Sequence

SEPARATOR = " < "  # between the frames of a call site, of which the innermost is the first
MAX_NAME_LENGTH = 16_384  # of a whole name
LINE_LENGTH = 44  # of a label's line


def whole_name(name: str) -> str:
    """The name, cut only if it is absurdly long. Then it says how much is left out."""
    if len(name) <= MAX_NAME_LENGTH:
        return name
    return f"{name[:MAX_NAME_LENGTH]}… {len(name) - MAX_NAME_LENGTH:,} more characters"


def table_of(names: Sequence[str]) -> dict[str, list[str] | list[list[int]]]:
    """Names as lists of frames, each of which is stored once: `sites` has indices of `frames`."""
    numbers: dict[str, int] = {}
    sites = [
        [numbers.setdefault(frame, len(numbers)) for frame in whole_name(name).split(SEPARATOR)]
        if name
        else []
        for name in names
    ]
    return {"frames": list(numbers), "sites": sites}


def labels_of(names: Sequence[str]) -> list[list[str]]:
    """Short names in lines. The names of a chart get different labels, if a frame tells them apart.

    The first line is the innermost frame. The second one is the first frame that no other name with
    this innermost frame has. A `…` stands for each part that is left out.
    """
    stacks = [name.split(SEPARATOR) for name in names]
    labels = []
    for number, stack in enumerate(stacks):
        others = [other for i, other in enumerate(stacks) if i != number and other[0] == stack[0]]
        depth = distinct_frame(stack, others)
        lines = [shortened(stack[0])]
        if depth > 0:
            gap = "< … < " if depth > 1 else "< "
            rest = " < …" if depth + 1 < len(stack) else ""
            lines.append(gap + shortened(stack[depth], LINE_LENGTH - len(gap) - len(rest)) + rest)
        elif len(stack) > 1:
            lines.append(f"< … {len(stack) - 1} more frame{'s'[: len(stack) - 2]}")
        labels.append(lines)
    return labels


def distinct_frame(stack: list[str], others: list[list[str]]) -> int:
    """The index of the first frame that tells a stack apart; 0 if there are no others."""
    if not others:
        return 0
    elsewhere = set(itertools.chain.from_iterable(others))
    for depth, frame in enumerate(stack):
        if frame not in elsewhere:
            return depth
    for depth in range(len(stack)):  # equal frames in another order
        if all(stack[: depth + 1] != other[: depth + 1] for other in others):
            return depth
    return len(stack) - 1  # another stack begins with this whole one


def shortened(frame: str, length: int = LINE_LENGTH) -> str:
    """A frame with at most `length` characters. Its end says most: the file, line and function."""
    return frame if len(frame) <= length else "…" + frame[len(frame) - length + 1 :]
