# SPDX-License-Identifier: Apache-2.0
"""The figures in sentences of docs/design, by name. They come from bench/results."""

from .plots import DEVICES
from .pools import HOST_CASES, lookup_case
from .records import value_text

NOT_MEASURED = "(not measured yet)"


def first_machine(text):
    """The text of the first machine that has one, GPUs first."""

    def value(data):
        found = ((text(data, machine), machine) for machine in data.machines())
        return next((f"{said} on {machine}" for said, machine in found if said), NOT_MEASURED)

    return value


def measurement(bench, selection, unit, write=value_text):
    """The median of a measurement."""

    def text(data, machine):
        point = data.point(machine, bench, **selection)
        return point and point.median is not None and f"{write(point.median)} {unit}"

    return first_machine(text)


def quotient(bench, slow, fast):
    """The minimum and the maximum quotient of two allocators' pairs, over the cases of pools."""

    def text(data, machine):
        found = [data.runs(machine, bench, case.selection()) for case in HOST_CASES[1:]]
        found = [
            series[slow].median / series[fast].median
            for series in found
            if slow in series and fast in series
        ]
        return found and f"{min(found):.1f} to {max(found):.1f}"

    return first_machine(text)


def lookup(live):
    """The time of a lookup as docs/plots shows it: the median of a day's runs."""

    def text(data, machine):
        point = data.runs(machine, "host/registry/find", lookup_case(live)).get("quarry")
        return point and f"{value_text(point.median)} ns"

    return first_machine(text)


def opencl(bench, unit, selection, allocators):
    """{name and device: value} of the same measurement on PoCL and on a GPU, by allocators."""
    found = {}
    for name, allocator in allocators.items():
        for suffix, device in (("cpu", DEVICES["pocl"]), ("gpu", DEVICES["gpu"])):
            more = {"device": device.is_this, "allocator": allocator}

            def text(data, bench=bench, machine=device.machine, selection=selection | more):
                point = data.point(machine, f"opencl/{bench}", **selection)
                is_measured = point and point.median is not None
                return (
                    f"{value_text(point.median)} {unit} on {machine}"
                    if is_measured
                    else NOT_MEASURED
                )

            found[f"opencl-{name}-{suffix}"] = text
    return found


def graphs(name, selection):
    kinds = {name: "quarry", f"{name}-reserve": "quarry reserve", f"{name}-ring": "ring"}
    return opencl("graph", "ms", selection, kinds)


def pairs(name, items, variance="none"):
    return opencl("pairs", "ms", {"variance": variance, "items": items}, {name: "quarry"})


VALUES = {
    "lookup-thousand": lookup(1000),
    "lookup-million": lookup(1_000_000),
    "registers": measurement("heap/registers/malloc", {}, "registers"),
    "metadata": measurement(
        "heap/init/metadata", {"heap_bytes": 8 << 30}, "%", lambda share: f"{100 * share:.2f}"
    ),
    "malloc-all": measurement("heap/scaling/malloc", {"threads": 1 << 20}, "µs"),
    "stream-by-pool": quotient("host/pool/pair", "quarry-stream", "quarry"),
    "fast-by-segregated": quotient("host/strategy/pair", "segregated_fit", "fast_fit"),
    **opencl("pair", "ns", {"size": 4}, {"pair": "quarry"}),
    **pairs("pairs-4608", 4608),
    **pairs("pairs-16384", 16384),
    **pairs("pairs-65536", 65536),
    **pairs("pairs-million", 1048576, "high"),
    **opencl(
        "allocate",
        "ms",
        {"items": 16384},
        {
            "allocate": "quarry",
            "allocate-group": "quarry group",
            "allocate-reserve": "quarry reserve",
            "allocate-ring": "ring",
        },
    ),
    **opencl("free_list", "ms", {"items": 64}, {"spans-bitmap": "bitmap", "spans-queue": "queue"}),
    **graphs("graph", {"items": 64}),
    **graphs("graph-4608", {"items": 4608}),
    **graphs("graph-large", {"items": 65536, "edges": 1 << 24}),
}
