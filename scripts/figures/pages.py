# SPDX-License-Identifier: Apache-2.0
"""Which page shows which tables, and how a page is rewritten.

A page has tables between `<!-- figures:NAME:begin -->` and `<!-- figures:NAME:end -->`. A sentence
has a figure between `<!-- value:NAME -->` and `<!-- /value -->`.
"""

import re
from pathlib import Path

from . import coalescing, heap, mpi, opencl, overview, pools, traces, training
from .records import ROOT
from .values import VALUES

MARK = re.compile(r"<!-- figures:([\w-]+):begin -->\n(.*?)<!-- figures:\1:end -->", re.DOTALL)
VALUE = re.compile(r"<!-- value:([\w-]+) -->(.*?)<!-- /value -->", re.DOTALL)
README_MARK = re.compile(r"<!-- figures:begin -->\n.*?<!-- figures:end -->", re.DOTALL)

TABLES = {  # page of docs/design: the functions that write its tables
    "coalescing.md": coalescing.TABLES,
    "heap.md": heap.TABLES,
    "lane_arrays.md": {"lane_arrays": heap.LANE_ARRAYS},
    "pools.md": pools.POOLS,
    "pool_costs.md": pools.COSTS,
    "mpi.md": mpi.MPI,
    "mpi_analysis.md": mpi.ANALYSIS,
    "mpi_programs.md": mpi.OTHERS,
    "opencl.md": opencl.TABLES,
    "registry.md": {},
    "simt.md": {},
    "streams.md": {},
    "traces.md": traces.TABLES,
}
# A design page shows one table. Its other tables are in docs/plots/README.md, with these titles.
APART = {
    "heap.md": {"memory": "Memory of a heap", "hardened": "Cost of the hardened mode"},
    "pools.md": {"strategies": "Time and memory of placements"},
    "pool_costs.md": {
        "bookkeeping": "Bookkeeping of a pool",
        "excess": "Memory of pools beyond the peak",
        "mesh": "Pools in a mesh code",
        "arrays": "Growable arrays",
        "instructions": "Instructions of a pool",
    },
    "mpi.md": {"reports": "Stacks and spills of MPI programs"},
    "mpi_analysis.md": {
        "arms": "Allocations in two arms of a branch",
        "classes": "Classes of the allocations of MPI programs",
        "programs": "Times of MPI programs by allocator",
        "workloads": "Work on arrays of ranks by allocator",
        "arrays": "Contiguous and interleaved arrays of ranks",
    },
    "opencl.md": {"utilisation": "Requested share of an OpenCL heap"},
    "traces.md": {
        "fig1": "The poster's settings on a trace of its shape",
        "fig1-traces": "The poster's settings on real traces",
        "poster-claims": "The poster's claims",
        "separations": "Pools separated by what a trace shows",
        "rates": "Events a second",
        "recording": "Cost of recording",
        "kernels": "Cost of recording in kernels",
        "upstream": "Times of the upstream",
        "python_recording": "Cost of recording in Python",
    },
}
DESIGN = {
    page: {name: write for name, write in tables.items() if name not in APART.get(page, {})}
    for page, tables in TABLES.items()
}
GUIDES = {"docs/guide/pytorch.md": {"training": training.training}}


def apart(data):
    """The tables of design pages that docs/plots/README.md shows."""
    for page, titles in APART.items():
        for name, title in titles.items():
            yield from [f"### {title}", "", f"For [{page}](../design/{page}).", ""]
            yield from [*TABLES[page][name](data), ""]


WHOLE = {  # pages of docs/plots
    "README.md": lambda data: overview.page(data, list(apart(data))),
    "coalescing.md": coalescing.page,
}


def rewritten(path, text, tables, data):
    """The page with new measured parts. Exits if the page lacks a part or has an unknown one."""
    found = [match.group(1) for match in MARK.finditer(text)]
    if sorted(found) != sorted(tables):
        raise SystemExit(f"error: {path} has the parts {found}; it must have {list(tables)}")

    def write(match):
        name = match.group(1)
        lines = "\n".join(tables[name](data))
        return f"<!-- figures:{name}:begin -->\n{lines}\n<!-- figures:{name}:end -->"

    def write_value(match):
        name = match.group(1)
        if name not in VALUES:
            raise SystemExit(f"error: {path} shows the value '{name}'; values.py has none")
        return f"<!-- value:{name} -->{VALUES[name](data)}<!-- /value -->"

    return VALUE.sub(write_value, MARK.sub(write, text))


def rewritten_readme(text, data):
    if len(README_MARK.findall(text)) != 1:
        raise SystemExit(
            "error: README.md must hold one figures:begin and, after it, one figures:end"
        )
    lines = ["<!-- figures:begin -->", "", *overview.comparison(data), "", "<!-- figures:end -->"]
    return README_MARK.sub(lambda _: "\n".join(lines), text)


def wanted(data, readme, plots, design):
    """{path: text} of all pages."""
    texts = {readme: rewritten_readme(readme.read_text(encoding="utf-8"), data)}
    texts |= {plots / name: write(data) for name, write in WHOLE.items()}
    parts = {design / name: (f"docs/design/{name}", tables) for name, tables in DESIGN.items()}
    parts |= {ROOT / name: (name, tables) for name, tables in GUIDES.items()}
    for path, (name, tables) in parts.items():
        texts[path] = rewritten(name, Path(path).read_text(encoding="utf-8"), tables, data)
    return texts
