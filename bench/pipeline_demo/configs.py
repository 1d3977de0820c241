"""The configurations of the three jobs, as a user would write them."""

import json
from dataclasses import dataclass
from pathlib import Path

_SCHEMA = "time timestamp, member string, page string, version string, distribution string, urgency string, changes int"
_SPARK = """
[spark.settings]
"spark.ui.enabled" = "false"
"""


@dataclass(frozen=True)
class Names:
    """Where a run of the demo has its things."""

    bootstrap: str
    folder: Path
    run: str

    @property
    def events(self) -> str:
        return f"changelogs-{self.run}"

    @property
    def counts(self) -> str:
        return f"changelogs-{self.run}-counts"

    @property
    def results(self) -> str:
        return f"changelogs-{self.run}-activity"

    @property
    def table(self) -> Path:
        return self.folder / "lake" / "changelogs"


def load_config(names: Names) -> str:
    """Events into a Delta table, their fields as columns."""
    return f"""\
name = "changelogs"
checkpoint = {_text(names.folder / "checkpoints" / "load")}
{_cluster(names)}
[source]
topics = [{_text(names.events)}]

[table]
path = {_text(names.table)}
format = "delta"

[partitions]
by = "none"

[payload]
kind = "json"
schema = {_text(_SCHEMA)}
{_SPARK}"""


def audit_config(names: Names) -> str:
    """What the feed counted, what the topic holds, what the table has."""
    return f"""\
topics = [{_text(names.events)}]
{_cluster(names)}
[lake]
path = {_text(names.table)}

[producers]
topic = {_text(names.counts)}
{_SPARK}"""


def activity_config(names: Names) -> str:
    """Entries for each package and for each urgency in months of 30 days, and sessions of maintainers."""
    return f"""\
checkpoint = {_text(names.folder / "checkpoints" / "activity")}
watermark = "1d"
{_cluster(names)}
[source]
topics = [{_text(names.events)}]

[event]
time = "time"

[output]
topic = {_text(names.results)}

[[counts]]
name = "packages"
keys = ["page"]
window = "30d"

[[counts]]
name = "urgencies"
keys = ["urgency"]
window = "30d"

[[sessions]]
name = "sessions"
keys = ["member"]
gap = "3d"
{_SPARK}"""


def _cluster(names: Names) -> str:
    return f"\n[cluster]\nbootstrap_servers = {_text(names.bootstrap)}\n"


def _text(value: object) -> str:
    """A string of TOML, which has the escapes of JSON."""
    return json.dumps(str(value))
