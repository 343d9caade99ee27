# SPDX-License-Identifier: BSD-2-Clause
"""The paths of ganeti-metad (protocols, 21). A guest is known by the address it asks from; nobody else gets an answer.

Only files of OS definitions are given out: an OS parameter that names another one names nothing.
"""

import os
from collections.abc import Callable
from typing import Any

import msgspec

from ganeti.base.errors import WRONG_INPUT, GanetiError, PrerequisiteError
from ganeti.base.paths import OS_SEARCH_PATH, Paths
from ganeti.metad.downloads import PER_GUEST, Downloads
from ganeti.metad.guests import Guests
from ganeti.node.metadata import Metadata
from ganeti.node.os import definition
from ganeti.system.http_server import HttpReply, HttpRequest

_SCRIPTS = ("create", "export", "import", "rename", "verify")
_PACKAGES = {"os-install-package": "os-install-package", "package": "os-package"}
"""OS parameter that names the file, by the last part of the path."""
_BYTES = "application/octet-stream"
_LARGEST_BYTES = 1024 * 1024 * 1024


def answer(guests: Guests, paths: Paths, downloads: Downloads, request: HttpRequest) -> HttpReply:
    """Blocks while a file is looked for; its content comes as `HttpReply.chunks`."""
    guest = guests.by_address(request.peer)
    if guest is None:
        return _sentence(404, "No guest is known by this address")
    parts = [part for part in request.path.split("/") if part]
    if parts[:2] != ["ganeti", "latest"]:
        return _not_found()
    match (request.method, parts[2:]):
        case (("GET" | "HEAD"), ["read"]) | ("POST", ["write"]):
            return HttpReply(200, b"", "text/plain")
        case (_, ["read"] | ["write"]):
            return _sentence(405, "This method is not for this path")
        case (("GET" | "HEAD"), ["meta_data.json"]):
            return _json({"name": guest.name, "uuid": guest.uuid, "os": guest.os, "address": guest.address})
        case (("GET" | "HEAD"), ["os", "parameters.json"]):
            return _json(guest.parameters)
        case (("GET" | "HEAD"), ["os", "scripts", name]) if name in _SCRIPTS:
            return _file(paths, downloads, request, lambda: _script(guest, paths, name))
        case (("GET" | "HEAD"), ["os", name]) if name in _PACKAGES:
            return _file(paths, downloads, request, lambda: _package(guest, paths, _PACKAGES[name]))
    return _not_found()


def _script(guest: Metadata, paths: Paths, name: str) -> str:
    found = definition.get(paths, guest.os)
    if name == definition.CREATE and not found.trusted:
        name = definition.UNTRUSTED_CREATE
    return f"{found.path}/{name}"


def _package(guest: Metadata, paths: Paths, parameter: str) -> str:
    value, _ = guest.parameters.get(parameter, ("", ""))
    if not value:
        raise PrerequisiteError(f"The OS parameter '{parameter}' is not set", WRONG_INPUT)
    return paths.under(value)


def _file(paths: Paths, downloads: Downloads, request: HttpRequest, find: Callable[[], str]) -> HttpReply:
    try:
        real = os.path.realpath(find())
    except GanetiError as err:
        return _sentence(404, str(err))
    allowed = [os.path.realpath(paths.under(directory)) for directory in OS_SEARCH_PATH]
    if not any(real.startswith(f"{directory}/") for directory in allowed):
        return _sentence(404, f"Only files below {', '.join(OS_SEARCH_PATH)} are given out")
    try:
        size = os.path.getsize(real)
        if size > _LARGEST_BYTES:
            return _sentence(404, "The file is larger than a gigabyte")
        if request.method == "HEAD":
            return HttpReply(200, b"", _BYTES, {"Content-Length": str(size)})
        download = downloads.begin(request.peer, real)
    except OSError as err:
        return _sentence(404, f"The file cannot be read: {err.strerror}")
    if download is None:
        return _sentence(503, f"{PER_GUEST} downloads of this guest are running: wait until one of them ends")
    return HttpReply(200, b"", _BYTES, {"Content-Length": str(download.size)}, download)


def _json(value: Any) -> HttpReply:
    return HttpReply(200, msgspec.json.encode(value))


def _not_found() -> HttpReply:
    return _sentence(404, "Resource not found")


def _sentence(status: int, text: str) -> HttpReply:
    return HttpReply(status, f"{text}\n".encode(), "text/plain")
