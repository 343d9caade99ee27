# SPDX-License-Identifier: BSD-2-Clause
"""What a command sees of its machine: the root directory, the socket, what ssconf says.

Paths are those of `ganeti.base.paths`, written out here because importing that module costs more than a whole
command; a test holds the two together.
"""

from __future__ import annotations

import os

from ganeti.cli.failures import Failure


def root() -> str:
    """The prefix of a node of a virtual cluster; empty on a real machine."""
    return os.environ.get("GANETI_ROOTDIR", "").rstrip("/")


def socket_path() -> str:
    """Where the master daemon listens; ``FORCE_LUXI_SOCKET`` is a path or the name ``master`` or ``query``."""
    forced = os.environ.get("FORCE_LUXI_SOCKET", "")
    if forced and forced not in ("master", "query"):
        return forced
    return f"{root()}/run/ganeti/socket/ganeti-{forced or 'query'}"


def ssconf(key: str) -> str | None:
    """Read one ssconf file; None where there is no cluster."""
    path = f"{root()}/var/lib/ganeti/ssconf_{key}"
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except PermissionError:
        raise Failure(f"You may not read {path}: run this as root") from None
    except (FileNotFoundError, NotADirectoryError):
        return None


def tokens_path() -> str:
    """Where the tokens of the remote API are kept."""
    return f"{root()}/var/lib/ganeti/rapi/tokens"


def audit_log_path() -> str:
    """Where the remote API writes who asked for what."""
    return f"{root()}/var/log/ganeti/rapi-audit.log"


def host_name() -> str:
    """This node's name, as far as the machine knows it; may be short."""
    return os.environ.get("GANETI_HOSTNAME") or os.uname().nodename


def is_this_host(name: str) -> bool:
    """True if *name* is this machine's name; one of the two may lack the domain."""
    own = host_name()
    return own == name or name.startswith(own + ".") or own.startswith(name + ".")
