"""The flow of a mirror topic, as the sender of a request.

With an authorizer, a flow is the principal `User:<flow>`. Without one, every client may do
everything, and the client id identifies the flow. That stops mistakes only: it does not protect.
"""

from barnabas.cluster.metadata.image import MetadataImage
from barnabas.config.mirror_topics import PROMOTED, SOURCE, Promotion
from barnabas.security.principals import USER
from barnabas.server.api.context import AnyContext


def is_flow(context: AnyContext, flow: str) -> bool:
    """True when the flow of this name sent the request."""
    if context.route.authorizer is None:
        return context.client_id == flow
    principal = context.connection.principal
    return principal.type == USER and principal.name == flow


def is_flow_of(context: AnyContext, image: MetadataImage, topic: str | None) -> bool:
    """True when the topic is or was a mirror, and its flow sent the request."""
    if not topic:
        return False
    config = image.topic_config(topic)
    flow = config.get(SOURCE) or Promotion.parse(config.get(PROMOTED, "")).flow
    return bool(flow) and is_flow(context, flow)


def is_mirror(image: MetadataImage, topic: str) -> bool:
    """True when only a flow writes to the topic."""
    return bool(image.topic_config(topic).get(SOURCE))
