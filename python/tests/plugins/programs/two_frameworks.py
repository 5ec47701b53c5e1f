# SPDX-License-Identifier: Apache-2.0
"""PyTorch and CuPy at once, in two threads, which pass arrays to each other. Prints checksums.

usage: two_frameworks.py ALLOCATOR [TRACE]      stock, quarry
"""

import json
import queue
import sys
import threading

import cupy
import torch

allocator = sys.argv[1]
if allocator == "quarry":
    import quarry.cupy
    import quarry.torch

    recording = {"record": sys.argv[2], "call_sites": True} if len(sys.argv) > 2 else {}
    quarry.torch.use(**recording)
    quarry.cupy.use()

ROUNDS = 60
to_cupy: queue.Queue = queue.Queue(4)
sums: dict[str, list[float]] = {"cupy": [], "torch": []}
problems: list[str] = []


def receive() -> None:
    """Takes tensors, replaces each by an array of CuPy, and lets go of both."""
    with cupy.cuda.Stream(non_blocking=True) as stream:
        for _ in range(ROUNDS):
            tensor, event = to_cupy.get()
            stream.wait_event(event)
            array = cupy.from_dlpack(tensor) * 2 + 1
            sums["cupy"].append(float(array.sum()))
            back = torch.from_dlpack(array)
            sums["torch"].append(float((back - 1).sum()))
            torch.cuda.current_stream().synchronize()
            del tensor, array, back


def run_receiver() -> None:
    try:
        receive()
    except BaseException as raised:
        problems.append(repr(raised))
        while True:  # lets the sender go on
            to_cupy.get()


receiver = threading.Thread(target=run_receiver, daemon=True)
receiver.start()
side = torch.cuda.Stream()
for number in range(ROUNDS):
    with torch.cuda.stream(side):
        tensor = torch.full((1000 * (number + 1),), float(number), device="cuda")
        tensor += torch.arange(tensor.numel(), device="cuda") % 7
        side.synchronize()
        event = cupy.cuda.Event()
        event.record(cupy.cuda.ExternalStream(side.cuda_stream))
        to_cupy.put((tensor, event))
        del tensor
receiver.join(120)
torch.cuda.synchronize()
result = {"sums": sums, "problems": problems, "is done": not receiver.is_alive()}
if allocator == "quarry":
    result["counts"] = quarry.torch.counts().to_dict()
    result["audit"] = quarry.torch.audit()
print(json.dumps(result))
