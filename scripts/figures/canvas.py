# SPDX-License-Identifier: Apache-2.0
"""What all drawings share: fonts, titles, texts beside points, and files.

Needs matplotlib, which `make plots` installs.
"""

import io

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
from matplotlib.lines import Line2D  # noqa: E402
from PIL import Image  # noqa: E402

BOX = {"facecolor": "white", "edgecolor": "none"}  # behind a text


def new(rows, columns, size, title):
    """A drawing with a title, and its axes: the lists of all rows."""
    drawing, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    drawing.suptitle(title, fontsize=11, fontweight="bold", x=0.01, ha="left")
    return drawing, axes


def annotate(axes, text, place, offset, **look):
    """Writes a text at an offset, in points, from a place."""
    axes.annotate(text, place, xytext=offset, textcoords="offset points", **{"ha": "center"} | look)


def legend(target, looks, **more):
    """Adds a legend of {label: look}."""
    handles = [Line2D([], [], label=label, **look) for label, look in looks.items()]
    target.legend(handles=handles, **more)


def save(drawing, stem, note, keeps_rare_colours):
    """Saves an SVG, and a PNG with a palette, which reduces its size to a third.

    `keeps_rare_colours`: the palette has the colours of thin lines, and fewer shades of text.
    """
    drawing.supxlabel(note, fontsize=7.5, x=0.01, ha="left")
    drawing.savefig(f"{stem}.svg", metadata={"Date": None, "Creator": None})
    raw = io.BytesIO()
    drawing.savefig(raw, format="png", dpi=120)
    palette = Image.Quantize.MAXCOVERAGE if keeps_rare_colours else Image.Quantize.MEDIANCUT
    image = Image.open(raw).convert("RGB").quantize(192, palette, dither=Image.Dither.NONE)
    image.save(f"{stem}.png", optimize=True)
    plt.close(drawing)
    print(f"-- {stem}.{{png,svg}}")
