"""The job `translate`: where consumer groups of the sources go on at the target. Its configuration is the mirror's."""

import asyncio

from barnabas.client.errors import ClientError
from barnabas.pipeline.job_clusters import open_configured
from barnabas.pipeline.jobs.job import JobFailed, Run
from barnabas.pipeline.mirror.config import MirrorConfig
from barnabas.pipeline.mirror.translation import Move, commit_moves, translate_groups

__all__ = ["MirrorConfig", "run"]


def run(run: Run[MirrorConfig]) -> None:
    """Show the moves, and commit them where the configuration says so. Raises JobFailed."""
    try:
        asyncio.run(_translate(run))
    except ClientError as error:
        raise JobFailed(f"the offsets could not be translated: {error}") from error


async def _translate(run: Run[MirrorConfig]) -> None:
    config = run.config
    moves: list[Move] = []
    async with open_configured(config.cluster) as target:
        for each in config.sources:
            run.progress.show(f"translating the offsets of {each.alias}")
            async with open_configured(each.cluster) as source:
                moves += await translate_groups(
                    source, target, mirror=config.name, alias=each.alias, groups=config.translate.groups
                )
        run.report.tell(
            "moves",
            [
                {
                    "group": move.group,
                    "topic": move.at.topic,
                    "partition": move.at.partition,
                    "offset": move.offset,
                    "exact": move.is_exact,
                }
                for move in moves
            ],
        )
        run.progress.result(_table(moves))
        if config.translate.execute:
            done, kept = await commit_moves(target, moves)
            run.report.add("offsets_committed", done)
            run.report.add("offsets_kept", kept)
            run.progress.result(f"{done} offsets committed at {config.alias}, {kept} were as high there already")


def _table(moves: list[Move]) -> str:
    if not moves:
        return "no group has committed offsets of topics that are mirrored"
    rows = [("GROUP", "TOPIC", "PARTITION", "OFFSET", "")]
    rows += [
        (
            move.group,
            move.at.topic,
            str(move.at.partition),
            str(move.offset),
            "" if move.is_exact else "or a little later",
        )
        for move in moves
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
