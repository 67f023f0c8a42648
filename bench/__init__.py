"""Side by side with Apache Kafka: the same clients, in turn, on the same machine.

`python -m bench` starts each server (`servers`), runs every row (`rows`) against it with librdkafka
(`librdkafka`, driven from C so that Python is not what is measured) and writes the table and the
plot (`report`). Figures are printed, never asserted: the machine decides them too.
"""
