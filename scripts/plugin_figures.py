# SPDX-License-Identifier: Apache-2.0
"""The measured part of docs/guide/pytorch.md, from the records of bench/python_plugins.py."""

from dataclasses import dataclass, field

from bench_records import machines, value_text
from markdown import table

BENCH = "python/plugins/"
# Column -> program, measure, unit's size.
COLUMNS = {
    "gpt: step (ms)": ("training_gpt", "step_ms", 1),
    "gpt: peak reserved (GiB)": ("training_gpt", "peak_reserved", 1 << 30),
    "resnet: step (ms)": ("training_resnet", "step_ms", 1),
    "resnet: peak reserved (GiB)": ("training_resnet", "peak_reserved", 1 << 30),
}
ALLOCATORS = {
    "stock": "stock",
    "quarry": "`use()`",
    "one_block": "`use()` in one block",
    "pool": "`pool()`",
}


@dataclass
class Session:
    """The runs of one commit, which alternated between the allocators."""

    runs: set = field(default_factory=set)
    spreads: list = field(default_factory=list)  # of the times of a step
    values: dict = field(default_factory=dict)  # by allocator and blocks: {program, measure: value}


def sessions_of(records, machine):
    """{(date, commit): Session}, oldest first, of the last day of the machine."""
    found = {}
    for record in records:
        bench, params = record["bench"], record["params"]
        if record["machine"] != machine or not bench.startswith(BENCH):
            continue
        program, measure = bench.removeprefix(BENCH), params["measure"]
        if (program, measure.removesuffix(" spread")) not in {c[:2] for c in COLUMNS.values()}:
            continue
        session = found.setdefault((record["date"], record["commit"]), Session())
        session.runs.add(params["runs"])
        if measure.endswith(" spread"):
            session.spreads.append(record["value"])
            continue
        sizes = [params[name] for name in ("first_block", "next_block") if name in params]
        series = session.values.setdefault((params["allocator"], " and ".join(sizes)), {})
        series[program, measure] = record["value"]
    last = max((date for date, _ in found), default=None)
    return {origin: session for origin, session in found.items() if origin[0] == last}


def training(records):
    """The time of a step and the reserved memory of two models, in each session."""
    for machine in machines(records):
        sessions = sessions_of(records, machine)
        if sessions:
            return lines_of(machine, sessions)
    return ["Not measured yet: `bench/python_plugins.py`."]


def lines_of(machine, sessions):
    rows = []
    for (_, commit), session in sessions.items():
        runs = ", ".join(map(str, sorted(session.runs)))
        for (allocator, blocks), values in session.values.items():
            title = ALLOCATORS[allocator] + (f", blocks: {blocks}" if blocks else "")
            row = [title, f"{commit}, {runs} runs"]
            for program, measure, size in COLUMNS.values():
                value = values.get((program, measure))
                row.append("–" if value is None else value_text(value / size))
            rows.append(row)
    date = next(iter(sessions))[0]
    spread = max(spread for session in sessions.values() for spread in session.spreads)
    return [
        f"{machine}, {date}. Medians of the runs. In one session, the times of a step in two runs with",
        f"the same allocator differ by a factor of up to {value_text(spread)}:",
        "",
        *table(["", "session", *COLUMNS], rows),
    ]


SECTIONS = {"training": training}
