"""The rules of one group: who belongs to it, who leads it, and who consumes what in which generation.

`group.py` holds what is known, `turn.py` collects what one handler decides, and each further module is one rule:
`joining`, `rebalancing`, `syncing`, `membership`, `sessions`, `voting`, `description`. All pure. Offsets are elsewhere.
"""
