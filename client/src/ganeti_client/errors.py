# SPDX-License-Identifier: BSD-2-Clause
"""What can go wrong."""

from typing import Any


class ApiError(Exception):
    """The server refused the request; *code* is the HTTP status."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class ConnectionFailed(ApiError):
    """No answer came. Of a request that changes something nobody knows whether it was carried out."""


class JobFailed(Exception):
    """A job did not succeed; *results* are those of its operations."""

    def __init__(self, job: int, status: str, results: list[Any]) -> None:
        super().__init__(f"job {job} ended with status {status}: {results}")
        self.job = job
        self.status = status
        self.results = results
