# SPDX-License-Identifier: Apache-2.0
"""Draws a figure of plots.py from bench/results as docs/plots/<figure>.<machine>.png and .svg.

Points and bars are medians; whiskers go from p10 to p90. A failure is a text at its x.
"""

import math
import textwrap

from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from . import canvas
from .canvas import BOX, annotate, legend
from .plots import flat
from .records import origin, value_text, x_text
from .specs import NAMES

COALESCED = {name: label.split(" / ")[0] for name, label in NAMES["coalesced"].items()}
LABELS = NAMES["heaps"] | COALESCED | {"bump": "floor (one counter, never a free)"}
DOTS = (0, (1, 1))  # the line `dots`
MAX_GROUPS_OF_BARS = 5
X_LABELS = {"items": "work-items", "size": "bytes"}  # of OpenCL, always with a logarithmic y axis
LINES = {"floats", *X_LABELS}  # always lines, since x is no power of two


def look_of(allocator):
    """The look of an allocator. A way of coalescing looks the same over each upstream heap."""
    name = allocator if allocator in NAMES["looks"] else "+" + allocator.partition("+")[2]
    color, marker, line, *more = NAMES["looks"][name].split()
    look = {"color": color, "marker": marker, "linestyle": DOTS if line == "dots" else line}
    if "wide" in more:
        return look | {"linewidth": 2.4, "markersize": 4.5, "zorder": 4}
    return look | {"linewidth": 1.3, "markersize": 3.5, "zorder": 5 if "over" in more else 3}


def whiskers(points):
    """The distances of p10 and p90 from the median, in the form that errorbar needs."""
    return [
        [abs(point.values.get(name, point.median or 0) - (point.median or 0)) for point in points]
        for name in ("p10", "p90")
    ]


def name_failures(axes, allocator, series, place_of):
    """Writes each failure at the lower edge, in the colour of its allocator."""
    look = {"rotation": 90, "fontsize": 7.5, "color": look_of(allocator)["color"], "zorder": 5}
    look |= {"bbox": BOX | {"alpha": 0.7, "pad": 0.5}, "xycoords": axes.get_xaxis_transform()}
    for x, point in series.items():
        if point.median is None:
            annotate(axes, point.error, (place_of(x), 0), (0, 4), **look)


def draw_lines(axes, panel, found):
    """Draws a line for each series. A failure is a gap in the line."""
    for allocator, series in found.items():
        heights = [math.nan if p.median is None else p.median for p in series.values()]
        look = look_of(allocator) | {"elinewidth": 1, "capsize": 2.5}
        axes.errorbar(list(series), heights, yerr=whiskers(series.values()), **look)
        name_failures(axes, allocator, series, lambda x: x)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    ticks = ticks_of(panel.xs(found))
    axes.set_xticks(ticks, [short_x(panel.x, x) for x in ticks])
    axes.set_xlabel(X_LABELS.get(panel.x, panel.x))


def ticks_of(xs):
    """The values of `xs`, from the right, whose labels do not overlap on a logarithmic axis."""
    min_ratio, ticks = (xs[-1] / xs[0]) ** (1 / 6), []
    for x in reversed(xs):
        if not ticks or ticks[-1] / x >= min_ratio * 0.999:
            ticks.append(x)
    return ticks


def short_x(name, value):
    """The label of an x. Many threads are a power of two, since their digits do not fit."""
    if name in ("threads", "items") and value >= 1024 and value & (value - 1) == 0:
        return f"$2^{{{value.bit_length() - 1}}}$"
    return x_text(name, value).removesuffix(" B")


def draw_bars(axes, panel, found, upright):
    """Draws groups of bars with their values above. `upright` rotates the values of narrow bars."""
    groups = panel.xs(found)
    width = 0.84 / len(found)
    for nth, (allocator, series) in enumerate(found.items()):
        middle = (nth - (len(found) - 1) / 2) * width
        places = {x: groups.index(x) + middle for x in series}
        good = {places[x]: point for x, point in series.items() if point.median is not None}
        heights = [point.median for point in good.values()]
        look = {"color": look_of(allocator)["color"], "ecolor": "black", "capsize": 1.5}
        lengths = whiskers(good.values())
        look |= {"yerr": lengths, "error_kw": {"elinewidth": 0.8}} if any(map(any, lengths)) else {}
        axes.bar(list(good), heights, width * 0.92, **look)
        for place, point in good.items():
            top = (place, max(point.median, point.values.get("p90", 0)))
            annotate(axes, value_text(point.median), top, (0, 2), fontsize=7, rotation=90 * upright)
        name_failures(axes, allocator, series, places.get)
    labels = [x_text(panel.x, group) for group in groups]
    if all(label.endswith(" B") for label in labels):
        labels = [label.removesuffix(" B") for label in labels]
        axes.set_xlabel("bytes")
    axes.set_xticks(range(len(groups)), labels)
    axes.set_xlim(-0.6, len(groups) - 0.4)


def set_scale(axes, found, room, is_logarithmic=False):
    """Sets a logarithmic axis if values differ much. `room`: the free share of height above."""
    values = [point.median for point in flat(found) if point.median is not None]
    tops = values + [point.values.get("p90", 0) for point in flat(found)]
    if min(values) <= 0 or (max(values) / min(values) < 8 and not is_logarithmic):
        axes.set_ylim(0, (max(tops) or 1) / (1 - room))
        return
    axes.set_yscale("log")
    bottom, top = min(values) / 2, max(tops)
    axes.set_ylim(bottom, top * (top / bottom) ** (room / (1 - room)))
    is_narrow = top / bottom < 100  # powers of ten alone would be one or two ticks
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if is_narrow else (1,), numticks=12))


def draw_panel(axes, panel, found, columns):
    groups = {x for series in found.values() for x in series}
    if len(groups) <= MAX_GROUPS_OF_BARS and panel.x not in LINES:
        upright = len(groups) * len(found) * columns > 14
        draw_bars(axes, panel, found, upright)
        set_scale(axes, found, 0.2 if upright else 0.1)
    else:
        draw_lines(axes, panel, found)
        set_scale(axes, found, 0.05, panel.x in X_LABELS)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: value_text(y)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    unit = next(point.unit for point in flat(found) if point.median is not None)
    axes.set_ylabel(f"{unit}, {panel.better}")
    axes.set_title(panel.title, loc="left", fontweight="bold")


def add_legend(target, labels, has_lines, size, **place):
    """Writes a legend of {label: series}: looks of lines, or squares in the colours of the bars."""
    more = {"markersize": 4.5} | ({} if has_lines else {"marker": "s", "linestyle": ""})
    looks = {textwrap.fill(label, 24): look_of(name) | more for label, name in labels.items()}
    length = 3.2 if has_lines else 1
    legend(target, looks, handlelength=length, frameon=False, fontsize=size, **place)


def add_legend_beside(axes, found):
    """Writes the legend to the right of the axes, in the order of the lines' right ends."""
    ends = {name: [p.median for p in series.values() if p.median] for name, series in found.items()}
    drawn = sorted(filter(ends.get, ends), key=lambda name: ends[name][-1], reverse=True)
    labels = {NAMES["opencl"][name]: name for name in drawn}
    add_legend(axes, labels, True, 8, loc="upper left", bbox_to_anchor=(1.01, 1.02))


def note_of(figure, machine, everything):
    threads = {point.params.get("threads") for point in everything}
    common = f", {threads.pop():,} threads" if len(threads) == 1 and None not in threads else ""
    note = f"\n{textwrap.fill(figure.note, 150)}" if figure.note else ""
    return f"{machine}{common}, {origin(everything)}; medians, whiskers p10 to p90{note}"


def draw(figure, machine, data, folder):
    """Draws a figure, if a panel of it has a value."""
    panels = figure.points(data, machine)
    if not panels:
        return
    columns = min(int(figure.panels_a_row), len(panels))
    rows = -(-len(panels) // columns)
    size = (10 if columns > 1 else 6.2, 0.8 + 2.45 * rows)
    drawing, all_axes = canvas.new(rows, columns, size, figure.title)
    for axes in all_axes.flat[len(panels) :]:
        axes.remove()
    has_legends = figure.legend == "each"
    for axes, (panel, found) in zip(all_axes.flat, panels):
        draw_panel(axes, panel, found, columns)
        if has_legends:
            add_legend_beside(axes, found)
    if not has_legends:
        shown = [name for name in LABELS if any(name in found for _, found in panels)]
        labels = {LABELS[name]: name for name in shown}  # a way of coalescing appears once
        has_lines = any(axes.get_lines() and not axes.patches for axes in drawing.axes)
        add_legend(drawing, labels, has_lines, 8.5, loc="outside right upper")
    everything = [point for _, found in panels for point in flat(found)]
    stem, note = folder / f"{figure.name}.{machine}", note_of(figure, machine, everything)
    canvas.save(drawing, stem, note, has_legends)
