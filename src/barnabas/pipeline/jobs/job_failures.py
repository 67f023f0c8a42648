"""From an error to a job's failure: whether a restart may help, and the trace to show."""

import traceback

from barnabas.config import ConfigError
from barnabas.pipeline.connect.rest_errors import ConnectRestError
from barnabas.pipeline.data.connect_errors import ConnectError, RetriableError
from barnabas.pipeline.definitions.config_types import ConfigValueError
from barnabas.pipeline.delivery.plan.job_plan import JobFailure
from barnabas.pipeline.delivery.plan.task_failures import JobStartError
from barnabas.pipeline.jobs.core.job_supervision import Failure

_PERMANENT = (ConfigError, ConfigValueError, ConnectRestError, ConnectError, ImportError)


def text_of(error: BaseException) -> str:
    """Return what an error says, with its type where it says nothing, as a bare assertion."""
    return str(error).strip() or repr(error)


def failure_of_error(error: Exception) -> Failure:
    """Return the failure of a job that could not start."""
    if isinstance(error, JobStartError):
        return attributed(failure_of_job(error.failure))
    is_permanent = isinstance(error, _PERMANENT) and not isinstance(error, RetriableError)
    if is_permanent:
        trace = f"{type(error).__name__}: {text_of(error)}"
    else:
        trace = "".join(traceback.format_exception(error))
    return Failure(text_of(error), trace, is_permanent, is_of_connector=True)


def attributed(failure: Failure) -> Failure:
    """Return a failure as one of the connector: it has no tasks that could have failed."""
    return Failure(failure.message, failure.trace, failure.is_permanent, is_of_connector=True)


def failure_of_job(failure: JobFailure) -> Failure:
    """Return the failure of a job that ran; its trace begins with the record that failed."""
    place = f" at {failure.record}" if failure.record is not None else ""
    stage = f" in stage {failure.stage}" if failure.stage else ""
    message = f"{failure.message}{stage}{place}"
    trace = f"{message}\n{failure.trace}" if failure.trace else message
    return Failure(message, trace, failure.is_permanent)
