# SPDX-License-Identifier: Apache-2.0
"""Trains a small model and prints losses, time and peak memory as JSON.

usage: training.py MODEL ALLOCATOR [STEPS [TRACE]]
MODEL: gpt, resnet. ALLOCATOR: stock, quarry, pool (PyTorch's caching allocator over Quarry's pool),
or one_block: quarry with a first block that holds everything.
"""

import contextlib
import json
import os
import statistics
import sys
import time

os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        later = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """A language model with causal attention, written out so that no fused kernel is chosen."""

    def __init__(self, words: int, length: int, width: int = 512, layers: int = 6) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 8) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        places = torch.arange(text.shape[1], device=text.device)
        return self.head(self.norm(self.blocks(self.words(text) + self.places(places))))


class Residual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)
        self.skip = nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.skip(x))


def make_resnet(classes: int) -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(3, 32, 3, 1, 1, bias=False)]
    for inside, outside, stride in [(32, 32, 1), (32, 64, 2), (64, 128, 2), (128, 256, 2)]:
        layers += [Residual(inside, outside, stride), Residual(outside, outside, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes))


def make_step(model_name: str):
    """A function that trains one step and returns the loss. Batch sizes differ, as in real data."""
    random = torch.Generator().manual_seed(7)
    if model_name == "gpt":
        model = Gpt(8000, 256).cuda()
    else:
        model = make_resnet(10).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(number: int) -> torch.Tensor:
        batch = 16 - number % 4
        if model_name == "gpt":
            text = torch.randint(8000, (batch, 257), generator=random).cuda()
            scores = model(text[:, :-1]).flatten(0, 1)
            loss = functional.cross_entropy(scores, text[:, 1:].flatten())
        else:
            images = torch.randn(8 * batch, 3, 64, 64, generator=random).cuda()
            kinds = torch.randint(10, (8 * batch,), generator=random).cuda()
            loss = functional.cross_entropy(model(images), kinds)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, model


def main() -> None:
    model_name, allocator = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    options: dict = {"record": sys.argv[4]} if len(sys.argv) > 4 else {}
    if options and allocator != "pool":
        options["call_sites"] = True
    scope: contextlib.AbstractContextManager = contextlib.nullcontext()
    if allocator != "stock":
        import quarry.torch

        if allocator == "one_block":
            quarry.torch.use(first_block="4GiB", **options)
        elif allocator == "quarry":
            quarry.torch.use(**options)
        else:
            scope = quarry.torch.pool(**options)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    with scope:
        step, model = make_step(model_name)
        losses, seconds = [], []
        for number in range(steps):
            torch.cuda.synchronize()
            start = time.perf_counter()
            losses.append(step(number))
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        total = sum(p.detach().double().abs().sum() for p in model.parameters())
        result = {
            "losses": [float(loss).hex() for loss in losses],
            "weights": float(total).hex(),
            "last_loss": float(losses[-1]),
            "step_ms": 1e3 * statistics.median(seconds[2:]),
            "first_step_ms": 1e3 * seconds[0],
        }
    if allocator == "stock":
        result["peak_reserved"] = torch.cuda.max_memory_reserved()
        result["peak_allocated"] = torch.cuda.max_memory_allocated()
    else:
        counts = quarry.torch.counts()
        result["peak_reserved"] = counts.peak_reserved
        result["peak_allocated"] = counts.peak_allocated
        result["counts"] = counts.to_dict()
        result["audit"] = quarry.torch.audit()
    print(json.dumps(result))


main()
