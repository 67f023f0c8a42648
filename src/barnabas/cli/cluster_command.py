"""`barnabas cluster`: brokers and the number of topics and partitions."""

from __future__ import annotations

import click

from barnabas.cli.client_options import Client, client_options
from barnabas.cli.terminal_output import counted, json_option, print_json, print_table


@click.command()
@json_option
@client_options
def cluster(client: Client, *, as_json: bool) -> None:
    """Show the cluster's id, its brokers, and the number of topics and partitions."""
    found = client.wait(client.admin.describe_cluster())
    topics = client.metadata().topics.values()
    led: dict[int, int] = {}
    offline = 0
    for topic in topics:
        for partition in topic.partitions.values():
            led[partition.leader] = led.get(partition.leader, 0) + 1
            offline += partition.leader < 0
    controller = found.controller.id if found.controller is not None else None
    nodes = sorted(found.nodes, key=lambda node: node.id)
    if as_json:
        print_json(
            {
                "cluster_id": found.cluster_id,
                "controller": controller,
                "topics": len(topics),
                "partitions": sum(len(topic.partitions) for topic in topics),
                "partitions_without_leader": offline,
                "nodes": [
                    {
                        "id": node.id,
                        "host": node.host,
                        "port": node.port,
                        "rack": node.rack,
                        "leads": led.get(node.id, 0),
                    }
                    for node in nodes
                ],
            }
        )
        return
    partitions = sum(len(topic.partitions) for topic in topics)
    click.echo(f"cluster {found.cluster_id}  topics {len(topics)}  partitions {partitions}")
    if offline:
        click.echo(f"{counted(offline, 'partition')} without a leader")
    print_table(
        ("NODE", "ADDRESS", "RACK", "LEADS", "CONTROLLER"),
        [
            (
                node.id,
                f"{node.host}:{node.port}",
                node.rack,
                led.get(node.id, 0),
                "yes" if node.id == controller else "",
            )
            for node in nodes
        ],
    )
