"""Which modules a broker's start loads, and when: most of the time of a start goes there."""

import subprocess
import sys

import pytest

SCRIPT = """
import importlib, sys
for name in sys.argv[1].split():
    importlib.import_module(name)
print(*sys.modules)
"""
SESSION_FIRST = "broker.main"
ALL = "broker.main broker.serve broker.system_ports"


def loaded(modules: str) -> list[str]:
    ran = subprocess.run([sys.executable, "-c", SCRIPT, modules], capture_output=True, text=True, check=True)
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        (
            SESSION_FIRST,
            ("broker.serve", "broker.handlers", "barnabas.protocol.messages", "controller", "grpc", "google"),
        ),
        (
            ALL,
            (
                *("prometheus_client", "numpy", "click", "rich", "unittest", "multiprocessing"),
                *("barnabas.client.producer", "barnabas.client.consumer", "barnabas.client.admin"),
                *("barnabas.simulation", "barnabas.launcher", "barnabas.admin"),
            ),
        ),
    ],
    ids=["before the session is asked for", "in all"],
)
def test_a_start_does_not_load_what_it_does_not_need(imported: str, absent: tuple[str, ...]) -> None:
    found = loaded(imported)
    assert imported.split()[-1] in found
    assert [name for name in found if name in absent or name.startswith(tuple(f"{each}." for each in absent))] == []
