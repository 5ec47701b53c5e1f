# SPDX-License-Identifier: Apache-2.0
"""Draws the poster's Fig. 2 for each trace: coalesces against memory, the front, the sweet spot.

Each panel has the poster's nineteen settings with the poster's rules. A line joins the settings of
one heuristic by their numbers of blocks. The front joins the settings that no other one beats in
both figures. The box is around the setting that `tune` chooses.
"""

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from .heuristics import (
    BLOCKS,
    PERCENTS,
    PUBLISHED,
    TITLE,
    TRACES,
    VARIANTS,
    best_of,
    front_of,
    sweeps,
)
from .records import value_text

NOTE = (
    "Replay with the poster's rules and blocks of at least 1 MiB.\nA number at an end of a line"
    " counts blocks; beside a cross or a purple triangle it is a percentage. The triangles lie"
    " above the panel, at the memory in brackets.\nSweet spot: the least cost of these settings."
    " Tuned: the"
    " least cost of all settings that `tune` tries. Front: no setting has fewer coalesces and less"
    " memory."
)
# variant -> colour, marker, where the labels are: above is 1, below is -1
LOOKS = {"": ("#0072b2", "s", 1), "+hwm": ("#e69f00", "^", -1), "+cbg": ("#009e73", "o", 1)}
PERCENT_COLOUR = "#6a3d9a"
FRONT = {"color": "#aaaaaa", "linewidth": 4, "alpha": 0.6}
TUNED = {"color": "#c8102e", "marker": "*", "markersize": 11, "linestyle": ""}
SWEET_SPOT = {
    "color": "black",
    "marker": "s",
    "markersize": 13,
    "markerfacecolor": "none",
    "markeredgewidth": 1.4,
    "linestyle": "",
}


def top_of(outcomes):
    """The upper limit of the axis: settings that reserve much more are named at the edge."""
    most = max(outcomes[f"blocks:{n}{v}"].overhead for n in BLOCKS for v in VARIANTS)
    return 1.18 * max(each.overhead for each in outcomes.values() if each.overhead <= 2 * most)


def write_beside(axes, x, y, text, colour, offset, **options):
    axes.annotate(
        text,
        (x, y),
        xytext=offset,
        textcoords="offset points",
        fontsize=7.5,
        color=colour,
        zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4},
        **options,
    )


def draw_blocks(axes, outcomes, best):
    """The three lines of settings that count blocks, with the numbers of blocks at their ends."""
    for variant, (colour, marker, side) in LOOKS.items():
        row = [outcomes[f"blocks:{n}{variant}"] for n in BLOCKS]
        places = [(each.coalesces, each.overhead) for each in row]
        look = {"color": colour, "marker": marker, "markersize": 4.5}
        axes.plot(*zip(*places), linewidth=1.2, zorder=4, **look)
        labels = {}  # place -> the numbers of blocks there
        for n, place in [(BLOCKS[0], places[0]), (BLOCKS[-1], places[-1])]:
            labels.setdefault(place, []).append(str(n))
        for place, numbers in labels.items():
            is_best = best and place == (best.coalesces, best.overhead)
            offset = (0, side * (9 if is_best else 5))
            align = "bottom" if side > 0 else "top"
            write_beside(axes, *place, "–".join(numbers), colour, offset, ha="center", va=align)


def draw_percents(axes, outcomes, top):
    """The settings that count bytes. Those above the axis are named at its edge."""
    beside, above = {}, {}
    for n in PERCENTS:
        found = outcomes.get(f"percent:{n}")
        if found is None:
            continue
        is_above = found.overhead > top
        place = (found.coalesces, top if is_above else found.overhead)
        look = {"color": PERCENT_COLOUR, "marker": "^" if is_above else "x", "markersize": 5}
        axes.plot(*place, clip_on=False, zorder=5, **look)
        text = f"{n} ({found.overhead:.0f} %)" if is_above else str(n)
        (above if is_above else beside).setdefault(place, []).append(text)
    for place, texts in beside.items():
        align = "left" if place[0] == 0 else "center"
        write_beside(axes, *place, ", ".join(texts), PERCENT_COLOUR, (0, -12), ha=align)
    for nth, (place, texts) in enumerate(sorted(above.items())):
        align, shift = ("left", -3) if place[0] == 0 else ("center", 0)
        offset = (shift, -6 - 11 * (nth % 2))
        write_beside(axes, *place, "\n".join(texts), PERCENT_COLOUR, offset, ha=align, va="top")


def mark(axes, outcome, **look):
    axes.plot(outcome.coalesces, outcome.overhead, clip_on=False, zorder=5, **look)


def draw_panel(axes, title, outcomes, sweep):
    top = top_of(outcomes)
    front = front_of(outcomes.values())
    axes.step(
        [each.coalesces for each in front],
        [each.overhead for each in front],
        where="post",
        zorder=2,
        **FRONT,
    )
    best = outcomes[best_of(outcomes)] if sweep else None
    draw_blocks(axes, outcomes, best)
    draw_percents(axes, outcomes, top)
    if sweep:
        mark(axes, best, **SWEET_SPOT)
        mark(axes, sweep.tuned, **TUNED)
    calls = [each.coalesces for each in outcomes.values()]
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.set_xlim(-0.25 if sweep else 1, max(calls) * 1.5)
    ticks = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500]
    axes.xaxis.set_major_locator(FixedLocator([x for x in ticks if x <= max(calls) * 1.5]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set_ylim(0, top)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_xlabel("coalesces")
    axes.set_ylabel("memory beyond the peak in use, %")
    axes.set_title(title, loc="left", fontweight="bold")
    if sweep:
        mib = sweep.in_use / 2**20
        reserved = axes.secondary_yaxis(
            "right", functions=(lambda y: mib * (1 + y / 100), lambda size: 100 * (size / mib - 1))
        )
        reserved.yaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
        reserved.set_ylabel("peak reserved, MiB")
        reserved.spines["right"].set_visible(True)


def legend_entries():
    for variant, (colour, marker, _) in LOOKS.items():
        yield Line2D([], [], color=colour, marker=marker, markersize=4.5, label=VARIANTS[variant])
    yield Line2D([], [], color=PERCENT_COLOUR, marker="x", linestyle="", label="Percent")
    yield Line2D([], [], label="sweet spot", **SWEET_SPOT)
    yield Line2D([], [], label="tuned", **TUNED)
    yield Line2D([], [], label="front", **FRONT)


def heuristic_drawing(data, machine):
    """The figure of a machine; None if it has no records."""
    found, measured = sweeps(data, machine)
    if not found:
        return None
    panels = [("the poster's program (its Fig. 1)", PUBLISHED, None)]
    for trace, title in TRACES.items():
        sweep = found[trace]
        shown = f"{title}, {value_text(sweep.in_use / 2**20)} MiB in use"
        panels.append((shown, sweep.by_rules["2022"], sweep))
    result, all_axes = plt.subplots(3, 2, figsize=(10, 10.2), layout="constrained")
    for axes, panel in zip(all_axes.flat, panels):
        draw_panel(axes, *panel)
    result.suptitle(TITLE, fontsize=11, fontweight="bold", x=0.01, ha="left")
    all_axes[0, 0].legend(handles=list(legend_entries()), loc="upper right", ncols=2, fontsize=8)
    result.supxlabel(f"{measured}. {NOTE}", fontsize=7.5, x=0.01, ha="left")
    return result
