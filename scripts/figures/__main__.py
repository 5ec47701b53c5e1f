# SPDX-License-Identifier: Apache-2.0
"""Writes the medians of bench/results as tables and plots: python3 -m scripts.figures [--check]

README.md gets the table of Quarry and its peers. docs/plots/README.md gets the main figures, then
all figures with their plots. docs/plots/coalescing.md gets the figures of coalesced allocation.
docs/design and some guides get their measured parts. With --check the program writes nothing, and
exits with 1 if a file is not up to date. With --draw it draws the plots first, with matplotlib.
"""

import argparse
import sys
from pathlib import Path

from . import pages
from .records import RESULTS, ROOT, read

DOCS = ROOT / "docs"


def main():
    parser = argparse.ArgumentParser(prog="scripts.figures", description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a table is out of date"
    )
    mode.add_argument("--draw", action="store_true", help="draw the plots first (needs matplotlib)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder of *.jsonl (bench/results)"
    )
    parser.add_argument("--readme", type=Path, default=ROOT / "README.md")
    parser.add_argument(
        "--plots", type=Path, default=DOCS / "plots", help="folder of the plots (docs/plots)"
    )
    parser.add_argument(
        "--design", type=Path, default=DOCS / "design", help="folder of the design pages"
    )
    options = parser.parse_args()
    if not options.readme.is_file():
        sys.exit(f"error: there is no {options.readme}")
    data = read(options.results)
    if options.draw:
        from .draw import draw_all  # needs matplotlib

        draw_all(data, options.plots)
    wanted = pages.wanted(data, options.readme, options.plots, options.design)
    for path, text in wanted.items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            print(f"-- {path}: up to date")
        elif options.check:
            sys.exit(
                f"error: {path} does not show {options.results}; run python3 -m scripts.figures"
            )
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"-- {path}: written")


if __name__ == "__main__":
    main()
