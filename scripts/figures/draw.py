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
from .names import NAMES, OPENCL_NAMES  # noqa: E402
from .plots import COALESCED_FIGURES, FIGURES, OPENCL_FIGURES, flat  # noqa: E402
from .records import origin, value_text, x_text  # noqa: E402

# Colour-blind readers can distinguish these colours. Line styles and markers also differ, for
# black-and-white print.
# allocator: colour, marker, line
LOOKS = {
    "quarry": ("#c8102e", "o", "-"),
    "quarry-hardened": ("#e88a97", "v", "--"),
    "cuda": ("#4f8a10", "s", "-."),
    "libc": ("#1f5aa6", "s", "-."),
    "mimalloc": ("#d98300", "^", ":"),
    "bump": ("#777777", "D", "--"),
    "+header-block": ("#0072b2", "<", "-"),
    "+map-block": ("#56b4e9", ">", "--"),
    "+header-warp": ("#6a3d9a", "^", "-"),
    "+map-warp": ("#cc79a7", "v", "--"),
    "+dynamic": ("#e69f00", "P", ":"),
    "+reserved": ("#7a4a12", "X", "-."),
    "+packed": ("#009e73", "*", "-"),
    "quarry-reserve": ("#e69f00", "P", "-"),
    "quarry-none": ("#c8102e", "o", "-"),
    "quarry-low": ("#e69f00", "P", "--"),
    "quarry-high": ("#7a4a12", "X", "-."),
    "ring": ("#777777", "D", (0, (1, 1))),
    "kma": ("#0072b2", "s", "--"),
    "kma-list": ("#6a3d9a", "^", "-."),
    "kma-cache": ("#6a3d9a", "^", "-."),
    "kma-ring": ("#009e73", "<", ":"),
    "kma-none": ("#0072b2", "s", "--"),
    "kma-low": ("#56b4e9", ">", "-."),
    "kma-high": ("#6a3d9a", "^", ":"),
}
OTHER_LOOK = ("#6a3d9a", "v", "-")
WIDE = {"quarry", "quarry-none"}
OVER_WIDE = {"quarry-reserve", "quarry-low", "quarry-high"}  # often the same values as a wide line
MAX_GROUPS_OF_BARS = 5


def look_of(allocator):
    """The look of an allocator. A way of coalescing looks the same over each upstream heap."""
    return LOOKS.get(allocator, LOOKS.get("+" + allocator.partition("+")[2], OTHER_LOOK))


def medians(found):
    return [point.median for point in flat(found) if point.median is not None]


def whiskers(series):
    """The distances of p10 and p90 from the median, in the form that errorbar needs."""
    low = [p.median - p.values["p10"] if "p10" in p.values else 0 for p in series]
    high = [p.values["p90"] - p.median if "p90" in p.values else 0 for p in series]
    return [low, high]


def name_failures(axes, failed, allocator):
    """Writes each failure at the lower edge, at its x, in the colour of its allocator."""
    for x, error in failed:
        axes.annotate(
            error if len(error) < 12 else "failed",
            (x, 0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            rotation=90,
            fontsize=7.5,
            color=look_of(allocator)[0],
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
        )


def draw_lines(axes, panel, found):
    for allocator, series in found.items():
        is_wide = allocator in WIDE
        if any(point.median is not None for point in series.values()):
            axes.errorbar(  # a failure is a gap in the line
                list(series),
                [math.nan if p.median is None else p.median for p in series.values()],
                yerr=whiskers(series.values()),
                marker=look_of(allocator)[1],
                markersize=4.5 if is_wide else 3.5,
                linewidth=2.4 if is_wide else 1.3,
                linestyle=look_of(allocator)[2],
                elinewidth=1,
                capsize=2.5,
                color=look_of(allocator)[0],
                zorder=5 if allocator in OVER_WIDE else 4 if is_wide else 3,
            )
        failed = [(x, p.error) for x, p in series.items() if p.median is None]
        name_failures(axes, failed, allocator)
    axes.set_xscale("log", base=2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks_of(panel.xs(found)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: short_x(panel.x, int(x))))
    axes.set_xlabel(panel.x_label or panel.x)


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
            axes.errorbar(
                places,
                heights,
                yerr=lengths,
                fmt="none",
                ecolor="black",
                elinewidth=0.8,
                capsize=1.5,
            )
        for place, point in zip(places, good.values()):
            axes.annotate(
                value_text(point.median),
                (place, max(point.median, point.values.get("p90", 0))),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                rotation=90 if upright else 0,
            )
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
    if len(groups) <= MAX_GROUPS_OF_BARS and not panel.lines:
        upright = len(groups) * len(found) * columns > 14
        draw_bars(axes, panel, found, upright)
        set_scale(axes, found, 0.2 if upright else 0.1)
    else:
        draw_lines(axes, panel, found)
        set_scale(axes, found, 0.05, panel.is_logarithmic)
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
    columns = min(figure.columns, len(panels))
    rows = -(-len(panels) // columns)
    drawing, all_axes = plt.subplots(
        rows,
        columns,
        figsize=(10 if columns > 1 else 6.2, 0.8 + 2.45 * rows),
        layout="constrained",
        squeeze=False,
    )
    for axes in all_axes.flat[len(panels) :]:
        axes.remove()
    for axes, (panel, found) in zip(all_axes.flat, panels):
        draw_panel(axes, panel, found, columns)
        if figure.legend_in_panels:
            add_legend_beside(axes, found)
    everything = [point for _, found in panels for point in flat(found)]
    measured = f"{machine}{common_params(everything)}, {origin(everything)}"
    drawing.suptitle(figure.title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    shown = {  # by label, so a way of coalescing appears once for all upstream heaps
        NAMES[name]: name for name in NAMES if any(name in found for _, found in panels)
    }
    has_lines = any(axes.get_lines() and not axes.patches for axes in drawing.axes)
    if not figure.legend_in_panels:
        drawing.legend(
            handles=[handle(name, label, has_lines) for label, name in shown.items()],
            loc="outside right upper",
            frameon=False,
            fontsize=8.5,
            handlelength=3.2 if has_lines else 1,
        )
    note = f"\n{textwrap.fill(figure.note, 150)}" if figure.note else ""
    drawing.supxlabel(
        f"{measured}; medians, whiskers p10 to p90{note}", fontsize=7.5, x=0.01, ha="left"
    )
    stem = f"{figure.name}.{machine}"
    save(drawing, folder / stem, figure.legend_in_panels)
    plt.close(drawing)
    return stem


def add_legend_beside(axes, found):
    """Writes the legend to the right of the axes, in the order of the lines' right ends."""

    def right_end(name):
        return [p.median for p in found[name].values() if p.median is not None][-1]

    drawn = [name for name, series in found.items() if any(p.median for p in series.values())]
    axes.legend(
        handles=[
            handle(name, OPENCL_NAMES[name], True)
            for name in sorted(drawn, key=right_end, reverse=True)
        ],
        loc="upper left",
        bbox_to_anchor=(1.01, 1.02),
        frameon=False,
        fontsize=8,
        handlelength=3.2,
    )


def handle(name, label, has_lines):
    """An entry of the legend: the look of the line, or a square in the colour of the bars."""
    return plt.Line2D(
        [],
        [],
        color=look_of(name)[0],
        label=textwrap.fill(label, 24),
        marker=look_of(name)[1] if has_lines else "s",
        markersize=4.5,
        linestyle=look_of(name)[2] if has_lines else "",
        linewidth=2.4 if name in WIDE else 1.3,
    )


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
    stems = [
        draw(figure, machine, data, folder)
        for machine in data.machines()
        for figure in [*FIGURES, *COALESCED_FIGURES, *OPENCL_FIGURES]
    ]
    for machine in data.machines():
        drawing = heuristic_drawing(data, machine)
        if drawing:
            stems.append(f"{HEURISTICS}.{machine}")
            save(drawing, folder / stems[-1], True)
    if not any(stems):
        sys.exit("error: the results have no record with a value; run `make bench` first")
    for stem in filter(None, stems):
        print(f"-- {folder / stem}.{{png,svg}}")
