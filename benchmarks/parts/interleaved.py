"""Times that can be compared on a machine that is not quiet.

Contestants take turns, one call each per round, in a new random order every round: slow changes of the machine reach
all of them alike. There are two watches.

    WallClock    seconds; a call during which our threads had to queue for a core is not counted. With several threads
                 such a call measures who waits for whom, and is not just longer but wrong.
    CoreClock    seconds of computing, for one thread: right however busy the machine is.

The answer is a ratio of medians with a bootstrap interval, so that it says by itself how well it is known.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

Call = Callable[[], object]
Times = dict[str, np.ndarray]
"""Contestant -> seconds of its calls that count."""

DISTURBED = 0.01
"""Of a call's time: more than this spent queueing for a core, and the call is not counted."""
FEWEST = 5
"""Calls without which there is no median to speak of."""


class TooBusy(RuntimeError):
    """Other work held the cores all the time."""


@dataclass(frozen=True)
class Ratio:
    value: float
    low: float
    high: float
    """Ends of the 95 % bootstrap interval."""

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


class CoreClock:
    threads = 1

    def __call__(self, call: Call) -> float | None:
        start = time.process_time()
        call()
        return time.process_time() - start

    def patient(self) -> bool:
        return True


class WallClock:
    def __init__(self, threads: int, patience: float) -> None:
        self.threads = threads
        self.patience = patience  # seconds that may still be spent waiting for others to leave

    def __call__(self, call: Call) -> float | None:
        """None: the call was disturbed."""
        queued, start = seconds_in_queue(), time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        if seconds_in_queue() - queued <= DISTURBED * seconds:
            return seconds
        self.patience -= wait_until_alone(self.patience)
        return None

    def patient(self) -> bool:
        return self.patience > 0


Watch = CoreClock | WallClock


def take_turns(contestants: Mapping[str, Call], wanted: int, watch: Watch, seed: int = 0) -> Times:
    """Until each has `wanted` calls that count, or the watch has no more patience."""
    warm_up(contestants)
    order, shuffle = list(contestants), random.Random(seed).shuffle
    times: dict[str, list[float]] = {name: [] for name in contestants}
    gc.collect()
    gc.disable()  # a collection would fall on one contestant and not on another
    try:
        while min(map(len, times.values())) < wanted and watch.patient():
            shuffle(order)
            for name in order:
                seconds = watch(contestants[name])
                if seconds is not None:
                    times[name].append(seconds)
    finally:
        gc.enable()
    fewest = min(map(len, times.values()))
    if fewest < FEWEST:
        raise TooBusy(f"only {fewest} calls were left undisturbed by other work; try again, or with --busy")
    return {name: np.array(seconds) for name, seconds in times.items()}


def wait_until_alone(limit: float) -> float:
    """How long it took until nobody but us wanted a core."""
    start = time.perf_counter()
    while (waited := time.perf_counter() - start) < limit:
        time.sleep(0.02)  # first of all: our own idle threads look busy for some milliseconds
        if runnable() <= 1:
            break
    return waited


def runnable() -> int:
    """Threads that run or want to, of the whole machine; 1 where the system does not say."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[0])
    except OSError:
        return 1


def seconds_in_queue() -> float:
    """How long our threads have stood ready to run without a core, all together; 0 where the system does not say."""
    total = 0
    for stat in Path("/proc/self/task").glob("*/schedstat"):
        try:
            total += int(stat.read_text().split()[1])
        except (OSError, IndexError):  # the thread ended meanwhile, or the kernel keeps no count
            continue
    return total / 1e9


def warm_up(contestants: Mapping[str, Call], calls: int = 3) -> None:
    for _ in range(calls):
        for call in contestants.values():
            call()


def ratio_of_medians(times: Times, name: str, against: str, seed: int = 0) -> Ratio:
    if name == against:
        return Ratio(1.0, 1.0, 1.0)
    draw = np.random.default_rng(seed)
    drawn = resampled_medians(times[name], draw) / resampled_medians(times[against], draw)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Ratio(float(np.median(times[name]) / np.median(times[against])), float(low), float(high))


def resampled_medians(values: np.ndarray, draw: np.random.Generator, resamples: int = 2000) -> np.ndarray:
    return np.median(values[draw.integers(len(values), size=(resamples, len(values)))], axis=1)


def median_ms(times: Times, name: str) -> float:
    return 1e3 * float(np.median(times[name]))
