# SPDX-License-Identifier: Apache-2.0
"""Draws the poster's Fig. 2 for each trace: coalesces against memory, the front, the sweet spot.

Each panel has the poster's nineteen settings with the poster's rules. A line joins the settings of
one heuristic by their numbers of blocks. The front joins the settings that no other one beats in
both figures. The box is around the setting that `tune` chooses.
"""

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from . import canvas
from .heuristics import NAME, TITLE, best_of, front_of, in_use, outcomes_of, series_of, tuned
from .records import origin, value_text
from .specs import BLOCKS, NAMES, PERCENTS, VARIANTS
from .table import View

NOTE = """\
Replay with the poster's rules and blocks of at least 1 MiB.
A number at an end of a line counts blocks; beside a cross it is a percentage.
Sweet spot: the least cost of these settings. Tuned: the least cost of all settings that `tune` \
tries. Front: no setting has fewer coalesces and less memory."""
LOOKS = [("#0072b2", "s"), ("#e69f00", "^"), ("#009e73", "o")]  # of VARIANTS: colour, marker
PERCENT_COLOUR = "#6a3d9a"
FRONT = {"color": "#aaaaaa", "linewidth": 4, "alpha": 0.6}
TUNED = {"color": "#c8102e", "marker": "*", "markersize": 11, "linestyle": ""}
SWEET_SPOT = {"color": "black", "marker": "s", "markersize": 13, "markerfacecolor": "none"}
SWEET_SPOT |= {"markeredgewidth": 1.4, "linestyle": ""}
X_TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)
Y_TICKS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500)
BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.4}


def place_of(outcome):
    return outcome.coalesces, outcome.overhead


def write_beside(axes, place, text, colour, offset, **more):
    look = {"fontsize": 7.5, "color": colour, "zorder": 6, "bbox": BOX} | more
    canvas.annotate(axes, text, place, offset, **look)


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
            align = "bottom" if side > 0 else "top"  # above or below
            write_beside(axes, place, "–".join(numbers), colour, offset, va=align)


def draw_percents(axes, outcomes):
    """The settings that count bytes, with their percentages."""
    labels = {}  # place -> the percentages there
    for n in PERCENTS:
        if f"percent:{n}" in outcomes:
            place = place_of(outcomes[f"percent:{n}"])
            axes.plot(*place, color=PERCENT_COLOUR, marker="x", markersize=5, zorder=5)
            labels.setdefault(place, []).append(str(n))
    for place, percents in labels.items():
        write_beside(axes, place, ", ".join(percents), PERCENT_COLOUR, (0, -12))


def draw_panel(axes, title, outcomes, choice):
    """`choice`: the outcome of the tuned setting; None for the poster's program."""
    front = [place_of(each) for each in front_of(outcomes.values())]
    axes.step(*zip(*front), where="post", zorder=2, **FRONT)
    best = outcomes[best_of(outcomes)] if choice else None
    draw_blocks(axes, outcomes, best)
    draw_percents(axes, outcomes)
    for outcome, look in ((best, SWEET_SPOT), (choice, TUNED)) if choice else ():
        axes.plot(*place_of(outcome), clip_on=False, zorder=5, **look)
    axes.set_xscale("symlog", linthresh=1, linscale=0.5)
    axes.set_xlim(-0.25, max(each.coalesces for each in outcomes.values()) * 1.5)
    axes.set_yscale("log")
    axes.margins(y=0.12)
    for axis, ticks in (axes.xaxis, X_TICKS), (axes.yaxis, Y_TICKS):
        low, high = axis.get_view_interval()
        axis.set_major_locator(FixedLocator([tick for tick in ticks if low <= tick <= high]))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:,.0f}"))
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.set_xlabel("coalesces")
    axes.set_ylabel("memory beyond the peak in use, %")
    axes.set_title(title, loc="left", fontweight="bold")


def add_legend(axes):
    entries = [
        {"color": colour, "marker": marker, "markersize": 4.5, "label": title}
        for (colour, marker), title in zip(LOOKS, VARIANTS.values())
    ]
    entries += [{"color": PERCENT_COLOUR, "marker": "x", "linestyle": "", "label": "Percent"}]
    looks = {"sweet spot": SWEET_SPOT, "tuned": TUNED, "front": FRONT}
    entries += [{"label": label, **look} for label, look in looks.items()]
    handles = [Line2D([], [], **entry) for entry in entries]
    axes.legend(handles=handles, loc="lower left", fontsize=8)


def draw_all(data, machine, folder):
    """Draws the figure of a machine, if it has records."""
    view = View(data, machine)
    panels = [("the poster's program (its Fig. 1)", outcomes_of(view, "poster"), None)]
    for trace, title in NAMES["traces_and_simulation"].items():
        size = in_use(view, trace)
        if size is None:
            return
        shown = f"{title}, {value_text(size / 2**20)} MiB in use"
        panels.append((shown, outcomes_of(view, trace), tuned(view, trace)))
    drawing, all_axes = canvas.new(3, 2, (10, 10.2), TITLE)
    for axes, panel in zip(all_axes.flat, panels):
        draw_panel(axes, *panel)
    add_legend(all_axes[0, 0])
    canvas.save(drawing, folder / f"{NAME}.{machine}", f"{origin(view.seen)}. {NOTE}", True)
