"""Runs many seeds, in this process or in several, and gives their results in the order of the seeds."""

import gc
import logging
import multiprocessing
from collections import deque
from collections.abc import Iterable, Iterator
from multiprocessing.pool import AsyncResult

from barnabas.simulation.trial import Tally, run_seed

_AHEAD = 3
"""How many seeds a worker has waiting; seeds may go on for ever, results are taken as they come."""


def run_seeds(seeds: Iterable[str], *, workers: int) -> Iterator[Tally]:
    """The results of the seeds, as they come, in order. Whoever has enough closes it."""
    if workers <= 1:
        prepare()
        yield from map(run_seed, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(workers, initializer=prepare) as pool:
        waiting: deque[AsyncResult[Tally]] = deque()
        for seed in seeds:
            waiting.append(pool.apply_async(run_seed, (seed,)))
            if len(waiting) >= workers * _AHEAD:
                yield waiting.popleft().get()
        while waiting:
            yield waiting.popleft().get()


def prepare() -> None:
    """Make this process a quick one: only errors are logged, and the collector looks only between seeds."""
    logging.basicConfig(level=logging.ERROR, handlers=[logging.NullHandler()])
    gc.collect()
    gc.freeze()
    gc.disable()
