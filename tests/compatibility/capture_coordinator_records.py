"""Have Kafka 2.7.2's classes write coordinators' records: `python -m tests.compatibility.capture_coordinator_records`.

The bytes are kept as hexadecimal digits for the unit tests of `barnabas.coordinator`, which name the same values.
"""

import json
import tempfile
from pathlib import Path

from tests.support.java import compile_java, run_java
from tests.support.kafka_jars import BROKER_JARS, class_path

KEPT = Path(__file__).parents[1] / "unit" / "coordinator" / "kafka_records.json"


def written_by_kafka() -> dict[str, str]:
    """The records by name, in hexadecimal digits."""
    source = Path(__file__).parent / "java" / "CoordinatorRecords.java"
    with tempfile.TemporaryDirectory() as directory:
        classes = compile_java(source, jars=class_path(BROKER_JARS), output=Path(directory))
        lines = run_java(classes, "CoordinatorRecords", []).splitlines()
    records = [line.split(" ", 1) for line in lines if "_v" in line.split(" ")[0]]
    return dict(records)


def main() -> None:
    KEPT.write_text(json.dumps(written_by_kafka(), indent=1) + "\n")


if __name__ == "__main__":
    main()
