"""The command as a whole: help, laziness, statuses, completion, colour."""

import asyncio
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from barnabas.admin import failures
from barnabas.admin.main import COMMANDS, cli, main
from barnabas.admin.options import parse_addresses
from barnabas.admin.output import Column, cell, dump_json, stream_table
from barnabas.admin.record_text import unescape
from tests.unit.admin.conftest import Run
from tests.unit.client.small_cluster import SmallCluster


def test_help_shows_every_command(run: Run) -> None:
    ran = run("--help")
    assert ran.status == 0
    context = click.Context(cli)
    for name in cli.list_commands(context):
        assert COMMANDS[name].summary in ran.out.decode()
        command = cli.get_command(context, name)
        assert command is not None
        assert run(name, "--help").status == 0


def test_every_option_says_what_it_is_for() -> None:
    context = click.Context(cli)
    commands = [cli.get_command(context, name) for name in cli.list_commands(context)]
    commands += [sub for group in commands if isinstance(group, click.Group) for sub in group.commands.values()]
    for command in commands:
        assert command is not None
        assert command.help
        for param in command.params:
            assert not isinstance(param, click.Option) or param.help, f"{command.name} {param.name}"


def test_help_is_quick_because_it_imports_nothing_of_a_cluster() -> None:
    script = (
        "import sys; from barnabas.admin.main import main; main(['--help']);"
        "print(sorted(m for m in sys.modules if m.startswith(('barnabas.', 'asyncio', 'rich', 'lz4', 'grpc'))))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True, timeout=30)
    assert ran.stdout.splitlines()[-1] == "['barnabas.admin', 'barnabas.admin.failures', 'barnabas.admin.main']"


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("--nonsense",), ("broker",), ("broker", "--config"), ("completion",)]
)
def test_wrong_usage_has_its_status(run: Run, arguments: tuple[str, ...]) -> None:
    ran = run(*arguments)
    assert (ran.status, ran.out) == (2, b"")


def test_the_version(run: Run) -> None:
    ran = run("--version")
    assert ran.status == 0
    assert ran.lines[0].startswith("barnabas ")


def test_nobody_there(run: Run) -> None:
    ran = run("topics", "list", "-b", "127.0.0.1:1")
    assert ran.status == 1
    assert ran.err.startswith("error: no connection to 127.0.0.1:1: ")
    assert "hint: `barnabas status`" in ran.err
    assert "--bootstrap-server" in ran.err


def test_the_cluster_is_found_by_the_environment(
    run: Run, served: SmallCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BARNABAS_BOOTSTRAP_SERVER", f"127.0.0.1:1,127.0.0.1:{served.ports[2]}")
    assert run("topics", "list").status == 0


def test_no_answer_in_time_has_its_status(on_cluster: Run, served: SmallCluster) -> None:
    served.on_request = lambda asked: asyncio.sleep(5) if asked.header.api_key == 3 else None
    ran = on_cluster("topics", "list", "--timeout", "0.1")
    assert (ran.status, "hint: --timeout" in ran.err) == (5, True)


def test_a_mistake_of_ours_is_not_hidden(run: Run, served: SmallCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.admin.topics.show_rows", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["topics", "list", "-b", f"127.0.0.1:{served.ports[1]}"])


def test_the_broker_gets_its_file_and_overrides(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    got: list[object] = []

    def note(config: str, overrides: dict[str, str], environment: object) -> int:
        got.append((config, overrides, environment))
        return 70

    monkeypatch.setattr("broker.main.run", note)
    file = tmp_path / "x.properties"
    file.touch()
    ran = run("broker", "--config", str(file), "--override", "broker.id=3", "--override", "a=b=c")
    assert ran.status == 70
    assert got == [(str(file), {"broker.id": "3", "a": "b=c"}, None)]
    assert run("broker", "--environment").status == 70
    assert got[1:] == [(None, {}, os.environ)]
    assert run("broker", "--config", str(file), "--override", "nonsense").status == 2


def test_a_broker_without_its_file_is_not_started(run: Run, tmp_path: Path) -> None:
    ran = run("broker", "--config", str(tmp_path / "none"))
    assert (ran.status, f"error: {tmp_path}/none: no such file\nhint: --config" in ran.err) == (3, True)
    ran = run("broker")
    assert (ran.status, "--config FILE, --environment, or both" in ran.err) == (2, True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_us(run: Run, shell: str) -> None:
    ran = run("completion", shell)
    assert ran.status == 0
    assert b"_BARNABAS_COMPLETE" in ran.out


def complete(words: str, **environment: str) -> list[str]:
    completing = {"_BARNABAS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    ran = subprocess.run(
        [sys.executable, "-m", "barnabas.admin.main"],
        env={**os.environ, **completing, **environment},
        capture_output=True,
        check=False,
        text=True,
        timeout=30,
    )
    assert ran.stderr == ""
    return ran.stdout.split()


def test_commands_and_topics_complete(served: SmallCluster) -> None:
    served.add_topic("words")
    served.add_topic("works")
    served.add_topic("other")
    assert complete("barnabas pro") == ["plain,produce"]
    address = f"127.0.0.1:{served.ports[1]}"
    assert complete(f"barnabas consume -b {address} wo") == ["plain,words", "plain,works"]
    assert complete("barnabas topics describe wor", BARNABAS_BOOTSTRAP_SERVER=address) == ["plain,words", "plain,works"]
    assert complete("barnabas topics describe -b 127.0.0.1:1 wor") == []


def on_terminal(served: SmallCluster, *arguments: str, **environment: str) -> str:
    """What a command writes to a terminal."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "barnabas.admin.main", *arguments, "-b", f"127.0.0.1:{served.ports[1]}"]
    given = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    given |= {"TERM": "xterm-256color", **environment}
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=given, check=False, timeout=30)
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65_536):
            written += chunk
    except OSError:
        pass  # how Linux says that the other side is closed
    os.close(ours)
    return written.decode()


def test_a_terminal_gets_a_drawn_table_and_colour_unless_it_wants_none(served: SmallCluster) -> None:
    served.add_topic("words")
    drawn = on_terminal(served, "topics", "list")
    assert "words" in drawn
    assert "\x1b[" in drawn
    assert "─" in drawn
    assert "\x1b[3" not in on_terminal(served, "topics", "list", NO_COLOR="1")
    assert "\x1b[31m" in on_terminal(served, "topics", "describe", "missing")
    assert "\x1b" not in on_terminal(served, "topics", "describe", "missing", NO_COLOR="1")


def test_piped_there_is_no_colour(on_cluster: Run, served: SmallCluster) -> None:
    served.add_topic("words")
    for arguments in (("topics", "list"), ("topics", "describe", "missing")):
        ran = on_cluster(*arguments)
        assert b"\x1b" not in ran.out + ran.err.encode()


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a", [("a", 9092)]),
        ("a:1", [("a", 1)]),
        ("a:1, b:2", [("a", 1), ("b", 2)]),
        ("[::1]", [("::1", 9092)]),
        ("[::1]:9", [("::1", 9)]),
    ],
)
def test_addresses(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_addresses(text) == addresses


@pytest.mark.parametrize(
    "text", ["", ":1", "a:b", "a:0", "a:65536", "a:1:2", "[::1", "a,,b", "a:-1", "a:\N{ARABIC-INDIC DIGIT ONE}"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_addresses(text)


def test_a_long_table_keeps_the_widths_of_its_beginning() -> None:
    columns = (Column("a", "A"), Column("n", "N", is_number=True))
    rows = [{"a": "x", "n": number} for number in range(300)] + [{"a": "longer", "n": None}]
    lines = list(stream_table(rows, columns))
    assert (lines[0], lines[1], lines[300]) == ("A    N", "x    0", "x  299")
    assert lines[-1] == "longer    -"


def test_cells_and_json() -> None:
    assert [cell(value) for value in (None, True, False, [1, 2], "x", 5)] == ["-", "yes", "no", "1,2", "x", "5"]
    assert dump_json({"a": "ü"}) == '{"a": "ü"}'
    assert dump_json({"a": "\udcff"}) == '{"a": "\\udcff"}'


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("\\t", b"\t"),
        ("\\n", b"\n"),
        ("\\0", b"\0"),
        ("\\\\n", b"\\n"),
        ("a\\", b"a\\"),
        ("ü", "ü".encode()),
        ("\\x", b"\\x"),
    ],
)
def test_separators_as_typed(typed: str, meant: bytes) -> None:
    assert unescape(typed) == meant


def test_errors_of_the_system_are_explained(tmp_path: Path) -> None:
    def explained(call: Callable[[], object]) -> failures.CommandFailed:
        try:
            call()
        except OSError as error:
            found = failures.explain(error)
            assert found is not None
            return found
        raise AssertionError("nothing failed")

    missing = explained((tmp_path / "missing").read_bytes)
    assert (missing.status, str(missing)) == (failures.NOT_FOUND, f"{tmp_path}/missing: no such file")
    assert explained(tmp_path.read_bytes).status == failures.FAILED
    assert failures.explain(ZeroDivisionError()) is None
