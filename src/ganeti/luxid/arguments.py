# SPDX-License-Identifier: BSD-2-Clause
"""The types of the arguments of LUXI calls: how each is read, and the error that says what would be right.

Those at the end are for parameters of calls (`ganeti.calls.serving`).
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from ganeti.base.errors import WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.calls.serving import Reads
from ganeti.master.queue.submission import check_priority
from ganeti.wire.job_file import read_job_id


def integer(value: Any, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ParameterError(f"The {what} must be a whole number, not {value!r}")
    return value


def number(value: Any, what: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ParameterError(f"The {what} must be a number, not {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ParameterError(f"The {what} is larger than any number that makes sense") from None


def boolean(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ParameterError(f"The {what} must be true or false, not {value!r}")
    return value


def strings(value: Any, what: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ParameterError(f"The {what} must be a list of names")
    return value


def job_id_argument(value: Any) -> int:
    """A job id, as a number or as digits."""
    job_id = read_job_id(value)
    if job_id is None:
        raise ParameterError(f"Invalid job ID '{value}': it must be a positive number")
    return job_id


def refuse_lock(lock: Any) -> None:
    """Refuse a query that asks for locks, as old clients may."""
    if lock:
        raise PrerequisiteError("Sync queries are not allowed", WRONG_INPUT)


def _a(read: Callable[[Any, str], Any], what: str) -> Reads:
    return Reads(lambda value: read(value, what))


def _some_or_all(what: str) -> Reads:
    """Names; none of them, or null, stands for all."""
    return Reads(lambda value: strings(value or [], what))


def _pause_end(value: Any) -> int | float | None:
    if value is not None:
        number(value, "time")
    return value  # type: ignore[no-any-return]


JobId = Annotated[int, Reads(job_id_argument)]
Priority = Annotated[int, Reads(check_priority)]
LogSerial = Annotated[int, Reads(lambda value: -1 if value is None else integer(value, "log serial"))]
Timeout = Annotated[float, _a(number, "timeout")]
Seconds = Annotated[float, _a(number, "time")]
PauseEnd = Annotated[int | float | None, Reads(_pause_end)]
Flag = Annotated[bool, _a(boolean, "flag")]
Kill = Annotated[bool, _a(boolean, "kill")]
Fields = Annotated[list[str], _a(strings, "fields")]
SomeFields = Annotated[Sequence[str], _some_or_all("fields")]
Names = Annotated[list[str], _some_or_all("names")]
RuleIds = Annotated[list[str], _some_or_all("uuids")]
NodeNames = Annotated[list[str], _a(strings, "nodes")]
Lock = Annotated[None, Reads(refuse_lock)]
