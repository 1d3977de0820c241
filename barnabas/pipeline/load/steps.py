"""What the driver decides about a batch: whether it is loaded, whether what came of it may be committed. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from barnabas.protocol.ids import TopicPartition


class LoadRefused(Exception):
    """A load cannot go on; the text says why and what to do."""


@dataclass(frozen=True)
class Span:
    """Offsets of a partition, `end` exclusive."""

    topic_partition: TopicPartition
    start: int
    end: int

    def __str__(self) -> str:
        return f"{self.topic_partition} {self.start} to {self.end}"


def must_load(query: str, batch: int, last: int | None, location: str) -> bool:
    """Whether a batch is loaded; False where the table has it. Raises LoadRefused where the table lacks one before."""
    if last is not None and batch <= last:
        return False
    if batch == (0 if last is None else last + 1):
        return True
    has = "no batch" if last is None else f"batch {last} as the last"
    raise LoadRefused(
        f"the checkpoint of query {query} is at batch {batch}, and the table {location} has {has} of it: the table was "
        "replaced or restored. Restore the one that belongs to the checkpoint, or load into a new table with a new "
        "name and a new checkpoint"
    )


def require_checkpoint(query: str, *, last: int | None, known: str | None, found: str | None, where: str) -> None:
    """Raise LoadRefused unless the checkpoint is the one with which the query's batches in the table were made."""
    if last is None or known is None or known == found:
        return
    is_new = "is not there" if found is None else f"is another one ({found}, not {known})"
    raise LoadRefused(
        f"the table has batches 0 to {last} of query {query}, and their checkpoint {where} {is_new}: a new checkpoint "
        "would load everything once more. Restore the checkpoint, or load with another name into another table"
    )


def require_same_ranges(query: str, batch: int, *, planned: Sequence[Span], committed: Sequence[Span]) -> None:
    """Raise LoadRefused where a batch that the table has is now planned with other offsets."""
    if merge(planned) != merge(committed):
        raise LoadRefused(
            f"batch {batch} of query {query} is in the table with the offsets {_told(committed)}, and the checkpoint "
            f"plans it with {_told(planned)}: the checkpoint belongs to another table, or was restored from a copy. "
            "Restore the one that belongs to the table"
        )


def require_no_overlap(query: str, *, planned: Sequence[Span], others: Mapping[str, Sequence[Span]]) -> None:
    """Raise LoadRefused where another query has loaded what this one is to load."""
    wanted = merge(planned)
    for other, spans in others.items():
        for span in merge(spans):
            for each in wanted:
                common = max(each.start, span.start), min(each.end, span.end)
                if each.topic_partition == span.topic_partition and common[0] < common[1]:
                    raise LoadRefused(
                        f"query {query} is to load {each}, and query {other} has put {span} into the table: records "
                        "would be there twice. Load other offsets, or set table.overlap = true if that is meant"
                    )


def require_few_dead_letters(
    batch: int, *, rows: int, dead_letters: int, most: int | None, most_fraction: float, example: str
) -> None:
    """Raise LoadRefused where more of a batch could not be read than is allowed."""
    if not dead_letters:
        return
    fraction = dead_letters / (rows + dead_letters)
    if most is not None and dead_letters > most:
        limit = f"dead_letters.max_dead_letters = {most}"
    elif fraction > most_fraction:
        limit = f"dead_letters.max_dead_letter_fraction = {most_fraction}"
    else:
        return
    raise LoadRefused(
        f"{dead_letters} of {rows + dead_letters} records of batch {batch} cannot be read, over {limit}; nothing of "
        f"the batch was committed. {example}Give the payload's right schema, or raise the limit"
    )


def merge(spans: Iterable[Span]) -> list[Span]:
    """Spans that follow each other as one, in order; empty ones left out."""
    merged: list[Span] = []
    for each in sorted(spans, key=lambda span: (span.topic_partition, span.start)):
        if each.start == each.end:
            continue
        last = merged[-1] if merged else None
        if last is not None and last.topic_partition == each.topic_partition and last.end == each.start:
            merged[-1] = Span(each.topic_partition, last.start, each.end)
        else:
            merged.append(each)
    return merged


def watermark_of(most_event_us: Mapping[TopicPartition, int]) -> int | None:
    """Up to where event time is complete: no partition that had events has had none after it. None before any."""
    return min(most_event_us.values(), default=None)


def _told(spans: Sequence[Span]) -> str:
    merged = merge(spans)
    return ", ".join(map(str, merged[:5])) + (f" and {len(merged) - 5} more" if len(merged) > 5 else "") or "none"
