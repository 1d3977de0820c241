"""`barnabas pipeline`: runs the jobs of the data pipeline, each from a configuration file."""

import logging
import sys
from pathlib import Path
from typing import Any, Final

import click

from barnabas.admin import failures
from barnabas.admin.failures import CommandFailed
from barnabas.pipeline.jobs.catalogue import JOBS, JobEntry

_EXTRA: Final = "pip install 'barnabas[pipeline]'"


class JobGroup(click.Group):
    """One sub-command for each job; what a job needs is imported when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(JOBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = JOBS.get(cmd_name)
        return None if entry is None else _command(cmd_name, entry)


@click.group(cls=JobGroup)
def pipeline() -> None:
    """Run the jobs of the data pipeline, each from a configuration file in TOML."""


def _command(name: str, entry: JobEntry) -> click.Command:
    @click.command(name, help=f"{entry.summary}\n\nCtrl-C lets it end in good order, a second one at once.")
    @click.argument("config", type=click.Path(exists=True, dir_okay=False, path_type=Path))
    @click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="KEY=VALUE",
        help="A value over the one of the file, as section.key=value; repeatable.",
    )
    @click.option(
        "--report",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Write what the run did to this file, as JSON.",
    )
    @click.option("-v", "--verbose", is_flag=True, help="Tell of each step on standard error.")
    def command(*, config: Path, overrides: tuple[str, ...], report: Path | None, verbose: bool) -> int:
        if verbose:
            logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
            logging.getLogger("barnabas").setLevel(logging.INFO)
        return run_job(name, config, overrides, report)

    return command


def run_job(name: str, config: Path, overrides: tuple[str, ...], report: Path | None) -> int:
    """Run a job to its end; the exit status. Raises CommandFailed for what its user can mend."""
    try:
        return _run(name, config, overrides, report)
    except ModuleNotFoundError as error:
        if error.name in _LIBRARIES:
            raise CommandFailed(f"the pipeline needs {error.name}", hint=_EXTRA) from None
        raise


_LIBRARIES: Final = {"deltalake", "fastavro", "msgspec", "numpy", "psutil", "pyarrow", "pyspark"}
"""What the extra `pipeline` brings."""


def _run(name: str, config: Path, overrides: tuple[str, ...], report: Path | None) -> int:
    from barnabas.pipeline.jobs.config import ConfigError, load_config  # noqa: PLC0415 - needs the extra
    from barnabas.pipeline.jobs.job import JobFailed, Run, carry_out  # noqa: PLC0415
    from barnabas.pipeline.jobs.report import require_writable  # noqa: PLC0415

    kind, work = JOBS[name].load()
    try:
        run: Run[Any] = Run(name, load_config(config, overrides, kind))
    except ConfigError as error:
        raise CommandFailed(str(error), status=failures.USAGE) from None
    if report is not None:
        try:
            require_writable(report)
        except OSError as error:
            raise CommandFailed(f"no report can be written to {report}: {error.strerror}") from None
    try:
        carry_out(run, work, report)
    except JobFailed as error:
        # What a job finds in its configuration is no other mistake than what the type of it refuses.
        is_usage = isinstance(error.__cause__, ConfigError)
        raise CommandFailed(str(error), status=failures.USAGE if is_usage else failures.FAILED) from error
    return failures.OK
