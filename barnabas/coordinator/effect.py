"""What a coordinator wants done beyond its log. A module of its own, as what derives from it is not compiled. Pure."""


class Effect:
    """Something to be done in the world once the records of its outcome are committed. Subclasses are frozen values."""

    __slots__ = ()
