"""Barnabas: a Kafka 2.7 compatible, ZooKeeper coordinated log in Python."""

__version__ = "0.1.0"
