"""Two processes that talk over gloo, each running the same function and leaving its findings in a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, multiprocessing

WORLD = 2
PATIENCE = 120.0  # seconds


def on_two_ranks(work: Callable[[int], Any], folder: Path) -> list[Any]:
    """work(rank) on both ranks at once; what each returned, by rank."""
    context = multiprocessing.spawn(_run, (work, str(folder)), nprocs=WORLD, join=False)
    deadline = time.monotonic() + PATIENCE
    try:
        while not context.join(timeout=1.0):  # False while any of them still runs
            if time.monotonic() > deadline:
                raise TimeoutError(f"the ranks did not finish in {PATIENCE:.0f} s: one waits for the other")
    finally:
        for process in context.processes:
            process.kill()
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]


def _run(rank: int, work: Callable[[int], Any], folder: str) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    try:
        torch.save(work(rank), f"{folder}/{rank}.pt")
    finally:
        distributed.destroy_process_group()
