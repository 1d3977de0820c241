"""Runs many seeds, in this process or in several, and gives their results in the order of the seeds."""

import gc
import logging
import multiprocessing
from collections.abc import Iterator, Sequence

from barnabas.simulation.trial import Tally, run_seed


def run_seeds(seeds: Sequence[str], *, workers: int) -> Iterator[Tally]:
    """The results of the seeds, as they come, in order."""
    if workers <= 1:
        prepare()
        yield from map(run_seed, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(workers, initializer=prepare) as pool:
        yield from pool.imap(run_seed, seeds)


def prepare() -> None:
    """Make this process a quick one: brokers log nothing, and the collector looks only between seeds."""
    logging.disable(logging.CRITICAL)
    gc.collect()
    gc.freeze()
    gc.disable()
