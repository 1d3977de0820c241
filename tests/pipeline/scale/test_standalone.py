"""The same job on a Spark cluster of two workers: both work, the driver has no data, memory is as configured."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.dataset as ds
import pyspark

from barnabas.admin import submit
from tests.compatibility.brokers import RunningBroker
from tests.pipeline.scale.standalone import Standalone, Tasks, read_tasks
from tests.pipeline.source.events import counted, new_topic, produce

SECONDS = 400
SPARK = Path(pyspark.__file__).parent
MIB = 1024 * 1024
CONFIG = """
name = "scale"
checkpoint = "{folder}/checkpoint"

[cluster]
bootstrap_servers = "{bootstrap}"

[source]
topics = ["{topic}"]
options = {{maxBytesInFlight = "8388608", "kafka.max.partition.fetch.bytes" = "4194304"}}

[table]
path = "{folder}/table"
format = "parquet"
waiting_mib = 16
row_group_mib = 8

[spark]
{master}

[spark.settings]
"spark.driver.host" = "127.0.0.1"
"spark.driver.bindAddress" = "127.0.0.1"
"spark.executor.memory" = "512m"
"spark.cores.max" = "2"
"spark.scheduler.minRegisteredResourcesRatio" = "1.0"
"spark.scheduler.maxRegisteredResourcesWaitingTime" = "120s"
"spark.ui.enabled" = "false"
"spark.eventLog.enabled" = "true"
"spark.eventLog.dir" = "file://{folder}/events"
"spark.eventLog.logStageExecutorMetrics" = "true"
"spark.eventLog.compress" = "false"
"spark.executor.metrics.pollingInterval" = "200ms"
"spark.executor.processTreeMetrics.enabled" = "true"
"""


def load(standalone: Standalone, broker: RunningBroker, topic: str, folder: Path, *, submitted: bool = False) -> Tasks:
    """Run the job as a user would, with the command or by spark-submit, and read what Spark logged of its tasks."""
    (folder / "events").mkdir()
    config, report = folder / "load.toml", folder / "report.json"
    master = "" if submitted else f'master = "{standalone.master}"'
    config.write_text(CONFIG.format(folder=folder, bootstrap=broker.bootstrap, topic=topic, master=master))
    command = [sys.executable, "-m", "barnabas.admin.main", "pipeline"]
    if submitted:
        command = [str(SPARK / "bin" / "spark-submit"), "--master", standalone.master, submit.__file__]
    command += ["load", str(config), "--report", str(report)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(report.read_text())["status"] == "succeeded"
    return read_tasks(folder / "events")


def test_two_workers_load_twelve_partitions(standalone: Standalone, broker: RunningBroker, tmp_path: Path) -> None:
    topic = new_topic(broker, partitions=12)
    produced = produce(broker.bootstrap, topic, counted(60_000, partitions=12))
    tasks = load(standalone, broker, topic, tmp_path)
    assert set(tasks.of_executor) == {"0", "1"}
    # The job waits for both; how they share the tasks is for who is faster.
    assert min(tasks.of_executor.values()) >= 2, tasks.of_executor
    table = ds.dataset(tmp_path / "table", format="parquet", partitioning="hive", ignore_prefixes=[".", "_"]).to_table()
    loaded = zip(*(table.column(name).to_pylist() for name in ("partition", "offset", "value")), strict=True)
    assert sorted(loaded) == sorted((each.partition, each.offset, each.value) for each in produced)
    # File lists and counts go to the driver, and no rows.
    assert tasks.result_bytes < 400 * 1024


def test_a_large_partition_needs_no_more_memory(standalone: Standalone, broker: RunningBroker, tmp_path: Path) -> None:
    """480 MiB of rows in one partition, compressed on their way: twenty times what a task is allowed to hold."""
    topic = new_topic(broker)
    value = bytes(range(256)) * 64
    events = counted(30_000)
    produce(
        broker.bootstrap,
        topic,
        (replace(each, value=value + (each.value or b"")) for each in events),
        **{"compression.type": "lz4", "batch.size": 1_000_000},
    )
    tasks = load(standalone, broker, topic, tmp_path, submitted=True)
    table = ds.dataset(tmp_path / "table", format="parquet", partitioning="hive", ignore_prefixes=[".", "_"])
    assert table.count_rows() == len(events)
    print(f"the Python processes of an executor held {tasks.python_bytes / MIB:.0f} MiB at most")
    # Three processes with their libraries are some 360 of it; all rows would be 480 more.
    assert 0 < tasks.python_bytes < 560 * MIB
