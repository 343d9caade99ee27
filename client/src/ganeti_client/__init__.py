# SPDX-License-Identifier: BSD-2-Clause
"""A client of the Ganeti remote API, synchronous and asynchronous, with the standard library alone."""

from ganeti_client.asynchronous import AsyncClient
from ganeti_client.errors import ApiError, ConnectionFailed, JobFailed
from ganeti_client.messages import Event
from ganeti_client.synchronous import Client

__all__ = ["ApiError", "AsyncClient", "Client", "ConnectionFailed", "Event", "JobFailed"]
