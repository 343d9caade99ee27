# SPDX-License-Identifier: BSD-2-Clause
"""Reading the arguments of LUXI calls: a wrong one is an error that says what would be right."""

from typing import Any

from ganeti.base.errors import GanetiError, ParameterError
from ganeti.wire.job_file import read_job_id


def at_most(args: list[Any], least: int, most: int) -> list[Any]:
    if not least <= len(args) <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise GanetiError(f"The call takes {wanted} arguments, not {len(args)}")
    return args


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
