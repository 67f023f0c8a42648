"""Topics that a job needs before it starts.

Java's consumers and producers have the broker create missing topics (`auto.create.topics.enable`).
A job asks for its topics in the same way, so that a sink may be created before its source.
"""

from collections.abc import Iterable

from barnabas.client import KafkaClient
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse


async def request_topics(client: KafkaClient, topics: Iterable[str]) -> None:
    """Have the broker create the topics that are missing, if it creates topics by itself.

    Raises ClientError when no broker answers.
    """
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    if wanted:
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=True)
        await client.ask_any(request, MetadataResponse)
