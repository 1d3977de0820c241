"""A world that is played from outside: commands on standard input, one JSON document a line; an answer for each.

The first line is the plan; the answer to it comes when the load runs. Then `{"play": NAME}` gives the outcome of that
fault and `{"finish": [READER, ...]}` the verdict, `{"stop": true}` ends. What fails is answered as `{"failed": TEXT}`.
When its input ends the agent ends, and with it, where it is the first process of an isolated world, all of that.
"""

import contextlib
import dataclasses
import json
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from tests.failover.load.clients import Kind
from tests.failover.world.catalogue import FAULTS
from tests.failover.world.drill import Drill, LoadPlan
from tests.failover.world.verdict import compare_replicas, damage
from tests.failover.world.world import World, WorldPlan


def drill_of(world: World, plan: Mapping[str, Any]) -> Drill:
    """The drill that a plan describes."""
    loads = [LoadPlan(**{**load, "kind": Kind(load["kind"])}) for load in plan["loads"]]
    return Drill(
        world,
        loads,
        replicas=plan["replicas"],
        java_class_path=plan.get("java_class_path"),
        reads_along=plan.get("reads_along", False),
    )


def finish(world: World, drill: Drill, readers: list[str]) -> dict[str, Any]:
    """The verdict, with what the stopped brokers left on their disks and in their logs."""
    verdict = drill.finish(readers=[Kind(name) for name in readers])
    for broker in world.brokers.values():
        broker.stop()
    for topic in drill.topics:
        logs = {broker.id: broker.log_bytes(topic) for broker in world.brokers.values()}
        verdict.findings += [f"{topic}: {text}" for text in compare_replicas(logs, replicas=drill.replicas)]
    for broker in world.brokers.values():
        verdict.findings += [f"broker {broker.id}: {line}" for line in damage(broker.process.output)]
    return dataclasses.asdict(verdict)


def serve(commands: TextIO, answers: TextIO) -> None:
    def answer(document: Mapping[str, Any]) -> None:
        answers.write(json.dumps(document) + "\n")
        answers.flush()

    plan = json.loads(commands.readline())
    place = {**plan["world"], "directory": Path(plan["world"]["directory"])}
    with contextlib.ExitStack() as cleanup:
        try:
            world = cleanup.enter_context(World(WorldPlan(**place)))
            drill = drill_of(world, plan)
            cleanup.callback(drill.kill_clients)
            drill.start()
        except Exception:  # noqa: BLE001 - told to whoever asked
            answer({"failed": traceback.format_exc()})
            return
        answer({"started": True})
        for line in commands:
            command = json.loads(line)
            if "stop" in command:
                break
            try:
                if "play" in command:
                    answer(dataclasses.asdict(drill.play(FAULTS[command["play"]]())))
                else:
                    answer(finish(world, drill, command["finish"]))
            except Exception:  # noqa: BLE001 - likewise
                answer({"failed": traceback.format_exc()})
    answer({"stopped": True})


def main() -> None:
    # What programs print must not come between the answers.
    answers = sys.stdout
    sys.stdout = sys.stderr
    serve(sys.stdin, answers)


if __name__ == "__main__":
    main()
