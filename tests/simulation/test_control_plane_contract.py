"""The contract of the control plane, held by the simulated one too: the same tests, on the simulated loop."""

import inspect
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from barnabas.simulation.control_plane import SimulatedControlPlane
from barnabas.simulation.loop import SimulationLoop
from barnabas.simulation.network import SimulatedNetwork
from barnabas.simulation.wires import Wires
from tests.contract import test_control_channel, test_control_plane
from tests.support.control_line import Line


def contract_tests(*modules: ModuleType) -> dict[str, Callable[..., Any]]:
    """The tests that need nothing but a line, and perhaps a seed."""
    found = [each for module in modules for each in inspect.getmembers(module, inspect.iscoroutinefunction)]
    return {
        name: test
        for name, test in found
        if name.startswith("test_") and set(inspect.signature(test).parameters) in ({"line"}, {"line", "seed"})
    }


TESTS = contract_tests(test_control_channel, test_control_plane)


@pytest.mark.parametrize("name", TESTS)
def test_the_simulated_plane_keeps_the_contract(name, seed):
    loop = SimulationLoop(random.Random(seed))
    loop.on_failure = lambda life, what, error: failures.append(f"{life}: {what}: {error!r}")
    failures: list[str] = []
    wires = Wires(loop, random.Random(seed))
    network = SimulatedNetwork(wires, loop.world, "127.0.0.1")

    async def run() -> None:
        line = Line(lambda supervisor, timeout_ms: SimulatedControlPlane(network, supervisor, deadline_ms=timeout_ms))
        await line.start()
        parameters = {"line": line, "seed": seed}
        try:
            await TESTS[name](**{each: parameters[each] for each in inspect.signature(TESTS[name]).parameters})
        finally:
            await line.close()
        assert not line.failures

    try:
        loop.run_until_complete(run())
    finally:
        loop.close()
    assert failures == []


def test_there_are_tests_to_keep():
    assert len(TESTS) > 15
