"""What a seed drew, as text: a cluster that failed once is played again whatever later seeds draw.

One JSON object: the seed that names the streams of chance of the world (latencies, orders of events), and the draws
with the moments of all faults and errands. Reading fills a field that came later with its default.
"""

import dataclasses
import json
from typing import Any, Final

from barnabas.simulation.coordinator_load import CoordinatorLoad
from barnabas.simulation.draws import Draws
from barnabas.simulation.load import LoadSettings
from barnabas.simulation.moments import Moment
from barnabas.simulation.wires import WireWeather

_TABLES: Final = ("strikes", "errands_at", "rots_at", "format_errands_at")
"""Of the draws; an old script may lack the later ones, and then nothing of theirs happened."""


def dumps(seed: str, draws: Draws, *, title: str = "") -> str:
    """The text; `title` says what it shows. Lists of moments have one line each."""
    told = dataclasses.asdict(draws)
    rows = {name: told.pop(name) or [] for name in _TABLES}
    head = json.dumps({"title": title, "seed": seed, "draws": told}, indent=1)
    tables = "".join(
        f',\n "{name}": [\n' + ",\n".join(f"  {json.dumps(row)}" for row in some) + "\n ]"
        for name, some in rows.items()
    )
    return head.removesuffix("\n}") + tables + "\n}\n"


def loads(text: str) -> tuple[str, Draws]:
    """The seed and what it drew."""
    told: dict[str, Any] = json.loads(text)
    draws: dict[str, Any] = told["draws"]
    draws["weather"] = _made(WireWeather, draws["weather"])
    draws["load"] = _made(LoadSettings, draws["load"])
    draws["coordinators"] = _made(CoordinatorLoad, draws.get("coordinators", {}))
    draws["drift"] = {int(number): drift for number, drift in draws.get("drift", {}).items()}
    for name in ("errands", "acks", "lull_s", "format_errands"):
        if name in draws:
            draws[name] = tuple(draws[name])
    for name in _TABLES:
        draws[name] = [Moment(*row) for row in told.get(name, ())]
    return told["seed"], Draws(**draws)


def title_of(text: str) -> str:
    """What it shows."""
    return str(json.loads(text)["title"])


def _made(kind: type[Any], values: dict[str, Any]) -> Any:
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in values.items()})
