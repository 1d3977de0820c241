"""Moves money between accounts by librdkafka: each transfer is two records, of one transaction, in two partitions."""

import random
import sys

import confluent_kafka

from tests.failover.load.arguments import is_told_to_end
from tests.failover.load.transactional import Broken, ConfluentTransactions, parse

ACCOUNTS = 100


def main() -> int:
    job = parse()
    drawn = random.Random(job.seed)
    try:
        transactions = ConfluentTransactions(job)
        with job.log.open("a", buffering=1) as log:
            number = 0
            while not is_told_to_end():
                number += 1
                transfer = f"{job.transactional_id}/{job.seed}/{number}"
                giver, taker = drawn.sample(range(ACCOUNTS), 2)
                amount = drawn.randrange(1, 100)
                wanted = bool(drawn.randrange(job.abort_one_in))
                log.write(f"b {transfer}\n")
                transactions.producer.begin_transaction()
                try:
                    for account, delta in ((giver, -amount), (taker, amount)):
                        value = f"{transfer}|{account}|{delta}"
                        transactions.producer.produce(job.target, value, partition=account % job.partitions)
                except confluent_kafka.KafkaException as exception:
                    if exception.args[0].fatal():
                        raise Broken(exception.args[0]) from exception
                    wanted = False
                if not wanted:
                    # librdkafka that aborts while a partition is not added yet asks for the end of what has not begun,
                    # and takes the refusal for its own end.
                    transactions.producer.flush()
                committed = transactions.end(commit=wanted)
                log.write(f"{'c' if committed else 'a'} {transfer}\n")
                transactions.producer.poll(0.02)
    except Broken as broken:
        print(f"{job.transactional_id}: {broken}")
        return broken.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
