"""Asyncio client of the Kafka protocol."""
