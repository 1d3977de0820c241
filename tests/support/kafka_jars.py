"""The jars that tests use: Kafka's broker and tools of 2.7.2, its Java clients of 2.7.2 and 3.9.1, Spark's connector.

They come from Maven Central through jgo into `$XDG_CACHE_HOME/barnabas/kafka-2.7.2` (default `~/.cache`), once. Every
jar is pinned by version and SHA-256; a file with another digest is removed and the request fails. Nothing of them is
part of the product.
"""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

KAFKA_VERSION = "2.7.2"
NEWER_CLIENT_VERSION = "3.9.1"


class JarsNotAvailable(Exception):
    """There is no Java, or a jar cannot be had here. The message is the reason for a skip."""


class WrongDigest(Exception):
    """A jar is not the one that was pinned. This is a failure and never a reason to skip."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A pinned artifact, as `group:artifact:version`."""

    coordinates: str
    sha256: str


BROKER_JARS = (
    Jar("org.apache.kafka:kafka_2.13:2.7.2", "dd0e921c577a5ef62f0209a69c97ed989a1e0742d54764fc36af065b03748c63"),
    Jar("org.apache.kafka:kafka-clients:2.7.2", "ef8c79b26e5ea3d65a496f4ff74aec5d1fc9ac5aceb9ec86fd2bd3c796eafe82"),
    Jar("org.apache.kafka:kafka-raft:2.7.2", "629527cfcdea39dab7d07b2a2ca674df8a724cc5f91f47b7f0596d59d86cba19"),
    Jar(
        "com.fasterxml.jackson.core:jackson-databind:2.10.5.1",
        "f93db83891a53e8d268e2cc8fcd88ead2981edc2163e35c2a52c88d9ab57b4a0",
    ),
    Jar(
        "com.fasterxml.jackson.core:jackson-annotations:2.10.5",
        "5ad94fbb2642df695892c4d6e2ab4c319821e5f9bfb7b920f1378de4f611417c",
    ),
    Jar(
        "com.fasterxml.jackson.core:jackson-core:2.10.5",
        "2656010d1e921ac69b76fc7e0c0f5a6b14aca62fa9603e78831e6148eb7c77ba",
    ),
    Jar(
        "com.fasterxml.jackson.module:jackson-module-scala_2.13:2.10.5",
        "34dcb41f88e9cc0e6cee4552d4c38d1eacafa361fb79cb6972b158234e0d7b28",
    ),
    Jar(
        "com.fasterxml.jackson.module:jackson-module-paranamer:2.10.5",
        "ef33bbfe6f85c2b17baf8e8bb586a2d96e6f2dc3095b1832b0b52d320fa0f758",
    ),
    Jar("com.thoughtworks.paranamer:paranamer:2.8", "688cb118a6021d819138e855208c956031688be4b47a24bb615becc63acedf07"),
    Jar(
        "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.10.5",
        "573325172f7919399ab9a6f81d1c05d746cfc45e74bb211e01b2ecf92f96481a",
    ),
    Jar(
        "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.10.5",
        "216a7fb7a2e7ef160a3cfa6c0322984a492698df426ab83a064bd8a9b10f88ea",
    ),
    Jar("net.sf.jopt-simple:jopt-simple:5.0.4", "df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28"),
    Jar("com.yammer.metrics:metrics-core:2.2.0", "6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c"),
    Jar(
        "org.scala-lang.modules:scala-collection-compat_2.13:2.2.0",
        "7f601d3a6d699433ddaf549ffa1441dcbe00bc95f4035add9776772053e9f93f",
    ),
    Jar(
        "org.scala-lang.modules:scala-java8-compat_2.13:0.9.1",
        "8d815ddcf688461474b321c97a3f63f78c69a9786376e13fd8a5ee2bc825802c",
    ),
    Jar("org.scala-lang:scala-library:2.13.3", "cb0eb1a33a6056b2e652f26923bfa361348ae72a2119da7b78dc1f673d1a93b1"),
    Jar("org.scala-lang:scala-reflect:2.13.3", "959dc9ab8aad84e2fc7adacfb84f2ed908caee22c4c2d291dd818f0c40c6ed5b"),
    Jar(
        "com.typesafe.scala-logging:scala-logging_2.13:3.9.2",
        "66f30da5dc6d482dc721272db84dfdee96189cafd6413bd323e66c0423e17009",
    ),
    Jar("org.slf4j:slf4j-api:1.7.30", "cdba07964d1bb40a0761485c6b1e8c2f8fd9eb1d19c53928ac0d7f9510105c57"),
    Jar("org.slf4j:slf4j-log4j12:1.7.30", "4d41e01c40caf8a6c74add2b073055d8a4ce1c30e58154177b13f12d78abbe7b"),
    Jar("log4j:log4j:1.2.17", "1d31696445697720527091754369082a6651bd49781b6005deb94e56753406f9"),
    Jar("org.apache.zookeeper:zookeeper:3.5.9", "f2418387b8a93c1141f688126535440b57d7d1385289b682c7e79c8466a3b4a6"),
    Jar(
        "org.apache.zookeeper:zookeeper-jute:3.5.9", "9e0d1c2e8dc5c5a40e0f8b192b3d813e60485d7be40ff5c4f568d1c2a06873db"
    ),
    Jar("commons-cli:commons-cli:1.4", "fd3c7c9545a9cdb2051d1f9155c4f76b1e4ac5a57304404a6eedb578ffba7328"),
    Jar("com.github.luben:zstd-jni:1.4.5-6", "ffbe638f14af13e9307c415b8b3d54bedfe3012fb4142aa395c6d9f2dd90e978"),
    Jar("org.lz4:lz4-java:1.7.1", "f1167a45d4b8002053670ef6991ca66d1bab9dcc03e4ef00183674d2f3fb9cac"),
    Jar("org.xerial.snappy:snappy-java:1.1.7.7", "4e3a4e5cababf1a19c2b5f1acd200c1b0e33703acf7dc580019ce26c7e79d048"),
)
CLIENT_JARS = tuple(
    jar
    for jar in BROKER_JARS
    if jar.coordinates.split(":")[1]
    in {
        "kafka-clients",
        "zstd-jni",
        "lz4-java",
        "snappy-java",
        "slf4j-api",
        "slf4j-log4j12",
        "log4j",
    }
)
NEWER_CLIENT_JARS = (
    Jar("org.apache.kafka:kafka-clients:3.9.1", "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9"),
    Jar("com.github.luben:zstd-jni:1.5.6-4", "793ca8734aa15687e7e64564eab8b6ae9ee2720eae27aa663074682144b1c386"),
    Jar("org.lz4:lz4-java:1.8.0", "d74a3334fb35195009b338a951f918203d6bbca3d1d359033dc33edd1cadc9ef"),
    Jar("org.xerial.snappy:snappy-java:1.1.10.5", "0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b"),
    Jar("org.slf4j:slf4j-api:1.7.36", "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"),
    Jar("org.slf4j:slf4j-simple:1.7.36", "2f39bed943d624dfa8f4102d0571283a10870b6aa36f197a8a506f147010c10f"),
)

SPARK_CONNECTOR_JARS = (
    Jar(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    Jar(
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.2.0",
        "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c",
    ),
    Jar("org.apache.kafka:kafka-clients:3.9.2", "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8"),
    Jar("org.apache.commons:commons-pool2:2.13.1", "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f"),
)
"""Spark's own Kafka connector, with what PySpark has not. 4.2.0 is the newest there is, and runs in Spark 4.3 too."""


def cache_directory() -> Path:
    """Where the jars are kept between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "barnabas" / f"kafka-{KAFKA_VERSION}"


def java_command(name: str = "java") -> str:
    """Path of `java` or `javac` of a full Java, by JAVA_HOME or PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home else None
    found = found or shutil.which(name)
    if found is None:
        raise JarsNotAvailable(f"no `{name}` on PATH")
    return found


def class_path(jars: tuple[Jar, ...]) -> str:
    """A Java class path of these jars, each downloaded if it is not in the cache, each checked."""
    java_command()
    return os.pathsep.join(str(_checked(jar)) for jar in jars)


def _checked(jar: Jar) -> Path:
    path = _resolved(jar)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != jar.sha256:
        path.unlink()
        raise WrongDigest(f"{jar.coordinates} has SHA-256 {digest}, pinned is {jar.sha256}")
    return path


def _resolved(jar: Jar) -> Path:
    try:
        from jgo.maven import MavenContext
    except ImportError as error:
        raise JarsNotAvailable(f"jgo is not installed: {error}") from error
    group, artifact, version = jar.coordinates.split(":")
    context = MavenContext(repo_cache=cache_directory())
    try:
        path: Path = context.project(group, artifact).at_version(version).artifact().resolve()
    except (OSError, RuntimeError) as error:
        raise JarsNotAvailable(f"{jar.coordinates} cannot be had here: {error}") from error
    return path
