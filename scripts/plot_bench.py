#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws bench/results as docs/plots/<bench>.<machine>.png and .svg.

Medians are lines; from p10 to p90 is shaded where both were measured. Needs matplotlib, which
`make plots` sees to.
"""

import argparse
import math
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams["svg.hashsalt"] = "quarry"  # the same figures give the same file

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullLocator  # noqa: E402

from bench_records import (
    RESULTS,
    ROOT,
    charts,
    plain_text,
    read_records,
    slug,
    value_text,
)  # noqa: E402

QUARRY_COLOUR = "#c8102e"
OTHER_COLOURS = ["#1f5aa6", "#2e8540", "#b8860b", "#6a3d9a", "#008b8b", "#8b4513", "#555555"]
MARKERS = "osD^vPX"
LINES = ["-", "--", ":", "-."]


def allocator_of(label):
    return label.split(",")[0]


def colours_of(all_charts):
    """One colour for an allocator in every chart; Quarry's own stands out."""
    others = sorted(
        {allocator_of(label) for chart in all_charts for label in chart.series} - {"quarry"}
    )
    colours = {name: OTHER_COLOURS[i % len(OTHER_COLOURS)] for i, name in enumerate(others)}
    colours["quarry"] = QUARRY_COLOUR
    return colours


def spans(values, factor):
    return values and min(values) > 0 and max(values) / min(values) >= factor


def numbers(chart):
    return [
        value
        for points in chart.series.values()
        for stats in points.values()
        for value in stats.values()
        if value is not None
    ]


def draw_lines(axes, chart, colours):
    marker_of = {}
    for label, points in chart.series.items():
        allocator = allocator_of(label)
        marker_of[allocator] = marker_of.get(allocator, -1) + 1
        nth, ours = marker_of[allocator], allocator == "quarry"
        xs = sorted(x for x in points if x is not None)
        failed = sum((label, x) in chart.errors for x in xs)
        median, low, high = (
            [points[x].get(name) if points[x].get(name) is not None else math.nan for x in xs]
            for name in ("median", "p10", "p90")
        )  # a failure is a gap in the line
        axes.plot(
            xs,
            median,
            marker=MARKERS[nth % len(MARKERS)],
            markersize=4,
            linestyle=LINES[nth % len(LINES)],
            color=colours[allocator],
            linewidth=2.4 if ours else 1.4,
            zorder=3 if ours else 2,
            label=f"{label} ({failed} failed)" if failed else label,
        )
        axes.fill_between(xs, low, high, color=colours[allocator], alpha=0.18, linewidth=0)
    xs = sorted({x for points in chart.series.values() for x in points if x is not None})
    if spans(xs, 8):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    if len(xs) <= 12:
        axes.set_xticks(xs)
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda x, _: plain_text(chart.x_name, int(x) if x == int(x) else x))
    )
    axes.tick_params(axis="x", labelrotation=30 if len(xs) > 7 else 0)
    if spans(numbers(chart), 10):
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=min(0, *numbers(chart)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: value_text(y)))
    axes.set_xlabel(chart.x_name)
    axes.set_ylabel(chart.unit)
    axes.legend(
        frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0
    )


def draw_bars(axes, chart, colours):
    """A bar for each series; points on a logarithmic axis where bars would be too unlike to see."""
    wide = spans(numbers(chart), 50)
    labels = list(reversed(chart.series))
    for row, label in enumerate(labels):
        stats = chart.series[label][None]
        value, colour = stats.get("median"), colours[allocator_of(label)]
        if value is None:
            axes.text(
                0.01,
                row,
                chart.errors.get((label, None), "failed"),
                va="center",
                fontsize=8,
                transform=axes.get_yaxis_transform(),
            )
            continue
        if wide:
            axes.plot(value, row, "o", color=colour)
        else:
            axes.barh(row, value, color=colour, height=0.6)
        if stats.get("p10") is not None and stats.get("p90") is not None:
            axes.plot([stats["p10"], stats["p90"]], [row, row], color="black", linewidth=1)
        axes.annotate(
            value_text(value),
            (value, row),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    if wide:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: value_text(x)))
    axes.set_yticks(range(len(labels)), labels)
    axes.margins(x=0.15)
    axes.set_xlabel(chart.unit)


def draw(chart, colours, folder):
    height = 3.8 if chart.x_name else 1.4 + 0.35 * len(chart.series)
    figure, axes = plt.subplots(figsize=(7.6, height), layout="constrained")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="both" if chart.x_name else "x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    (draw_lines if chart.x_name else draw_bars)(axes, chart, colours)
    axes.set_title(f"{chart.bench}\n", loc="left", fontsize=10, fontweight="bold")
    axes.text(
        0,
        1.02,
        f"{chart.machine}, {chart.origin}",
        transform=axes.transAxes,
        fontsize=8,
        color="#555555",
    )
    stem = f"{slug(chart.bench)}.{slug(chart.machine)}"
    figure.savefig(folder / f"{stem}.png", dpi=150, metadata={"Software": None})
    figure.savefig(folder / f"{stem}.svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return stem


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of *.jsonl (bench/results)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=ROOT / "docs" / "plots",
        help="folder for the plots (docs/plots)",
    )
    options = parser.parse_args()
    drawable = [chart for chart in charts(read_records(options.results)) if numbers(chart)]
    if not drawable:
        sys.exit(f"error: no records with a value in {options.results}; run `make bench` first")
    options.output.mkdir(parents=True, exist_ok=True)
    colours = colours_of(drawable)
    for chart in drawable:
        print(f"-- {options.output / draw(chart, colours, options.output)}.{{png,svg}}", flush=True)


if __name__ == "__main__":
    main()
