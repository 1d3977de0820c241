"""Groups, committed offsets and transactions: pure state machines over a log, and the shard that runs one.

A machine owns what one partition of an internal topic says. Its handlers return an `Outcome` (`outcome.py`) and wait
for nothing; `shard.py` appends, replays, replies and counts time; the world comes in through `ports.py`.
"""
