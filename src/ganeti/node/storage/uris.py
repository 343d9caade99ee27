# SPDX-License-Identifier: BSD-2-Clause
"""From the URI of a disk to the block options of QEMU, which takes no URI for a device that comes and goes."""

from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ganeti.base.addresses import host_and_port
from ganeti.base.errors import BlockDeviceError

_NBD_PORT, _GLUSTER_PORT, _ISCSI_PORT = 10809, 24007, 3260
SCHEMES = ("file", "gluster", "gluster+tcp", "gluster+unix", "http", "https", "iscsi", "nbd", "nbd+unix", "rbd")


def block_options(uri: str) -> dict[str, Any]:
    """Raises `BlockDeviceError` for a URI that names no disk of a kind that is known."""
    if uri.startswith("rbd:"):
        return _rbd(uri)
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as err:
        raise _unknown(uri) from err
    path, query = unquote(parts.path), {key: values[0] for key, values in parse_qs(parts.query).items()}
    host = parts.hostname or ""
    match parts.scheme:
        case "file" if path:
            return {"driver": "file", "filename": path}
        case "http" | "https" if host:
            return {"driver": parts.scheme, "url": uri}
        case "nbd" if host:
            server = {"type": "inet", "host": host, "port": str(port or _NBD_PORT)}
            return {"driver": "nbd", "server": server, "export": path.removeprefix("/")}
        case "nbd+unix" if "socket" in query:
            server = {"type": "unix", "path": query["socket"]}
            return {"driver": "nbd", "server": server, "export": path.removeprefix("/")}
        case "gluster" | "gluster+tcp" | "gluster+unix" if path.count("/") > 1:
            volume, _, name = path.removeprefix("/").partition("/")
            server = {"type": "inet", "host": host, "port": str(port or _GLUSTER_PORT)}
            if parts.scheme == "gluster+unix":
                server = {"type": "unix", "path": query.get("socket", "")}
            return {"driver": "gluster", "volume": volume, "path": name, "server": [server]}
        case "iscsi" if host and path.count("/") == 2:
            target, _, lun = path.removeprefix("/").partition("/")
            if not lun.isdecimal():
                raise _unknown(uri)
            portal = host_and_port(host, port or _ISCSI_PORT)
            return {"driver": "iscsi", "transport": "tcp", "portal": portal, "target": target, "lun": int(lun)}
    raise _unknown(uri)


def _rbd(uri: str) -> dict[str, Any]:
    """``rbd:POOL/IMAGE[:KEY=VALUE]…``, of which the configuration file and the user are kept."""
    place, *rest = uri.removeprefix("rbd:").split(":")
    pool, _, image = place.partition("/")
    if not pool or not image:
        raise _unknown(uri)
    options: dict[str, Any] = {"driver": "rbd", "pool": pool, "image": image}
    for word in rest:
        key, _, value = word.partition("=")
        if key in ("conf", "id"):
            options["conf" if key == "conf" else "user"] = value
    return options


def _unknown(uri: str) -> BlockDeviceError:
    return BlockDeviceError(f"'{uri}' names no disk that QEMU can open: use one of {', '.join(SCHEMES)}")
