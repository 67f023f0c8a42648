"""Messages between the runner and the application of one job."""

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.delivery.plan.job_plan import (
    Guarantee,
    JobFailure,
    JobKind,
    JobPlan,
    JobProgress,
    OnTrim,
    PartitionLag,
    RecordPosition,
)
from barnabas.pipeline.spark.application_messages import (
    decode_failure,
    decode_progress,
    decode_start,
    encode_refusal,
    encode_start,
    encode_state,
)
from barnabas.pipeline.spark.session import SessionSettings
from tests.pipeline.runner.fake_engine import FakeJob

TEXTS = st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3)
PLANS = st.builds(
    JobPlan,
    name=st.text(min_size=1),
    generation=st.integers(0, 9),
    kind=st.sampled_from(JobKind),
    bootstrap=st.just("127.0.0.1:1"),
    group_id=st.text(),
    transactional_id=st.text(),
    topics=st.lists(st.text(), max_size=2).map(tuple),
    topics_pattern=st.none() | st.text(),
    task_configs=st.lists(TEXTS, max_size=2).map(tuple),
    properties=TEXTS,
    guarantee=st.sampled_from(Guarantee),
    on_trim=st.sampled_from(OnTrim),
    topic_ids=TEXTS,
    spark_properties=TEXTS,
)


@settings(deadline=None)
@given(PLANS)
def test_settings_and_plan_survive_encoding(plan: JobPlan) -> None:
    session = SessionSettings(Path("/w"), "local[1]", properties={"spark.x": "1"})
    line = encode_start(session, plan)
    assert b"\n" not in line
    assert decode_start(line) == (session, plan)


def test_state_of_a_job_survives_encoding() -> None:
    job = FakeJob(JobPlan("j", 1, JobKind.COPY, "b", "g", "t", topics=("a",)))
    message = json.loads(encode_state(job))
    assert decode_progress(message["progress"]) == job.progress()
    assert decode_progress(message["progress"]).lag == (PartitionLag("a", 0, 7, 9),)
    assert (message["running"], decode_failure(message["failure"])) == (True, None)
    job.end = JobFailure("bad", True, RecordPosition("a", 0, 7), "VALUE_CONVERTER", "trace")
    assert decode_failure(json.loads(encode_state(job))["failure"]) == job.end


def test_refusal_survives_encoding() -> None:
    failure = JobFailure("no such topic", is_permanent=False)
    message = json.loads(encode_refusal(failure))
    assert decode_failure(message["failure"]) == failure
    assert (message["running"], decode_progress(message["progress"])) == (False, JobProgress())
