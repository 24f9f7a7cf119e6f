"""What does the choice of a design cost? Our Pre-LN block against a hand-written one, every design against Pre-LN.

    python benchmarks/block_overhead.py [--quick] [--busy] [--json FILE]

Goals: at most 1.03 times the hand-written block at width 512 and length 128; designs within 10 % of Pre-LN, or a
reason why not.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from parts.blocks import LAYER, Size, by_hand, our_block
from parts.interleaved import CoreClock, Ratio, TooBusy, WallClock, Watch, median_ms, ratio_of_medians, take_turns
from parts.steps import PASSES, WAYS, Step, make_step
from rich.console import Console
from rich.table import Table

from addnorm.arrangements import CATALOGUE

THREADS, PATIENCE = 2, 60.0
SIZES = (Size(width=512, batch=4), Size(width=256, batch=1))
GOAL, NEAR = 1.03, 1.10
LOCAL = (
    *("post_ln", "res_post", "sandwich", "no_norm", "no_skip"),
    *("scaled", "rezero", "t_fixup", "admin", "deep_norm"),
)
WHY = {
    "pre_ln": "some 30 us of Python calls per block more, whatever its size: seen where a block takes few milliseconds",
    "sandwich": "twice the norms",
    "gated": "one D x D matrix more per sub-layer, a sixth of the block's products, and a sigmoid",
    "concat": "one D x 2D matrix more per sub-layer, a third of the block's products",
    "dlcl": f"a weighted sum over the {LAYER + 1} outputs below, and one norm more",
    "dlcl_post": f"a weighted sum over the {LAYER + 1} outputs below, and one norm more",
    "resi_dual": "a second stream, scaled and added to at every sub-layer",
    "hyper_connections": "four lanes: the stream is four times as wide, mixed and normalised whole at every sub-layer",
}
"""What a block does more than the one it is compared with; shown where the ratio is above its goal."""


@dataclass(frozen=True)
class Case:
    """One race: everything in it runs in the same rounds."""

    size: Size
    way: str
    which: str
    calls: int
    watch: Watch

    def __str__(self) -> str:
        return f"{self.which}, {self.way}, {self.size}, threads: {self.watch.threads}"


@dataclass(frozen=True)
class Row:
    name: str
    calls: int
    median_ms: float
    ratio: Ratio
    reason: str


def against_hand_written(case: Case) -> list[Row]:
    block, ours = our_block("pre_ln", case.size)
    hand = by_hand(block, ours.stream, case.size.heads)
    steps = {"hand-written": make_step(hand, case.way, case.which), "pre_ln": make_step(ours, case.way, case.which)}
    assert_same_results(steps["pre_ln"], steps["hand-written"])
    return race(steps, "hand-written", case, limit=GOAL)


def against_pre_ln(names: Iterable[str], case: Case) -> list[Row]:
    steps = {name: make_step(our_block(name, case.size)[1], case.way, case.which) for name in ("pre_ln", *names)}
    return race(steps, "pre_ln", case, limit=NEAR)


def assert_same_results(ours: Step, hand: Step) -> None:
    """Outputs, or all gradients: two blocks that differ in what they compute must not be compared in how fast."""
    for came, wanted in zip(ours(), hand(), strict=True):
        torch.testing.assert_close(came, wanted, rtol=1e-4, atol=1e-4)


def race(steps: dict[str, Step], against: str, case: Case, limit: float) -> list[Row]:
    times = take_turns(steps, case.calls, case.watch)
    rows = []
    for name in steps:
        ratio = ratio_of_medians(times, name, against)
        unexplained = "unexplained: look at it with a profiler" if ratio.low > 1.0 else "too few calls to tell"
        reason = WHY.get(name, unexplained) if ratio.value > limit else ""
        rows.append(Row(name, len(times[name]), median_ms(times, name), ratio, reason))
    return rows


def table(title: str, rows: list[Row]) -> Table:
    shown = Table(title=title, title_justify="left")
    for column in ("block", "calls", "median ms", "ratio [95 %]"):
        shown.add_column(column, justify="left" if column == "block" else "right")
    shown.add_column("why")
    for row in rows:
        shown.add_row(row.name, str(row.calls), f"{row.median_ms:.2f}", str(row.ratio), row.reason)
    return shown


def races(quick: bool, busy: bool) -> Iterator[tuple[str, Case, Callable[[Case], list[Row]]]]:
    def case(*what: Any) -> Case:
        return Case(*what, CoreClock() if busy else WallClock(THREADS, PATIENCE))

    sizes, pair, many = (SIZES[:1], 20, 5) if quick else (SIZES, 100, 40)
    for size, way, which in product(sizes, WAYS, PASSES):
        yield "Pre-LN against hand-written", case(size, way, which, pair), against_hand_written
    others = [name for name in CATALOGUE if name not in (*LOCAL, "pre_ln")]
    for names, title in ((LOCAL, "local designs against Pre-LN"), (others, "other designs against Pre-LN")):
        for way, which in product(WAYS[:1] if quick else WAYS, PASSES):
            yield title, case(SIZES[0], way, which, many), partial(against_pre_ln, names)


def run(quick: bool, busy: bool, console: Console) -> Iterator[dict[str, Any]]:
    for title, case, race_of in races(quick, busy):
        torch.set_num_threads(case.watch.threads)
        try:
            rows = race_of(case)
        except TooBusy as error:
            console.print(f"{title}: {case}: {error}")
        except torch._dynamo.exc.TorchDynamoException as error:
            console.print(f"{title}: {case}: cannot be compiled here: {error}")
        else:
            console.print(table(f"{title}: {case}", rows))
            yield {"title": title, "case": str(case), "rows": [asdict(row) for row in rows]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few calls, one size: shows that it runs")
    parser.add_argument("--busy", action="store_true", help="one thread, computing time: for a machine others use too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    arguments = parser.parse_args()
    # Where the output is no terminal, rich would take it for a narrow one.
    console = Console(width=None if sys.stdout.isatty() else 140)
    results = list(run(arguments.quick, arguments.busy, console))
    if arguments.json:
        machine = {"cpu": platform.processor() or platform.machine(), "torch": torch.__version__}
        arguments.json.write_text(json.dumps({"machine": machine, "races": results}, indent=2))


if __name__ == "__main__":
    main()
