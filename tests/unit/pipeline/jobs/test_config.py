"""What a job is told by its file and by the command line."""

import re
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from barnabas.pipeline.job_clusters import fetching_of
from barnabas.pipeline.jobs.config import ClusterConfig, ConfigError, SparkConfig, load_config, to_json


class WordsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cluster: ClusterConfig
    spark: SparkConfig = SparkConfig()
    topics: list[str]
    most: int = 10
    name: str = "words"


TEXT = """
topics = ["a", "b"]
[cluster]
bootstrap_servers = "127.0.0.1:9092"
options = {"kafka.fetch.min.bytes" = "100"}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "words.toml"
    path.write_text(TEXT)
    return path


def test_a_file_is_read_and_what_it_leaves_out_has_its_default(file: Path) -> None:
    config = load_config(file, [], WordsConfig)
    assert config.cluster.options == {"kafka.fetch.min.bytes": "100"}
    assert (config.topics, config.most, config.spark.master) == (["a", "b"], 10, None)


def test_the_command_line_goes_over_the_file(file: Path) -> None:
    overrides = ["most=3", "topics=['c']", "spark.settings.spark=x", "spark.master=local[2]", "name = /a path/b"]
    config = load_config(file, overrides, WordsConfig)
    assert (config.most, config.topics, config.name) == (3, ["c"], "/a path/b")
    assert config.spark == SparkConfig(master="local[2]", settings={"spark": "x"})


def test_a_value_with_a_line_break_makes_no_key(file: Path) -> None:
    assert load_config(file, ["name=1\nmost=99"], WordsConfig).name == "1\nmost=99"


@pytest.mark.parametrize(
    ("override", "why"),
    [
        ("mots=3", r"words\.toml: Object contains unknown field `mots`"),
        ("most=three", r"words\.toml: Expected `int`, got `str` - at `\$\.most`"),
        ("cluster.bootstrap_server=x", r"unknown field `bootstrap_server` - at `\$\.cluster`"),
        ("most", r"'most' sets nothing: write section\.key=value"),
        ("cluster..x=1", r"'cluster\.\.x=1' sets nothing"),
        ("topics.x=1", r"'topics\.x=1': topics is a value, not a section"),
    ],
)
def test_what_is_not_known_is_refused_by_name(file: Path, override: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        load_config(file, [override], WordsConfig)


class Part(msgspec.Struct, forbid_unknown_fields=True):
    by: Literal["day", "hour"] | None = None


class Parts(msgspec.Struct, forbid_unknown_fields=True):
    first: Part | None = None
    others: tuple[Part, ...] = ()
    named: dict[str, Part] = {}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('first.by = "week"', "Invalid enum value 'week' - at `$.first.by`; it must be one of day, hour"),
        ('[[others]]\nby = "day"\n[[others]]\nby = 1', "Expected `str | null`, got `int` - at `$.others[1].by`"),
        ('[[others]]\nby = "dya"', "at `$.others[0].by`; it must be one of day, hour"),
        ('named.x.by = "dya"', "at `$.named[...].by`; it must be one of day, hour"),
        ("fist.by = 1", "unknown field `fist`; these are known: first, others, named"),
        ("first.bx = 1", "unknown field `bx` - at `$.first`; these are known: by"),
    ],
)
def test_what_would_do_is_told(tmp_path: Path, content: str, told: str) -> None:
    path = tmp_path / "parts.toml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=re.escape(told)):
        load_config(path, [], Parts)


def test_settings_of_a_cluster_may_leave_their_prefix_out(file: Path) -> None:
    settings = 'cluster.options={"kafka.client.id" = "lake", "request.timeout.ms" = "5000"}'
    cluster = load_config(file, [settings], WordsConfig).cluster
    assert cluster.client_options() == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.client.id": "lake",
        "kafka.request.timeout.ms": "5000",
    }
    assert fetching_of(cluster).request_timeout_ms == 5000


def test_a_text_that_is_given_as_a_number_is_told_how_to_write(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"Expected `str`, got `int` .*; put it into quotes"):
        load_config(file, ["cluster.options.linger=5"], WordsConfig)
    load_config(file, ['cluster.options.linger="5"'], WordsConfig)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.toml"
    path.touch()
    with pytest.raises(ConfigError, match="missing required field `cluster`"):
        load_config(path, [], WordsConfig)


def test_what_is_no_toml_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("topics = []\nmost = = 3\n")
    with pytest.raises(ConfigError, match=r"broken\.toml is no TOML file: .*line 2"):
        load_config(path, [], WordsConfig)


def test_a_configuration_as_json_has_all_that_acts(file: Path) -> None:
    document = to_json(load_config(file, [], WordsConfig))
    assert document["cluster"]["bootstrap_servers"] == "127.0.0.1:9092"
    assert document["most"] == 10
