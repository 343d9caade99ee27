# SPDX-License-Identifier: BSD-2-Clause
"""One of the two clusters, as its remote API shows it: requests, jobs, and what they say."""

import base64
import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from ganeti.base.addresses import host_and_port
from ganeti.base.errors import ExecutionError, PrerequisiteError, TransportError, from_wire
from ganeti.wire.job_file import FINAL_STATUSES, SUCCESS

PORT = 5080
_TIMEOUT_S = 60.0
_TRIES = 5
_END_WITHIN_S = 300.0
_OTHER_NAME = (62, 64)
"""OpenSSL's X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH."""
_FIRST_POLL_S, _LONGEST_POLL_S = 0.1, 2.0


class Stopped(ExecutionError):
    """Somebody has asked to stop."""


@dataclass(frozen=True)
class Access:
    host: str
    port: int = PORT
    ca_file: str = ""
    """With whose certificates the server's is checked; without it, those of the system."""
    username: str = ""
    password: str = ""


class Cluster:
    """Raises `PrerequisiteError` for what the cluster refuses, `TransportError` where it cannot be asked."""

    def __init__(self, access: Access, stop: threading.Event, trace: Callable[[str], None]) -> None:
        """*trace* is told each request (without its body, which may hold parameters of the OS)."""
        self._trace = trace
        self.name = access.host
        self._access = access
        self._stop = stop
        try:
            self._context = ssl.create_default_context(cafile=access.ca_file or None)
            self._own = _certificates(access.ca_file) if access.ca_file else []
        except (OSError, ValueError) as err:  # ssl.SSLError is an OSError
            reason = err.strerror if isinstance(err, FileNotFoundError | PermissionError) else err
            raise PrerequisiteError(f"The CA file {access.ca_file} cannot be used: {reason}") from err

    def get(self, path: str, **query: Any) -> Any:
        return self._ask("GET", path, query, None, tries=_TRIES)

    def submit(self, method: str, path: str, body: dict[str, Any] | None = None, **query: Any) -> "Job":
        """Asked once only: a job must not be submitted twice."""
        return Job(self, int(self._ask(method, path, query, body, tries=1)), self._stop)

    def cancel(self, job_id: int) -> None:
        self._ask("DELETE", f"/2/jobs/{job_id}", {}, None, tries=_TRIES)

    def _ask(self, method: str, path: str, query: dict[str, Any], body: Any, *, tries: int) -> Any:
        words = "&".join(f"{key}={quote(str(value))}" for key, value in query.items())
        full = f"{path}?{words}" if words else path
        for left in range(tries - 1, -1, -1):
            try:
                return self._answer(method, full, body)
            except (OSError, http.client.HTTPException) as err:
                if isinstance(err, ssl.SSLCertVerificationError):
                    raise PrerequisiteError(
                        f"The certificate of {self.name} is not known: copy its /var/lib/ganeti/rapi.pem (the "
                        "certificate alone) here, and name it with --src-ca-file or --dest-ca-file"
                    ) from err
                if not left:
                    raise TransportError(
                        f"The remote API of {self.name} (port {self._access.port}) cannot be asked: "
                        f"{getattr(err, 'strerror', None) or err}"
                    ) from err
                self._stop.wait(1.0)
        raise AssertionError("the last try returns or raises")

    def _connected(self) -> http.client.HTTPSConnection:
        """A certificate of a cluster may not have the cluster's name: then the file has that certificate itself.

        Raises `ssl.SSLCertVerificationError` before anything is sent to whom the file does not name.
        """
        where = self._access.host, self._access.port
        connection = http.client.HTTPSConnection(*where, timeout=_TIMEOUT_S, context=self._context)
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as err:
            connection.close()
            if not self._own or err.verify_code not in _OTHER_NAME:
                raise
            nameless = ssl.create_default_context(cafile=self._access.ca_file)
            nameless.check_hostname = False
            connection = http.client.HTTPSConnection(*where, timeout=_TIMEOUT_S, context=nameless)
            connection.connect()
            if connection.sock.getpeercert(binary_form=True) not in self._own:
                connection.close()
                raise
        return connection

    def _answer(self, method: str, path: str, body: Any) -> Any:
        access = self._access
        self._trace(f"{method} https://{host_and_port(access.host, access.port)}{path}")
        connection = self._connected()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if access.username:
            login = base64.b64encode(f"{access.username}:{access.password}".encode()).decode()
            headers["Authorization"] = f"Basic {login}"
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
        finally:
            connection.close()
        try:
            value = json.loads(text) if text else None
        except ValueError as err:
            raise TransportError(f"{self.name} does not answer as a remote API does: {text[:100]!r}") from err
        if answer.status >= 400:
            told = value.get("explain") or value.get("message") if isinstance(value, dict) else value
            raise PrerequisiteError(f"{self.name} refuses {method} {path.partition('?')[0]}: {answer.status} {told}")
        return value


def _certificates(path: str) -> list[bytes]:
    """Those of a file in PEM, in DER; raises `OSError` and `ValueError`."""
    with open(path, "rb") as file:
        found = x509.load_pem_x509_certificates(file.read())
    return [certificate.public_bytes(Encoding.DER) for certificate in found]


class Job:
    """A job of one cluster."""

    def __init__(self, cluster: Cluster, job_id: int, stop: threading.Event) -> None:
        self.cluster = cluster
        self.id = job_id
        self._stop = stop
        self._told = 0
        self.error: list[Any] = []

    def __str__(self) -> str:
        return f"job {self.id} of {self.cluster.name}"

    def wait_for_entry(self, kind: str, say: Callable[[str], None]) -> Any:
        """The value of the first log entry of a type; raises `ExecutionError` where the job ends without one."""
        found: list[Any] = []

        def look(state: dict[str, Any]) -> bool:
            found[:] = [entry[3] for entry in _entries(state) if entry[2] == kind]
            return bool(found)

        self.wait(say, look)
        if not found:
            raise ExecutionError(f"The {self} has ended without saying where it waits for the disks")
        return found[0]

    def result(self, say: Callable[[str], None]) -> Any:
        """What its (only) opcode gave; raises `ExecutionError` with what it says where it failed."""
        state = self.wait(say, lambda state: False)
        return state["opresult"][0]

    def over(self) -> bool:
        return self._state().get("status") in FINAL_STATUSES

    def succeeded(self) -> bool:
        """Whether it is known to have ended well; never raises."""
        try:
            return self._state().get("status") == SUCCESS
        except (PrerequisiteError, TransportError):
            return False

    def wait(self, say: Callable[[str], None], enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait for its end, or until *enough*; raises `Stopped`, and `ExecutionError` for a job that failed."""
        rest_s = _FIRST_POLL_S
        while True:
            state = self._state()
            self._tell(state, say)
            if enough(state):
                return state
            if state.get("status") == SUCCESS:
                return state
            if state.get("status") in FINAL_STATUSES or state.get("status") is None:
                self.error = (state.get("opresult") or [None])[0] or []
                raise ExecutionError(f"The {self} failed: {_words(self.error)}")
            if self._stop.wait(rest_s):
                raise Stopped("Stopped")
            rest_s = min(rest_s * 1.5, _LONGEST_POLL_S)

    def end(self, say: Callable[[str], None]) -> None:
        """Cancel it, if it has not ended, and wait until it has; never raises."""
        try:
            if self.over():
                return
            say(f"Cancelling the {self}")
            self.cluster.cancel(self.id)
            end_s = time.monotonic() + _END_WITHIN_S
            while not self.over():
                if time.monotonic() > end_s:
                    say(f"The {self} goes on: see gnt-job info {self.id} there")
                    return
                time.sleep(0.2)
        except (PrerequisiteError, TransportError) as err:
            say(f"The {self} could not be cancelled: {err}")

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.cluster.get(f"/2/jobs/{self.id}")
        return state

    def _tell(self, state: dict[str, Any], say: Callable[[str], None]) -> None:
        entries = _entries(state)
        for entry in entries[self._told :]:
            if entry[2] == "message":
                say(f"{self.cluster.name}: {entry[3]}")
        self._told = len(entries)


def _entries(state: dict[str, Any]) -> list[list[Any]]:
    return [entry for log in state.get("oplog") or [] for entry in log]


def _words(error: Any) -> str:
    match error:
        case ["HooksAbort", _]:
            return str(from_wire(error))
        case [_, [str(first), *_]]:
            return first
        case str(text):
            return text
    return json.dumps(error)
