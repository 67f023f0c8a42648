"""The schema registry: versions of schemas per subject, kept in a topic, served over REST.

``formats`` knows the schema languages and is pure. The rest of the room is a Kafka client with an
HTTP surface: it imports ``protocol``, ``config``, ``client``, ``http`` and ``inspect`` only.
"""
