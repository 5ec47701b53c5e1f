# SPDX-License-Identifier: Apache-2.0
"""Whether the measurements meet the claims of the coalescing paper."""

from .records import value_text

BLOCKS, WARPS = ("header-block", "map-block"), ("header-warp", "map-warp")
HEADERS, MAPS = ("header-block", "header-warp"), ("map-block", "map-warp")
ALL = (*BLOCKS, *WARPS, "dynamic", "reserved", "packed")
# For each claim, the ways whose speed-ups over CUDA's malloc meet a condition.
CLAIMS = {
    "A": (WARPS, lambda *warps: min(warps) >= 3),
    "B": (BLOCKS, lambda *blocks: max(blocks) < 1),
    "C": (MAPS, lambda *maps: min(maps) >= 2),
    "D": (HEADERS, lambda *headers: max(headers) <= 1.1),
    "E": (BLOCKS + WARPS, lambda header_block, *others: header_block >= max(others)),
    "F": (("map-warp",), lambda map_warp: map_warp < 1),
    "G": (BLOCKS + WARPS, lambda *ways: min(ways[:2]) > max(ways[2:])),
    "H": (BLOCKS[::-1], lambda map_block, header_block: map_block * 1.05 >= header_block),
    "I": (ALL, lambda *ways: min(ways) > 1),
    "N": (BLOCKS + WARPS, lambda *ways: min(ways[2:]) >= 1 > max(ways[:2])),
}


def verdict(view, cell):
    """The speed-ups over CUDA's malloc, with `yes` or `no`: whether they meet the condition."""
    ways, holds = CLAIMS[cell[".claim"]]
    upstream = "coalesced/unit/{bench} allocator=cuda"
    slow = view.value(cell, upstream)
    times = {way: view.value(cell, f"{upstream}+{way}") for way in ways}
    # Rounded as in the table, so that a reader can check the verdict.
    found = {way: float(f"{slow / time:.3g}") for way, time in times.items() if slow and time}
    if not found or len(found) < len(ways) <= 4:
        return "not measured"
    text = ", ".join(f"{way} {value_text(ratio)}" for way, ratio in found.items())
    if len(ways) > 4:
        text = f"{value_text(min(found.values()))} to {value_text(max(found.values()))}"
    return f"{'yes' if holds(*found.values()) else 'no'}: {text}"
