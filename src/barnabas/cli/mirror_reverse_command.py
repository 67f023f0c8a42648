"""`barnabas mirror reverse`: after a promotion, the old source becomes the target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from barnabas.cli.client_options import pairs
from barnabas.cli.mirror_hosting import FlowPlace, is_confirmed, place_options
from barnabas.cli.mirror_options import FILE, MIRROR_CLASS, flow_argument, prefixed
from barnabas.cli.mirror_requests import prepared_reversal, reversal_plan
from barnabas.cli.terminal_output import print_table, yes_option

if TYPE_CHECKING:
    from pathlib import Path

    from barnabas.pipeline.mirror.flow_reversal import Reversal

_COLUMNS = ("TOPIC", "PARTITION", "CONTINUES AT")


@click.command()
@flow_argument
@click.option(
    "--from", "source", metavar="HOST:PORT", required=True, help="Brokers of the flow's source."
)
@click.option(
    "--to", "target", metavar="HOST:PORT", required=True, help="Brokers of the flow's target."
)
@click.option("--source-config", type=FILE, help="Properties of the clients of the flow's source.")
@click.option("--target-config", type=FILE, help="Properties of the clients of the flow's target.")
@click.option("--name", "reverse", metavar="NAME", help="The reverse flow; default: FLOW-reverse.")
@click.option(
    "--offsets",
    type=click.Choice(["identical", "assigned"]),
    default="identical",
    show_default=True,
    help="assigned when the flow's source is not barnabas.",
)
@click.option(
    "--set",
    "set_pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of the reverse flow; repeatable.",
)
@place_options
@yes_option
def reverse(
    *,
    flow: str,
    source: str,
    target: str,
    source_config: Path | None,
    target_config: Path | None,
    reverse: str | None,
    offsets: str,
    set_pairs: tuple[str, ...],
    place: FlowPlace,
    yes: bool,
) -> int:
    """Start the reverse of a flow whose topics were promoted.

    --from and --to are those of the flow. Its target is copied back to its source, whose topics
    become mirrors of the reverse flow, and continue where they end. A source with records that were
    not copied is refused. The reverse of FLOW-reverse is FLOW.
    """
    place.check()
    name = reverse or _reverse_name(flow)
    config = {
        "name": name,
        "connector.class": MIRROR_CLASS,
        "offsets": offsets,
        **prefixed("source.", target_config),
        **prefixed("target.", source_config),
        "source.bootstrap.servers": target,
        "target.bootstrap.servers": source,
        **pairs(set_pairs, "--set"),
    }
    plan = reversal_plan(flow, config)
    _show(plan, name, source, target)
    if not yes and not is_confirmed(name):
        return 0
    prepared_reversal(plan, config)
    return place.start({**config, "topics": ",".join(sorted(plan.topics))}, source)


def _reverse_name(flow: str) -> str:
    from barnabas.pipeline.mirror.flow_reversal import reverse_name

    return reverse_name(flow)


def _show(plan: Reversal, name: str, source: str, target: str) -> None:
    print_table(_COLUMNS, [(each.topic, each.partition, each.offset) for each in plan.partitions])
    present = {each.topic for each in plan.partitions}
    for topic in sorted(plan.topics.keys() - present):
        click.echo(f"topic {topic} does not exist at {source}: the flow creates it")
    click.echo(f"flow {name} copies from {target} to {source}")
