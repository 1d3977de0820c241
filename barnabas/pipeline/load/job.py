"""The job `load`: topics into a table of a lake, batch by batch or as one bounded backfill; and the table's upkeep.

Its state is Spark's checkpoint, which plans each batch before it begins, and the tables, which know which batches they
have. `publishing` says what is done in which order; a run that ends anywhere is gone on with by the next one.
"""

import logging
from typing import TYPE_CHECKING

from barnabas.pipeline.jobs.config import ConfigError, duration_ms
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.load.config import MIB, CompactionConfig, LoadConfig, check
from barnabas.runtime.clock import SystemClock

if TYPE_CHECKING:
    from barnabas.pipeline.lake.table import CompactionPlan

__all__ = ["LoadConfig", "run"]

log = logging.getLogger(__name__)


def run(run: Run[LoadConfig]) -> None:
    """Do what `mode` says. Raises JobFailed."""
    from barnabas.client.errors import ClientError  # noqa: PLC0415 - the command line starts without all of these
    from barnabas.pipeline.given_options import OptionError  # noqa: PLC0415
    from barnabas.pipeline.lake.table import LakeError  # noqa: PLC0415
    from barnabas.pipeline.load.steps import LoadRefused  # noqa: PLC0415

    try:
        check(run.config)
        match run.config.mode:
            case "stream" | "backfill":
                from barnabas.pipeline.load.streaming import load  # noqa: PLC0415

                load(run)
            case "compact":
                _compact(run)
            case "vacuum":
                _vacuum(run)
    except (ClientError, ConfigError, LakeError, LoadRefused, OptionError) as error:
        raise JobFailed(str(error)) from error


def compaction_plan(config: CompactionConfig) -> "CompactionPlan":
    """The sizes that a configuration says."""
    from barnabas.pipeline.lake.table import CompactionPlan  # noqa: PLC0415

    return CompactionPlan(
        target_bytes=config.target_mib * MIB, small_bytes=config.small_mib * MIB, least_files=config.least_files
    )


def _compact(run: Run[LoadConfig]) -> None:
    """Merge the small files of the load's tables."""
    from barnabas.pipeline.load.publishing import tables_of  # noqa: PLC0415

    config = run.config
    for table in tables_of(config.table.path, config.dead_letters.path):
        if run.stopping.is_set():
            return
        run.progress.show(f"merging files of {table.location}")
        done = table.compact(compaction_plan(config.compaction))
        run.report.add("files_merged", done.removed)
        run.report.add("files_made", done.added)
        log.info("%s: %d files became %d", table.location, done.removed, done.added)


def _vacuum(run: Run[LoadConfig]) -> None:
    """Remove files of the load's tables that no commit names any more, or ever did."""
    from barnabas.pipeline.load.publishing import tables_of  # noqa: PLC0415

    config = run.config
    keep_ms = duration_ms("vacuum.keep", config.vacuum.keep)
    for table in tables_of(config.table.path, config.dead_letters.path):
        if run.stopping.is_set():
            return
        run.progress.show(f"looking for files of {table.location} that nobody needs")
        gone = table.vacuum(keep_ms=keep_ms, now_ms=SystemClock().wall_ms())
        run.report.add("files_removed", len(gone))
        log.info("%s: %d files removed", table.location, len(gone))
