"""DescribeProducers 0, DescribeTransactions 0 and ListTransactions 0 to 1 (KIP-664): 2.7.2 closes the connection."""

from barnabas.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersTopicRequest
from barnabas.protocol.messages.describe_transactions import DescribeTransactionsRequest
from barnabas.protocol.messages.list_transactions import ListTransactionsRequest
from tests.differential.conversation import Conversation


def apis_of_a_later_kafka(talk: Conversation) -> None:
    topic = talk.new_topic()
    transactional_id = talk.new_transactional_id()
    producers = DescribeProducersRequest([DescribeProducersTopicRequest(topic, [0, 9])])
    talk.ask("producers", 0, producers)
    talk.ask("transactions by name", 0, DescribeTransactionsRequest([transactional_id]))
    for version in (0, 1):
        talk.ask(f"all transactions, version {version}", version, ListTransactionsRequest())
    talk.ask("transactions in states", 1, ListTransactionsRequest(["Ongoing", "no state"], [5], 60_000))
