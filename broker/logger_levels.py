"""The process's loggers and their levels in Kafka's words (KIP-412).

A level that is set here acts at once and lasts until the process ends: nothing of it is stored. All brokers of one
process have the same loggers, as all parts of one Kafka broker have.
"""

import logging
from typing import Final

ROOT: Final = "root"
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
}
_NAMES: Final = {level: name for name, level in LEVELS.items()}


def levels() -> dict[str, str]:
    """Each logger's level, which is the next one's above it where it has none of its own."""
    return {name: _named(logger.getEffectiveLevel()) for name, logger in sorted(_loggers().items())}


def exists(name: str) -> bool:
    """Whether there is such a logger."""
    return name in _loggers()


def set_level(name: str, level: str | None) -> None:
    """Give a logger that exists a level of its own, or take it away."""
    _loggers()[name].setLevel(logging.NOTSET if level is None else LEVELS[level])


def _named(level: int) -> str:
    return _NAMES.get(level, logging.getLevelName(level))


def _loggers() -> dict[str, logging.Logger]:
    root = logging.getLogger()
    named = {name: each for name, each in root.manager.loggerDict.items() if isinstance(each, logging.Logger)}
    return {**named, ROOT: root}
