"""The job activity as the command finds it; what it does stands in counting.py, which loads Spark."""

from barnabas.pipeline.activity.config import ActivityConfig, check
from barnabas.pipeline.jobs.config import ConfigError
from barnabas.pipeline.jobs.job import JobFailed, Run

__all__ = ["ActivityConfig", "run"]


def run(run: Run[ActivityConfig]) -> None:
    """Count until all is counted, or until it is stopped. Raises JobFailed."""
    from barnabas.pipeline.given_options import OptionError  # noqa: PLC0415 - the command line starts without these
    from barnabas.pipeline.lake.table import LakeError  # noqa: PLC0415

    try:
        check(run.config)
        from barnabas.pipeline.activity.counting import count  # noqa: PLC0415

        count(run)
    except (ConfigError, LakeError, OptionError) as error:
        raise JobFailed(str(error)) from error
