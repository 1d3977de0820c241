"""Each rule of the house finds what it is there for: violations are planted, and neighbours that are fine stay free."""

from collections.abc import Callable, Iterator

import pytest

from tests.unit.house import form, imports, world
from tests.unit.house.source import Module, Violation

Rule = Callable[[Module], Iterator[Violation]]
PURE = "zk_schema/ops.py"

PLANTED: list[tuple[Rule, str, str]] = [
    (imports.layering, "barnabas/protocol/x.py", "from barnabas.storage.log import Log"),
    (imports.layering, "barnabas/protocol/x.py", "import barnabas.runtime.clock"),
    (imports.layering, "barnabas/storage/x.py", "def f():\n    from replication import partition"),
    (
        imports.layering,
        "barnabas/runtime/x.py",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import broker",
    ),
    (imports.layering, "zk_schema/x.py", "from barnabas.protocol.error_code import ErrorCode"),
    (imports.layering, "zk_schema/x.py", "from barnabas.protocol import ids, error_code"),
    (imports.layering, "controller/x.py", "from barnabas.protocol.batch import read_header"),
    (imports.layering, "replication/x.py", "from controller import commands"),
    (imports.layering, "broker/x.py", "from barnabas.admin import main"),
    (imports.layering, "broker/x.py", "from tests.support import skips"),
    (imports.layering, "broker/x.py", "from . import dispatch"),
    (imports.layering, "broker/x.py", "from .dispatch import Dispatch"),
    (imports.layering, "barnabas/newcomer/x.py", "import os"),
    (imports.layering, "barnabas/loose.py", "import os"),
    (imports.purity, PURE, "import asyncio"),
    (imports.purity, PURE, "from os import path"),
    (imports.purity, PURE, "from time import monotonic"),
    (imports.purity, PURE, "import logging.handlers"),
    (imports.purity, PURE, "from kazoo.client import KazooClient"),
    (imports.purity, PURE, "from zk_schema.session import Session"),
    (imports.purity, PURE, "from zk_schema import memory"),
    (imports.purity, PURE, "from barnabas.runtime.clock import Clock"),
    (imports.walls, "broker/dispatch.py", "from kazoo.client import KazooClient"),
    (imports.walls, "zk_schema/memory.py", "import kazoo.exceptions"),
    (imports.walls, "broker/main.py", "from grpc import aio"),
    (imports.walls, "replication/x.py", "import grpc.aio"),
    (imports.walls, "barnabas/storage/x.py", "import mmap"),
    (imports.walls, "barnabas/storage/x.py", "from pathlib import Path"),
    (imports.walls, "barnabas/storage/x.py", "import numpy"),
    (imports.walls, "broker/x.py", "from concurrent.futures import ThreadPoolExecutor"),
    (imports.walls, "broker/x.py", "from concurrent import futures"),
    (imports.walls, "tests/unit/x.py", "from unittest.mock import Mock"),
    (imports.walls, "tests/unit/x.py", "from unittest import mock"),
    (world.module_state, "broker/x.py", "cache = {}"),
    (world.module_state, "broker/x.py", "cache: dict[str, int] = dict()"),
    (world.module_state, "broker/x.py", "from collections import defaultdict\n_seen = defaultdict(list)"),
    (world.module_state, "broker/x.py", "lock = threading.Lock()"),
    (world.module_state, "broker/x.py", "class A:\n    seen = []"),
    (world.module_state, "broker/x.py", "CACHE = {}\ndef f(k): CACHE[k] = 1"),
    (world.module_state, "broker/x.py", "CACHE: Final = []\ndef f(k): CACHE.append(k)"),
    (world.module_state, "broker/x.py", "CACHE = {}\ndef f(k): del CACHE[k]"),
    (world.module_state, "broker/x.py", "n = 0\ndef f():\n    global n\n    n += 1"),
    (world.module_state, "broker/x.py", "@functools.cache\ndef f(topic): return topic"),
    (world.module_state, "broker/x.py", "@lru_cache(maxsize=9)\ndef f(topic): return topic"),
    (world.clocks_and_dice, "broker/x.py", "import time\ntime.time()"),
    (world.clocks_and_dice, "broker/x.py", "import time as t\nt.monotonic_ns()"),
    (world.clocks_and_dice, "barnabas/runtime/x.py", "from time import sleep as rest\nrest(1)"),
    (world.clocks_and_dice, "tests/unit/x.py", "import time\ntime.sleep(1)"),
    (world.clocks_and_dice, "broker/x.py", "import time\ntime.sleep(1)  # noqa: ASYNC251 - it holds the loop up"),
    (world.clocks_and_dice, "broker/x.py", "from datetime import datetime\ndatetime.now()"),
    (world.clocks_and_dice, "broker/x.py", "import datetime as dt\ndt.datetime.now(dt.UTC)"),
    (world.clocks_and_dice, "broker/x.py", "import random\nrandom.shuffle([])"),
    (world.clocks_and_dice, "broker/x.py", "from random import choice\nchoice([1])"),
    (world.clocks_and_dice, "broker/x.py", "import uuid\nuuid.uuid4()"),
    (world.clocks_and_dice, "broker/x.py", "import os\nos.urandom(8)"),
    (world.files, "barnabas/storage/x.py", "open('a')"),
    (world.files, "replication/x.py", "import os\nos.rename('a', 'b')"),
    (world.files, "broker/x.py", "import os.path\nos.path.exists('a')"),
    (world.files, "broker/x.py", "from os import path\npath.exists('a')"),
    (world.output, "broker/x.py", "print('started')"),
    (world.output, "broker/x.py", "import sys\nsys.stdout.write('started')"),
    (world.pure_bodies, PURE, "async def f(): pass"),
    (world.pure_bodies, PURE, "class A:\n    async def f(self): ..."),
    (world.pure_bodies, PURE, "class A(Protocol):\n    async def f(self): return 1"),
    (world.pure_bodies, PURE, "async def f(): return [x async for x in y]"),
    (world.pure_bodies, PURE, "open('a')"),
    (form.file_size, "tests/unit/x.py", "\n" * 501),
    (form.function_size, "tests/unit/x.py", "def f():\n" + "    pass\n" * 70),
    (form.function_size, "broker/x.py", "class A:\n    async def f(self):\n" + "        pass\n" * 70),
    (form.names, "broker/topic_manager.py", ""),
    (form.names, "broker/utils.py", ""),
    (form.names, "broker/common/topic.py", ""),
    (form.names, "broker/topic.py", "class TopicHelper: pass"),
    (form.docstrings, "broker/x.py", "import os"),
]

FREE: list[tuple[Rule, str, str]] = [
    (imports.layering, "zk_schema/x.py", "from barnabas.protocol import ids\nfrom zk_schema import paths\nimport os"),
    (imports.layering, "controller/x.py", "from barnabas.protocol.error_code import ErrorCode"),
    (imports.layering, "barnabas/admin/x.py", "from broker import main\nfrom barnabas.launcher import cluster"),
    (imports.layering, "tests/unit/x.py", "from broker import main"),
    (imports.purity, PURE, "import struct\nfrom barnabas.protocol.ids import BrokerId"),
    (imports.purity, PURE, "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from random import Random"),
    (imports.purity, "broker/dispatch.py", "import asyncio"),
    (imports.purity, PURE, "from barnabas.protocol.messages import APIS, produce"),
    (imports.walls, "zk_schema/session.py", "from kazoo.client import KazooClient"),
    (imports.walls, "tests/unit/x.py", "import kafka, subprocess"),
    (world.module_state, "broker/x.py", "NAMES = {'a': 1}\n_SIZES: Final = [1]\nlimits: Final = {1}\n__all__ = ['a']"),
    (world.module_state, "broker/x.py", "ALL = []\nALL.append(1)\ndef f(ALL): ALL.append(2)"),
    (
        world.module_state,
        "broker/x.py",
        "log = logging.getLogger(__name__)\ndef f():\n    seen = []\n    seen.append(1)",
    ),
    (world.module_state, "barnabas/protocol/compiler.py", "@functools.cache\ndef f(version): return version"),
    (world.module_state, "tests/unit/x.py", "cache = {}"),
    (world.clocks_and_dice, "barnabas/runtime/clock.py", "import time\ntime.monotonic_ns()"),
    (world.clocks_and_dice, "broker/x.py", "import random\nrandom.Random(7).random()"),
    (world.clocks_and_dice, "broker/x.py", "def f(random, time): return random.choice([time.time()])"),
    (world.clocks_and_dice, "tests/unit/x.py", "import time\ntime.sleep(1)  # noqa: ASYNC251 - it holds the loop up"),
    (world.clocks_and_dice, "tests/failover/x.py", "import time\ntime.sleep(0.1)"),
    (world.files, "barnabas/storage/x.py", "import os\nself._disk.open('a')\nos.path.join('a', 'b')\nos.getpid()"),
    (world.output, "barnabas/admin/main.py", "print('started')"),
    (world.pure_bodies, "broker/x.py", "async def f(): pass"),
    (world.pure_bodies, PURE, "class A(Protocol):\n    async def f(self): ..."),
    (form.file_size, "broker/x.py", "\n" * 500),
    (form.function_size, "broker/x.py", "@decorator\ndef f():\n" + "    pass\n" * 69),
    (form.names, "broker/utilisation.py", "class CommonPrefix: pass"),
    (form.docstrings, "broker/__init__.py", ""),
]


@pytest.mark.parametrize(("rule", "path", "text"), PLANTED)
def test_a_planted_violation_is_found(rule: Rule, path: str, text: str) -> None:
    found = list(rule(Module(path, text)))
    assert found, text
    assert all(violation.path == path and violation.line >= 1 for violation in found)


@pytest.mark.parametrize(("rule", "path", "text"), FREE)
def test_what_is_allowed_is_left_alone(rule: Rule, path: str, text: str) -> None:
    assert [str(violation) for violation in rule(Module(path, text))] == []


@pytest.mark.parametrize(
    ("rule", "path", "line"),
    [
        (form.leftovers, "broker/x.py", "    # TODO: later"),
        (form.leftovers, "broker/x.py", "    raise NotImplementedError"),
        (form.leftovers, "README.md", "Groups are refused for now."),
        (form.machine_paths, "Makefile", "run:\n\tcd /work/main"),
        (form.machine_paths, "tests/x.py", 'HOME = "/home/someone/x"'),
        (form.machine_paths, ".ci/run", "cat /root/.config"),
        (form.registry_names, "constraints.txt", "--index-url=there"),
        (form.registry_names, "barnabas/launcher/x.py", 'URL = "https://repo1.maven.org/maven2"'),
        (form.registry_names, "README.md", "see https://pypi.org/project/x"),
    ],
)
def test_a_planted_word_is_found(rule: Callable[[str, str], Iterator[Violation]], path: str, line: str) -> None:
    found = list(rule(path, f"first\n{line}\n"))
    assert [violation.line for violation in found] == [2 + line.count("\n")]


@pytest.mark.parametrize(
    ("rule", "path", "line"),
    [
        (form.leftovers, "broker/x.py", "return NotPresent  # hackathon, for nowhere"),
        (form.machine_paths, "README.md", "the /config/topics znode, data/work/ and barnabas/work/x, /workers"),
        (form.registry_names, "README.md", "Maven Central and the Python package index"),
    ],
)
def test_an_innocent_word_is_left_alone(rule: Callable[[str, str], Iterator[Violation]], path: str, line: str) -> None:
    assert list(rule(path, line)) == []


def test_the_line_of_a_violation_is_where_it_stands() -> None:
    [violation] = imports.layering(Module("barnabas/protocol/x.py", "import os\n\nimport broker.main\n"))
    assert str(violation) == "barnabas/protocol/x.py:3: barnabas.protocol may not import broker.main"
