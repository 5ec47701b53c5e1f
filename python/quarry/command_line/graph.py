# SPDX-License-Identifier: Apache-2.0
"""`quarry graph`: the demo of examples/graph."""

from typing import Annotated, Any

import typer

from quarry import _core
from quarry.command_line.options import AsJson, file_argument, is_given
from quarry.command_line.output import (
    errors_shown,
    print_json,
    print_rows,
    print_table,
    progress_of,
    warn,
)
from quarry.errors import BadArgument
from quarry.sizes import format_size


def graph(
    context: typer.Context,
    file: Annotated[
        str | None,
        file_argument("FILE", "An edge list or a Matrix Market file, plain or compressed by gzip."),
    ] = None,
    scale: Annotated[
        int,
        typer.Option(min=1, max=26, help="Without FILE: a random graph of 2^SCALE vertices."),
    ] = 14,
    edges_per_vertex: Annotated[
        int,
        typer.Option(min=1, max=2**26, help="Without FILE: the number of edges for each vertex."),
    ] = 8,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**64 - 1, help="Selects the random graph and the random changes."),
    ] = 1,
    backend: Annotated[
        str, typer.Option(help="cpu, cuda, or automatic: a GPU if there is one.")
    ] = "automatic",
    as_json: AsJson = False,
) -> None:
    """Run the demo: kernels build a graph in a heap, and every answer is checked.

    The kernels insert all edges, find them and export them as rows. Ten times
    they delete a tenth of the edges and insert it again. Then they delete all.
    They do so on Quarry's heap, then on the platform's malloc.
    A random graph is R-MAT: few vertices have many edges, as in real graphs.

    Exit status 0: every answer is right. 1: an answer is wrong. 2: bad options or input.
    """
    with errors_shown(as_json), progress_of("building a graph") as show:
        for name in ("scale", "edges_per_vertex"):
            if file is not None and is_given(context, name):
                option = "--" + name.replace("_", "-")
                raise BadArgument(
                    f"graph: {option} is for a random graph; leave out FILE or {option}"
                )
        found = run_demo(file, scale, edges_per_vertex, seed, backend, show)
    if as_json:
        print_json(found)
    else:
        print_rows(rows_of(found))
        print_steps(found["steps"])
    if found["wrong_answer"]:
        if not as_json:
            warn("wrong answer", found["wrong_answer"], style="red")
        raise typer.Exit(1)
    if not as_json:
        print("\nEvery answer, every degree and every row agrees with the reference.")


def run_demo(
    file: str | None, scale: int, edges_per_vertex: int, seed: int, backend: str, show: Any
) -> dict[str, Any]:
    if not _core.has_graph:
        raise BadArgument(
            "graph: this build has no graph demo: zlib was not found when it was built"
        )
    name = f"R-MAT, scale {scale}, seed {seed}" if file is None else file
    found = _core.graph(
        file,
        scale=scale,
        edges_per_vertex=edges_per_vertex,
        seed=seed,
        backend=backend,
        progress=show,
    )
    return {"graph": name} | found


def rows_of(found: dict[str, Any]) -> list[tuple[str, str]]:
    edges = f"{found['edges']:,}, {found['distinct_edges']:,} of them distinct"
    place = "a GPU" if found["backend"] == "cuda" else "threads of the CPU"
    return [
        ("graph", found["graph"]),
        ("edges", f"{edges}, from {found['sources']:,} vertices"),
        ("kernels run on", place),
    ]


def print_steps(steps: list[dict[str, Any]]) -> None:
    """Prints a table for each allocator."""
    for allocator in dict.fromkeys(step["allocator"] for step in steps):
        own = [step for step in steps if step["allocator"] == allocator]
        header = [f"{allocator}: step", "ms", "million edges/s"]
        if own[0]["heap"]:
            header += ["allocated", "reserved", "fragmented"]
        print()
        print_table(header, [cells_of(step) for step in own], left=[0])


def cells_of(step: dict[str, Any]) -> list[str]:
    rate = step["edges"] / step["ms"] / 1e3 if step["ms"] else 0
    cells = [step["step"], f"{step['ms']:.2f}", f"{rate:.2f}"]
    if heap := step["heap"]:
        sizes = (format_size(heap[name]) for name in ("allocated", "reserved"))
        cells += [*sizes, f"{heap['fragmentation']:.1%}"]
    return cells
