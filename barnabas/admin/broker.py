"""`barnabas broker`: one broker in the foreground, as a service manager or a container runs it."""

import os

import click

from barnabas.admin.failures import NOT_FOUND, CommandFailed
from barnabas.admin.options import parse_pairs


@click.command()
@click.option("--config", required=True, metavar="FILE", help="A server.properties file, with Kafka's keys and units.")
@click.option("--override", multiple=True, metavar="KEY=VALUE", help="A key that goes before the file's; repeatable.")
def broker(config: str, override: tuple[str, ...]) -> int:
    """Run one broker until SIGTERM or SIGINT stops it.

    The exit status is 0 after a stop that was asked for, 1 when the start failed, 3 when there is no such FILE, 70 when
    the broker ended itself.
    """
    if not os.path.exists(config):
        raise CommandFailed(
            f"{config}: no such file",
            hint="--config names a server.properties file; `barnabas up` writes those of its brokers itself",
            status=NOT_FOUND,
        )
    from broker.main import run  # noqa: PLC0415

    return run(config, dict(parse_pairs(override, "--override")))
