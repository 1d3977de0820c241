"""What a configuration of the job activity may say, and what is said where it may not."""

from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.activity.config import ActivityConfig, check, interval
from barnabas.pipeline.activity.queries import shape_of
from barnabas.pipeline.jobs.config import ConfigError, duration_ms, load_config

GOOD = """
checkpoint = "c"
watermark = "10m"
[cluster]
bootstrap_servers = "b:9092"
[source]
topics = ["views"]
[output]
topic = "counts"
[[counts]]
name = "pages"
keys = ["page", "user.id"]
window = "1h"
slide = "5m"
[[sessions]]
name = "members"
keys = ["member"]
gap = "30m"
"""


def config_of(folder: Path, *changes: tuple[str, str]) -> ActivityConfig:
    text = GOOD
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file = folder / "activity.toml"
    file.write_text(text)
    config = load_config(file, (), ActivityConfig)
    check(config)
    return config


def test_the_example_is_taken(tmp_path: Path) -> None:
    config = config_of(tmp_path)
    assert config.counts[0].keys == ("page", "user.id")
    assert config.output.transactional


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"10m"', '"10"', "watermark = '10': it must be a time such as 30s, 15m, 1h or 7d"),
        ('topic = "counts"', 'topic = "views"', "output.topic = 'views': it is read too"),
        ('"members"', '"pages"', "name = 'pages': two counts have it"),
        ('"members"', '"a/b"', "name = 'a/b': it names a folder"),
        ('"5m"', '"2h"', "slide of pages = '2h': it must be longer than nothing and at most 1h"),
        ('"5m"', '"0s"', "slide of pages = '0s'"),
        ('"1h"', '"0h"', "window of pages = '0h'"),
        ('"30m"', '"0s"', "gap of members = '0s'"),
        ('["member"]', '["member", "member"]', "a field stands there twice"),
        ('["member"]', '["a..b"]', "keys of members = 'a..b': name a field"),
        ('["member"]', "[]", "Expected `array` of length >= 1"),
        ('watermark = "10m"', 'watermark = "10m"\nevery = "0s"', "every = '0s'"),
        ("[output]", '[event]\ntime = "`"\n[output]', "event.time = '`'"),
        ("[output]", '[event]\nahead = "soon"\n[output]', "event.ahead = 'soon'"),
        ("keys =", "fields =", "unknown field `fields`|missing required field `keys`"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, old: str, new: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        config_of(tmp_path, (old, new))


def test_there_must_be_something_to_count(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is nothing to count"):
        config_of(tmp_path, (GOOD[GOOD.index("[[counts]]") :], ""))


@pytest.mark.parametrize(("text", "ms"), [("500ms", 500), ("30s", 30_000), ("2 m", 120_000), ("1h", 3_600_000)])
def test_times_are_read(text: str, ms: int) -> None:
    assert duration_ms("key", text) == ms
    assert interval(text) == f"{ms} milliseconds"


def test_a_day_has_24_hours() -> None:
    assert interval("7d") == "604800000 milliseconds"


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "1.5h", "1w", "\N{ARABIC-INDIC DIGIT ONE}h"])
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(ConfigError, match="key = "):
        duration_ms("key", text)


def test_fields_in_objects_make_a_shape_of_their_own() -> None:
    shape: Any = shape_of(["page", "user.id", "user.name"])
    assert shape.simpleString() == "struct<page:string,user:struct<id:string,name:string>>"
    with pytest.raises(ConfigError, match="the field user cannot be used both"):
        shape_of(["user", "user.id"])
