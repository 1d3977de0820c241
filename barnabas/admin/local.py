"""`barnabas up`, `down` and `status`: a cluster on this machine, its files below one directory."""

import os
import shlex
import signal
from pathlib import Path
from typing import Any, Final, NoReturn

import click

from barnabas.admin import failures
from barnabas.admin.failures import CommandFailed
from barnabas.admin.options import Decorated, output_option
from barnabas.admin.output import Column, Format, show_document, show_rows
from barnabas.launcher.cluster import (
    DEFAULT_BROKERS,
    DEFAULT_HOST,
    DEFAULT_PORT,
    ClusterBusy,
    ClusterError,
    ClusterTimedOut,
    LocalCluster,
)
from barnabas.launcher.cluster_state import StateUnreadable, load_state
from barnabas.launcher.cluster_status import ClusterStatus
from barnabas.launcher.jars import JarsUnavailable
from barnabas.launcher.java import JavaMissing
from barnabas.launcher.zookeeper import DEFAULT_PORT as DEFAULT_ZOOKEEPER_PORT

DEFAULT_DATA: Final = "data"
STARTED_BY: Final = "BARNABAS_STARTED_BY"
"""The environment variable by which the Makefile says that its targets are what its user types."""
_WATCH_S: Final = 0.5
_COLUMNS: Final = (
    Column("member", "MEMBER"),
    Column("address", "ADDRESS"),
    Column("pid", "PID", is_number=True),
    Column("state", "STATE"),
    Column("is_controller", "CONTROLLER"),
    Column("log_dirs", "LOG DIRECTORIES"),
)


def data_option(command: Decorated) -> Decorated:
    """Give a command `--data`; it gets the directory as a Path."""
    return click.option(
        "--data",
        type=click.Path(file_okay=False, path_type=Path),
        default=DEFAULT_DATA,
        show_default=True,
        metavar="DIR",
        help="Where the cluster has its files.",
    )(command)


@click.command()
@click.option(
    "--brokers",
    type=click.IntRange(min=1),
    help=f"How many brokers are to run.  [default: as many as there were, {DEFAULT_BROKERS} at first]",
)
@click.option("--detach", is_flag=True, help="Return when the cluster is ready, and leave it running.")
@data_option
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    help=f"Of broker 1; the others follow.  [default: as before, {DEFAULT_PORT} at first]",
)
@click.option(
    "--zookeeper-port",
    type=click.IntRange(1, 65_535),
    help=f"Of ZooKeeper.  [default: as before, {DEFAULT_ZOOKEEPER_PORT} at first]",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help=f"What the brokers listen on.  [default: as before, {DEFAULT_HOST} at first]",
)
def up(
    *, brokers: int | None, detach: bool, data: Path, port: int | None, zookeeper_port: int | None, host: str | None
) -> int:
    """Start ZooKeeper and brokers on this machine.

    What runs already stays as it is; only what is missing is started. Without --detach the command stays, and Ctrl-C
    stops the cluster. ZooKeeper listens on loopback, and so do the brokers unless --host says otherwise.
    """
    # A stop that is asked for while the cluster starts takes back what was started.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        cluster = LocalCluster(data, brokers=brokers, host=host, port=port, zookeeper_port=zookeeper_port)
        was_running = cluster.is_running
        click.echo(
            f"starting {'what is missing of ' if was_running else ''}the cluster in {cluster.directory}", err=True
        )
        status = cluster.start()
    except (ClusterError, StateUnreadable, JavaMissing, JarsUnavailable) as error:
        raise _explained(error) from error
    if detach:
        _greet(status, f"`{_command('down', data)}` stops it, `{_command('status', data)}` shows it")
        return failures.OK
    return _stay(cluster, status)


@click.command()
@data_option
def down(*, data: Path) -> int:
    """Stop the cluster on this machine and keep its data."""
    try:
        stopped = LocalCluster(data).stop()
    except (ClusterError, StateUnreadable) as error:
        raise _explained(error) from error
    click.echo(f"stopped: {', '.join(stopped)}" if stopped else f"nothing runs in {data}")
    return failures.OK


@click.command()
@data_option
@output_option
def status(*, data: Path, output: Format) -> int:
    """Show what of the cluster on this machine runs: processes, ports, directories, the controller."""
    try:
        if load_state(data) is None:
            raise CommandFailed(
                f"there is no cluster in {data}",
                hint=f"`{_command('up', data)}` starts one; --data says where",
                status=failures.NOT_FOUND,
            )
        _show(LocalCluster(data).status(), output)
    except (ClusterError, StateUnreadable) as error:
        raise _explained(error) from error
    return failures.OK


def _greet(status: ClusterStatus, how_it_ends: str) -> None:
    _show(status, Format.TABLE)
    click.echo(f"\nbootstrap servers: {status.bootstrap_servers}\n{how_it_ends}")


def _stay(cluster: LocalCluster, status: ClusterStatus) -> int:
    """Until it is interrupted, or nothing runs any more; then take down what is left."""
    # Who reads the greeting may interrupt at once, before the call that prints it has returned.
    try:
        _greet(status, "Ctrl-C stops it")
        while cluster.is_running:
            for name in cluster.wait_for_ends(_WATCH_S):
                click.echo(f"{name} has ended", err=True)
    except KeyboardInterrupt:
        click.echo("stopping", err=True)
    # A second Ctrl-C is not to leave half of it running.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    cluster.stop()
    return failures.OK


def _show(status: ClusterStatus, output: Format) -> None:
    document = status.to_json()
    if output is Format.JSON:
        show_document(document, output)
        return
    zookeeper = document["zookeeper"]
    rows: list[dict[str, Any]] = [{"member": "zookeeper", **zookeeper, "is_controller": None, "log_dirs": None}]
    rows += [
        {"member": f"broker {broker['id']}", "address": f"{broker['host']}:{broker['port']}", **broker}
        for broker in document["brokers"]
    ]
    show_rows(rows, _COLUMNS, output)


def _explained(error: Exception) -> CommandFailed:
    hint = None
    if isinstance(error, JavaMissing):
        hint = "pip install 'barnabas[local]' brings a Java"
    elif "another process does" in str(error):
        hint = "--port and --zookeeper-port choose other ports; `barnabas status` shows a cluster of yours"
    elif isinstance(error, ClusterBusy):
        hint = "wait for it, or end it"
    return CommandFailed(
        str(error), hint=hint, status=failures.TIMED_OUT if isinstance(error, ClusterTimedOut) else failures.FAILED
    )


def _command(name: str, data: Path) -> str:
    """What to type for another command on this cluster: `make` has none of ours on the path."""
    where = "" if data == Path(DEFAULT_DATA) else f"--data {shlex.quote(str(data))}"
    if os.environ.get(STARTED_BY) == "make":
        return f"make {name}" + (f" ARGS={shlex.quote(where)}" if where else "")
    return f"barnabas {name} {where}".rstrip()


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
