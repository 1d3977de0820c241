"""Starts local clusters: ZooKeeper and brokers as processes of this machine."""
