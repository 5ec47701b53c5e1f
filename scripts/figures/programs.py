# SPDX-License-Identifier: Apache-2.0
"""The table of MPI programs that nobody here wrote, from the records of scripts/mpi_programs.py."""

from .table import DASH, markdown

STEPS = {True: "yes", False: "**no**", None: DASH}


def others(data):
    """The last commit of each program."""
    found = {}
    for params in (record["params"] for record in data.matching("mpi/others")):
        name, commit = (params["repository"], params["program"]), params["commit"]
        if found.get(name, {}).get("commit") != commit:
            found[name] = {"commit": commit}
        found[name][params["device"]] = params
    rows = []
    for (repository, program), entry in sorted(found.items()):
        tried = [entry.get(device, {"equal": None, "reason": ""}) for device in ("cpu", "gpu")]
        ranks = (
            f" ({', '.join(f'{n:,}' for n in p['ranks'])})" if p["equal"] else "" for p in tried
        )
        compiles = STEPS[next(p["compiles"] for p in tried if "compiles" in p)]
        equal = [STEPS[p["equal"]] + text for p, text in zip(tried, ranks)]
        reason = "; ".join(filter(None, dict.fromkeys(p["reason"] for p in tried)))
        rows.append([program, f"{repository} {entry['commit']}", compiles, *equal, reason])
    good = [sum(row[nth].startswith("yes") for row in rows) for nth in (2, 3, 4)]
    cpu, gpu = (sum(row[nth] != DASH for row in rows) for nth in (3, 4))
    head = ["program", "repository, commit", "compiles", "CPU (ranks)", "GPU (ranks)", "reason"]
    return [
        f"{good[0]} of {len(rows)} programs compile. Equal output: {good[1]} of {cpu} on the CPU, "
        f"{good[2]} of {gpu} on the GPU.",
        "",
        *markdown(head, rows, right=False),
    ]
