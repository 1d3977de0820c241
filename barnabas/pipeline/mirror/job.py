"""The job `mirror`: topics of several clusters into one, without Spark, or as a query of Spark with engine="spark"."""

import asyncio

from barnabas.pipeline.jobs.job import Run
from barnabas.pipeline.mirror.config import MirrorConfig
from barnabas.pipeline.mirror.mirror import Mirror
from barnabas.pipeline.mirror.watch import Watch
from barnabas.runtime.clock import SystemClock

__all__ = ["MirrorConfig", "run"]


def run(run: Run[MirrorConfig]) -> None:
    """Mirror until it has caught up, or until it is told to stop. Raises JobFailed."""
    if run.config.engine == "spark":
        from barnabas.pipeline.mirror.spark_engine import mirror_with_spark  # noqa: PLC0415 - the other needs no Spark

        mirror_with_spark(run)
    else:
        asyncio.run(_mirror(run))


async def _mirror(run: Run[MirrorConfig]) -> None:
    clock = SystemClock()
    watch = Watch(run.report, run.progress, clock)
    mirror = Mirror(run.config, watch=watch, is_stopping=run.stopping.is_set, clock=clock)
    try:
        await mirror.run()
    finally:
        run.report.tell("mirrored", mirror.reached())
        if run.config.verify:
            run.report.tell("verified", mirror.verdicts)
