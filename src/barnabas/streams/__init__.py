"""Stream processing on topics, with Spark: what Kafka Streams does, as PySpark.

    from barnabas import streams as ks

    app = ks.App("clicks")
    clicks = app.topic("clicks", key=ks.String(), value=ks.Json("user STRING, ms LONG"), time="ms")
    app.write(clicks.group_by("user").window(ks.tumbling("1 minute")).count(), "clicks-by-user")
    app.run()

An `App` reads topics as `Stream` and tables as `Table`, and writes either, or any streaming
DataFrame, to topics. Serdes and windows have the names of Kafka Streams. docs/streams.md is the
guide. It needs `pip install 'barnabas[spark]'` and a JDK.
"""

from barnabas.pipeline.delivery.plan.job_plan import JobFailure, JobProgress
from barnabas.pipeline.spark.session import SparkUnavailableError
from barnabas.pipeline.streams.avro_serde import Avro
from barnabas.pipeline.streams.grouped_stream import GroupedStream
from barnabas.pipeline.streams.grouped_table import GroupedTable
from barnabas.pipeline.streams.json_schema_serde import JsonSchema
from barnabas.pipeline.streams.kernel_frames import KeyTypeError
from barnabas.pipeline.streams.operator_errors import OperatorError
from barnabas.pipeline.streams.output_frames import OutputError
from barnabas.pipeline.streams.processed_streams import ProcessContext, Processor, Record
from barnabas.pipeline.streams.protobuf_serde import Protobuf
from barnabas.pipeline.streams.python_serdes import Custom
from barnabas.pipeline.streams.record_stream import Stream
from barnabas.pipeline.streams.record_table import Table
from barnabas.pipeline.streams.registry_serdes import RegistrySchemaError
from barnabas.pipeline.streams.serdes import (
    Bytes,
    Double,
    Float,
    Integer,
    Json,
    Long,
    Serde,
    Short,
    String,
    Uuid,
)
from barnabas.pipeline.streams.state_directory import StateInUseError, StateUnusableError
from barnabas.pipeline.streams.stream_app import App
from barnabas.pipeline.streams.stream_queries import StreamFailedError, StreamQuery
from barnabas.pipeline.streams.test_driver import TestDriver, TestRecord, UnknownTopicError
from barnabas.pipeline.streams.window_specs import Window, hopping, session, sliding, tumbling
from barnabas.pipeline.views.live_view import (
    LiveView,
    ViewFailedError,
    ViewNotReadyError,
    ViewRow,
)

__all__ = [
    "App",
    "Avro",
    "Bytes",
    "Custom",
    "Double",
    "Float",
    "GroupedStream",
    "GroupedTable",
    "Integer",
    "JobFailure",
    "JobProgress",
    "Json",
    "JsonSchema",
    "KeyTypeError",
    "LiveView",
    "Long",
    "OperatorError",
    "OutputError",
    "ProcessContext",
    "Processor",
    "Protobuf",
    "Record",
    "RegistrySchemaError",
    "Serde",
    "Short",
    "SparkUnavailableError",
    "StateInUseError",
    "StateUnusableError",
    "Stream",
    "StreamFailedError",
    "StreamQuery",
    "String",
    "Table",
    "TestDriver",
    "TestRecord",
    "UnknownTopicError",
    "Uuid",
    "ViewFailedError",
    "ViewNotReadyError",
    "ViewRow",
    "Window",
    "hopping",
    "session",
    "sliding",
    "tumbling",
]
