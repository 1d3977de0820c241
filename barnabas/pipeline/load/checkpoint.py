"""The folder of a load's checkpoints: Spark's for the stream and for each backfill, and the plans of backfills.

stream/                Spark's checkpoint
backfill-<id>/         the same of a backfill
backfill-<id>.json     where it starts and ends, found out once: times may mean other offsets later
"""

import json
import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from barnabas.pipeline.lake.folder import absolute, publish, read_file, require_writable
from barnabas.pipeline.load.steps import LoadRefused

_STREAM: Final = "stream"


class BackfillPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Offsets by topic and partition; ends are exclusive. `asked` is what was configured."""

    asked: dict[str, Any]
    starts: dict[str, dict[str, int]]
    ends: dict[str, dict[str, int]]


class Checkpoints:
    """Raises LakeError for a folder that is on no file system."""

    def __init__(self, path: str, backfill: str | None = None) -> None:
        self._root = absolute(path)
        self._name = _STREAM if backfill is None else f"backfill-{backfill}"

    @property
    def location(self) -> str:
        """Spark's checkpoint."""
        return os.path.join(self._root, self._name)

    def require_writable(self) -> None:
        """Raises NotWritable."""
        require_writable(self._root)

    def id(self) -> str | None:
        """The id that Spark gave the query when the checkpoint was made, None where there is none.

        Raises LoadRefused where it cannot be read.
        """
        path = os.path.join(self.location, "metadata")
        content = read_file(path)
        if content is None:
            return None
        try:
            return str(json.loads(content)["id"])
        except (ValueError, KeyError, TypeError) as error:
            raise LoadRefused(f"{path} is not what Spark writes there ({error!r}); restore the checkpoint") from None

    def plan(self, asked: Mapping[str, Any]) -> BackfillPlan | None:
        """The plan of the backfill, None where none was made. Raises LoadRefused where other edges were asked for."""
        content = read_file(self._plan_path)
        if content is None:
            return None
        try:
            plan = msgspec.json.decode(content, type=BackfillPlan)
        except msgspec.MsgspecError as error:
            raise LoadRefused(f"{self._plan_path} cannot be read ({error}); restore it") from None
        if plan.asked != dict(asked):
            raise LoadRefused(
                f"a backfill of this id was begun with other edges ({plan.asked}, not {dict(asked)}); take another id"
            )
        return plan

    def keep(self, plan: BackfillPlan) -> None:
        """Write a plan before anything is done by it. Raises NotWritable, LoadRefused where somebody else has one."""
        if not publish(self._plan_path, msgspec.json.encode(plan)):
            raise LoadRefused(f"{self._plan_path} was just made by another process; let one of them run")

    @property
    def _plan_path(self) -> str:
        return os.path.join(self._root, f"{self._name}.json")
