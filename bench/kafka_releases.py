"""The releases of Apache Kafka that are measured, as jars from Maven Central: 2.7.2, and the newest with ZooKeeper.

Jars come and are checked as those of the tests do (`tests.support.kafka_jars`). The clients that load both, and Kafka's
own performance tools, are those of the newer release.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.support.kafka_jars import BROKER_JARS, Jar, class_path

_JARS_3_9: Final = (
    Jar("org.apache.kafka:kafka_2.13:3.9.2", "dddf49b18c931301fece0048a76d6b0956c36c8b1d1fc721bfed318aa6ee3e4f"),
    Jar("org.apache.kafka:kafka-tools:3.9.2", "3e6844711c3f5c9148f76ac96dfbf1de0aeeba11249e142e084b6de68e0ed05e"),
    Jar("org.apache.kafka:kafka-clients:3.9.2", "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8"),
    Jar("org.scala-lang:scala-library:2.13.15", "8e4dbc3becf70d59c787118f6ad06fab6790136a0699cd6412bc9da3d336944e"),
    Jar(
        "org.apache.kafka:kafka-server-common:3.9.2", "0374b3f13c3c4b7fd446d35df1ccb0c60931ea27d4972b4de1bb1d548a87f5b2"
    ),
    Jar(
        "org.apache.kafka:kafka-group-coordinator-api:3.9.2",
        "bd903ba506c8309401a331ef1b826612d1cb95862879551031428da5cf50eab6",
    ),
    Jar(
        "org.apache.kafka:kafka-group-coordinator:3.9.2",
        "d4d57f0955895cc38381f346f5ff7eba487afafa5ba264804af18393305b32fd",
    ),
    Jar(
        "org.apache.kafka:kafka-transaction-coordinator:3.9.2",
        "d6ca25648111dfd11f76d3d0f7f51a9458784b645f4e56ce34fbc58d9c9d0296",
    ),
    Jar("org.apache.kafka:kafka-metadata:3.9.2", "ffe970aee12f00df4b0162f31c719df7c412f9207c166a74cef6611be25a255e"),
    Jar("org.apache.kafka:kafka-storage-api:3.9.2", "565ab8540b50c7f00ea62c77a6639237ed3a80550245be70dc733f157cd280d6"),
    Jar("org.apache.kafka:kafka-raft:3.9.2", "f897533828e55ac466a5b183a25dccbe5a7b97c02162dac38e25338feddfe422"),
    Jar("org.apache.kafka:kafka-storage:3.9.2", "8a3d7b67dfcd34b1334d4994ed4106ba9c9b37ebcbb177ac47ff44050e8ab84b"),
    Jar("org.apache.kafka:kafka-server:3.9.2", "4f8667dbd664c4b0906e05499cfdc5f558f14c098b77fa6c09656cceb62a63ef"),
    Jar(
        "net.sourceforge.argparse4j:argparse4j:0.7.0",
        "65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56",
    ),
    Jar(
        "commons-validator:commons-validator:1.10.1", "ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa"
    ),
    Jar(
        "com.fasterxml.jackson.core:jackson-databind:2.16.2",
        "53b6025d98c357068296e4b134242443a248c2c582800879f1c4ea93b54bafa6",
    ),
    Jar(
        "com.fasterxml.jackson.module:jackson-module-scala_2.13:2.16.2",
        "1154f6dc8643739c0c3ef4c2a7901ca752b5cca7ebe1908d405ced701a8f3764",
    ),
    Jar(
        "com.fasterxml.jackson.dataformat:jackson-dataformat-csv:2.16.2",
        "01a04610def154c50369e8bcd7c5ae1401579f591aa55e88f05093447e24d490",
    ),
    Jar(
        "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.16.2",
        "3e9b1b59f638b487b5ae0e2f4190fc98f72b0bf661324e7dfc71a69f6b9d4e29",
    ),
    Jar("net.sf.jopt-simple:jopt-simple:5.0.4", "df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28"),
    Jar("org.bitbucket.b_c:jose4j:0.9.6", "7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef"),
    Jar("com.yammer.metrics:metrics-core:2.2.0", "6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c"),
    Jar(
        "org.scala-lang.modules:scala-collection-compat_2.13:2.10.0",
        "bb10091bd55131a5327bdeddede74e5d8a695acab24a97567111784f2f427299",
    ),
    Jar(
        "org.scala-lang.modules:scala-java8-compat_2.13:1.0.2",
        "90d5b13656be93fb779b8d7c723efa2498a34af06273bb5204afb65f85a20c1b",
    ),
    Jar("org.scala-lang:scala-reflect:2.13.15", "78d0cc350e1ee42d87c6e11cf5b0dc7bf0b70829c00aa38f27bfb019d439dc11"),
    Jar(
        "com.typesafe.scala-logging:scala-logging_2.13:3.9.5",
        "87a3017d3f43e6ace7566fe4c3d615134c6914ff871c8d64bb32ca1d996d0545",
    ),
    Jar("org.slf4j:slf4j-api:1.7.36", "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0"),
    Jar("commons-io:commons-io:2.14.0", "e35d1df7232568ed4b81d9a9ed94a0159b3ff6cf1915cc21eef5cb55d7b157a2"),
    Jar(
        "io.dropwizard.metrics:metrics-core:4.1.12.1",
        "cec34936faa625039f4e46123eccaa10a9eb9d9a40c6075830cd81330e259cf9",
    ),
    Jar("org.apache.zookeeper:zookeeper:3.8.4", "2d77b152039e7f85dc5438a9304febff86a2f3e55c88976a8be309af39028e97"),
    Jar("commons-cli:commons-cli:1.4", "fd3c7c9545a9cdb2051d1f9155c4f76b1e4ac5a57304404a6eedb578ffba7328"),
    Jar("org.slf4j:slf4j-reload4j:1.7.36", "ae6fdd5c9547896114d5ec7fa7503733b7d2890573d3886fb548b3119c4d3f67"),
    Jar("com.github.luben:zstd-jni:1.5.6-4", "793ca8734aa15687e7e64564eab8b6ae9ee2720eae27aa663074682144b1c386"),
    Jar("at.yawk.lz4:lz4-java:1.10.1", "a58a84c4271e50df4c96ed916ccb7e48a869f8ed9cdcda1ad5d3d4c33b0214a3"),
    Jar("org.xerial.snappy:snappy-java:1.1.10.5", "0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b"),
    Jar("org.pcollections:pcollections:4.0.1", "1f82766d7c3221930854033bebff5073ea46b43f27326074bbe15d148c18bfb3"),
    Jar(
        "com.github.ben-manes.caffeine:caffeine:2.9.3",
        "1e0a7bbef1dd791653143f3f05d0e489934bf5481e58a87c9e619cd46b68729b",
    ),
    Jar(
        "commons-beanutils:commons-beanutils:1.11.0", "9e44ba68ec9a3f21286fa2a8bbb003b735c0f69101bb43144b79f4f8aaa74709"
    ),
    Jar("commons-logging:commons-logging:1.3.5", "6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4"),
    Jar(
        "commons-collections:commons-collections:3.2.2",
        "eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8",
    ),
    Jar(
        "com.fasterxml.jackson.core:jackson-annotations:2.16.2",
        "d1cdd269ebaa753d1842933194e17d61958f058952d63e03dbfb3d1d78a6926e",
    ),
    Jar(
        "com.fasterxml.jackson.core:jackson-core:2.16.2",
        "4f43e2f1430b2d2413e8e5a3d79138e57e891d6a961b18c28ac90859639d8664",
    ),
    Jar("com.thoughtworks.paranamer:paranamer:2.8", "688cb118a6021d819138e855208c956031688be4b47a24bb615becc63acedf07"),
    Jar(
        "org.apache.zookeeper:zookeeper-jute:3.8.4", "93e854b55d731e745bafec187e2e7bf3389fd2a88e2fc8d1a3c1b9110284b284"
    ),
    Jar("io.netty:netty-handler:4.1.105.Final", "5a6945cf1de374628b37ab1c35a4c47c2f5616db3a94b150720641477112be8e"),
    Jar(
        "io.netty:netty-transport-native-epoll:4.1.105.Final",
        "61f09ce16f0fd25e57a0a732f8fb79344f6b95051d88ac50a28874ad92e6d149",
    ),
    Jar("ch.qos.reload4j:reload4j:1.2.25", "e71115175c4b080cf51dd72097165ea001ff9fafdc4f79d88049d0b1ecca979c"),
    Jar("io.netty:netty-common:4.1.105.Final", "399a8045fb43861afb7fc1ef3371f95a0b176692fb268f4867cff4957e63fd25"),
    Jar("io.netty:netty-resolver:4.1.105.Final", "7202edd076a1edab50fdb0f3e54f56a02129b326296d9f35f4194f8cfb9b96ef"),
    Jar("io.netty:netty-buffer:4.1.105.Final", "cc1b0108a60b1eb69bd01a10922851a166c58972cc0683f2116a9e8e7ecdaf0b"),
    Jar("io.netty:netty-transport:4.1.105.Final", "be9b8a2f86685a876e469c904cb9fce53a1e826e178d44d2b1d92f6a99054737"),
    Jar(
        "io.netty:netty-transport-native-unix-common:4.1.105.Final",
        "7db91b72aae19e1cdca13c7fa76d57db20cbaf5b1e770563909a4437c63eb5cb",
    ),
    Jar("io.netty:netty-codec:4.1.105.Final", "c4f62480b408fb835b454c74cf6394a4c7088ffdaec78742fcece816c46bb58e"),
    Jar(
        "io.netty:netty-transport-classes-epoll:4.1.105.Final",
        "a43bf94f784eb759c14f0b0c7e1c5985a64879e8c7ab21ba7c0c80f7a9382b30",
    ),
)


@dataclass(frozen=True, slots=True)
class KafkaRelease:
    """A broker of one version."""

    version: str
    jars: tuple[Jar, ...]

    def class_path(self) -> str:
        """Downloads what is not there yet. Raises JarsNotAvailable."""
        return _class_path(self.jars)


KAFKA_2_7: Final = KafkaRelease("2.7.2", BROKER_JARS)
KAFKA_3_9: Final = KafkaRelease("3.9.2", _JARS_3_9)
RELEASES: Final = {release.version: release for release in (KAFKA_2_7, KAFKA_3_9)}


@cache
def _class_path(jars: tuple[Jar, ...]) -> str:
    return class_path(jars)
