# SPDX-License-Identifier: BSD-2-Clause
"""The paths of ganeti-metad (protocols, 21). A guest is known by the address it asks from; nobody else gets an answer.

Only files of OS definitions are given out: an OS parameter that names another one names nothing.
"""

import os
from typing import Any

import msgspec

from ganeti.base.errors import GanetiError
from ganeti.base.paths import OS_SEARCH_PATH, Paths
from ganeti.metad.guests import Guests
from ganeti.node.metadata import Metadata
from ganeti.node.os import definition
from ganeti.system.http_server import HttpReply, HttpRequest

_SCRIPTS = ("create", "export", "import", "rename", "verify")
_PACKAGES = {"os-install-package": "os-install-package", "package": "os-package"}
"""OS parameter that names the file, by the last part of the path."""
_LARGEST_BYTES = 1024 * 1024 * 1024


def answer(guests: Guests, paths: Paths, request: HttpRequest) -> HttpReply:
    """Blocks while a file is read."""
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
            return _script(guest, paths, name)
        case (("GET" | "HEAD"), ["os", name]) if name in _PACKAGES:
            return _package(guest, paths, _PACKAGES[name])
    return _not_found()


def _script(guest: Metadata, paths: Paths, name: str) -> HttpReply:
    try:
        directory = definition.get(paths, guest.os).path
    except GanetiError as err:
        return _sentence(404, str(err))
    return _file(paths, f"{directory}/{name}")


def _package(guest: Metadata, paths: Paths, parameter: str) -> HttpReply:
    value, _ = guest.parameters.get(parameter, ("", ""))
    if not value:
        return _sentence(404, f"The OS parameter '{parameter}' is not set")
    return _file(paths, paths.under(value))


def _file(paths: Paths, path: str) -> HttpReply:
    real = os.path.realpath(path)
    allowed = [os.path.realpath(paths.under(directory)) for directory in OS_SEARCH_PATH]
    if not any(real.startswith(f"{directory}/") for directory in allowed):
        return _sentence(404, f"Only files below {', '.join(OS_SEARCH_PATH)} are given out")
    try:
        if os.path.getsize(real) > _LARGEST_BYTES:
            return _sentence(404, "The file is larger than a gigabyte")
        with open(real, "rb") as source:
            return HttpReply(200, source.read(), "application/octet-stream")
    except OSError as err:
        return _sentence(404, f"The file cannot be read: {err.strerror}")


def _json(value: Any) -> HttpReply:
    return HttpReply(200, msgspec.json.encode(value))


def _not_found() -> HttpReply:
    return _sentence(404, "Resource not found")


def _sentence(status: int, text: str) -> HttpReply:
    return HttpReply(status, f"{text}\n".encode(), "text/plain")
