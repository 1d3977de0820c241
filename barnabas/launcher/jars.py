"""The jars of the embedded ZooKeeper: which ones, at which version, with which SHA-256, and where they come from.

In this order: the folder that BARNABAS_ZOOKEEPER_JARS names; the cache; Maven Central, through `jgo`, into the cache;
the jars of an installed PySpark, which carries them all. What is downloaded counts only with the right SHA-256, and
enters the cache by a rename, so that a download cut short or two at once do no harm. A folder that the user names and
an installed package are trusted as they are: their versions may differ from the pinned ones.
"""

import hashlib
import importlib.util
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

JARS_VARIABLE: Final = "BARNABAS_ZOOKEEPER_JARS"
ZOOKEEPER_VERSION: Final = "3.9.5"

_DOWNLOAD_TIMEOUT_S: Final = 20


class JarsUnavailable(Exception):
    """ZooKeeper's jars could not be had; the text names every place that was tried."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One artifact, pinned."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.version}.jar"


# Five jars run ZooKeeper, the log4j ones make it log. netty, jetty and jackson are not needed.
ZOOKEEPER_JARS: Final = (
    Jar(
        "org.apache.zookeeper",
        "zookeeper",
        ZOOKEEPER_VERSION,
        "936d025db1a85f085edea25048c3f5b3de5fc29329c371a10925e3b78b0b38a0",
    ),
    Jar(
        "org.apache.zookeeper",
        "zookeeper-jute",
        ZOOKEEPER_VERSION,
        "abcbc7f9d6c493daa118da6fa3061a201e2c521217526e8535adfb56b629e52a",
    ),
    Jar(
        "org.slf4j",
        "slf4j-api",
        "2.0.17",
        "7b751d952061954d5abfed7181c1f645d336091b679891591d63329c622eb832",
    ),
    Jar(
        "io.dropwizard.metrics",
        "metrics-core",
        "4.2.37",
        "3c70d19049d10f474ab803706b9c0677bcf5fd9e1afeb4f6c496f62e38b27678",
    ),
    Jar(
        "org.xerial.snappy",
        "snappy-java",
        "1.1.10.8",
        "50485d06037fea3d6e40c968386feeca6338cc9872e25549593ff3eb352cefcc",
    ),
    Jar(
        "org.apache.logging.log4j",
        "log4j-api",
        "2.25.3",
        "e886682920fa0fb9d6eb6395dcb4de088443f8646c89c5e5846e168e327f406f",
    ),
    Jar(
        "org.apache.logging.log4j",
        "log4j-core",
        "2.25.3",
        "362b7fcb65b73aa46cc4bc53abf4eb216f444a83b5d1a037cb6fdfff0ae9f0f9",
    ),
    Jar(
        "org.apache.logging.log4j",
        "log4j-slf4j2-impl",
        "2.25.3",
        "bedc560168f4005d09452e6b6959b252f9efa2eb8cbd17c6660c36eecec7238b",
    ),
)


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where downloads of ours are kept between runs."""
    base = environment.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "barnabas"


def zookeeper_class_path(
    environment: Mapping[str, str] | None = None,
    *,
    fetch: "Callable[[Jar, Path], Path] | None" = None,
    pyspark_jars: Path | None = None,
) -> list[Path]:
    """The eight jars, from the first place that has them all.

    `fetch` and `pyspark_jars` stand for Maven Central and for an installed PySpark when given.

    Raises:
        JarsUnavailable: no place has them.
    """
    environment = os.environ if environment is None else environment
    if named := environment.get(JARS_VARIABLE):
        found, missing = jars_of_folder(Path(named))
        if missing:
            raise JarsUnavailable(f"{JARS_VARIABLE}={named} lacks {', '.join(missing)}")
        return found
    cache = cache_directory(environment) / f"zookeeper-{ZOOKEEPER_VERSION}"
    try:
        return [_cached(jar, cache, fetch or fetch_from_maven) for jar in ZOOKEEPER_JARS]
    except JarsUnavailable as error:
        folder = pyspark_jars or installed_pyspark_jars()
        if folder is None:
            raise JarsUnavailable(
                f"{error}; PySpark, which carries the jars too, is not installed; "
                f"{JARS_VARIABLE} may name a folder that has them"
            ) from error
        found, missing = jars_of_folder(folder)
        if missing:
            raise JarsUnavailable(f"{error}; PySpark's folder {folder} lacks {', '.join(missing)}") from error
        log.info("ZooKeeper's jars come from %s: %s", folder, error)
        return found


def jars_of_folder(folder: Path) -> tuple[list[Path], list[str]]:
    """The jars found in `folder`, in any version, and the artifacts that it lacks."""
    found: list[Path] = []
    missing: list[str] = []
    for jar in ZOOKEEPER_JARS:
        # "zookeeper-[0-9]*" is not "zookeeper-jute-...": a version starts with a digit.
        candidates = sorted(folder.glob(f"{jar.artifact}-[0-9]*.jar"))
        if candidates:
            found.append(candidates[-1])
        else:
            missing.append(jar.artifact)
    return found, missing


def installed_pyspark_jars() -> Path | None:
    """The jars folder of an installed PySpark, which is not imported for it."""
    specification = importlib.util.find_spec("pyspark")
    if specification is None or not specification.submodule_search_locations:
        return None
    return Path(next(iter(specification.submodule_search_locations))) / "jars"


def fetch_from_maven(jar: Jar, folder: Path) -> Path:
    """Download `jar` below `folder` and return where it lies; any error of the network or the library is passed on."""
    from jgo.maven import MavenContext  # noqa: PLC0415 - an optional dependency, and slow to import

    # `requests`, on which jgo stands, does not look at the variable that Python and most programs obey.
    if bundle := os.environ.get("SSL_CERT_FILE"):
        os.environ.setdefault("REQUESTS_CA_BUNDLE", bundle)
    context = MavenContext(repo_cache=folder, timeout=_DOWNLOAD_TIMEOUT_S)
    path: Path = context.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve()
    return path


def _cached(jar: Jar, cache: Path, fetch: "Callable[[Jar, Path], Path]") -> Path:
    target = cache / jar.file_name
    if target.is_file():
        if _sha256(target) == jar.sha256:
            return target
        log.warning("%s is damaged and is fetched again", target)
    with _workspace(cache) as folder:
        log.info("fetching %s:%s:%s", jar.group, jar.artifact, jar.version)
        try:
            source = fetch(jar, folder)
        except Exception as error:
            # Whatever the library or the network raises means the same: not from there.
            raise JarsUnavailable(f"Maven has not given {jar.file_name} ({type(error).__name__}: {error})") from error
        if (sha256 := _sha256(source)) != jar.sha256:
            raise JarsUnavailable(f"Maven gave a {jar.file_name} with SHA-256 {sha256}, wanted {jar.sha256}")
        source.replace(target)
    return target


@contextmanager
def _workspace(cache: Path) -> Iterator[Path]:
    """A folder on the cache's own file system, so that a rename out of it is atomic."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".fetch-", dir=cache))
    except OSError as error:
        raise JarsUnavailable(f"the cache {cache} cannot be written ({error})") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
