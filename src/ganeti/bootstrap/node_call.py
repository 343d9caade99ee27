# SPDX-License-Identifier: BSD-2-Clause
"""The few node calls of set-up work, which has no event loop and no cluster yet: one blocking request each."""

import http.client
import json
import socket
import ssl
import time
from http import HTTPStatus
from typing import Any

import msgspec

from ganeti.base.errors import NodeUnreachableError, from_wire
from ganeti.base.paths import NODED_PORT, Paths
from ganeti.bootstrap.own_mastership import promised_epoch
from ganeti.model.node_calls import Answer, NodeRequest
from ganeti.model.node_calls.node import Version
from ganeti.ports.nodes import read_answer
from ganeti.system.call_delay import delay_s
from ganeti.system.tls import former_certificates

_ATTEMPT_S = 5.0
_CONNECT_SHARE = 0.3
"""How much of a call's time may pass until the machine there takes the connection."""


class _Connection(http.client.HTTPSConnection):
    """One whose TCP handshake, which costs a living machine nothing, may take less long than what follows."""

    def __init__(self, address: str, context: ssl.SSLContext, timeout_s: float) -> None:
        super().__init__(address, NODED_PORT, timeout=timeout_s, context=context)
        self._tls = context
        self._timeout_s = timeout_s

    def connect(self) -> None:
        plain = socket.create_connection((self.host, self.port), self._timeout_s * _CONNECT_SHARE)
        plain.settimeout(self._timeout_s)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)


def ask_node(paths: Paths, address: str, request: NodeRequest[Answer], timeout_s: float = 60.0) -> Answer:
    """Ask the node daemon at *address* with this node's certificate, outside of any job.

    Raises `NodeUnreachableError`, or the error the node gave.
    """
    head = {"epoch": promised_epoch(paths), "job": 0, "attempt": 0, "step": 0}
    body = msgspec.json.encode({**head, "arguments": request.arguments()})
    answer = _send(paths, address, request.call, body, timeout_s)
    if not isinstance(answer, list) or len(answer) != 2:
        raise NodeUnreachableError(f"The node daemon at {address} gave an unreadable answer: is it another release?")
    if not answer[0]:
        raise from_wire(answer[1])
    return read_answer(request, answer[1])


def _send(paths: Paths, address: str, call: str, body: bytes, timeout_s: float) -> Any:
    """Give what the node daemon answers, decoded; raises `NodeUnreachableError`.

    A node that refuses our certificate may have missed its renewal: it is shown the former ones.
    """
    if held_back_s := delay_s(address, call):
        time.sleep(held_back_s)
    certificates = [paths.client_cert, *former_certificates(paths)]
    for certificate in certificates:
        last = certificate == certificates[-1]
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=paths.authority_cert)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(certificate)
        connection = _Connection(address, context, timeout_s)
        try:
            connection.request("POST", f"/{call}", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            if response.status != HTTPStatus.FORBIDDEN or last:
                return json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as err:
            if last or not isinstance(err, ssl.SSLError):
                raise NodeUnreachableError(f"The node daemon at {address} does not answer: {err}") from err
        finally:
            connection.close()
    raise AssertionError("unreachable")


def wait_for_node_daemon(paths: Paths, address: str, timeout_s: float) -> int:
    """Wait until the node daemon tells its version, and give it; raises `NodeUnreachableError` after *timeout_s*."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask_node(paths, address, Version(), _ATTEMPT_S)
        except NodeUnreachableError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.05)
