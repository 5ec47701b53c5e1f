# SPDX-License-Identifier: Apache-2.0
"""The coalescing paper's claims, the measurements, and whether the measurements meet the claims."""

from collections.abc import Callable
from dataclasses import dataclass

from .names import WAYS
from .records import value_text

BLOCKS, WARPS = ("header-block", "map-block"), ("header-warp", "map-warp")
MODES = {"none": "no barrier", "barrier": "barrier"}


@dataclass
class Claim:
    """`holds` gets {way: speed-up over the platform's malloc}. Without `text` or `holds`, the claim
    is not in the table of figures or of verdicts."""

    key: str
    text: str  # in the page of figures
    verdict_text: str  # in the design page: the condition that `holds` tests
    paper: str  # the paper's speed-ups
    phase: str
    workload: str
    ways: tuple
    holds: Callable
    floats: int = 400

    def speedups(self, cases, mode):
        """{way: speed-up, None if not measured}"""
        quantity = (self.phase, self.workload, mode, "paper")
        slow = cases.value(*quantity, cases.platform, self.floats)
        fast = {
            way: cases.value(*quantity, f"{cases.platform}+{way}", self.floats) for way in self.ways
        }
        return {way: slow / time if slow and time else None for way, time in fast.items()}

    def figures(self, cases, mode):
        return "<br>".join(
            f"{way} {value_text(ratio) if ratio else '–'}"
            for way, ratio in self.speedups(cases, mode).items()
        )

    def verdict(self, cases, mode):
        """The speed-ups as text, with `yes` or `no`: whether they meet the condition."""
        # Rounded as in the table, so that a reader can check the verdict.
        found = self.speedups(cases, mode)
        speedups = {way: float(f"{ratio:.3g}") for way, ratio in found.items() if ratio}
        if not speedups or (len(self.ways) <= 4 and len(speedups) < len(self.ways)):
            return "not measured"
        text = ", ".join(f"{way} {value_text(ratio)}" for way, ratio in speedups.items())
        if len(self.ways) > 4:
            text = f"{value_text(min(speedups.values()))} to {value_text(max(speedups.values()))}"
        return f"{'yes' if self.holds(speedups) else 'no'}: {text}"


def least(found):
    return min(found.values())


def most(found):
    return max(found.values())


def header_block_is_fastest(found):
    return found["header-block"] == most(found)


def few_floats(floats, text):
    verdict_text = f"linear work, {floats} floats: a warp's are as fast, a thread block's slower"

    def holds(found):
        return min(found[way] for way in WARPS) >= 1 > max(found[way] for way in BLOCKS)

    return Claim("N", text, verdict_text, "–", "work", "linear", BLOCKS + WARPS, holds, floats)


CLAIMS = [
    Claim(
        "A",
        "linear work: a warp's allocations are the best, three times as fast as CUDA's malloc",
        "linear work: a warp's allocations are at least 3 times as fast",
        "header 3.46, map 3.18",
        *("work", "linear", WARPS, lambda found: least(found) >= 3),
    ),
    Claim(
        "B",
        "linear work: a thread block's allocations are slower than CUDA's malloc",
        "linear work: a thread block's allocations are slower",
        "header 0.35, map 0.86",
        *("work", "linear", BLOCKS, lambda found: most(found) < 1),
    ),
    Claim(
        "C",
        "quadratic work: the ways without headers are the best, twice as fast",
        "quadratic work: those without headers are at least twice as fast",
        "block 2.18, warp 2.21",
        *("work", "quadratic", ("map-block", "map-warp"), lambda found: least(found) >= 2),
    ),
    Claim(
        "D",
        "quadratic work: the ways with headers gain nothing",
        "quadratic work: those with headers are at most a tenth faster",
        "block 0.88, warp 0.99",
        *("work", "quadratic", ("header-block", "header-warp"), lambda found: most(found) <= 1.1),
    ),
    Claim(
        "E",
        "malloc: every way is much faster; header and block is the fastest",
        "malloc: header and block is the fastest",
        "848, 184, 40, 33",
        *("allocate", "linear", BLOCKS + WARPS, header_block_is_fastest),
    ),
    Claim(
        "F",
        "free: header and block is the fastest; map and warp is slower than CUDA's",
        "free: header and block is the fastest",
        "40, 11, 1.7, 0.5",
        *("free", "linear", BLOCKS + WARPS, header_block_is_fastest),
    ),
    Claim(
        *("F", "", "free: map and warp is slower", "0.5"),
        *("free", "linear", ("map-warp",), lambda found: most(found) < 1),
    ),
    Claim(
        "G",
        "malloc: warps are slower than thread blocks, because warps have more superblocks",
        "malloc: each way of a thread block is faster than each of a warp",
        "see E",
        *("allocate", "linear", BLOCKS + WARPS),
        lambda found: min(found[way] for way in BLOCKS) > max(found[way] for way in WARPS),
        100,
    ),
    Claim(
        "H",
        "the map's cost is visible for few floats, and gone at 100",
        "all phases, 100 floats: the map costs a thread block 5 % at most",
        "–",
        *("total", "linear", ("map-block", "header-block")),
        lambda found: found["map-block"] * 1.05 >= found["header-block"],
        100,
    ),
    *(
        Claim(
            *(key, f"{start}: {workload}", f"{workload} work: all ways are faster", "–"),
            *("work", workload, tuple(WAYS), lambda found: least(found) > 1),
        )
        for key, workload, start in (
            ("I", "strided", "other workloads are similar"),
            ("J", "gather", "the same"),
            ("K", "scan", "the same"),
        )
    ),
    few_floats(
        4, "4 floats: a warp's work is as fast as with CUDA's malloc, a thread block's is slower"
    ),
    few_floats(24, "the same, 24 floats"),
]
