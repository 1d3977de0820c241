"""How the command ends: its exit statuses, and what it says when something failed.

0 ok, 1 failed, 2 usage, 3 not found, 4 unhealthy, 5 timed out, 130 interrupted. An error goes to standard error as one
line, a hint of what to do about it as another.
"""

import os
from typing import Final

import click

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
UNHEALTHY: Final = 4
TIMED_OUT: Final = 5
INTERRUPTED: Final = 130


class CommandFailed(Exception):
    """The command cannot do what it was asked for. `status` is its exit status."""

    def __init__(self, message: str, *, hint: str | None = None, status: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.status = status


def report(message: str, hint: str | None = None) -> None:
    """Say on standard error what went wrong, and perhaps what helps."""
    colour = False if os.environ.get("NO_COLOR") else None
    click.secho("error: ", err=True, nl=False, fg="red", bold=True, color=colour)
    click.echo(message, err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)


def explain(error: Exception) -> CommandFailed | None:
    """What an exception means to who typed the command; None for one that is a mistake of ours."""
    if isinstance(error, CommandFailed):
        return error
    if isinstance(error, FileNotFoundError):
        return CommandFailed(f"{error.filename}: no such file", status=NOT_FOUND)
    if isinstance(error, OSError):
        return CommandFailed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    return _explain_client(error)


def _explain_client(error: Exception) -> CommandFailed | None:
    # Imported here: a command that touches no cluster pays for none of it.
    from barnabas.client import errors  # noqa: PLC0415
    from barnabas.protocol.error_code import ErrorCode  # noqa: PLC0415

    if not isinstance(error, errors.ClientError):
        return None
    if isinstance(error, errors.KafkaError):
        status = NOT_FOUND if error.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else FAILED
        status = TIMED_OUT if error.error is ErrorCode.REQUEST_TIMED_OUT else status
        return CommandFailed(str(error), hint=_HINTS.get(error.error.name), status=status)
    if isinstance(error, errors.ClusterUnreachable):
        hint = (
            "`barnabas status` shows what runs on this machine, `barnabas up` starts what does not; "
            "--bootstrap-server names other brokers, several with commas between"
        )
        return CommandFailed(str(error), hint=hint)
    if isinstance(error, errors.RequestTimedOut):
        return CommandFailed(str(error), hint="--timeout gives it longer", status=TIMED_OUT)
    return CommandFailed(str(error))


_HINTS: Final = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`barnabas topics list` shows the topics there are",
    "TOPIC_ALREADY_EXISTS": "`barnabas topics describe` shows it; --if-not-exists is content with it",
    "INVALID_TOPIC_EXCEPTION": "names hold letters, digits, '.', '_' and '-', 249 at most",
    "OFFSET_OUT_OF_RANGE": "`barnabas topics describe --offsets` shows the offsets there are",
    "MESSAGE_TOO_LARGE": "max.message.bytes of the topic is the limit",
    "NOT_CONTROLLER": "the brokers elect a controller within seconds; --timeout gives it longer",
}
