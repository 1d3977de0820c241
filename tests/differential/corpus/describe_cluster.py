"""DescribeCluster 0, which Kafka has since 2.8 (KIP-700): 2.7.2 closes the connection."""

from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from tests.differential.conversation import Conversation


def an_api_of_a_later_kafka(talk: Conversation) -> None:
    talk.ask("plain", 0, DescribeClusterRequest())
    talk.ask("with operations", 0, DescribeClusterRequest(include_cluster_authorized_operations=True))
