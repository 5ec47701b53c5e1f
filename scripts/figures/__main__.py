# SPDX-License-Identifier: Apache-2.0
"""Writes the medians of bench/results as tables and plots: python3 -m scripts.figures [--check]

pages.py says which page has which tables. With --check the program writes nothing, and exits with 1
if a page is not up to date. With --draw it draws the plots first, with matplotlib.
"""

import argparse
import sys
from pathlib import Path

from . import pages
from .plots import FIGURES
from .records import RESULTS, ROOT, read


def draw_plots(data, folder):
    """Draws all plots in place of those in the folder."""
    from . import draw, draw_heuristics  # need matplotlib

    if not data.machines():
        sys.exit("error: the results have no records; run `make bench` first")
    for old in [*folder.glob("*.png"), *folder.glob("*.svg")]:
        old.unlink()
    for machine in data.machines():
        for figure in FIGURES:
            draw.draw(figure, machine, data, folder)
        draw_heuristics.draw(machine, data, folder)


def main():
    parser = argparse.ArgumentParser(prog="scripts.figures", description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="exit with 1 if a page is out of date")
    mode.add_argument("--draw", action="store_true", help="draw the plots first (needs matplotlib)")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of README.md and docs")
    options = parser.parse_args()
    data = read()
    if options.draw:
        draw_plots(data, options.root / "docs" / "plots")
    for path, text in pages.wanted(data, options.root).items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            print(f"-- {path}: up to date")
        elif options.check:
            sys.exit(f"error: {path} does not show {RESULTS}; run python3 -m scripts.figures")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"-- {path}: written")


if __name__ == "__main__":
    main()
