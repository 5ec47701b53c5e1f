# SPDX-License-Identifier: Apache-2.0
"""Draws the poster's Fig. 2 for each trace: coalesces against memory, the front, the sweet spot.

Each panel has the poster's nineteen settings with the poster's rules. A line joins the settings of
one heuristic by their numbers of blocks. The front joins the settings that no other one beats in
both figures. The box is around the setting that `tune` chooses.
"""

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from .heuristics import TITLE, TRACES, best_of, front_of, published, series_of, sweeps
from .records import value_text
from .specs import BLOCKS, PERCENTS, VARIANTS

NOTE = (
    "Replay with the poster's rules and blocks of at least 1 MiB.\nA number at an end of a line"
    " counts blocks; beside a cross or a purple triangle it is a percentage. The triangles lie"
    " above the panel, at the memory in brackets.\nSweet spot: the least cost of these settings."
    " Tuned: the"
    " least cost of all settings that `tune` tries. Front: no setting has fewer coalesces and less"
    " memory."
)
LOOKS = [("#0072b2", "s"), ("#e69f00", "^"), ("#009e73", "o")]  # of VARIANTS: colour, marker
PERCENT_COLOUR = "#6a3d9a"
FRONT = {"color": "#aaaaaa", "linewidth": 4, "alpha": 0.6}
TUNED = {"color": "#c8102e", "marker": "*", "markersize": 11, "linestyle": ""}
SWEET_SPOT = {"color": "black", "marker": "s", "markersize": 13, "markerfacecolor": "none"}
SWEET_SPOT |= {"markeredgewidth": 1.4, "linestyle": ""}
BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4}


def place_of(outcome):
    return outcome.coalesces, outcome.overhead


def write_beside(axes, place, text, colour, offset, **more):
    look = {"fontsize": 7.5, "color": colour, "zorder": 6, "bbox": BOX} | more
    axes.annotate(text, place, xytext=offset, textcoords="offset points", **look)


def draw_blocks(axes, outcomes, best):
    """The three lines of settings that count blocks, with the numbers of blocks at their ends."""
    for (colour, marker), row, side in zip(LOOKS, series_of(outcomes), (1, -1, 1)):
        places = [place_of(each) for each in row]
        look = {"color": colour, "marker": marker, "markersize": 4.5}
        axes.plot(*zip(*places), linewidth=1.2, zorder=4, **look)
        labels = {}  # place -> the numbers of blocks there
        for n, place in [(BLOCKS[0], places[0]), (BLOCKS[-1], places[-1])]:
            labels.setdefault(place, []).append(str(n))
        for place, numbers in labels.items():
            offset = (0, side * (9 if best and place == place_of(best) else 5))
            align = {"ha": "center", "va": "bottom" if side > 0 else "top"}  # above or below
            write_beside(axes, place, "–".join(numbers), colour, offset, **align)


def draw_percents(axes, outcomes, top):
    """The settings that count bytes. Those above the axis are named at its edge."""
    beside, above = {}, {}
    for n in PERCENTS:
        found = outcomes.get(f"percent:{n}")
        if found:
            is_above, place = found.overhead > top, (found.coalesces, min(top, found.overhead))
            look = {"color": PERCENT_COLOUR, "marker": "^" if is_above else "x", "markersize": 5}
            axes.plot(*place, clip_on=False, zorder=5, **look)
            text = f"{n} ({found.overhead:.0f} %)" if is_above else str(n)
            (above if is_above else beside).setdefault(place, []).append(text)
    for place, texts in beside.items():
        align = "left" if place[0] == 0 else "center"
        write_beside(axes, place, ", ".join(texts), PERCENT_COLOUR, (0, -12), ha=align)
    for nth, (place, texts) in enumerate(sorted(above.items())):
        align, shift = ("left", -3) if place[0] == 0 else ("center", 0)
        offset, text = (shift, -6 - 11 * (nth % 2)), "\n".join(texts)
        write_beside(axes, place, text, PERCENT_COLOUR, offset, ha=align, va="top")


def draw_panel(axes, title, outcomes, sweep):
    most = max(each.overhead for row in series_of(outcomes) for each in row)
    # Settings that reserve much more are named at the edge.
    top = 1.18 * max(each.overhead for each in outcomes.values() if each.overhead <= 2 * most)
    front = [place_of(each) for each in front_of(outcomes.values())]
    axes.step(*zip(*front), where="post", zorder=2, **FRONT)
    best = outcomes[best_of(outcomes)] if sweep else None
    draw_blocks(axes, outcomes, best)
    draw_percents(axes, outcomes, top)
    for outcome, look in ((best, SWEET_SPOT), (sweep.tuned, TUNED)) if sweep else ():
        axes.plot(*place_of(outcome), clip_on=False, zorder=5, **look)
    right = max(each.coalesces for each in outcomes.values()) * 1.5
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.set_xlim(-0.25 if sweep else 1, right)
    ticks = [0, 1, 2, 5, 10, 20, 50, 100, 200, 500]
    axes.xaxis.set_major_locator(FixedLocator([x for x in ticks if x <= right]))
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
        scales = (lambda y: mib * (1 + y / 100), lambda size: 100 * (size / mib - 1))
        reserved = axes.secondary_yaxis("right", functions=scales)
        reserved.yaxis.set_major_formatter(FuncFormatter(lambda size, _: f"{size:,.0f}"))
        reserved.set_ylabel("peak reserved, MiB")
        reserved.spines["right"].set_visible(True)


def heuristic_drawing(data, machine):
    """The figure of a machine; None if it has no records."""
    found, measured = sweeps(data, machine)
    if not found:
        return None
    panels = [("the poster's program (its Fig. 1)", published(data), None)]
    for trace, title in TRACES.items():
        shown = f"{title}, {value_text(found[trace].in_use / 2**20)} MiB in use"
        panels.append((shown, found[trace].by_rules["2022"], found[trace]))
    result, all_axes = plt.subplots(3, 2, figsize=(10, 10.2), layout="constrained")
    for axes, panel in zip(all_axes.flat, panels):
        draw_panel(axes, *panel)
    result.suptitle(TITLE, fontsize=11, fontweight="bold", x=0.01, ha="left")
    entries = [
        {"color": colour, "marker": marker, "markersize": 4.5, "label": title}
        for (colour, marker), title in zip(LOOKS, VARIANTS.values())
    ]
    entries += [{"color": PERCENT_COLOUR, "marker": "x", "linestyle": "", "label": "Percent"}]
    looks = {"sweet spot": SWEET_SPOT, "tuned": TUNED, "front": FRONT}
    entries += [{"label": label, **look} for label, look in looks.items()]
    handles = [Line2D([], [], **entry) for entry in entries]
    all_axes[0, 0].legend(handles=handles, loc="upper right", ncols=2, fontsize=8)
    result.supxlabel(f"{measured}. {NOTE}", fontsize=7.5, x=0.01, ha="left")
    return result
