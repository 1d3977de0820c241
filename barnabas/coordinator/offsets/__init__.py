"""Committed offsets: what a group has, how it is committed, fetched, deleted, and when it expires. Pure.

The group's own checks (its state, the member, the generation) come before; here are the rules of offsets.
"""
