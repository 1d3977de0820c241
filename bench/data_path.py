"""The data path, measured in turn on the prototype that the design was measured with and on a Barnabas broker.

`python -m bench.data_path [--rounds 3] [--row NAME ...] [--smoke] [--keep TABLE.md]`. Each round starts both systems
afresh, in turn. Rows with librdkafka (kcat) as load say what a client sees and what the broker's CPU costs; rows with
pre-encoded frames on four connections have a load that is not the limit. The figure of a row is MB/s or requests/s;
beside it the broker's CPU, by gigabyte or by request. The limiter is whoever used more than 90 % of a core, else the
machine. The results go to `bench/results`, which is not in the repository; `--keep` writes the table to another file
too.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from bench import systems
from bench.systems import System

RESULTS = Path(__file__).parent / "results"
PROTOTYPE = Path(__file__).parents[1] / ".." / "shared" / "prototypes" / "data_path_broker.py"


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one row on one system."""

    rate: float
    broker_cpu: float
    unit: str
    cpu_unit: str
    limiter: str


def _limiter(seconds: float, broker_cpu: float, client_cpu: float) -> str:
    if broker_cpu / seconds > 0.9:
        return "broker"
    if client_cpu / seconds > 0.9:
        return "client"
    return "neither (waiting)"


def _by_volume(payload_bytes: int, seconds: float, broker_cpu: float, client_cpu: float) -> Measured:
    return Measured(
        payload_bytes / seconds / 1e6,
        broker_cpu / (payload_bytes / 1e9),
        "MB/s",
        "CPU s/GB",
        _limiter(seconds, broker_cpu, client_cpu),
    )


def _by_request(requests: int, seconds: float, broker_cpu: float, client_cpu: float) -> Measured:
    return Measured(
        requests / seconds,
        broker_cpu / requests * 1e6,
        "requests/s",
        "CPU us/request",
        _limiter(seconds, broker_cpu, client_cpu),
    )


def _kcat(system: System, *arguments: str, lines: Path | None = None) -> tuple[float, float, float]:
    """Run kcat; seconds, broker CPU seconds, client CPU seconds."""
    command = ["kcat", "-b", f"127.0.0.1:{system.port}", "-t", systems.TOPIC, "-q", *arguments]
    before = system.cpu_seconds()
    started = time.perf_counter()
    process = psutil.Popen(
        [*command, "-l", str(lines)] if lines else command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    client_cpu = 0.0
    while process.poll() is None:
        with_times = process.cpu_times() if process.is_running() else None
        if with_times is not None and process.status() != psutil.STATUS_ZOMBIE:
            client_cpu = with_times.user + with_times.system
        time.sleep(0.02)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - started, system.cpu_seconds() - before, client_cpu


def _write_lines(path: Path, *, size: int, count: int) -> None:
    block = (b"x" * size + b"\n") * 1000
    with path.open("wb") as file:
        for _ in range(count // 1000):
            file.write(block)


def kcat_produce(size: int, count: int) -> Callable[[System, Path], Measured]:
    def measure(system: System, scratch: Path) -> Measured:
        lines = scratch / f"lines-{size}"
        if not lines.exists():
            _write_lines(lines, size=size, count=count)
        times = _kcat(system, "-P", "-p", "0", "-X", "acks=1", lines=lines)
        return _by_volume(size * count, *times)

    return measure


def kcat_consume(size: int, count: int) -> Callable[[System, Path], Measured]:
    produce = kcat_produce(size, count)

    def measure(system: System, scratch: Path) -> Measured:
        produce(system, scratch)
        times = _kcat(system, "-C", "-p", "0", "-o", "beginning", "-c", str(count))
        return _by_volume(size * count, *times)

    return measure


def kcat_single_records(in_flight: int, count: int) -> Callable[[System, Path], Measured]:
    def measure(system: System, scratch: Path) -> Measured:
        lines = scratch / f"single-{count}"
        if not lines.exists():
            _write_lines(lines, size=100, count=count)
        settings = ["batch.num.messages=1", "linger.ms=0", f"max.in.flight.requests.per.connection={in_flight}"]
        options = [text for setting in settings for text in ("-X", setting)]
        return _by_request(count, *_kcat(system, "-P", "-p", "0", "-X", "acks=1", *options, lines=lines))

    return measure


def _load(system: System, seconds: float, **given: Any) -> tuple[dict[str, Any], float]:
    request = {"host": "127.0.0.1", "port": system.port, "topic": systems.TOPIC, "seconds": seconds, **given}
    before = system.cpu_seconds()
    done = subprocess.run(
        [sys.executable, "-m", "bench.load", json.dumps(request)], check=True, capture_output=True, text=True
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result, system.cpu_seconds() - before


def replayed_produce(records: int, size: int, seconds: float, window: int) -> Callable[[System, Path], Measured]:
    """Pre-encoded Produce frames on four connections."""

    def measure(system: System, _: Path) -> Measured:
        shape = {"records": records, "record_bytes": size, "partitions": 1}
        result, cpu = _load(system, seconds, kind="produce", connections=4, window=window, **shape)
        if records == 1:
            return _by_request(result["answers"], result["seconds"], cpu, result["client_cpu_seconds"])
        payload = result["answers"] * records * size
        return _by_volume(payload, result["seconds"], cpu, result["client_cpu_seconds"])

    return measure


def drained_consume(seconds: float) -> Callable[[System, Path], Measured]:
    """Fetches of 1 MB over 400 MB of 1 KiB records, answers discarded by the kernel."""

    def measure(system: System, _: Path) -> Measured:
        shape = {"records": 100, "record_bytes": 1024, "partitions": 1}
        _load(system, 2.0, kind="produce", connections=4, window=8, **shape)
        reads = {"partitions": 1, "offsets": 100_000, "step": 1000, "max_bytes": 1 << 20}
        result, cpu = _load(system, seconds, kind="fetch", connections=4, window=2, **reads)
        return _by_volume(result["answer_bytes"], result["seconds"], cpu, result["client_cpu_seconds"])

    return measure


def rows(scale: float) -> dict[str, Callable[[System, Path], Measured]]:
    """All rows; `scale` shrinks them for a smoke run."""
    many, seconds = int(1000 * scale), 5 * scale
    return {
        "kcat produce 100 B, 1 partition, acks=1": kcat_produce(100, 3000 * many),
        "kcat produce 1 KiB": kcat_produce(1024, 600 * many),
        "kcat consume 100 B": kcat_consume(100, 2000 * many),
        "kcat one record a request, 1 in flight": kcat_single_records(1, 30 * many),
        "kcat one record a request, 5 in flight": kcat_single_records(5, 60 * many),
        "kcat one record a request, many in flight": kcat_single_records(100, 80 * many),
        "replayed produce 1000 x 100 B": replayed_produce(1000, 100, seconds, 8),
        "replayed produce 100 x 1 KiB": replayed_produce(100, 1024, seconds, 8),
        "replayed produce one record a request": replayed_produce(1, 100, seconds, 16),
        "drained consume": drained_consume(seconds),
    }


def _sendfile_bytes(system: System) -> float:
    """What the broker says went by sendfile; 0 where it says nothing."""
    if system.metrics_port is None:
        return 0.0
    with urllib.request.urlopen(f"http://127.0.0.1:{system.metrics_port}/metrics") as answer:
        text = answer.read().decode()
    values = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith("barnabas_sendfile_bytes_total")]
    return float(values[0]) if values else 0.0


def measure(names: list[str], *, rounds: int, scale: float, cpu: int | None, script: Path) -> list[dict[str, Any]]:
    """Run the rows on both systems in turn; one result for each row."""
    chosen = {name: row for name, row in rows(scale).items() if not names or name in names}
    runs: dict[str, dict[str, list[Measured]]] = {name: {"prototype": [], "barnabas": []} for name in chosen}
    sendfile = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(rounds):
            for name, row in chosen.items():
                for started in (
                    systems.prototype(script, partitions=1, cpu=cpu),
                    systems.barnabas(partitions=1, cpu=cpu),
                ):
                    with started as system:
                        result = row(system, Path(scratch))
                        runs[name][system.name].append(result)
                        sendfile = max(sendfile, _sendfile_bytes(system))
                        sys.stderr.write(f"{name} | {system.name} | {result}\n")
    return [_summary(name, by_system, sendfile) for name, by_system in runs.items()]


def _summary(name: str, by_system: dict[str, list[Measured]], sendfile: float) -> dict[str, Any]:
    row: dict[str, Any] = {"row": name, "sendfile_bytes_greatest": sendfile}
    for system, results in by_system.items():
        for figure in ("rate", "broker_cpu"):
            values = [getattr(result, figure) for result in results]
            row[f"{system}_{figure}"] = {
                "median": statistics.median(values),
                "min": min(values),
                "max": max(values),
            }
        row["unit"], row["cpu_unit"] = results[0].unit, results[0].cpu_unit
        row[f"{system}_limiter"] = statistics.mode(result.limiter for result in results)
    row["rate_ratio"] = row["barnabas_rate"]["median"] / row["prototype_rate"]["median"]
    # A smoke run may be over before the prototype's clock of CPU time ticks.
    row["cpu_ratio"] = row["barnabas_broker_cpu"]["median"] / max(row["prototype_broker_cpu"]["median"], 1e-9)
    is_broker_bound = not name.startswith("kcat")
    row["met"] = row["cpu_ratio"] <= 2 and (not is_broker_bound or row["rate_ratio"] >= 0.5)
    return row


def _cell(figure: dict[str, float]) -> str:
    return f"{figure['median']:,.1f} ({figure['min']:,.1f} to {figure['max']:,.1f})"


def markdown(results: list[dict[str, Any]], memory: dict[str, Any] | None) -> str:
    """The table that people read."""
    lines = [
        "| row | prototype | Barnabas | ratio | CPU prototype | CPU Barnabas | ratio | limiter | met |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['row']} ({row['unit']}; {row['cpu_unit']}) | {_cell(row['prototype_rate'])} "
        f"| {_cell(row['barnabas_rate'])} | {row['rate_ratio']:.2f} | {_cell(row['prototype_broker_cpu'])} "
        f"| {_cell(row['barnabas_broker_cpu'])} | {row['cpu_ratio']:.2f} "
        f"| {row['prototype_limiter']} / {row['barnabas_limiter']} | {'yes' if row['met'] else 'NO'} |"
        for row in results
    ]
    if memory is not None:
        lines.append(
            f"\nMemory at rest: {memory['pss_mb']:.1f} MB PSS after {memory['idle_seconds']} s idle, "
            f"{memory['partitions']} partitions (bound: 90 MB)."
        )
    return "\n".join(lines) + "\n"


def memory_at_rest(idle_seconds: int) -> dict[str, Any]:
    """PSS of a broker and its children with 30 partitions after a rest."""
    with systems.barnabas(partitions=30, cpu=None) as system:
        time.sleep(idle_seconds)
        return {"pss_mb": system.pss_bytes() / 1e6, "idle_seconds": idle_seconds, "partitions": 30}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--row", action="append", default=[], help="only this row; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the rows")
    parser.add_argument("--smoke", action="store_true", help="a twentieth of the load, one round, to see that it runs")
    parser.add_argument("--keep", type=Path, default=None, help="write the table to this file too")
    parser.add_argument("--pin", type=int, default=None, help="run the broker on this CPU only")
    parser.add_argument("--prototype", type=Path, default=PROTOTYPE, help="the prototype's script")
    parser.add_argument("--idle-seconds", type=int, default=60)
    return parser.parse_args()


def main() -> None:
    given = _arguments()
    if given.list:
        sys.stdout.write("\n".join(rows(1.0)) + "\n")
        return
    if not given.prototype.exists():
        sys.exit(f"{given.prototype}: the prototype to compare with is not there; name it with --prototype")
    scale, rounds = (0.05, 1) if given.smoke else (1.0, given.rounds)
    results = measure(given.row, rounds=rounds, scale=scale, cpu=given.pin, script=given.prototype)
    memory = None if given.row else memory_at_rest(2 if given.smoke else given.idle_seconds)
    table = markdown(results, memory)
    sys.stdout.write(table)
    if given.keep is not None:
        given.keep.write_text(table)
    if not given.smoke:
        RESULTS.mkdir(exist_ok=True)
        about = {
            "machine": platform.platform(),
            "cpus": psutil.cpu_count(),
            "command": ["python", "-m", "bench.data_path", *sys.argv[1:]],
            "rounds": rounds,
        }
        (RESULTS / "data_path.json").write_text(
            json.dumps({"about": about, "rows": results, "memory": memory}, indent=1)
        )
        (RESULTS / "data_path.md").write_text(table)


if __name__ == "__main__":
    main()
