"""What `barnabas.client` gives, and that it loads no more than what is asked for."""

import subprocess
import sys

import barnabas.client

SCRIPT = """
import sys
from barnabas.client import TopicPartition
print(*sorted(name for name in sys.modules if name.startswith("barnabas.client")))
"""


def test_every_public_name_is_there() -> None:
    found = {name: getattr(barnabas.client, name) for name in barnabas.client.__all__}
    assert [name for name, value in found.items() if getattr(value, "__name__", name) != name] == []
    assert sorted(found) == sorted(name for names in barnabas.client._HOMES.values() for name in names)


def test_another_name_is_missing_as_from_any_module() -> None:
    assert not hasattr(barnabas.client, "Unheard")


def test_a_name_loads_only_the_module_that_makes_it() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["barnabas.client"]
