# SPDX-License-Identifier: BSD-2-Clause
"""A cluster read over RAPI, or from files with what RAPI would say (spec: htools, 1).

Nobody logs in, and the server's certificate is not looked at: it is one of the cluster's own.
"""

import base64
import http.client
import socket
import ssl
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from ganeti.base.addresses import host_and_port, is_ipv6
from ganeti.placement.cluster.picture import Cluster
from ganeti.placement.request.terms import RequestError
from ganeti.tools.htools.haskell.endless import read_file
from ganeti.tools.htools.haskell.json_mistakes import parsed
from ganeti.tools.htools.loading import records

PORT = 5080
FILES = "file://"
_CONNECT_TIMEOUT_S, _TIMEOUT_S = 15, 60
_OK = 200
_PARTS = (
    ("groups", "2/groups?bulk=1", "Parsing group data"),
    ("nodes", "2/nodes?bulk=1", "Parsing node data"),
    ("instances", "2/instances?bulk=1", "Parsing instance data"),
    ("info", "2/info", "Parsing cluster info"),
)


def read(address: str, *, static_node_memory_mib: int) -> tuple[Cluster, str]:
    """Read the cluster at *address* (host, URL or ``file://DIRECTORY``) and its master's name.

    Raises `RequestError` for what cannot be fetched or understood, `OSError` for files.
    """
    return records.read(fetch(address), static_node_memory_mib=static_node_memory_mib)


def fetch(address: str) -> records.Records:
    """What the cluster at *address* says of itself; raises as `read`."""
    texts = _from_files(address[len(FILES) :]) if address.startswith(FILES) else _from_server(_url(address))
    found: dict[str, Any] = {}
    for (name, _, what), text in zip(_PARTS, texts, strict=True):
        found[name] = parsed(text, what, dict if name == "info" else list)
    return records.Records(**found)


def _url(address: str) -> str:
    host = address[1:-1] if address.startswith("[") and address.endswith("]") else address
    if ":" in host and not is_ipv6(host):
        return address
    return f"https://{host_and_port(host, PORT)}"


def _from_files(directory: str) -> list[str]:
    texts = []
    for name, _, _ in _PARTS:
        texts.append(read_file(f"{directory}/{name}.json" if directory else f"{name}.json").decode())
    return texts


def _from_server(url: str) -> list[str]:
    return [_get(f"{url}/{path}") for _, path, _ in _PARTS]


def _get(url: str) -> str:
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        connection = _connection(parts.scheme, parts.hostname or "", parts.port)
        try:
            connection.request(
                "GET", f"{parts.path}?{parts.query}" if parts.query else parts.path, headers=_login(parts)
            )
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise RequestError(f"Curl error for '{url}', error {_reason(error)}") from error
    if answer.status != _OK:
        raise RequestError(f"Curl error for '{url}', error CurlHttpReturnedError")
    return body.decode(errors="replace")


def _login(parts: SplitResult) -> dict[str, str]:
    """The header for the name and password that stand before the host in the address."""
    if parts.username is None:
        return {}
    told = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Authorization": f"Basic {base64.b64encode(told.encode()).decode()}"}


def _connection(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=_CONNECT_TIMEOUT_S, context=context
        )
    elif scheme == "http":
        connection = http.client.HTTPConnection(host, port, timeout=_CONNECT_TIMEOUT_S)
    else:
        raise ValueError(scheme)
    connection.connect()
    if connection.sock is not None:
        connection.sock.settimeout(_TIMEOUT_S)
    return connection


def _reason(error: Exception) -> str:
    """The word 3.1 has for it."""
    if isinstance(error, socket.gaierror):
        return "CurlCouldntResolveHost"
    if isinstance(error, TimeoutError):
        return "CurlOperationTimeout"
    if isinstance(error, ssl.SSLError):
        return "CurlSSLConnectError"
    if isinstance(error, http.client.RemoteDisconnected):
        return "CurlGotNothing"
    if isinstance(error, ValueError | http.client.InvalidURL):
        return "CurlUrlMalformat"
    return "CurlCouldntConnect" if isinstance(error, OSError) else "CurlRecvError"
