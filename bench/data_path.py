"""The data path, measured in turn on the prototype that the design was measured with and on a Barnabas broker.

`python -m bench.data_path [--rounds 3] [--row TEXT ...] [--smoke] [--keep TABLE.md] [--prototype SCRIPT]`. Both systems
start afresh for every row and round, and take turns in who is first. Rows with librdkafka (kcat) as load say what a
client sees and what the broker's CPU costs; rows that replay encoded frames on four connections, or drain them, have a
load that is not the limit. Beside the rate of a row, in MB/s or requests/s, stands the broker's CPU, by gigabyte or by
request: at most twice the prototype's is aimed at in each row, and half its rate where the load is not the limit. Where
it was nevertheless, as on a machine full of it, the rate is not judged. What the broker says went by sendfile stands
beside what a drain read, and has to be the same. The row of memory is of a broker and its children at rest. The
results go to `bench/results`, which is not in the repository; `--keep` writes the table to another file too.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import psutil

from barnabas.client.connection import Address
from bench import frames, systems
from bench.ending import exit_on_sigterm
from bench.raw_line import write_first
from bench.side_by_side import clients
from bench.side_by_side.clients import ProgramMissing, Shape
from bench.side_by_side.figures import OURS, Figure, Result, Spread, Target, results
from bench.side_by_side.row import CPU_S_GB, CPU_US, MB_S, REQUESTS_S, request_figures, volume_figures
from bench.systems import TOPIC, System

RESULTS: Final = Path(__file__).parent / "results"
PROTOTYPE: Final = Path(__file__).parents[1] / ".." / "shared" / "prototypes" / "data_path_broker.py"
THEIRS: Final = "prototype"
SENDFILE: Final = "by sendfile"
READ: Final = "read"
MEMORY: Final = "memory at rest"

AT_REST: Final = Target(at_least=False, absolute=90.0)
_PARTITIONS_AT_REST: Final = 30
_SMOKE_SCALE: Final = 0.05
_SETTLE_S: Final = 1.0
_CPU: Final = Target(at_least=False, ratio=2.0)
_RATE: Final = Target(at_least=True, ratio=0.5)
_BY_CLIENT: Final = {CPU_S_GB: _CPU, CPU_US: _CPU}
_BY_BROKER: Final = {**_BY_CLIENT, MB_S: _RATE, REQUESTS_S: _RATE}

Runs = dict[str, list[list[Figure]]]
"""By system: the figures of each round."""


@dataclass(frozen=True, slots=True)
class Run:
    """A fresh system. `scale` shrinks loads for a smoke run; files in `scratch` stay between runs."""

    system: System
    scratch: Path
    scale: float

    def shape(self, shape: Shape) -> Shape:
        """What is written of that, in whole thousands of records."""
        thousands = max(1, int(shape.records * self.scale) // 1000)
        return replace(shape, payload_bytes=thousands * 1000 * shape.record_bytes)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    measure: Callable[[Run], list[Figure]]
    targets: Mapping[str, Target]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row over all rounds; `sendfile_bytes` and what was `read_bytes` are of our broker, one for each round."""

    rate: Result
    cpu: Result
    sendfile_bytes: Sequence[float]
    read_bytes: Sequence[float]

    @property
    def met(self) -> bool | None:
        """None if nothing failed and a figure with an aim could not be judged."""
        judged = [each.met for each in (self.rate, self.cpu) if each.target is not None]
        if self.read_bytes:
            judged.append(self.sendfile_bytes == self.read_bytes)
        if False in judged:
            return False
        return None if None in judged else True

    def as_json(self) -> dict[str, Any]:
        return {
            "row": self.rate.row,
            "figures": [_figure_as_json(each) for each in (self.rate, self.cpu)],
            "sendfile_bytes": list(self.sendfile_bytes),
            "read_bytes": list(self.read_bytes),
            "met": self.met,
        }


def _figure_as_json(result: Result) -> dict[str, Any]:
    return {
        "figure": result.figure,
        "unit": result.unit,
        "barnabas": result.barnabas.as_json(),
        "prototype": None if result.rival is None else result.rival.as_json(),
        "ratio": result.ratio,
        "target": None if result.target is None else str(result.target),
        "met": result.met,
        "limiter": result.limiter,
    }


def outcome(row: str, runs: Runs, targets: Mapping[str, Target]) -> Outcome:
    """Medians, spreads and ratios; every round has a rate and then a cost, and ours what went by sendfile."""
    rate, cpu = (each for each in results(row, runs, targets, rival=THEIRS) if each.figure not in {SENDFILE, READ})
    return Outcome(rate, cpu, _values(runs, SENDFILE), _values(runs, READ))


def _values(runs: Runs, name: str) -> list[float]:
    return [each.value for figures in runs[OURS] for each in figures if each.name == name]


# Rows.


def _rate_and_cpu(volume: clients.Volume) -> list[Figure]:
    return [figure for figure in volume_figures(volume) if figure.name in {MB_S, CPU_S_GB}]


def kcat_produce(name: str, shape: Shape) -> Row:
    def measure(run: Run) -> list[Figure]:
        return _rate_and_cpu(clients.kcat_produce(run.system, TOPIC, run.shape(shape), run.scratch))

    return Row(name, measure, _BY_CLIENT)


def kcat_consume(name: str, shape: Shape) -> Row:
    def measure(run: Run) -> list[Figure]:
        given = run.shape(shape)
        clients.replay(run.system, TOPIC, given)
        return _rate_and_cpu(clients.kcat_consume(run.system, TOPIC, given))

    return Row(name, measure, _BY_CLIENT)


def kcat_single_records(name: str, *, in_flight: int, requests: int) -> Row:
    def measure(run: Run) -> list[Figure]:
        given = run.shape(Shape(requests * 100, 100))
        settings = {"batch.num.messages": 1, "linger.ms": 0, "max.in.flight.requests.per.connection": in_flight}
        volume = clients.kcat_produce(run.system, TOPIC, given, run.scratch, settings)
        assert volume.records is not None
        return request_figures(volume.records, volume.seconds, volume.usage)

    return Row(name, measure, _BY_CLIENT)


def replayed_produce(name: str, shape: Shape) -> Row:
    def measure(run: Run) -> list[Figure]:
        return _rate_and_cpu(clients.replay(run.system, TOPIC, run.shape(shape)))

    return Row(name, measure, _BY_BROKER)


def replayed_single_records(name: str, *, requests: int) -> Row:
    def measure(run: Run) -> list[Figure]:
        count = int(requests * run.scale)
        return request_figures(*clients.single_records(run.system, TOPIC, requests=count, connections=4, window=16))

    return Row(name, measure, _BY_BROKER)


def drained_consume(name: str, shape: Shape) -> Row:
    """Fetches of 1 MiB of what was just written, ten times over; the kernel discards the answers."""

    def measure(run: Run) -> list[Figure]:
        given = run.shape(shape)
        clients.replay(run.system, TOPIC, given)
        size = given.payload_bytes * 10
        drained = clients.drain(run.system, TOPIC, partitions=1, records=given.records, answer_bytes=size)
        assert drained.answers is not None
        read_bytes = drained.payload_bytes - drained.answers * frames.fetch_overhead(TOPIC)
        return [*_rate_and_cpu(drained), Figure(READ, read_bytes, "B")]

    return Row(name, measure, _BY_BROKER)


def rows() -> list[Row]:
    """All but the memory at rest."""
    replayed = 1_000_000_000
    return [
        kcat_produce("kcat produce 100 B, 1 partition, acks=1", Shape(300_000_000, 100)),
        kcat_produce("kcat produce 1 KiB", Shape(600_000 * 1024, 1024)),
        kcat_consume("kcat consume 100 B", Shape(400_000_000, 100)),
        kcat_single_records("kcat one record a request, 1 in flight", in_flight=1, requests=30_000),
        kcat_single_records("kcat one record a request, 5 in flight", in_flight=5, requests=60_000),
        kcat_single_records("kcat one record a request, many in flight", in_flight=100, requests=80_000),
        replayed_produce("replayed produce 1000 x 100 B", Shape(replayed, 100, batch_bytes=100_000)),
        replayed_produce("replayed produce 100 x 1 KiB", Shape(replayed, 1024, batch_bytes=102_400)),
        replayed_single_records("replayed produce one record a request", requests=100_000),
        drained_consume("drained consume", Shape(500_000_000, 1000)),
    ]


# Runs.


def _systems(script: Path, cpu: int | None) -> list[tuple[str, Callable[[], AbstractContextManager[System]]]]:
    return [
        (THEIRS, lambda: systems.prototype(script, partitions=1, cpu=cpu)),
        (OURS, lambda: systems.barnabas(partitions=1, cpu=cpu)),
    ]


def measure(
    chosen: Sequence[Row], *, rounds: int, scale: float, settle_s: float, cpu: int | None, script: Path
) -> list[Outcome]:
    """Run the rows on both systems in turn; `cpu` is the only one of the broker's, if given."""
    runs: dict[str, Runs] = {row.name: {OURS: [], THEIRS: []} for row in chosen}
    contestants = _systems(script, cpu)
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as scratch:
        for number in range(rounds):
            turn = number % len(contestants)
            for row in chosen:
                for name, start in (*contestants[turn:], *contestants[:turn]):
                    # What the run before has written is not flushed at the expense of this one.
                    os.sync()
                    with start() as system:
                        asyncio.run(write_first(Address("127.0.0.1", system.port), TOPIC, 0))
                        time.sleep(settle_s)
                        figures = _measured(row, Run(system, Path(scratch), scale))
                    runs[row.name][name].append(figures)
                    told = ", ".join(f"{each.name} {each.value:.4g}" for each in figures)
                    sys.stderr.write(
                        f"round {number + 1} | {row.name} | {system.name} | {told} | {figures[0].limiter}\n"
                    )
    return [outcome(row.name, runs[row.name], row.targets) for row in chosen]


def _measured(row: Row, run: Run) -> list[Figure]:
    """The row's figures, and from a broker that counts it what went by sendfile meanwhile."""
    before = run.system.metric("barnabas_sendfile_bytes_total")
    figures = row.measure(run)
    after = run.system.metric("barnabas_sendfile_bytes_total")
    if before is None or after is None:
        return figures
    return [*figures, Figure(SENDFILE, after - before, "B")]


def memory_at_rest(*, rounds: int, idle_seconds: float) -> Result:
    """PSS of a broker and its children, in MB, after a rest."""
    runs: Runs = {OURS: []}
    for number in range(rounds):
        with systems.barnabas(partitions=_PARTITIONS_AT_REST, cpu=None) as system:
            time.sleep(idle_seconds)
            pss_mb = system.pss_bytes() / 1e6
        runs[OURS].append([Figure("PSS", pss_mb, "MB")])
        sys.stderr.write(f"round {number + 1} | {MEMORY} | {pss_mb:.1f} MB\n")
    (result,) = results(MEMORY, runs, {"PSS": AT_REST})
    return result


# What people and programs read.


def _verdict(met: bool | None) -> str:
    return {True: "yes", False: "NO", None: "not judged"}[met]


def _ratio(result: Result) -> str:
    return "" if result.ratio is None else f"{result.ratio:.2f} x"


def _by_sendfile(given: Outcome) -> str:
    if not given.read_bytes:
        return f"{Spread.of(given.sendfile_bytes).median:,.0f} B"
    return "; ".join(
        f"{sent:,.0f} of {read:,.0f} B" for sent, read in zip(given.sendfile_bytes, given.read_bytes, strict=True)
    )


def _line(given: Outcome) -> str:
    rate, cpu = given.rate, given.cpu
    cells = [f"{rate.row} ({rate.unit}; {cpu.figure})", rate.rival, rate.barnabas, _ratio(rate)]
    cells += [cpu.rival, cpu.barnabas, _ratio(cpu), _by_sendfile(given), rate.limiter, _verdict(given.met)]
    return "| " + " | ".join(map(str, cells)) + " |"


def markdown(outcomes: Sequence[Outcome], memory: Result | None, *, idle_seconds: float) -> str:
    """Medians with the least and the greatest; ratios are ours to the prototype's."""
    lines = [
        "| row | prototype | Barnabas | ratio | CPU prototype | CPU Barnabas | ratio | by sendfile | limiter | met |",
        "|---|---|---|---|---|---|---|---|---|---|",
        *map(_line, outcomes),
    ]
    if memory is not None:
        rest = f"after {idle_seconds:g} s idle with {_PARTITIONS_AT_REST} partitions"
        told = f"{memory.barnabas} MB PSS of a broker and its children {rest} ({memory.target} MB)"
        lines += ["", f"Memory at rest: {told}: {_verdict(memory.met)}."]
    return "\n".join(lines) + "\n"


def _about(rounds: int) -> dict[str, Any]:
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": psutil.cpu_count(),
        "load": psutil.getloadavg()[0],
        "python": platform.python_version(),
        "rounds": rounds,
        "command": " ".join(["python -m bench.data_path", *sys.argv[1:]]),
    }


def _chosen(names: Sequence[str]) -> Iterator[Row]:
    for row in rows():
        if not names or any(name in row.name for name in names):
            yield row


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", action="append", default=[], help="only rows with this in their name; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the rows")
    parser.add_argument("--smoke", action="store_true", help="a twentieth of the load, one round: that it runs")
    parser.add_argument("--keep", type=Path, default=None, help="write the table to this file too")
    parser.add_argument("--pin", type=int, default=None, help="run the broker on this CPU only")
    parser.add_argument(
        "--prototype", type=Path, default=PROTOTYPE, help="its script; by default beside the repository"
    )
    parser.add_argument("--idle-seconds", type=float, default=60.0, help="of the row of memory")
    return parser.parse_args()


def _write(about: Mapping[str, Any], table: str, outcomes: Sequence[Outcome], memory: Result | None) -> None:
    told = {
        "about": dict(about),
        "rows": [each.as_json() for each in outcomes],
        "memory": None if memory is None else _figure_as_json(memory),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "data_path.json").write_text(json.dumps(told, indent=1) + "\n")
    (RESULTS / "data_path.md").write_text(table)


def main() -> int:
    given = _arguments()
    chosen = list(_chosen(given.row))
    weighs = not given.row or any(name in MEMORY for name in given.row)
    if given.list:
        names = [row.name for row in chosen] + [MEMORY] * weighs
        sys.stdout.write("".join(f"{name}\n" for name in names))
        return 0
    if not chosen and not weighs:
        sys.stderr.write(f"no row has {' or '.join(given.row)} in its name\n")
        return 2
    script = given.prototype.resolve()
    if chosen and not script.is_file():
        sys.stderr.write(f"{script}: the prototype to compare with is not there; name its script with --prototype\n")
        return 1
    exit_on_sigterm()
    scale, settle_s = (_SMOKE_SCALE, 0.0) if given.smoke else (1.0, _SETTLE_S)
    rounds, idle_seconds = (1, 2.0) if given.smoke else (given.rounds, given.idle_seconds)
    about = _about(rounds)
    try:
        outcomes = measure(chosen, rounds=rounds, scale=scale, settle_s=settle_s, cpu=given.pin, script=script)
    except ProgramMissing as error:
        sys.stderr.write(f"{error}; choose other rows with --row\n")
        return 1
    memory = memory_at_rest(rounds=rounds, idle_seconds=idle_seconds) if weighs else None
    machine = f"{about['date']}, {about['machine']}, {about['cpus']} cores, load average before {about['load']:.1f}"
    head = f"{machine}; {rounds} rounds in turn; `{about['command']}`"
    table = f"{head}\n\n{markdown(outcomes, memory, idle_seconds=idle_seconds)}"
    sys.stdout.write(table)
    if given.keep is not None:
        given.keep.write_text(table)
    if not given.smoke:
        _write(about, table, outcomes, memory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
