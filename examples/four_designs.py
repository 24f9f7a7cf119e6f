"""Four designs, one deep model: build, show, train each for about a minute, compare.

    python examples/four_designs.py                      # post_ln, pre_ln, admin and rezero, 24 layers
    python examples/four_designs.py b2t deep_norm --depth 48

The text is Python's own standard library, as bytes; every 10th file is held out. All designs start from the same
sub-layer weights (up to their gains), read the same batches in the same order, and take the same number of steps.
"""

from __future__ import annotations

import argparse
import json
import math
import sysconfig
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch.nn import functional as F

import addnorm
from addnorm.arrangements.card import card
from addnorm.atlas import text, wiring

Tell = Callable[[int, float], None]
BARS = "▁▂▃▄▅▆▇█"


@dataclass
class Outcome:
    losses: list[float] = field(default_factory=list)
    held_out: float = math.nan
    parameters: int = 0
    seconds: float = 0.0

    @property
    def finite(self) -> bool:
        return math.isfinite(self.held_out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("designs", nargs="*", default=["post_ln", "pre_ln", "admin", "rezero"], help="names, or JSON")
    parser.add_argument("--depth", type=int, default=24, help="layers")
    parser.add_argument("--width", type=int, default=64, help="features of the stream")
    parser.add_argument("--steps", type=int, default=150, help="optimizer steps for each design")
    parser.add_argument("--batch", type=int, default=16, help="sequences a step")
    parser.add_argument("--length", type=int, default=128, help="bytes a sequence")
    parser.add_argument("--rate", type=float, default=1e-3, help="Adam's learning rate")
    parser.add_argument("--warm-up", type=int, default=0, help="steps over which the rate rises from zero")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--json", type=Path, help="also write the held-out losses to this file")
    asked = parser.parse_args()

    console = Console()
    training, held_out = standard_library()
    constant = unigram_entropy(training, held_out)
    console.print(
        f"Standard library source: {len(training):,} bytes to learn from, {len(held_out):,} held out. "
        f"Always guessing by frequency: {constant:.2f} nats a byte; zlib: {zlib_nats(training, held_out):.2f}.\n",
        highlight=False,
    )
    for name in asked.designs:
        show(console, name, asked.depth, asked.width)

    outcomes = {}
    with Progress(
        TextColumn("{task.description:<18}"),
        BarColumn(),
        TextColumn("{task.completed:>4.0f}/{task.total:.0f} steps  loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:
        tasks = {name: progress.add_task(name, total=asked.steps, loss=math.nan) for name in asked.designs}
        for name, task in tasks.items():

            def tell(step: int, loss: float, name: str = name, task: TaskID = task) -> None:
                progress.update(task, completed=step, loss=loss)
                if not console.is_terminal and step % 50 == 0:  # a log wants lines, not a bar
                    console.print(f"{name:<18}{step:>4}/{asked.steps} steps  loss {loss:.3f}", highlight=False)

            outcomes[name] = train(name, asked, training, held_out, tell)
    report(console, outcomes, constant, asked)
    if asked.json:
        losses = {name: outcome.held_out if outcome.finite else None for name, outcome in outcomes.items()}
        asked.json.write_text(json.dumps(losses))


def standard_library() -> tuple[torch.Tensor, torch.Tensor]:
    """(training, held out) bytes: every 10th file is held out."""
    root = Path(sysconfig.get_paths()["stdlib"])
    files = sorted(path for path in root.rglob("*.py") if not {"site-packages", "test", "tests"} & set(path.parts))
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for number, path in enumerate(files):
        parts[number % 10 == 0].append(path.read_bytes())
    training, held_out = (torch.frombuffer(bytearray(b"".join(part)), dtype=torch.uint8) for part in parts)
    return training, held_out


def unigram_entropy(training: torch.Tensor, held_out: torch.Tensor) -> float:
    """The loss of the best predictor that does not look: what a model must beat to have learned anything."""
    chances = (torch.bincount(training.int(), minlength=256).double() + 1) / (len(training) + 256)
    return float(-chances.log()[held_out.long()].mean())


def zlib_nats(training: torch.Tensor, held_out: torch.Tensor) -> float:
    """Of held-out text given training text in zlib's window."""
    context = bytes(training[-32_000:].tolist())
    text_ = bytes(held_out.tolist())
    bits = 8.0 * (len(zlib.compress(context + text_, 9)) - len(zlib.compress(context, 9)))
    return bits * math.log(2.0) / len(text_)


def chosen(name: str) -> str | addnorm.Arrangement:
    """A design by name, or as JSON: {"kind": "b2t", "depth_power": 0.0}"""
    return addnorm.Arrangement.from_json(name) if name.startswith("{") else name


def show(console: Console, name: str, depth: int, width: int) -> None:
    design = addnorm.make_spec(chosen(name)).arrangement
    console.print(f"[bold]{name}[/]  {card(design).formula}", highlight=False)
    console.print(text.draw(wiring.trace(design, "decoder", depth, width, heads=4)), highlight=False, markup=False)


def batches(text_: torch.Tensor, steps: int, batch: int, length: int, seed: int) -> torch.Tensor:
    """(steps, batch, length + 1): a function of the seed alone, so that every design reads the same."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, len(text_) - length - 1, (steps, batch, 1), generator=generator)
    return text_[starts + torch.arange(length + 1)].long()


def loss_of(model: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def train(name: str, asked: argparse.Namespace, training: torch.Tensor, held_out: torch.Tensor, tell: Tell) -> Outcome:
    began = time.perf_counter()
    model = addnorm.build(
        chosen(name),
        mode="decoder",
        vocab=256,
        width=asked.width,
        heads=4,
        depth=asked.depth,
        seed=asked.seed,
        device=asked.device,
    )
    rows = batches(training, asked.steps, asked.batch, asked.length, asked.seed).to(asked.device)
    addnorm.calibrate(model, rows[0, :, :-1])  # Admin's; the others need nothing
    optimizer = torch.optim.Adam(model.parameters(), lr=asked.rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / max(1, asked.warm_up)))
    outcome = Outcome(parameters=model.parameter_count())
    for step, row in enumerate(rows, start=1):
        loss = loss_of(model, row)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        outcome.losses.append(loss.item())
        tell(step, loss.item())
    model.eval()
    with torch.no_grad():
        fixed = batches(held_out, 8, asked.batch, asked.length, seed=1).to(asked.device)
        outcome.held_out = sum(loss_of(model, row).item() for row in fixed) / len(fixed)
    outcome.seconds = time.perf_counter() - began
    return outcome


def curve(losses: list[float], low: float, high: float, columns: int = 18) -> str:
    """The loss over time in one line of text."""
    size = max(1, len(losses) // columns)
    means = [sum(losses[i : i + size]) / size for i in range(0, size * (len(losses) // size), size)]
    scaled = [(min(max(mean, low), high) - low) / (high - low or 1.0) if math.isfinite(mean) else 1.0 for mean in means]
    return "".join(BARS[min(int(value * len(BARS)), len(BARS) - 1)] for value in scaled)


def report(console: Console, outcomes: dict[str, Outcome], constant: float, asked: argparse.Namespace) -> None:
    low = min((loss for outcome in outcomes.values() for loss in outcome.losses if math.isfinite(loss)), default=0.0)
    size = f"{asked.depth} layers, width {asked.width}"
    table = Table(title=f"{size}, {asked.steps} Adam steps at {asked.rate:g}, warm-up {asked.warm_up}")
    for title in ("design", "nats/byte", "bits/byte", "loss over time", "parameters", "seconds"):
        table.add_column(title, justify="left" if title in ("design", "loss over time") else "right", no_wrap=True)
    ranked = sorted(outcomes, key=lambda name: outcomes[name].held_out if outcomes[name].finite else math.inf)
    for name in ranked:
        outcome = outcomes[name]
        table.add_row(
            name,
            f"{outcome.held_out:.3f}",
            f"{outcome.held_out / math.log(2.0):.3f}",
            curve(outcome.losses, low, constant * 1.2),
            f"{outcome.parameters:,}",
            f"{outcome.seconds:.0f}",
        )
    console.print()
    console.print(table)
    best = outcomes[ranked[0]]
    diverged = [name for name in ranked if not outcomes[name].finite]
    stalled = [name for name in ranked if outcomes[name].finite and outcomes[name].held_out >= 0.95 * constant]
    lines = [f"Held-out loss after {asked.steps} steps; {ranked[0]} is ahead, at {best.held_out:.3f} nats a byte."]
    if stalled:
        lines.append(f"Stalled, no better than guessing by frequency ({constant:.2f}): {', '.join(stalled)}.")
    if diverged:
        lines.append(f"Diverged: {', '.join(diverged)}.")
    if stalled or diverged:
        cards = {name: card(addnorm.make_spec(chosen(name)).arrangement) for name in stalled + diverged}
        said = ", ".join(f"{name} {about.warm_up}" for name, about in cards.items())
        lines.append(f"Warm-up was {asked.warm_up} steps; their papers call it: {said}.")
    console.print()
    for line in lines:
        console.print(line, highlight=False)
    console.print("One seed and one rate: an illustration, not a comparison of designs.", style="dim")


if __name__ == "__main__":
    main()
