"""Operational data: what brokers and hosts are busy with, as events in a topic; minutes of it, and what is too much."""
