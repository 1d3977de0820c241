"""The command `barnabas`: its sub-commands, each imported when it is used, and how errors become exit statuses.

`barnabas --help` imports click and nothing of a cluster. A sub-command stands in the table below with its module, the
name of the click command in it, and the line that the help shows.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple

import click

from barnabas.admin import failures

COMPLETION_VARIABLE: Final = "_BARNABAS_COMPLETE"


class Entry(NamedTuple):
    """Where a sub-command is and what it is for."""

    module: str
    attribute: str
    summary: str


COMMANDS: Final = {
    "up": Entry("barnabas.admin.local", "up", "Start ZooKeeper and brokers on this machine."),
    "down": Entry("barnabas.admin.local", "down", "Stop the cluster on this machine and keep its data."),
    "status": Entry("barnabas.admin.local", "status", "Show what of the cluster on this machine runs."),
    "broker": Entry("barnabas.admin.broker", "broker", "Run one broker in the foreground."),
    "topics": Entry("barnabas.admin.topics", "topics", "List, describe, create, delete and extend topics."),
    "configs": Entry("barnabas.admin.configs", "configs", "Show and change settings of topics and brokers."),
    "cluster": Entry("barnabas.admin.cluster", "cluster", "Show brokers and controller, and whether all is well."),
    "reassign": Entry("barnabas.admin.reassign", "reassign", "Move replicas to other brokers."),
    "elect-leaders": Entry("barnabas.admin.elect_leaders", "elect_leaders", "Let the preferred replicas lead."),
    "produce": Entry("barnabas.admin.produce", "produce", "Write records to a topic, from files or standard input."),
    "consume": Entry("barnabas.admin.consume", "consume", "Read records of topics to standard output."),
    "groups": Entry("barnabas.admin.groups", "groups", "Look at consumer groups, and change where they read."),
    "txn": Entry("barnabas.admin.transactions", "txn", "Look at transactions, and abort what hangs."),
    "records": Entry("barnabas.admin.records", "records", "Give up the beginning of partitions."),
    "logdirs": Entry("barnabas.admin.log_dirs", "logdirs", "Show log directories, their logs and the cleaner."),
    "dump-log": Entry("barnabas.admin.dump_log", "dump_log", "Show what stands in the files of a log directory."),
    "logs": Entry("barnabas.admin.logs", "logs", "Check whether what the logs hold is whole."),
    "pipeline": Entry("barnabas.admin.pipeline", "pipeline", "Run a job of the data pipeline: load, audit and others."),
    "completion": Entry("barnabas.admin.completion", "completion", "Print the completion script of a shell."),
}


class ReaderLeft(Exception):
    """Who reads our output has enough of it, like `head`."""


class LazyGroup(click.Group):
    """A group that imports a sub-command when it is called, completed or asked for its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [name for name, entry in COMMANDS.items() if find_spec(entry.module) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        entry = COMMANDS[cmd_name]
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would make a failure of it.
            raise ReaderLeft from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Exit status: 0 ok, 1 failed, 2 usage, 3 not found, 4 unhealthy, 5 timed out.""",
)
@click.version_option(package_name="barnabas", message="%(prog)s %(version)s")
def cli() -> None:
    """A Kafka-compatible, ZooKeeper-coordinated log: run it, look into it, write to it and read from it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = cli.main(given, prog_name="barnabas", standalone_mode=False, complete_var=COMPLETION_VARIABLE)
        # What was printed may still be on its way: a reader that left is met here and not at exit.
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.UsageError as error:
        error.show()
        return failures.USAGE
    except click.ClickException as error:
        error.show()
        return failures.FAILED
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return failures.INTERRUPTED
    except (ReaderLeft, BrokenPipeError):
        # What is still buffered has to go somewhere when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return failures.OK
    except Exception as error:
        failure = failures.explain(error)
        if failure is None:
            raise
        failures.report(str(failure), failure.hint)
        return failure.status
    return status if isinstance(status, int) else failures.OK


if __name__ == "__main__":
    sys.exit(main())
