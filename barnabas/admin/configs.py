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
    # Imported here, as below: a command that touches no settings pays for none of it.
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
    done = "could be changed" if dry_run else "changed"

    async def work(cluster: "Cluster") -> dict[ConfigResource, str | Exception]:
        outcomes: dict[ConfigResource, str | Exception] = {}
        for resource in resources:
            try:
                await _require(cluster, resource)
                not_set = await _not_set(cluster, resource, changes)
                await Admin(cluster).alter_configs(resource, changes, validate_only=dry_run)
                outcomes[resource] = _outcome(done, not_set, len(changes))
            except (KafkaError, CommandFailed) as error:
                outcomes[resource] = error
        return outcomes

    outcomes = reach.run(work)
    rows = [{**_named(resource), "outcome": told} for resource, told in outcomes.items() if isinstance(told, str)]
    if rows or output is not Format.TABLE:
        show_rows(rows, _OUTCOME_COLUMNS, output)
    failures = [
        explain(error) or CommandFailed(str(error)) for error in outcomes.values() if isinstance(error, Exception)
    ]
    for failure in failures[:-1]:
        report(str(failure), failure.hint)
    if failures:
        raise failures[-1]


async def _not_set(cluster: "Cluster", resource: ConfigResource, changes: Sequence[ConfigChange]) -> list[str]:
    """The keys that are to be unset and are not set there. Raises ClientError; CommandFailed for what is no key.

    Brokers take what is no key to be unset already, as Kafka's do: a key that is misspelt would be told as changed.
    """
    keys = [change.name for change in changes if change.operation is ConfigOperation.DELETE]
    # A broker refuses what is none of its loggers.
    if not keys or resource.type is ResourceType.BROKER_LOGGER:
        return []
    described = {each.name: each for each in await Admin(cluster).describe_configs(resource, keys, synonyms=True)}
    # Of all brokers together only what is set is told.
    known = described.keys() | _keys_of(resource.type)
    if unknown := [key for key in keys if key not in known]:
        hint = "`barnabas configs describe --all` shows the keys that there are"
        raise CommandFailed(f"{resource}: no such key: {', '.join(unknown)}", hint=hint, status=NOT_FOUND)
    return [key for key in keys if key not in described or not _is_set(resource, described[key])]


def _keys_of(kind: ResourceType) -> set[str]:
    """The keys of topics or brokers, by the tables of this version."""
    from broker.config_keys import BROKER_KEYS, DYNAMIC_ONLY_KEYS, TOPIC_KEYS  # noqa: PLC0415

    return {*TOPIC_KEYS} if kind is ResourceType.TOPIC else {*BROKER_KEYS, *DYNAMIC_ONLY_KEYS}


def _is_set(resource: ConfigResource, entry: ConfigEntry) -> bool:
    if resource.type is ResourceType.TOPIC:
        own = ConfigSource.TOPIC
    else:
        own = ConfigSource.DYNAMIC_BROKER if resource.name else ConfigSource.DYNAMIC_DEFAULT_BROKER
    # A key may have its value from another spelling of it: log.retention.hours from log.retention.ms.
    return any(each.name == entry.name and each.source is own for each in entry.synonyms)


def _outcome(done: str, not_set: Sequence[str], count: int) -> str:
    if not not_set:
        return done
    told = f"{', '.join(not_set)} {'was' if len(not_set) == 1 else 'were'} not set"
    return told if len(not_set) == count else f"{done}; {told}"


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
