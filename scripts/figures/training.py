# SPDX-License-Identifier: Apache-2.0
"""The table of docs/guide/pytorch.md, from bench/python_plugins.py: sessions of one day.

A session is all runs of one commit. They alternated between the allocators.
"""

from .records import value_text
from .table import DASH, markdown

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


def shown_records(data, machine):
    """The records of the last day that a column or the spread of the times shows."""
    programs = {program for program, _, _ in COLUMNS.values()}
    measures = {measure for _, measure, _ in COLUMNS.values()}
    found = [
        record
        for record in data.records
        if record["machine"] == machine
        and record["bench"].removeprefix(BENCH) in programs
        and record["params"]["measure"].removesuffix(" spread") in measures
    ]
    return [record for record in found if record["date"] == found[-1]["date"]]


def title_of(params):
    blocks = [params[name] for name in ("first_block", "next_block") if name in params]
    suffix = f", blocks: {' and '.join(blocks)}" if blocks else ""
    return ALLOCATORS[params["allocator"]] + suffix


def training(data):
    """The time of a step and the reserved memory of two models, in each session."""
    machine, records = next(
        (
            (machine, found)
            for machine in data.machines()
            if (found := shown_records(data, machine))
        ),
        (None, []),
    )
    if machine is None:
        return ["Not measured yet: `bench/python_plugins.py`."]
    sessions, spreads = {}, []
    for record in records:
        params = record["params"]
        runs, rows = sessions.setdefault(record["commit"], (set(), {}))
        runs.add(params["runs"])
        if params["measure"].endswith(" spread"):
            spreads.append(record["value"])
        else:
            key = (record["bench"].removeprefix(BENCH), params["measure"])
            rows.setdefault(title_of(params), {})[key] = record["value"]
    lines = []
    for commit, (runs, rows) in sessions.items():
        session = f"{commit}, {', '.join(map(str, sorted(runs)))} runs"
        for title, values in rows.items():
            found = [
                (values.get((program, name)), size) for program, name, size in COLUMNS.values()
            ]
            texts = [
                DASH if number is None else value_text(number / size) for number, size in found
            ]
            lines.append([title, session, *texts])
    return [
        f"{machine}, {records[-1]['date']}. Medians of the runs. In one session, the times of a step in "
        "two runs",
        f"with the same allocator differ by a factor of up to {value_text(max(spreads))}:",
        "",
        *markdown(["", "session", *COLUMNS], lines),
    ]
