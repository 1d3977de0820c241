"""`python -m barnabas.simulation`: seeds of the simulated cluster, their verdicts and a report.

    --seeds N      how many, from --first on (a drawn number without it)
    --counting N   go on until so many counted, whatever --seeds says
    --workers N    in how many processes
    --trace        one line per event of the first seed, with what the brokers log
    --script FILE  what was drawn before (tests/simulation/scripts), instead of a seed
    --save FOLDER  write down there what was drawn for each seed that failed
    --report FILE  the report as JSON

Exit status 1 when a seed failed.
"""

import argparse
import asyncio
import itertools
import json
import logging
import os
import random
import sys
from collections.abc import Iterable
from typing import Final

from barnabas.runtime.clock import SystemClock
from barnabas.simulation import script
from barnabas.simulation.draws import Draws, draw
from barnabas.simulation.loop import SimulationLoop
from barnabas.simulation.report import line, summarise
from barnabas.simulation.runner import run_seeds
from barnabas.simulation.trial import Tally, run_drawn

_SHOWN: Final = 10
_PROGRESS: Final = 50


class _TraceHandler(logging.Handler):
    """Writes what brokers log with the virtual time and the process."""

    def emit(self, record: logging.LogRecord) -> None:
        loop = asyncio._get_running_loop()  # noqa: SLF001 - None where none runs
        if isinstance(loop, SimulationLoop):
            _say(f"{loop.now_s:.6f} {loop.current_life()}: {record.levelname} {record.getMessage()}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run what the arguments name; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m barnabas.simulation")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--trace", action="store_true")
    parser.add_argument("--script")
    parser.add_argument("--save")
    parser.add_argument("--report")
    parser.add_argument("--counting", type=int, default=0)
    given = parser.parse_args()
    first = random.Random().getrandbits(31) if given.first is None else given.first
    numbers = range(first, first + given.seeds) if not given.counting else itertools.count(first)
    if given.script is not None:
        with open(given.script, encoding="utf-8") as file:
            return _play(*script.loads(file.read()), trace=given.trace)
    seeds = map(str, numbers)
    if given.trace:
        seed = next(seeds)
        return _play(seed, draw(seed), trace=True)
    return _run(seeds, given)


def _play(seed: str, draws: Draws, *, trace: bool) -> int:
    if trace:
        logging.basicConfig(level=logging.INFO, handlers=[_TraceHandler()])
    tally = run_drawn(seed, draws, trace=_say if trace else None)
    _say("\n".join(tally.notes if trace else []))
    _say(line(tally))
    return 0 if tally.passed else 1


def _run(seeds: Iterable[str], given: argparse.Namespace) -> int:
    clock = SystemClock()
    started_ms = clock.monotonic_ms()
    tallies: list[Tally] = []
    counted = 0
    for tally in run_seeds(seeds, workers=given.workers):
        tallies.append(tally)
        counted += tally.counts
        if not tally.passed and given.save is not None:
            os.makedirs(given.save, exist_ok=True)
            with open(f"{given.save}/{tally.seed}.json", "w", encoding="utf-8") as file:
                file.write(tally.script)
        if not tally.passed or len(tallies) <= _SHOWN:
            _say(line(tally))
        elif not len(tallies) % _PROGRESS:
            _say(f"{len(tallies)} seeds, {counted} counted")
        if given.counting and counted >= given.counting:
            break
    report = summarise(tallies, elapsed_s=(clock.monotonic_ms() - started_ms) / 1000, workers=given.workers)
    if given.report is not None:
        with open(given.report, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    _say(f"{len(tallies)} seeds, {counted} counted, {report['seeds_per_s']} a second")
    failed = [tally.seed for tally in tallies if not tally.passed]
    if failed:
        _say(f"failed: {' '.join(failed)}; `make sim SEED=n RUNS=1` replays one, ARGS=--trace shows it")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
