# SPDX-License-Identifier: Apache-2.0
"""Draws the poster's Fig. 2 for each trace: coalesces against memory, the front, the sweet spot.

Each panel has the poster's nineteen settings with the poster's rules. A line joins the settings of
one heuristic by their numbers of blocks. The front joins the settings that no other one beats in
both figures. The box is around the setting that `tune` chooses.
"""

from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from . import canvas
from .heuristics import BLOCKS, NAME, PERCENTS, TITLE
from .heuristics import best_of, by_variant, front_of, in_use, outcomes_of, tuned
from .records import origin, value_text
from .specs import NAMES
from .table import View

NOTE = """\
Replay with the poster's rules and blocks of at least 1 MiB.
A number at an end of a line counts blocks; beside a cross it is a percentage.
Sweet spot: the least cost of these settings. Tuned: the least cost of all settings that `tune` \
tries. Front: no setting has fewer coalesces and less memory."""
# The looks in the legend: first of the three variants of Blocks.
LOOKS = {
    "Blocks": {"color": "#0072b2", "marker": "s", "markersize": 4.5},
    "Blocks, HWM": {"color": "#e69f00", "marker": "^", "markersize": 4.5},
    "Blocks, CBG": {"color": "#009e73", "marker": "o", "markersize": 4.5},
    "Percent": {"color": "#6a3d9a", "marker": "x", "linestyle": ""},
    "sweet spot": {"color": "black", "marker": "s", "markersize": 13, "linestyle": ""},
    "tuned": {"color": "#c8102e", "marker": "*", "markersize": 11, "linestyle": ""},
    "front": {"color": "#aaaaaa", "linewidth": 4, "alpha": 0.6},
}
LOOKS["sweet spot"] |= {"markerfacecolor": "none", "markeredgewidth": 1.4}
X_TICKS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500)
Y_TICKS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500)


def label(axes, numbers, separator, look, offset_of, **more):
    """Writes the number of each place beside it. `numbers`: pairs of a number and its place."""
    more |= {"fontsize": 7.5, "zorder": 6, "bbox": canvas.BOX | {"alpha": 0.75, "pad": 0.4}}
    for place in dict.fromkeys(place for _, place in numbers):
        text = separator.join(str(n) for n, other in numbers if other == place)
        canvas.annotate(axes, text, place, (0, offset_of(place)), color=look["color"], **more)


def draw_blocks(axes, outcomes, best):
    """The three lines of settings that count blocks, with the numbers of blocks at their ends."""
    for look, row, side in zip(LOOKS.values(), by_variant(outcomes), (1, -1, 1)):
        places = [each.place for each in row]
        axes.plot(*zip(*places), linewidth=1.2, zorder=4, **look)
        ends = [(BLOCKS[0], places[0]), (BLOCKS[-1], places[-1])]
        offset_of = lambda place: side * (9 if best and place == best.place else 5)  # noqa: E731,B023
        label(axes, ends, "–", look, offset_of, va="bottom" if side > 0 else "top")


def draw_percents(axes, outcomes):
    """The settings that count bytes, with their percentages."""
    look, settings = LOOKS["Percent"], [(n, outcomes.get(f"percent:{n}")) for n in PERCENTS]
    found = [(n, outcome.place) for n, outcome in settings if outcome]
    for _, place in found:
        axes.plot(*place, **look, markersize=5, zorder=5)
    label(axes, found, ", ", look, lambda _: -12)


def draw_panel(axes, title, outcomes, choice):
    """`choice`: the outcome of the tuned setting; None for the poster's program."""
    front = [each.place for each in front_of(outcomes.values())]
    axes.step(*zip(*front), where="post", zorder=2, **LOOKS["front"])
    best = outcomes[best_of(outcomes)] if choice else None
    draw_blocks(axes, outcomes, best)
    draw_percents(axes, outcomes)
    for outcome, name in ((best, "sweet spot"), (choice, "tuned")) if choice else ():
        axes.plot(*outcome.place, clip_on=False, zorder=5, **LOOKS[name])
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


def draw(machine, data, folder):
    """Draws the figure of a machine, if it has records."""
    view = View(data, machine)
    if not tuned(view, "simulation"):
        return
    panels = [("the poster's program (its Fig. 1)", outcomes_of(view, "poster"), None)]
    for trace, title in NAMES["traces_and_simulation"].items():
        shown = f"{title}, {value_text(in_use(view, trace) / 2**20)} MiB in use"
        panels.append((shown, outcomes_of(view, trace), tuned(view, trace)))
    drawing, all_axes = canvas.new(3, 2, (10, 10.2), TITLE)
    for axes, panel in zip(all_axes.flat, panels):
        draw_panel(axes, *panel)
    canvas.legend(all_axes[0, 0], LOOKS, loc="lower left", fontsize=8)
    canvas.save(drawing, folder / f"{NAME}.{machine}", f"{origin(view.shown)}. {NOTE}", True)
