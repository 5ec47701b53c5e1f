# SPDX-License-Identifier: Apache-2.0
"""Runs out of memory in several places, goes on, and prints what was raised.

usage: torch_memory.py ALLOCATOR      quarry, pool
"""

import contextlib
import json
import sys

import torch

import quarry
import quarry.plugins
import quarry.torch

allocator = sys.argv[1]
result: dict[str, object] = {}
options = {"capacity": "1GiB", "first_block": "64MiB"}
if allocator == "quarry":
    quarry.torch.use(**options)


def scope(**options: object) -> contextlib.AbstractContextManager:
    return quarry.torch.pool(**options) if allocator == "pool" else contextlib.nullcontext()


def failure(work) -> dict[str, object]:
    try:
        work()
    except torch.OutOfMemoryError as failed:
        return {"type": type(failed).__name__, "text": str(failed)}
    except Exception as failed:
        return {"type": type(failed).__name__, "text": str(failed), "is_wrong": True}
    return {"type": None}


def allocate_too_much() -> None:
    torch.empty(2 << 30, dtype=torch.uint8, device="cuda")


def backward_too_much() -> None:
    x = torch.ones(40 << 20, device="cuda", requires_grad=True)  # 160 MiB
    y = x
    for _ in range(3):
        y = y.sin()
    held = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
    y.sum().backward()
    del held


def hold_too_much() -> None:
    held = []
    while len(held) < 100:
        held.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))


with scope(**options):
    result["direct"] = failure(allocate_too_much)
    result["last_error"] = quarry.plugins.last_error()
    result["held"] = failure(hold_too_much)
    result["backward"] = failure(backward_too_much)
quarry.torch.release()  # with pool(), PyTorch keeps its segments until here
with scope():
    x = torch.arange(1 << 20, device="cuda", dtype=torch.float64)
    result["sum"] = float((x * 2).sum())
    result["after"] = failure(lambda: torch.empty(512 << 20, dtype=torch.uint8, device="cuda"))
    if allocator == "quarry":
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                x + 1
        except RuntimeError as failed:
            result["graph"] = str(failed)
        try:
            quarry.torch.use()
        except quarry.BadState as failed:
            result["second"] = str(failed)
    else:
        static = torch.zeros(1000, device="cuda")
        static + 1  # loads the kernel
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            made = static + 1
        static.fill_(41)
        graph.replay()
        result["graph"] = float(made.sum())
    try:
        quarry.plugins.configure(capacity="2GiB")
    except quarry.BadState as failed:
        result["late options"] = str(failed)
    del x
torch.cuda.synchronize()
torch.cuda.empty_cache()
counts = quarry.torch.counts()
result["reserved at the end"] = counts.reserved
result["in use at the end"] = counts.allocations_in_use
result["invalid_frees"] = counts.invalid_frees
result["audit"] = quarry.torch.audit()
print(json.dumps(result))
kept_until_exit = torch.zeros(1000, device="cuda")  # freed after this module's destructors
