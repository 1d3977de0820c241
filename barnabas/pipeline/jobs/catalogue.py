"""Which jobs there are: their modules, each imported when the job is run."""

import importlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple


class JobEntry(NamedTuple):
    """Where a job is: `run` takes a `Run` whose configuration is of the type `config`."""

    module: str
    config: str
    run: str
    summary: str

    def load(self) -> tuple[type[Any], Callable[[Any], None]]:
        """The type of its configuration, and its function."""
        module = importlib.import_module(self.module)
        return getattr(module, self.config), getattr(module, self.run)


JOBS: Final[dict[str, JobEntry]] = {
    "activity": JobEntry(
        "barnabas.pipeline.activity.job",
        "ActivityConfig",
        "run",
        "Count events by windows of time and gather them into sessions, into a topic.",
    ),
    "audit": JobEntry(
        "barnabas.pipeline.audit.job",
        "AuditConfig",
        "run",
        "Compare what was sent, what topics hold and what a lake has.",
    ),
    "load": JobEntry(
        "barnabas.pipeline.load.job", "LoadConfig", "run", "Load topics into a table of a lake, each record once."
    ),
    "mirror": JobEntry(
        "barnabas.pipeline.mirror.job", "MirrorConfig", "run", "Mirror topics of several clusters into one."
    ),
    "translate": JobEntry(
        "barnabas.pipeline.mirror.translate_job",
        "MirrorConfig",
        "run",
        "Translate offsets of consumer groups to those of a mirror's target.",
    ),
    "operations": JobEntry(
        "barnabas.pipeline.operations.job",
        "OperationsConfig",
        "run",
        "Tell what this host and its brokers are busy with, every second.",
    ),
    "minutes": JobEntry(
        "barnabas.pipeline.operations.minutes", "OperationsConfig", "run", "Make a table of minutes of these figures."
    ),
}
"""By the name that the command has for it."""
