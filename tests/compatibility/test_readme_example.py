"""README's example of our own client, run as a program of its own."""

import re
import subprocess
import sys
import uuid

import pytest

from tests.compatibility.brokers import RunningBroker
from tests.unit.house.source import ROOT


@pytest.mark.timeout(120)
def test_the_example_of_our_client_gives_three_new_records_each_time(broker: RunningBroker) -> None:
    examples = re.findall(r"```python\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (program,) = (each for each in examples if "barnabas.client" in each)
    ours = uuid.uuid4().hex[:8]
    for name, here in (
        ("127.0.0.1:9092", broker.bootstrap),
        ("accounts", f"accounts-{ours}"),
        ("readers", f"readers-{ours}"),
        ("transfers", f"transfers-{ours}"),
    ):
        assert f'"{name}"' in program
        program = program.replace(f'"{name}"', f'"{here}"')
    for _ in range(2):
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)
        assert (ran.returncode, ran.stderr) == (0, "")
        first, *records = ran.stdout.splitlines()
        assert first.startswith("written at ")
        assert sorted(line.split(" ", 2)[2] for line in records) == [
            "b'anna' b'+100'",
            "b'anna' b'-5'",
            "b'bert' b'+5'",
        ]
