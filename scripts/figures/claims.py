# SPDX-License-Identifier: Apache-2.0
"""The coalescing paper's claims, the measurements, and whether the measurements meet the claims."""

from collections.abc import Callable
from dataclasses import dataclass

from .names import WAYS
from .records import value_text

BLOCKS, WARPS = ("header-block", "map-block"), ("header-warp", "map-warp")
HEADERS, MAPS = ("header-block", "header-warp"), ("map-block", "map-warp")
MODES = {"none": "no barrier", "barrier": "barrier"}


@dataclass
class Claim:
    """`holds` gets {way: speed-up over the platform's malloc}."""

    key: str
    text: str  # the condition that `holds` tests
    paper: str  # the paper's speed-ups
    phase: str
    workload: str
    ways: tuple
    holds: Callable
    floats: int = 400

    def verdict(self, cases, mode):
        """The speed-ups as text, with `yes` or `no`: whether they meet the condition."""
        quantity, base = (self.phase, self.workload, mode, "paper"), cases.platform
        slow = cases.value(*quantity, base, self.floats)
        fast = {way: cases.value(*quantity, f"{base}+{way}", self.floats) for way in self.ways}
        # Rounded as in the table, so that a reader can check the verdict.
        found = {way: float(f"{slow / time:.3g}") for way, time in fast.items() if slow and time}
        if not found or (len(self.ways) <= 4 and len(found) < len(self.ways)):
            return "not measured"
        text = ", ".join(f"{way} {value_text(ratio)}" for way, ratio in found.items())
        if len(self.ways) > 4:
            text = f"{value_text(least(found))} to {value_text(most(found))}"
        return f"{'yes' if self.holds(found) else 'no'}: {text}"


def least(found, ways=None):
    return min(found[way] for way in ways or found)


def most(found, ways=None):
    return max(found[way] for way in ways or found)


def is_fastest(found):
    return found["header-block"] == most(found)


CLAIMS = [
    Claim(
        *("A", "linear work: a warp's allocations are at least 3 times as fast"),
        *("header 3.46, map 3.18", "work", "linear", WARPS, lambda found: least(found) >= 3),
    ),
    Claim(
        *("B", "linear work: a thread block's allocations are slower"),
        *("header 0.35, map 0.86", "work", "linear", BLOCKS, lambda found: most(found) < 1),
    ),
    Claim(
        *("C", "quadratic work: those without headers are at least twice as fast"),
        *("block 2.18, warp 2.21", "work", "quadratic", MAPS, lambda found: least(found) >= 2),
    ),
    Claim(
        *("D", "quadratic work: those with headers are at most a tenth faster"),
        *("block 0.88, warp 0.99", "work", "quadratic", HEADERS, lambda found: most(found) <= 1.1),
    ),
    Claim(
        *("E", "malloc: header and block is the fastest", "848, 184, 40, 33"),
        *("allocate", "linear", BLOCKS + WARPS, is_fastest),
    ),
    Claim(
        *("F", "free: header and block is the fastest", "40, 11, 1.7, 0.5"),
        *("free", "linear", BLOCKS + WARPS, is_fastest),
    ),
    Claim(
        *("F", "free: map and warp is slower", "0.5", "free", "linear", ("map-warp",)),
        lambda found: most(found) < 1,
    ),
    Claim(
        *("G", "malloc: each way of a thread block is faster than each of a warp", "see E"),
        *("allocate", "linear", BLOCKS + WARPS),
        lambda found: least(found, BLOCKS) > most(found, WARPS),
        100,
    ),
    Claim(
        *("H", "all phases, 100 floats: the map costs a thread block 5 % at most", "–"),
        *("total", "linear", ("map-block", "header-block")),
        lambda found: found["map-block"] * 1.05 >= found["header-block"],
        100,
    ),
    *(
        Claim(
            *(key, f"{workload} work: all ways are faster", "–", "work", workload, tuple(WAYS)),
            lambda found: least(found) > 1,
        )
        for key, workload in (("I", "strided"), ("J", "gather"), ("K", "scan"))
    ),
    *(
        Claim(
            *("N", f"linear work, {floats} floats: a warp's are as fast, a thread block's slower"),
            *("–", "work", "linear", BLOCKS + WARPS),
            lambda found: least(found, WARPS) >= 1 > most(found, BLOCKS),
            floats,
        )
        for floats in (4, 24)
    ),
]
