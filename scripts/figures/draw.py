# SPDX-License-Identifier: Apache-2.0
"""Draws the figures of plots.py from bench/results as docs/plots/<figure>.<machine>.png and .svg.

Points and bars are medians; whiskers go from p10 to p90. A failure is a text at its x. Needs
matplotlib, which `make plots` installs.
"""

import io
import math
import sys
import textwrap

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update(
    {
        "svg.hashsalt": "quarry",  # equal figures give equal files
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
    }
)

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: E402
from PIL import Image  # noqa: E402

from .draw_heuristics import heuristic_drawing  # noqa: E402
from .heuristics import NAME as HEURISTICS  # noqa: E402
from .plots import FIGURES, flat  # noqa: E402
from .records import origin, value_text, x_text  # noqa: E402
from .specs import COMBINED, HEAPS, NAMES, WAYS  # noqa: E402

LABELS = HEAPS | {"bump": "floor (one counter, never a free)"}
LABELS |= {name: WAYS[way] for name, way, _ in COMBINED}
# Colour-blind readers can distinguish these colours. Line styles and markers also differ, for
# black-and-white print. Lines: colour, marker, line style, and the series or ways of coalescing.
LOOKS = {
    name: (f"#{colour}", marker, (0, (1, 1)) if line == "dots" else line)
    for colour, marker, line, *names in map(
        str.split,
        """c8102e o - quarry quarry-none
        e88a97 v -- quarry-hardened
        4f8a10 s -. cuda
        777777 D -- bump
        0072b2 < - +header-block
        56b4e9 > -- +map-block
        6a3d9a ^ - +header-warp
        cc79a7 v -- +map-warp
        e69f00 P : +dynamic
        7a4a12 X -. +reserved quarry-high
        009e73 * - +packed
        e69f00 P - quarry-reserve
        e69f00 P -- quarry-low
        777777 D dots ring
        0072b2 s -- kma kma-none
        6a3d9a ^ -. kma-list kma-cache
        009e73 < : kma-ring
        56b4e9 > -. kma-low
        6a3d9a ^ : kma-high""".splitlines(),
    )
    for name in names
}
WIDE = {"quarry", "quarry-none"}
OVER_WIDE = {"quarry-reserve", "quarry-low", "quarry-high"}  # often the same values as a wide line
MAX_GROUPS_OF_BARS = 5
X_LABELS = {"items": "work-items", "size": "bytes"}  # of OpenCL, always with a logarithmic y axis
LINES = {"floats", *X_LABELS}  # always lines, since x is no power of two


def look_of(allocator):
    """The look of an allocator. A way of coalescing looks the same over each upstream heap."""
    return LOOKS[allocator if allocator in LOOKS else "+" + allocator.partition("+")[2]]


def medians(found):
    return [point.median for point in flat(found) if point.median is not None]


def whiskers(points):
    """The distances of p10 and p90 from the median, in the form that errorbar needs."""
    return [
        [abs(point.values.get(name, point.median or 0) - (point.median or 0)) for point in points]
        for name in ("p10", "p90")
    ]


def annotate(axes, text, place, y, **more):
    """Writes a text above a place."""
    offset = {"xytext": (0, y), "textcoords": "offset points", "ha": "center"}
    axes.annotate(text, place, **offset, **more)


def name_failures(axes, failed, allocator):
    """Writes each failure at the lower edge, at its x, in the colour of its allocator."""
    look = {"rotation": 90, "fontsize": 7.5, "color": look_of(allocator)[0], "zorder": 5}
    look["bbox"] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
    for x, error in failed:
        annotate(axes, error, (x, 0), 4, xycoords=axes.get_xaxis_transform(), **look)


def draw_lines(axes, panel, found):
    for allocator, series in found.items():
        is_wide, (colour, marker, line) = allocator in WIDE, look_of(allocator)
        if any(point.median is not None for point in series.values()):
            axes.errorbar(  # a failure is a gap in the line
                list(series),
                [math.nan if p.median is None else p.median for p in series.values()],
                yerr=whiskers(series.values()),
                marker=marker,
                markersize=4.5 if is_wide else 3.5,
                linewidth=2.4 if is_wide else 1.3,
                linestyle=line,
                elinewidth=1,
                capsize=2.5,
                color=colour,
                zorder=5 if allocator in OVER_WIDE else 4 if is_wide else 3,
            )
        failed = [(x, p.error) for x, p in series.items() if p.median is None]
        name_failures(axes, failed, allocator)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks_of(panel.xs(found)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short_x(panel.x, int(x))))
    axes.set_xlabel(X_LABELS.get(panel.x, panel.x))


def ticks_of(xs):
    """The values of `xs`, from the right, whose labels do not overlap on a logarithmic axis."""
    min_ratio = (xs[-1] / xs[0]) ** (1 / 6)
    result = [xs[-1]]
    for x in reversed(xs[:-1]):
        if result[-1] / x >= min_ratio * 0.999:
            result.append(x)
    return result


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
        shift = (nth - (len(found) - 1) / 2) * width
        good = {x: point for x, point in series.items() if point.median is not None}
        places = [groups.index(x) + shift for x in good]
        heights = [point.median for point in good.values()]
        axes.bar(places, heights, width * 0.92, color=look_of(allocator)[0])
        lengths = whiskers(good.values())
        if any(map(any, lengths)):
            look = {"ecolor": "black", "elinewidth": 0.8, "capsize": 1.5}
            axes.errorbar(places, heights, yerr=lengths, fmt="none", **look)
        for place, point in zip(places, good.values()):
            top = (place, max(point.median, point.values.get("p90", 0)))
            annotate(axes, value_text(point.median), top, 2, fontsize=7, rotation=90 * upright)
        failed = [(groups.index(x) + shift, p.error) for x, p in series.items() if p.median is None]
        name_failures(axes, failed, allocator)
    labels = [x_text(panel.x, group) for group in groups]
    if all(label.endswith(" B") for label in labels):
        labels = [label.removesuffix(" B") for label in labels]
        axes.set_xlabel("bytes")
    axes.set_xticks(range(len(groups)), labels)
    axes.set_xlim(-0.6, len(groups) - 0.4)


def set_scale(axes, found, room, is_logarithmic=False):
    """Sets a logarithmic axis if values differ much. `room`: the free share of the height at the
    top."""
    values = medians(found)
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


def draw(figure, machine, data, folder):
    """Draws a figure. Returns the stem of its files, or None if no panel has a value."""
    panels = figure.points(data, machine)
    if not panels:
        return None
    columns = min(int(figure.panels_a_row), len(panels))
    rows = -(-len(panels) // columns)
    size = (10 if columns > 1 else 6.2, 0.8 + 2.45 * rows)
    drawing, all_axes = plt.subplots(
        rows, columns, figsize=size, layout="constrained", squeeze=False
    )
    for axes in all_axes.flat[len(panels) :]:
        axes.remove()
    for axes, (panel, found) in zip(all_axes.flat, panels):
        draw_panel(axes, panel, found, columns)
        if figure.legend_in_panels:
            add_legend_beside(axes, found)
    drawing.suptitle(figure.title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    has_lines = any(axes.get_lines() and not axes.patches for axes in drawing.axes)
    if not figure.legend_in_panels:
        shown = {  # by label, so a way of coalescing appears once for all upstream heaps
            LABELS[name]: name for name in LABELS if any(name in found for _, found in panels)
        }
        handles = [handle(name, label, has_lines) for label, name in shown.items()]
        place = {"loc": "outside right upper", "handlelength": 3.2 if has_lines else 1}
        drawing.legend(handles=handles, frameon=False, fontsize=8.5, **place)
    everything = [point for _, found in panels for point in flat(found)]
    measured = f"{machine}{common_params(everything)}, {origin(everything)}"
    note = f"\n{textwrap.fill(figure.note, 150)}" if figure.note else ""
    text = f"{measured}; medians, whiskers p10 to p90{note}"
    drawing.supxlabel(text, fontsize=7.5, x=0.01, ha="left")
    stem = f"{figure.name}.{machine}"
    save(drawing, folder / stem, figure.legend_in_panels)
    plt.close(drawing)
    return stem


def add_legend_beside(axes, found):
    """Writes the legend to the right of the axes, in the order of the lines' right ends."""

    def right_end(name):
        return [p.median for p in found[name].values() if p.median is not None][-1]

    drawn = [name for name, series in found.items() if any(p.median for p in series.values())]
    drawn.sort(key=right_end, reverse=True)
    handles = [handle(name, NAMES["opencl"][name], True) for name in drawn]
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.02), "handlelength": 3.2}
    axes.legend(handles=handles, frameon=False, fontsize=8, **place)


def handle(name, label, has_lines):
    """An entry of the legend: the look of the line, or a square in the colour of the bars."""
    colour, marker, line = look_of(name)
    look = {"marker": marker, "linestyle": line} if has_lines else {"marker": "s", "linestyle": ""}
    label, width = textwrap.fill(label, 24), 2.4 if name in WIDE else 1.3
    return plt.Line2D([], [], color=colour, label=label, markersize=4.5, linewidth=width, **look)


def common_params(everything):
    """`, 1,048,576 threads` if all points have that number of threads."""
    found = {point.params.get("threads") for point in everything}
    return f", {found.pop():,} threads" if len(found) == 1 and None not in found else ""


def save(drawing, stem, keeps_rare_colours):
    """Saves an SVG, and a PNG with a palette, which reduces its size to a third.

    `keeps_rare_colours`: the palette has the colours of thin lines, and fewer shades of text.
    """
    drawing.savefig(f"{stem}.svg", metadata={"Date": None, "Creator": None})
    raw = io.BytesIO()
    drawing.savefig(raw, format="png", dpi=120)
    palette = Image.Quantize.MAXCOVERAGE if keeps_rare_colours else Image.Quantize.MEDIANCUT
    Image.open(raw).convert("RGB").quantize(192, palette, dither=Image.Dither.NONE).save(
        f"{stem}.png", optimize=True
    )


def draw_all(data, folder):
    """Draws all figures in place of those in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("*.png"), *folder.glob("*.svg")]:
        old.unlink()
    stems = []
    for machine in data.machines():
        stems += [draw(figure, machine, data, folder) for figure in FIGURES]
        drawing = heuristic_drawing(data, machine)
        if drawing:
            stems.append(f"{HEURISTICS}.{machine}")
            save(drawing, folder / stems[-1], True)
    if not any(stems):
        sys.exit("error: the results have no record with a value; run `make bench` first")
    for stem in filter(None, stems):
        print(f"-- {folder / stem}.{{png,svg}}")
