"""Options that many commands share: where the cluster is, how long to wait, how to print; and completion of topics."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from barnabas.admin.failures import CommandFailed
from barnabas.admin.output import Format

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster
    from barnabas.client.metadata import TopicMetadata

T = TypeVar("T")
Decorated = Callable[..., Any]

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
DEFAULT_PORT: Final = 9092
_COMPLETION_TIMEOUT_MS: Final = 1000
_SECOND_LOOK_S: Final = 0.25


@dataclass(slots=True)
class Reach:
    """Where the cluster listens and how long a command waits for it."""

    addresses: list[tuple[str, int]]
    timeout_ms: int

    def run(self, work: "Callable[[Cluster], Awaitable[T]]") -> T:
        """Run `work` with a cluster that is closed after it."""
        return asyncio.run(self._run(work))

    async def _run(self, work: "Callable[[Cluster], Awaitable[T]]") -> T:
        from barnabas.client.cluster import Cluster, ClusterOptions  # noqa: PLC0415
        from barnabas.client.connection import Address  # noqa: PLC0415

        options = ClusterOptions(
            client_id="barnabas-command",
            connect_timeout_ms=min(self.timeout_ms, 10_000),
            request_timeout_ms=self.timeout_ms,
            timeout_ms=self.timeout_ms,
        )
        addresses = [Address(host, port) for host, port in self.addresses]
        async with Cluster(addresses, random=random.Random(), options=options) as cluster:
            return await work(cluster)


def parse_addresses(text: str) -> list[tuple[str, int]]:
    """HOST:PORT, one or several with commas between; [::1]:9092 for IPv6. Raises click.BadParameter."""
    return [_parse_address(part.strip()) for part in text.split(",")]


def _parse_address(text: str) -> tuple[str, int]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":") if bracket else "?"
    else:
        host, _, port = text.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536)):
        raise click.BadParameter(f"{text!r} is not HOST:PORT")
    return host, int(port) if port else DEFAULT_PORT


def cluster_options(command: Decorated) -> Decorated:
    """Give a command `--bootstrap-server` and `--timeout`; it gets them as `reach`."""

    @click.option(
        "--bootstrap-server",
        "-b",
        "bootstrap_server",
        metavar="HOST:PORT",
        callback=lambda _ctx, _param, text: parse_addresses(text),
        default=DEFAULT_BOOTSTRAP,
        show_default=True,
        envvar="BARNABAS_BOOTSTRAP_SERVER",
        help="Brokers to start with; several with commas between.",
    )
    @click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=15.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the cluster.",
    )
    @wraps(command)
    def with_reach(*args: Any, bootstrap_server: list[tuple[str, int]], timeout: float, **kwargs: Any) -> Any:
        return command(*args, reach=Reach(bootstrap_server, max(1, int(timeout * 1000))), **kwargs)

    return with_reach


def output_option(command: Decorated) -> Decorated:
    """Give a command `-o`; it gets the `Format` as `output`."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice([each.value for each in Format]),
        callback=lambda _ctx, _param, name: Format(name),
        default=Format.TABLE.value,
        show_default=True,
        help="How to print.",
    )(command)


def confirm(plan: str) -> None:
    """Ask whether `plan` shall be done. Raises CommandFailed unless the answer is yes."""
    click.echo(plan, err=True)
    try:
        agreed = click.confirm("Go on?", err=True)
    except click.Abort:
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise CommandFailed("nothing was done", hint="--yes does not ask")


def complete_topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The cluster's topics that begin with what was typed; none where no cluster answers in a second."""
    addresses = ctx.params.get("bootstrap_server") or parse_addresses(DEFAULT_BOOTSTRAP)

    async def names(cluster: "Cluster") -> list[str]:
        return sorted((await cluster.metadata(None)).topics)

    from barnabas.client.errors import ClientError  # noqa: PLC0415

    try:
        found = Reach(addresses, _COMPLETION_TIMEOUT_MS).run(names)
    except (ClientError, OSError):
        return []
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


async def find_topic(cluster: "Cluster", name: str, *, auto_create: bool = False) -> "TopicMetadata":
    """A topic, looked for twice: one that was created a moment ago may not be known everywhere. Raises KafkaError."""
    from barnabas.client.errors import KafkaError  # noqa: PLC0415
    from barnabas.protocol.error_code import ErrorCode  # noqa: PLC0415

    try:
        return await cluster.topic(name, auto_create=auto_create)
    except KafkaError as error:
        if error.error is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    await asyncio.sleep(_SECOND_LOOK_S)
    return await cluster.topic(name, auto_create=auto_create)


def parse_pairs(texts: tuple[str, ...], what: str) -> list[tuple[str, str]]:
    """KEY=VALUE options as pairs. Raises click.BadParameter."""
    pairs: list[tuple[str, str]] = []
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint=what)
        pairs.append((key, value))
    return pairs
