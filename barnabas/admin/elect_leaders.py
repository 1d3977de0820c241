"""`barnabas elect-leaders`: give partitions to their preferred leaders, or to whoever lives."""

from typing import TYPE_CHECKING

import click

from barnabas.admin.options import Reach, cluster_options, complete_topics, confirm, output_option
from barnabas.admin.output import Format
from barnabas.admin.partition_arguments import named_partitions, show_outcomes
from barnabas.client.replica_admin import ElectionType, Outcomes, ReplicaAdmin
from barnabas.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.client.cluster import Cluster


@click.command("elect-leaders")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:PARTITION]]...", shell_complete=complete_topics)
@click.option("--all", "everything", is_flag=True, help="All partitions of the cluster.")
@click.option("--unclean", is_flag=True, help="Let any live replica lead what nobody leads; records may be lost.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask, where records may be lost.")
@output_option
@cluster_options
def elect_leaders(
    *, partitions: tuple[str, ...], everything: bool, unclean: bool, yes: bool, reach: Reach, output: Format
) -> None:
    """Let the preferred replicas lead, the first of each partition; they must be alive and in sync.

    A partition that is led as it should be is left as it is.
    """
    if everything == bool(partitions):
        raise click.UsageError("say which partitions: TOPIC, TOPIC:PARTITION or --all")
    if unclean and not yes:
        confirm("Partitions without a leader go to replicas that may lack records: those are lost for good.")
    kind = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED

    async def work(cluster: "Cluster") -> Outcomes:
        wanted = None if everything else await named_partitions(cluster, partitions)
        return await ReplicaAdmin(cluster).elect_leaders(kind, wanted)

    outcomes = reach.run(work)
    needed = {
        at: error for at, error in outcomes.items() if error is None or error.error is not ErrorCode.ELECTION_NOT_NEEDED
    }
    if output is Format.TABLE and not needed:
        click.echo("nothing to do: all are led as they should be")
        return
    show_outcomes(needed, "elected", output)
