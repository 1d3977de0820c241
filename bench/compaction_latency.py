"""What a compaction does to those who produce to another topic of the same broker.

`python -m bench.compaction_latency [--mb 2000] [--keys 1000000] [--rate 500] [--rounds 3]`. One broker of Barnabas as
`barnabas up` starts it; the log to be compacted is put into its directory while it is stopped. Another topic gets one
record at each tick. The quiet time is over when min.cleanable.dirty.ratio of the log's topic is set so that the cleaner
begins; what is compared are the latencies of before with those until the cleaner's checkpoint says that it is done.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from barnabas.launcher.cluster import LocalCluster
from bench.compaction import RESULTS, closed_segments
from bench.compaction_log import LogShape, add_shape_options, make_log, shape_of
from bench.guest_memory import kept_from_host
from bench.percentiles import percentiles

LOG_TOPIC = "compacted"
LOAD_TOPIC = "load"
PROPERTIES = {"log.cleaner.backoff.ms": "200", "num.partitions": "1"}
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Latencies:
    """Of the answers of one stretch of time, in milliseconds."""

    count: int
    median: float
    p99: float
    p999: float
    greatest: float


@dataclass(frozen=True, slots=True)
class Measured:
    """One round."""

    quiet: Latencies
    compacting: Latencies
    compaction_seconds: float


def summarize(values: list[float]) -> Latencies:
    return Latencies(len(values), *percentiles(values, 0.5, 0.99, 0.999, 1.0))


def prepare(cluster: LocalCluster, shape: LogShape, seed: int) -> tuple[Path, int]:
    """Make both topics and put the log in place; the checkpoint file of the cleaner and where the cleaning will end."""
    (broker_id,) = cluster.broker_ids
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "1",
        "segment.bytes": str(shape.segment_bytes),
    }
    made = admin.create_topics([NewTopic(LOG_TOPIC, 1, 1, config=config), NewTopic(LOAD_TOPIC, 1, 1)])
    for future in made.values():
        future.result(30)
    time.sleep(1)
    cluster.stop_broker(broker_id)
    directory = cluster.log_directory(broker_id)
    log = directory / f"{LOG_TOPIC}-0"
    for path in log.iterdir():
        path.unlink()
    log.rmdir()
    make_log(log, shape, seed)
    end = closed_segments(log)[-1][1]
    cluster.start_broker(broker_id)
    return directory / "cleaner-offset-checkpoint", end


def start_cleaning(cluster: LocalCluster) -> None:
    entry = ConfigEntry("min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, LOG_TOPIC, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def is_clean(checkpoint: Path, end: int) -> bool:
    try:
        lines = checkpoint.read_text().splitlines()
    except FileNotFoundError:
        return False
    return f"{LOG_TOPIC} 0 {end}" in lines


def measure(shape: LogShape, *, rate: float, record_bytes: int, quiet_s: float, seed: int) -> Measured:
    with (
        tempfile.TemporaryDirectory() as directory,
        LocalCluster(Path(directory), brokers=1, port=0, zookeeper_port=0, properties=PROPERTIES) as cluster,
    ):
        checkpoint, end = prepare(cluster, shape, seed)
        (broker_id,) = cluster.broker_ids
        command = [sys.executable, "-m", "bench.steady_load", str(cluster.port(broker_id)), LOAD_TOPIC]
        answers_file = Path(directory) / "answers"
        with answers_file.open("wb") as answers:
            load = subprocess.Popen([*command, str(rate), str(record_bytes)], stdin=subprocess.PIPE, stdout=answers)
        # The first seconds make connections, files and caches.
        time.sleep(3)
        began = time.monotonic()
        time.sleep(quiet_s)
        cleaning = time.monotonic()
        start_cleaning(cluster)
        while not is_clean(checkpoint, end):
            if time.monotonic() - cleaning > PATIENCE_S:
                raise TimeoutError("the log is not compacted")
            time.sleep(0.05)
        done = time.monotonic()
        load.communicate()
        took = [tuple(map(float, line.split())) for line in answers_file.read_text().splitlines()]
    if load.returncode:
        raise RuntimeError(f"the load ended with {load.returncode}")
    return Measured(
        summarize([ms for due, ms in took if began <= due < cleaning]),
        summarize([ms for due, ms in took if cleaning <= due < done]),
        done - cleaning,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_shape_options(parser)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--quiet-seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    shape = shape_of(options)
    rounds: list[Measured] = []
    print("| round | quiet p50 | p99 | p99.9 | compacting p50 | p99 | p99.9 | greatest | compaction s |")
    print("|---|---|---|---|---|---|---|---|---|")
    with kept_from_host():
        for number in range(options.rounds):
            found = measure(
                shape,
                rate=options.rate,
                record_bytes=options.record_bytes,
                quiet_s=options.quiet_seconds,
                seed=options.seed,
            )
            rounds.append(found)
            quiet, busy = found.quiet, found.compacting
            figures = (quiet.median, quiet.p99, quiet.p999, busy.median, busy.p99, busy.p999, busy.greatest)
            cells = " | ".join(f"{figure:.2f}" for figure in figures)
            print(f"| {number + 1} | {cells} | {found.compaction_seconds:.1f} |", flush=True)
    ratio = statistics.median(each.compacting.p99 / each.quiet.p99 for each in rounds)
    print(f"p99 while compacting is {ratio:.2f} times the quiet one (median of {len(rounds)} rounds)")
    RESULTS.mkdir(exist_ok=True)
    result = {"shape": asdict(shape), "rate": options.rate, "rounds": [asdict(each) for each in rounds]}
    (RESULTS / f"compaction-latency-{time.time_ns() // 1_000_000_000}.json").write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
