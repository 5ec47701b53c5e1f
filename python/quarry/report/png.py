# SPDX-License-Identifier: Apache-2.0
"""Draws a report's charts into one picture, for papers. Needs matplotlib."""

import io
from typing import Any

import numpy as np

from quarry.errors import BadState
from quarry.report.content import Content
from quarry.report.stacks import labels_of
from quarry.tuning import TuneOutcome, TuneResult

PALETTE = [
    "#3b6fb6", "#e08a2e", "#4c9f70", "#c9504b", "#8a6cc0",
    "#9a7350", "#d583b8", "#7d8b99", "#b8ae3a", "#49b3c2",
]  # fmt: skip
OTHERS = "#cfd6de"
REPLAYS = ["#0f7b5f", "#8a3ffc", "#c2255c", "#5c6a79"]
UNITS = ["B", "KiB", "MiB", "GiB", "TiB"]


def unit_of(maximum: float) -> tuple[str, int]:
    """The unit for an axis up to `maximum`: its name and its bytes."""
    power = 0
    while maximum >= 2 * 1024 ** (power + 1) and power < len(UNITS) - 1:
        power += 1
    return UNITS[power], 1024**power


def picture_of(content: Content, kind: str, dpi: int = 200) -> bytes:
    """Draws the timeline, the blocks, the fragmentation, the top call sites and the tuned settings.
    Returns a file of the format `kind`: png, pdf or svg. Raises BadState without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as failed:
        raise BadState("--png needs matplotlib: pip install matplotlib") from failed

    curves = [replay for replay in content.replays if replay.fragments]
    ratios = [1.0, 1.4, 0.5] if curves else [1.0, 1.4]
    has_settings = content.sweep and content.sweep.best and not content.nothing
    tuned = content.sweep if has_settings else None
    heights = [10.4 if curves else 9.2, 2.6 if tuned else 0]
    figure = Figure(figsize=(7.2, sum(heights)), layout="constrained")
    FigureCanvasAgg(figure)
    # Parts with margins of their own: names of call sites are longer than numbers.
    parts = [sum(ratios), 1.3] + [sum(ratios) * 0.34] * (tuned is not None)
    figures: Any = figure.subfigures(len(parts), 1, height_ratios=parts)
    over_time, by_group, *last = figures
    charts = over_time.subplots(len(ratios), 1, height_ratios=ratios)
    bars = by_group.subplots()
    draw_timeline(content, charts[0])
    draw_blocks(content, charts[1])
    if curves:
        draw_fragmentation(content, charts[2])
    draw_groups(content, bars)
    others = [bars]
    if tuned:
        others.append(last[0].subplots())
        draw_sweep(tuned, others[-1])
    for chart in charts:
        chart.set_xlim(content.axis.first, content.axis.last)
    for chart in [*charts, *others]:
        chart.spines[["top", "right"]].set_visible(False)
        chart.tick_params(labelsize=8)
        chart.text(0.5, 0.5, content.nothing, transform=chart.transAxes, ha="center", fontsize=9)
    bars.tick_params(axis="y", labelsize=6)  # two lines for each bar
    charts[-1].set_xlabel(content.axis.title, fontsize=9)
    file = io.BytesIO()
    figure.savefig(file, dpi=dpi, format=kind)
    return file.getvalue()


def draw_timeline(content: Content, chart: Any) -> None:
    tops = [content.requested.maximum]
    tops += [replay.reserved for replay in content.replays]
    tops += [content.recorded.maximum] if content.recorded else []
    name, unit = unit_of(max((float(top.max()) for top in tops if len(top)), default=1))
    requested, axis = content.requested, content.axis
    positions = axis.at(requested.first, requested.time)
    chart.fill_between(positions, 0, requested.maximum / unit, color="#3b6fb6", alpha=0.25, lw=0)
    chart.plot(
        positions, requested.maximum / unit, color="#3b6fb6", lw=0.7,
        label="requested by the program",
    )  # fmt: skip
    if content.recorded:
        recorded = content.recorded
        chart.step(
            axis.at(recorded.first, recorded.time), recorded.maximum / unit, where="post", color="#d9822b", lw=1.1,
            label="reserved, as recorded",
        )  # fmt: skip
    for replay, color in zip(content.replays, REPLAYS, strict=False):
        chart.step(
            axis.at(replay.events, replay.times), replay.reserved / unit, where="post", color=color, lw=1.1,
            label=f"reserved by Quarry ({replay.label})",
        )  # fmt: skip
    for failure in content.failures:
        position = float(axis.at(failure.event, failure.time))
        chart.axvline(position, color="#c62828", lw=0.8, ls="--")
    chart.set_ylim(bottom=0)
    chart.set_ylabel(f"memory ({name})", fontsize=9)
    chart.legend(fontsize=7.5, frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))


def draw_blocks(content: Content, chart: Any) -> None:
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import ListedColormap

    name, unit = unit_of(content.addresses.total)
    top = content.addresses.total / unit
    axis, others = content.axis, content.others.get(content.axis.unit)
    if others is not None:
        extent = (axis.first, axis.last, 0, top)
        gray = ListedColormap([[0.43, 0.43, 0.43, alpha] for alpha in np.linspace(0, 1, 256)])
        chart.imshow(
            others, cmap=gray, vmin=0, vmax=1, origin="lower", extent=extent, aspect="auto"
        )
    left, right, bottom, height = content.bounds(axis)
    right = np.maximum(right, left + (axis.last - axis.first) / 3000)  # at least a pixel
    low, high = bottom / unit, (bottom + height) / unit
    corners = np.stack([left, low, right, low, right, high, left, high], 1).reshape(-1, 4, 2)
    palette = np.array([*PALETTE, OTHERS])
    colors = palette[content.groups.color_of(content.drawn)]  # -1 is the last color
    blocks = PolyCollection(list(corners), facecolors=colors, edgecolors="none", rasterized=True)
    chart.add_collection(blocks)
    chart.set_ylim(0, top)
    chart.set_ylabel(f"address, gaps left out ({name})", fontsize=9)


def draw_fragmentation(content: Content, chart: Any) -> None:
    for replay, color in zip(content.replays, REPLAYS, strict=False):
        if replay.fragments:
            free = np.maximum(replay.free, 1)
            share = np.where(replay.free > 0, replay.largest_free / free * 100, 100)
            chart.step(
                content.axis.at(replay.events, replay.times),
                share,
                where="post",
                color=color,
                lw=0.8,
            )
    chart.set_ylim(0, 104)
    chart.set_ylabel("largest ÷ free (%)", fontsize=9)


def draw_groups(content: Content, chart: Any) -> None:
    groups = content.groups
    name, unit = unit_of(max(groups.at_peak, default=1))
    rows = np.arange(len(groups.names))
    chart.barh(rows, np.array(groups.at_peak) / unit, color=PALETTE[: len(rows)])
    labels = ["\n".join(lines) for lines in labels_of(groups.names)]
    chart.set_yticks(rows, labels)
    chart.invert_yaxis()
    chart.set_xlabel(f"in use at the peak, by {groups.title} ({name})", fontsize=9)


def draw_sweep(sweep: TuneResult, chart: Any) -> None:
    """The tuned settings that fit. The front has rings, and the least cost has a star."""
    fitting = [outcome for outcome in sweep.outcomes if outcome.fits]
    name, unit = unit_of(max(outcome.peak_reserved for outcome in fitting))

    def scatter(chosen: list[TuneOutcome], **look: Any) -> None:
        chart.scatter(
            [outcome.peak_reserved / unit for outcome in chosen],
            [outcome.upstream_us / 1000 for outcome in chosen],
            **look,
        )

    strategies = dict.fromkeys(outcome.strategy for outcome in fitting)
    for number, strategy in enumerate(strategies):
        chosen = [outcome for outcome in fitting if outcome.strategy == strategy]
        color = PALETTE[(number + 2) % len(PALETTE)]
        scatter(chosen, s=12, color=color, alpha=0.75, lw=0, label=strategy)
    scatter(
        sweep.front, s=48, facecolors="none", edgecolors="#1d2733", lw=1.1, label="on the front"
    )
    if sweep.best:
        scatter([sweep.best], s=90, marker="*", color="#d9822b", lw=0, label="least cost", zorder=3)
    chart.axvline(sweep.peak_allocated / unit, color="#aab4bf", lw=0.8, ls=":", label="in use")
    if any(outcome.upstream_us > 0 for outcome in fitting):
        chart.set_yscale("log")
    chart.set_xlabel(f"peak reserved ({name})", fontsize=9)
    chart.set_ylabel("time of the\nupstream (ms)", fontsize=9)
    chart.legend(fontsize=7.5, frameon=False, ncols=6, loc="lower left", bbox_to_anchor=(0, 1))
