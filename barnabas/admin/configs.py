"""`barnabas configs`: show, set and unset the settings of topics and brokers, and the levels of loggers."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import CompletionItem

from barnabas.admin.failures import NOT_FOUND, CommandFailed, explain, report
from barnabas.admin.options import Reach, cluster_options, complete_topics, find_topic, output_option
from barnabas.admin.output import Column, Format, show_rows
from barnabas.client.admin import (
    Admin,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from barnabas.client.errors import KafkaError

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster

_ENTRY_COLUMNS: Final = (
    Column("resource", "OF"),
    Column("name", "KEY"),
    Column("value", "VALUE"),
    Column("source", "SOURCE"),
)
_OUTCOME_COLUMNS: Final = (Column("resource", "OF"), Column("outcome", "OUTCOME"))
_OPERATIONS: Final = {"+": ConfigOperation.APPEND, "-": ConfigOperation.SUBTRACT}


@click.group()
def configs() -> None:
    """Show and change settings of topics and brokers."""


def resource_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Say whose settings; the command gets them as `resources`."""

    @click.option("--topic", "-t", "topics", multiple=True, shell_complete=complete_topics, help="A topic; repeatable.")
    @click.option("--broker", "brokers", multiple=True, type=click.IntRange(min=0), help="A broker's id; repeatable.")
    @click.option("--all-brokers", is_flag=True, help="What is set for all brokers together.")
    @click.option(
        "--loggers", multiple=True, type=click.IntRange(min=0), metavar="BROKER", help="The loggers of a broker."
    )
    @wraps(command)
    def with_resources(
        *,
        topics: tuple[str, ...],
        brokers: tuple[int, ...],
        all_brokers: bool,
        loggers: tuple[int, ...],
        **others: Any,
    ) -> Any:
        resources = [
            *(ConfigResource(ResourceType.TOPIC, name) for name in topics),
            *(ConfigResource(ResourceType.BROKER, str(number)) for number in brokers),
            *([ConfigResource(ResourceType.BROKER, "")] if all_brokers else ()),
            *(ConfigResource(ResourceType.BROKER_LOGGER, str(number)) for number in loggers),
        ]
        if not resources:
            raise click.UsageError("say whose settings: --topic, --broker, --all-brokers or --loggers")
        return command(resources=list(dict.fromkeys(resources)), **others)

    return with_resources


def complete_keys(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Keys that can be set there, by the tables of this version."""
    from broker.config_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, TOPIC_KEYS  # noqa: PLC0415

    of_brokers = [name for name, key in {**BROKER_KEYS, **DYNAMIC_ONLY_KEYS}.items() if key.is_changeable]
    is_of_topic = bool(ctx.params.get("topics"))
    names = [name for name, key in TOPIC_KEYS.items() if key.acts] if is_of_topic else of_brokers
    after = "=" if ctx.info_name == "set" else ""
    return [CompletionItem(name + after) for name in sorted(names) if name.startswith(incomplete)]


@configs.command()
@click.argument("keys", nargs=-1, metavar="[KEY]...", shell_complete=complete_keys)
@click.option("--all", "everything", is_flag=True, help="Also what has its default.")
@resource_options
@output_option
@cluster_options
def describe(
    *, keys: tuple[str, ...], everything: bool, resources: list[ConfigResource], reach: Reach, output: Format
) -> None:
    """Show what is set, and where: for the topic, in ZooKeeper for this or all brokers, or in a broker's file.

    Keys that are named are shown with their defaults. JSON holds all places where a value could come from, the
    strongest first.
    """

    async def work(cluster: "Cluster") -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for resource in resources:
            await _require(cluster, resource)
            entries = await Admin(cluster).describe_configs(resource, keys or None, synonyms=True)
            shown = sorted(entries, key=lambda entry: entry.name)
            rows += [
                _entry(resource, entry)
                for entry in shown
                if everything or keys or entry.source is not ConfigSource.DEFAULT
            ]
        return rows

    rows = reach.run(work)
    known = {row["name"] for row in rows}
    if unknown := [key for key in keys if key not in known]:
        raise CommandFailed(
            f"no such key: {', '.join(unknown)}", hint="--all shows the keys that there are", status=NOT_FOUND
        )
    columns = _ENTRY_COLUMNS if len(resources) > 1 else _ENTRY_COLUMNS[1:]
    if output is Format.TABLE and not rows:
        click.echo("nothing is set: all keys have their defaults")
        return
    show_rows(rows, columns, output)


@configs.command("set")
@click.argument("settings", nargs=-1, required=True, metavar="KEY=VALUE...", shell_complete=complete_keys)
@click.option("--dry-run", is_flag=True, help="Let the cluster check, and change nothing.")
@resource_options
@output_option
@cluster_options
def set_settings(
    *, settings: tuple[str, ...], dry_run: bool, resources: list[ConfigResource], reach: Reach, output: Format
) -> None:
    """Set keys; they act at once, on all brokers, without a restart.

    KEY+=VALUE adds to a list, KEY-=VALUE takes away from it. What the loggers of a broker are set to lasts until it
    stops; everything else stays.
    """
    changes = [_change(text) for text in settings]
    _alter(changes, resources, reach, output, dry_run=dry_run)


@configs.command()
@click.argument("keys", nargs=-1, required=True, metavar="KEY...", shell_complete=complete_keys)
@click.option("--dry-run", is_flag=True, help="Let the cluster check, and change nothing.")
@resource_options
@output_option
@cluster_options
def unset(
    *, keys: tuple[str, ...], dry_run: bool, resources: list[ConfigResource], reach: Reach, output: Format
) -> None:
    """Unset keys: what is set elsewhere, or the default, stands from then on."""
    changes = [ConfigChange(key, ConfigOperation.DELETE) for key in dict.fromkeys(keys)]
    _alter(changes, resources, reach, output, dry_run=dry_run)


def _change(text: str) -> ConfigChange:
    key, equals, value = text.partition("=")
    operation = _OPERATIONS.get(key[-1:], ConfigOperation.SET)
    name = key if operation is ConfigOperation.SET else key[:-1]
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="KEY=VALUE")
    return ConfigChange(name, operation, value)


def _alter(
    changes: Sequence[ConfigChange], resources: Iterable[ConfigResource], reach: Reach, output: Format, *, dry_run: bool
) -> None:
    async def work(cluster: "Cluster") -> dict[ConfigResource, Exception | None]:
        outcomes: dict[ConfigResource, Exception | None] = {}
        for resource in resources:
            try:
                await _require(cluster, resource)
                await Admin(cluster).alter_configs(resource, changes, validate_only=dry_run)
                outcomes[resource] = None
            except (KafkaError, CommandFailed) as error:
                outcomes[resource] = error
        return outcomes

    outcomes = reach.run(work)
    done = "could be changed" if dry_run else "changed"
    rows = [{**_named(resource), "outcome": done} for resource, error in outcomes.items() if error is None]
    if rows or output is not Format.TABLE:
        show_rows(rows, _OUTCOME_COLUMNS, output)
    failures = [explain(error) or CommandFailed(str(error)) for error in outcomes.values() if error is not None]
    for failure in failures[:-1]:
        report(str(failure), failure.hint)
    if failures:
        raise failures[-1]


async def _require(cluster: "Cluster", resource: ConfigResource) -> None:
    """Fail at once where there is no such topic or broker. Raises KafkaError, CommandFailed."""
    if resource.type is ResourceType.TOPIC:
        await find_topic(cluster, resource.name)
    elif resource.node_id is not None and resource.node_id not in (await cluster.metadata()).nodes:
        message = f"broker {resource.name} is not registered"
        raise CommandFailed(message, hint="`barnabas cluster` shows the brokers that are", status=NOT_FOUND)


def _entry(resource: ConfigResource, entry: ConfigEntry) -> dict[str, Any]:
    return {
        **_named(resource),
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name.lower(),
        "read_only": entry.read_only,
        "is_sensitive": entry.is_sensitive,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": each.source.name.lower()} for each in entry.synonyms
        ],
    }


def _named(resource: ConfigResource) -> dict[str, str]:
    return {"resource": str(resource), "type": resource.type.name.lower(), "entity": resource.name}
