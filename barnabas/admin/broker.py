"""`barnabas broker`: one broker in the foreground, as a service manager or a container runs it."""

import os
from typing import Final

import click

from barnabas.admin.failures import NOT_FOUND, CommandFailed
from barnabas.admin.options import parse_pairs

SHARED_CONFIG: Final = "/mnt/shared/config/server.properties"
"""Where the image apache/kafka looks for a configuration that is mounted into the container."""


@click.command()
@click.option("--config", metavar="FILE", help="A server.properties file, with Kafka's keys and units.")
@click.option(
    "--environment",
    is_flag=True,
    help=f"Take keys from variables too: KAFKA_LOG_DIRS sets log.dirs. If there is {SHARED_CONFIG}, it is --config.",
)
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="A key that goes before the file's; repeatable.")
def broker(config: str | None, *, environment: bool, override: tuple[str, ...]) -> int:
    """Run one broker until SIGTERM or SIGINT stops it.

    The exit status is 0 after a stop that was asked for, 1 when the start failed, 3 when there is no such FILE, 70 when
    the broker ended itself.
    """
    if config is None and not environment:
        raise click.UsageError("say where the configuration is: --config FILE, --environment, or both")
    if config is None and os.path.exists(SHARED_CONFIG):
        config = SHARED_CONFIG
    if config is not None and not os.path.exists(config):
        raise CommandFailed(
            f"{config}: no such file",
            hint="--config names a server.properties file; `barnabas up` writes those of its brokers itself",
            status=NOT_FOUND,
        )
    from broker.main import run  # noqa: PLC0415

    return run(config, dict(parse_pairs(override, "--override")), os.environ if environment else None)
