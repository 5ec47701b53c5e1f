# SPDX-License-Identifier: Apache-2.0
"""Which page shows which tables, and how a page is rewritten.

A page has tables between `<!-- figures:NAME:begin -->` and `<!-- figures:NAME:end -->`. A sentence
has a figure between `<!-- value:SELECTION -->` and `<!-- /value -->`: a median with its unit, and
the first machine that has it.
"""

import re

from . import coalescing, heap, heuristics, kma, mpi, pools, traces
from .heap import GPU, H200, VM
from .plots import FIGURES, OPENCL_FIGURES, picture
from .records import point_text, value_text
from .table import Table, lines, value

MARK = re.compile(r"<!-- figures:([\w-]+):begin -->\n(.*?)<!-- figures:\1:end -->", re.DOTALL)
VALUE = re.compile(r"<!-- value:([^>]+?) -->(.*?)<!-- /value -->", re.DOTALL)

# --- README.md: Quarry's figures come from bench/results. Programs outside this repository measured
# the peers, with each peer's best settings, on another machine of the same kind.

PEERS = ["Gallatin", "mallocMC", "RMM pool", "Umpire", "CUDA", "KMA"]
PAIR = "host/pool/pair sizes=uniform"
MEASURED = "2026-11-21 and 2026-11-22"
COMPARISON = f"""
`malloc` of 64 B by 2^20 threads, heap after a reset | million a second
  heap/single/malloc bytes=64 machine={GPU} goal="Gallatin=4792, mallocMC=1956, CUDA=3.1"
alternating `malloc` and `free` of 16 to 256 B by 65,536 threads | million a second
  heap/churn bytes=256 machine={GPU} goal="Gallatin=2363, mallocMC=1974, CUDA=4.2"
insert a batch of edges into a dynamic graph of 2^20 vertices | ms
  heap/graph/insert machine={GPU} goal="Gallatin=0.16, mallocMC=0.2, CUDA=314"
100 pairs of `malloc` and `free` of 8 B by each of 4,608 OpenCL work-items | ms
  opencl/pairs variance=none items=4608 {H200} goal="KMA={kma.PAIRS["gpu"]["kma-none"][4608]}"
replace one of 10,000 host allocations of 1 B to 1 MiB of device memory | ns
  {PAIR} live=10000 least=1 most=1048576 machine={GPU} goal="RMM pool=43027, CUDA=2391"
find the allocation that a pointer belongs to, among 10^6 | ns
  host/registry/find live=1000000 mean=64 where=begin busy=no machine={VM} goal="Umpire=1202"
"""


def peer(name):
    """Writes the figure of a peer, which is in the goal of the row."""

    def text(view, selection):
        found = dict(each.split("=") for each in selection["goal"].split(", "))
        return value_text(float(found[name])) if name in found else None

    return text


COMPARISON_TABLE = Table(
    lines(COMPARISON.replace("\n  ", " > ")),
    {"**Quarry**": value(lambda number: f"**{value_text(number)}**")} | {p: peer(p) for p in PEERS},
    head=" | unit",
    after="Medians. Quarry: {origin}. "
    f"Peers: {MEASURED}, by programs outside this repository.\n"
    "The last row was measured on a virtual machine with two cores, the others on an NVIDIA H200 "
    f"and\nits host. KMA: {kma.MEASURED}; it corrupted {kma.CORRUPT_WORDS['kma-none']} words of "
    "live allocations in three runs.",
    machines="all",
)

# --- Which page shows which tables. A page of the design shows one; docs/plots/README.md has its
# others, under their titles.

SHOWN = {
    "README.md": {"comparison": COMPARISON_TABLE},
    "docs/design/coalescing.md": {"claims": coalescing.CLAIM_TABLE},
    "docs/design/heap.md": {"goals": heap.GOAL_TABLE},
    "docs/design/lane_arrays.md": {"lane_arrays": heap.LANE_ARRAYS},
    "docs/design/mpi.md": {"costs": mpi.COST_TABLE},
    "docs/design/mpi_analysis.md": {"operations": mpi.OPERATION_TABLE},
    "docs/design/mpi_programs.md": {"others": mpi.others},
    "docs/design/opencl.md": {"costs": heap.OPENCL_COSTS},
    "docs/design/pool_costs.md": {"threads": pools.THREADS},
    "docs/design/pools.md": {"pairs": pools.PAIRS},
    "docs/design/registry.md": {},
    "docs/design/simt.md": {},
    "docs/design/streams.md": {},
    "docs/design/traces.md": {"peaks": traces.PEAK_TABLE},
    "docs/guide/pytorch.md": {"training": traces.TRAINING_TABLE},
}
APART = {
    "heap.md": heap.APART,
    "pools.md": pools.APART,
    "pool_costs.md": pools.COSTS_APART,
    "mpi.md": mpi.APART,
    "mpi_analysis.md": mpi.ANALYSIS_APART,
    "opencl.md": heap.OPENCL_APART,
    "traces.md": heuristics.APART | traces.APART,
}
INTRODUCTION = """# Figures

`make bench` measures and writes `bench/results`; `make plots` writes this page from them. The
comment at the top of each program in `bench/` says what the program measures. Heaps on a GPU have
8 GiB and serve 2^20 threads, unless said otherwise. The *floor* is one warp-aggregated `atomicAdd`,
and never frees. The virtual machine was busy with other work. Whiskers show how busy; small
differences mean nothing there.

[Coalesced allocation](coalescing.md) has a page of its own.
"""


def figures_page(data):
    """docs/plots/README.md."""
    text = [INTRODUCTION]
    for machine in data.machines():
        text += [f"## {machine}", ""]
        last = max(record["date"] for record in data.records if record["machine"] == machine)
        for record in data.matching(f"failed date={last}", machine):
            params = record["params"]
            text += [f"`{params['program']}` failed: {params['error']}.", ""]
        for figure in [*FIGURES, *OPENCL_FIGURES]:
            text += figure.section(data, machine)
        if heuristics.sweeps(data, machine)[0]:
            text += picture(heuristics.NAME, heuristics.TITLE, machine)
            text += [
                "[Traces](../design/traces.md#the-posters-figures) says what the plot shows.",
                "",
            ]
    text += ["## Tables of the design", ""]
    for page, tables in APART.items():
        for title, table in tables.items():
            text += [f"### {title}", "", f"For [{page}](../design/{page}).", "", *table(data), ""]
    return "\n".join(text).rstrip() + "\n"


PLOTS = {"docs/plots/README.md": figures_page, "docs/plots/coalescing.md": coalescing.page}


def value_in_sentence(data, selection, path):
    for machine in data.machines():
        point = data.point(selection, machine)
        if point and point.median is not None:
            if point.unit == "ratio":
                return f"{value_text(100 * point.median)} % on {machine}"
            return f"{point_text(point)} {point.unit} on {machine}"
    raise SystemExit(f"error: {path} shows the value '{selection}'; bench/results has none")


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
        selection = match.group(1)
        shown = value_in_sentence(data, selection, path)
        return f"<!-- value:{selection} -->{shown}<!-- /value -->"

    return VALUE.sub(write_value, MARK.sub(write, text))


def wanted(data, root):
    """{path: text} of all pages."""
    texts = {root / name: write(data) for name, write in PLOTS.items()}
    for name, tables in SHOWN.items():
        text = (root / name).read_text(encoding="utf-8")
        texts[root / name] = rewritten(name, text, tables, data)
    return texts
