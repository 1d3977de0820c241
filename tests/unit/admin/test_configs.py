"""`barnabas configs` against a small cluster that keeps what it is told."""

import json
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from barnabas.admin.main import COMPLETION_VARIABLE, cli
from barnabas.protocol.error_code import ErrorCode
from barnabas.protocol.ids import ApiKey
from barnabas.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from broker.config_keys import BROKER_KEYS, TOPIC_KEYS
from broker.config_operations import Change, apply_changes
from tests.unit.admin.conftest import Run
from tests.unit.client.small_cluster import Asked, SmallCluster

SOURCES = {(2, True): 1, (4, True): 2, (4, False): 3, (8, True): 6}
DEFAULTS = {2: ("segment.bytes", "1073741824"), 4: ("log.segment.bytes", "1073741824"), 8: ("root", "INFO")}


class Settings:
    """What is set for each resource; a value `bad` is refused."""

    def __init__(self) -> None:
        self.of: dict[tuple[int, str], dict[str, str]] = {}
        self.asked: list[tuple[int, int, str]] = []

    def answer(self, asked: Asked) -> Any:
        if asked.key not in (ApiKey.DESCRIBE_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS):
            return None
        (resource,) = asked.request.resources
        kind, name = resource.resource_type, resource.resource_name
        self.asked.append((asked.node_id, kind, name))
        if asked.key == ApiKey.DESCRIBE_CONFIGS:
            return self._describe(kind, name, resource.configuration_keys)
        changes = [Change(each.name, each.config_operation, each.value) for each in resource.configs]
        if any(change.value == "bad" for change in changes):
            refused = AlterConfigsResourceResponse(ErrorCode.INVALID_REQUEST, "bad it is", kind, name)
            return IncrementalAlterConfigsResponse(responses=[refused])
        present = self.of.get((kind, name), {})
        if not asked.request.validate_only:
            keys = TOPIC_KEYS if kind == 2 else BROKER_KEYS
            self.of[kind, name] = apply_changes(present, changes, keys)
        done = AlterConfigsResourceResponse(ErrorCode.NONE, None, kind, name)
        return IncrementalAlterConfigsResponse(responses=[done])

    def _describe(self, kind: int, name: str, keys: list[str] | None) -> DescribeConfigsResponse:
        default = DEFAULTS[kind]
        source = SOURCES[kind, bool(name)]
        told = [
            DescribeConfigsResourceResult(
                key, value, config_source=source, synonyms=[DescribeConfigsSynonym(key, value, source)]
            )
            for key, value in self.of.get((kind, name), {}).items()
        ]
        if name and default[0] not in self.of.get((kind, name), {}):
            told.append(DescribeConfigsResourceResult(*default, config_source=5))
        chosen = [each for each in told if keys is None or each.name in keys]
        return DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_type=kind, resource_name=name, configs=chosen)]
        )


@pytest.fixture
def settings(served: SmallCluster) -> Settings:
    served.add_topic("words")
    made = Settings()
    served.on_request = made.answer
    return made


def test_keys_are_set_shown_and_unset(settings: Settings, on_cluster: Run) -> None:
    ran = on_cluster("configs", "set", "retention.ms=5", "segment.bytes=a=b", "--topic", "words")
    assert (ran.status, ran.lines) == (0, ["OF           OUTCOME", "topic words  changed"])
    assert settings.of[2, "words"] == {"retention.ms": "5", "segment.bytes": "a=b"}
    assert on_cluster("configs", "unset", "segment.bytes", "-t", "words").status == 0
    assert on_cluster("configs", "describe", "--topic", "words").lines == [
        "KEY           VALUE  SOURCE",
        "retention.ms  5      topic",
    ]
    lines = on_cluster("configs", "describe", "--topic", "words", "--all").lines
    assert lines[2].split() == ["segment.bytes", "1073741824", "default"]


def test_what_is_no_key_is_not_unset(settings: Settings, on_cluster: Run) -> None:
    on_cluster("configs", "set", "retention.ms=5", "-t", "words")
    for whose in (("-t", "words"), ("--broker", "2"), ("--all-brokers",)):
        ran = on_cluster("configs", "unset", "retention.ms", "nothere", *whose)
        assert (ran.status, ran.out, "no such key" in ran.err, "nothere" in ran.err) == (3, b"", True, True)
    assert settings.of == {(2, "words"): {"retention.ms": "5"}}


def test_what_this_version_does_not_know_can_be_unset(settings: Settings, on_cluster: Run) -> None:
    settings.of[2, "words"] = {"of.another.version": "5"}
    ran = on_cluster("configs", "unset", "of.another.version", "-t", "words")
    assert (ran.status, ran.lines[1:], settings.of) == (0, ["topic words  changed"], {(2, "words"): {}})


def test_what_was_not_set_is_said_so(settings: Settings, on_cluster: Run) -> None:
    on_cluster("configs", "set", "retention.ms=5", "-t", "words")
    on_cluster("configs", "set", "log.segment.bytes=9", "--all-brokers")
    for keys, outcome in (
        (["segment.ms"], "segment.ms was not set"),
        (["segment.ms", "retention.ms"], "changed; segment.ms was not set"),
        (["segment.ms", "retention.ms"], "segment.ms, retention.ms were not set"),
    ):
        ran = on_cluster("configs", "unset", *keys, "-t", "words")
        assert (ran.status, ran.lines[1:]) == (0, [f"topic words  {outcome}"])
    ran = on_cluster("configs", "unset", "log.segment.bytes", "leader.replication.throttled.rate", "--broker", "2")
    assert ran.lines[1:] == ["broker 2  log.segment.bytes, leader.replication.throttled.rate were not set"]
    ran = on_cluster("configs", "unset", "log.segment.bytes", "--all-brokers", "--dry-run")
    assert ran.lines[1:] == ["all brokers  could be changed"]


def test_a_list_grows_and_shrinks(settings: Settings, on_cluster: Run) -> None:
    on_cluster("configs", "set", "cleanup.policy+=compact", "-t", "words")
    assert settings.of[2, "words"] == {"cleanup.policy": "delete,compact"}
    on_cluster("configs", "set", "cleanup.policy-=delete", "-t", "words")
    assert settings.of[2, "words"] == {"cleanup.policy": "compact"}


def test_a_broker_is_asked_itself_and_any_for_all_of_them(settings: Settings, on_cluster: Run) -> None:
    ran = on_cluster("configs", "set", "log.segment.bytes=9", "--broker", "2", "--all-brokers")
    assert [line.split("  ")[0] for line in ran.lines[1:]] == ["broker 2", "all brokers"]
    assert settings.asked[0] == (2, 4, "2")
    assert settings.asked[1][1:] == (4, "")
    ran = on_cluster("configs", "describe", "--broker", "2", "--broker", "1", "--all-brokers", "-o", "jsonl")
    told = [json.loads(line) for line in ran.lines]
    assert [(each["entity"], each["value"], each["source"]) for each in told] == [
        ("2", "9", "dynamic_broker"),
        ("", "9", "dynamic_default_broker"),
    ]
    assert told[0]["synonyms"] == [{"name": "log.segment.bytes", "value": "9", "source": "dynamic_broker"}]
    assert told[0]["type"] == "broker"


def test_levels_of_loggers_are_set_at_their_broker(settings: Settings, on_cluster: Run) -> None:
    assert on_cluster("configs", "set", "root=DEBUG", "--loggers", "2").status == 0
    assert settings.asked == [(2, 8, "2")]
    lines = on_cluster("configs", "describe", "root", "--loggers", "2").lines
    assert lines[1].split() == ["root", "DEBUG", "dynamic_broker_logger"]


def test_what_is_only_tried_changes_nothing(settings: Settings, on_cluster: Run) -> None:
    ran = on_cluster("configs", "set", "retention.ms=5", "--topic", "words", "--dry-run", "-o", "json")
    assert json.loads(ran.out) == [
        {"resource": "topic words", "type": "topic", "entity": "words", "outcome": "could be changed"}
    ]
    assert settings.of == {}


def test_what_is_refused_ends_the_command_and_the_others_are_changed(settings: Settings, on_cluster: Run) -> None:
    ran = on_cluster("configs", "set", "x=bad", "--topic", "words")
    assert (ran.status, ran.out) == (1, b"")
    assert "bad it is" in ran.err
    ran = on_cluster("configs", "set", "retention.ms=5", "--topic", "missing", "--topic", "words")
    assert ran.status == 3
    assert settings.of == {(2, "words"): {"retention.ms": "5"}}


@pytest.mark.usefixtures("settings")
def test_what_there_is_not_is_not_found_at_once(on_cluster: Run) -> None:
    for arguments in (
        ("describe", "--topic", "missing"),
        ("describe", "--broker", "9"),
        ("set", "a=1", "--broker", "9"),
        ("describe", "no.such.key", "--topic", "words"),
    ):
        ran = on_cluster("configs", *arguments)
        assert (ran.status, ran.out) == (3, b""), arguments


@pytest.mark.usefixtures("settings")
def test_nothing_set_is_said_so(on_cluster: Run) -> None:
    assert (
        on_cluster("configs", "describe", "--topic", "words").out == b"nothing is set: all keys have their defaults\n"
    )
    assert on_cluster("configs", "describe", "--topic", "words", "-o", "json").out == b"[]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("describe",),
        ("set", "a=1"),
        ("set", "--topic", "words"),
        ("set", "a", "--topic", "words"),
        ("set", "=1", "--topic", "words"),
        ("set", "+=1", "--topic", "words"),
        ("unset", "--topic", "words"),
        ("describe", "--broker", "one"),
    ],
)
def test_what_makes_no_sense_is_a_mistake_of_usage(on_cluster: Run, arguments: tuple[str, ...]) -> None:
    assert on_cluster("configs", *arguments).status == 2


def completions(*arguments: str, incomplete: str = "") -> list[str]:
    found = ShellComplete(cli, {}, "barnabas", COMPLETION_VARIABLE).get_completions(list(arguments), incomplete)
    return [each.value for each in found]


def test_the_shell_completes_keys(settings: Settings, served: SmallCluster) -> None:
    assert settings.of == {}
    at = ("-b", f"127.0.0.1:{served.ports[1]}")
    assert completions("configs") == ["describe", "set", "unset"]
    assert completions("configs", "set", "--topic", "words", incomplete="retention.m") == ["retention.ms="]
    assert completions("configs", "unset", "--topic", "words", incomplete="retention.m") == ["retention.ms"]
    assert completions("configs", "set", "--all-brokers", incomplete="log.retention.m") == ["log.retention.ms="]
    assert completions("configs", "set", "--all-brokers", incomplete="broker.i") == []
    assert completions("configs", "describe", *at, "--topic", incomplete="w") == ["words"]
