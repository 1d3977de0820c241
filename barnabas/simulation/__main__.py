"""`python -m barnabas.simulation`: seeds of the simulated cluster, their verdicts and a report.

    --seeds N      how many, from --first on (a drawn number without it)
    --workers N    in how many processes
    --trace        one line per event of the first seed, with what the brokers log
    --list FILE    the seeds in a file, one a line; what follows a blank is a comment
    --report FILE  the report as JSON

Exit status 1 when a seed failed or, with --counting N, when fewer than N counted.
"""

import argparse
import asyncio
import json
import logging
import random
import sys

from barnabas.runtime.clock import SystemClock
from barnabas.simulation.loop import SimulationLoop
from barnabas.simulation.report import line, summarise
from barnabas.simulation.runner import run_seeds
from barnabas.simulation.trial import Tally, run_seed


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
    parser.add_argument("--list", dest="seed_list")
    parser.add_argument("--report")
    parser.add_argument("--counting", type=int, default=0)
    given = parser.parse_args()
    if given.seed_list is not None:
        with open(given.seed_list, encoding="utf-8") as file:
            seeds = [words[0] for words in map(str.split, file) if words and not words[0].startswith("#")]
    else:
        first = random.Random().getrandbits(31) if given.first is None else given.first
        seeds = [str(seed) for seed in range(first, first + given.seeds)]
    if given.trace:
        return _trace(seeds[0])
    return _run(seeds, given)


def _trace(seed: str) -> int:
    logging.basicConfig(level=logging.INFO, handlers=[_TraceHandler()])
    tally = run_seed(seed, trace=_say)
    _say("\n".join(tally.notes))
    _say(line(tally))
    return 0 if tally.passed else 1


def _run(seeds: list[str], given: argparse.Namespace) -> int:
    clock = SystemClock()
    started_ms = clock.monotonic_ms()
    tallies: list[Tally] = []
    for tally in run_seeds(seeds, workers=given.workers):
        tallies.append(tally)
        if not tally.passed or len(seeds) <= 20:
            _say(line(tally))
    report = summarise(tallies, elapsed_s=(clock.monotonic_ms() - started_ms) / 1000, workers=given.workers)
    if given.report is not None:
        with open(given.report, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    _say(f"{report['seeds']} seeds, {report['counted']} counted, {len(tallies) and report['seeds_per_s']} a second")
    failed = [tally.seed for tally in tallies if not tally.passed]
    if failed:
        _say(f"failed: {' '.join(failed)}; `make sim SEED=n RUNS=1` replays one, ARGS=--trace shows it")
        return 1
    return 1 if sum(tally.counts for tally in tallies) < given.counting else 0


if __name__ == "__main__":
    sys.exit(main())
