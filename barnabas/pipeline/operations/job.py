"""The job `operations`: the agent of one host, without Spark."""

import asyncio
import socket

from barnabas.pipeline.job_clusters import open_configured
from barnabas.pipeline.jobs.job import Run
from barnabas.pipeline.operations.agent import Agent
from barnabas.pipeline.operations.config import OperationsConfig
from barnabas.runtime.clock import SystemClock

__all__ = ["OperationsConfig", "run"]


def run(run: Run[OperationsConfig]) -> None:
    """Tell of this host until it is told to stop. Raises JobFailed."""
    asyncio.run(_watch(run))


async def _watch(run: Run[OperationsConfig]) -> None:
    async with open_configured(run.config.cluster) as cluster:
        agent = Agent(
            run.config,
            cluster,
            host=run.config.host or socket.gethostname(),
            report=run.report,
            progress=run.progress,
            is_stopping=run.stopping.is_set,
            clock=SystemClock(),
        )
        await agent.run()
