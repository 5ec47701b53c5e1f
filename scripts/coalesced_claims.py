# SPDX-License-Identifier: Apache-2.0
"""The coalescing paper's claims, the measurements, and whether the measurements meet the claims."""

from bench_records import WAYS, value_text
from coalesced_tables import MODES
from markdown import table

BLOCKS, WARPS = ("header-block", "map-block"), ("header-warp", "map-warp")


def fastest(way):
    return lambda speedups: speedups[way] == max(speedups.values())


# Key, the paper's claim with the condition to test, the paper's speed-ups, the measured quantities
# (phase, workload, ways over the platform's malloc, floats), and the condition. `speedups` has a
# speed-up for each way.
CLAIMS = [
    (
        "A",
        "linear work: a warp's allocations are at least 3 times as fast",
        "header 3.46, map 3.18",
        ("work", "linear", WARPS, 400),
        lambda speedups: min(speedups.values()) >= 3,
    ),
    (
        "B",
        "linear work: a thread block's allocations are slower",
        "header 0.35, map 0.86",
        ("work", "linear", BLOCKS, 400),
        lambda speedups: max(speedups.values()) < 1,
    ),
    (
        "C",
        "quadratic work: those without headers are at least twice as fast",
        "block 2.18, warp 2.21",
        ("work", "quadratic", ("map-block", "map-warp"), 400),
        lambda speedups: min(speedups.values()) >= 2,
    ),
    (
        "D",
        "quadratic work: those with headers are at most a tenth faster",
        "block 0.88, warp 0.99",
        ("work", "quadratic", ("header-block", "header-warp"), 400),
        lambda speedups: max(speedups.values()) <= 1.1,
    ),
    (
        "E",
        "malloc: header and block is the fastest",
        "848, 184, 40, 33",
        ("allocate", "linear", BLOCKS + WARPS, 400),
        fastest("header-block"),
    ),
    (
        "F",
        "free: header and block is the fastest",
        "40, 11, 1.7, 0.5",
        ("free", "linear", BLOCKS + WARPS, 400),
        fastest("header-block"),
    ),
    (
        "F",
        "free: map and warp is slower",
        "0.5",
        ("free", "linear", ("map-warp",), 400),
        lambda speedups: max(speedups.values()) < 1,
    ),
    (
        "G",
        "malloc: each way of a thread block is faster than each of a warp",
        "see E",
        ("allocate", "linear", BLOCKS + WARPS, 100),
        lambda speedups: min(speedups[way] for way in BLOCKS) > max(speedups[way] for way in WARPS),
    ),
    (
        "H",
        "all phases, 100 floats: the map costs a thread block 5 % at most",
        "–",
        ("total", "linear", ("map-block", "header-block"), 100),
        lambda speedups: speedups["map-block"] * 1.05 >= speedups["header-block"],
    ),
    *(
        (
            key,
            f"{workload} work: all ways are faster",
            "–",
            ("work", workload, tuple(WAYS), 400),
            lambda speedups: min(speedups.values()) > 1,
        )
        for key, workload in (("I", "strided"), ("J", "gather"), ("K", "scan"))
    ),
    *(
        (
            "N",
            f"linear work, {floats} floats: a warp's are as fast, a thread block's slower",
            "–",
            ("work", "linear", BLOCKS + WARPS, floats),
            lambda speedups: min(speedups[way] for way in WARPS)
            >= 1
            > max(speedups[way] for way in BLOCKS),
        )
        for floats in (4, 24)
    ),
]


def measured(cases, mode, quantities, holds):
    """The speed-ups in one mode as text, with `yes` or `no`: whether they meet the condition."""
    phase, workload, ways, floats = quantities
    base = cases.platform
    slow = cases.value(phase, workload, mode, "paper", base, floats)
    fast = {
        way: cases.value(phase, workload, mode, "paper", f"{base}+{way}", floats) for way in ways
    }
    # Rounded as in the table, so that a reader can check the verdict.
    speedups = {way: float(f"{slow / time:.3g}") for way, time in fast.items() if slow and time}
    if not speedups or (len(ways) <= 4 and len(speedups) < len(ways)):
        return "not measured"
    if len(ways) > 4:
        text = f"{value_text(min(speedups.values()))} to {value_text(max(speedups.values()))}"
    else:
        text = ", ".join(f"{way} {value_text(ratio)}" for way, ratio in speedups.items())
    return f"{'yes' if holds(speedups) else 'no'}: {text}"


def rows(cases):
    head = ["", "the paper's claim, against CUDA's malloc", "its speed-up", *MODES.values()]
    yield from table(
        head,
        [
            [key, text, paper, *(measured(cases, mode, quantities, holds) for mode in MODES)]
            for key, text, paper, quantities, holds in CLAIMS
        ],
    )
