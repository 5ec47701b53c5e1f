# SPDX-License-Identifier: Apache-2.0
"""Whether the measurements meet the claims of the coalescing paper."""

from .records import value_text

BLOCKS, WARPS = ("header-block", "map-block"), ("header-warp", "map-warp")
HEADERS, MAPS = ("header-block", "header-warp"), ("map-block", "map-warp")
FOUR, ALL = BLOCKS + WARPS, (*BLOCKS, *WARPS, "dynamic", "reserved", "packed")


def least(found, ways=None):
    return min(found[way] for way in ways or found)


def most(found, ways=None):
    return max(found[way] for way in ways or found)


# For each claim, the ways whose speed-ups over CUDA's malloc meet a condition.
CLAIMS = {
    "A": (WARPS, lambda found: least(found) >= 3),
    "B": (BLOCKS, lambda found: most(found) < 1),
    "C": (MAPS, lambda found: least(found) >= 2),
    "D": (HEADERS, lambda found: most(found) <= 1.1),
    "E": (FOUR, lambda found: found["header-block"] == most(found)),
    "F": (("map-warp",), lambda found: most(found) < 1),
    "G": (FOUR, lambda found: least(found, BLOCKS) > most(found, WARPS)),
    "H": (BLOCKS[::-1], lambda found: found["map-block"] * 1.05 >= found["header-block"]),
    "I": (ALL, lambda found: least(found) > 1),
    "N": (FOUR, lambda found: least(found, WARPS) >= 1 > most(found, BLOCKS)),
}


def verdict(view, cell):
    """The speed-ups over CUDA's malloc, with `yes` or `no`: whether they meet the condition."""

    def mean(allocator):
        return view.value(cell, f"coalesced/unit/{{bench}} allocator={allocator}", "mean")

    ways, holds = CLAIMS[cell[".claim"]]
    slow, times = mean("cuda"), {way: mean(f"cuda+{way}") for way in ways}
    # Rounded as in the table, so that a reader can check the verdict.
    found = {way: float(f"{slow / time:.3g}") for way, time in times.items() if slow and time}
    if not found or len(found) < len(ways) <= 4:
        return "not measured"
    text = ", ".join(f"{way} {value_text(ratio)}" for way, ratio in found.items())
    if len(ways) > 4:
        text = f"{value_text(least(found))} to {value_text(most(found))}"
    return f"{'yes' if holds(found) else 'no'}: {text}"
