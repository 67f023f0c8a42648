"""Comparison with Apache Kafka: the same clients, alternately, on the same machine.

`python -m bench` starts each server (`servers`), runs every row (`rows`) against it with librdkafka
(`librdkafka`, driven from C so that Python is not measured) and writes the table and the plot
(`report`). Figures are printed, never asserted, since the machine influences them too.
"""
