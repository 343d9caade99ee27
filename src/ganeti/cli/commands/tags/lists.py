# SPDX-License-Identifier: BSD-2-Clause
"""list-tags, add-tags, remove-tags, and gnt-cluster search-tags."""

from __future__ import annotations

import sys

from ganeti.cli import jobs
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation

_KINDS = {
    "gnt-cluster": "cluster",
    "gnt-group": "nodegroup",
    "gnt-node": "node",
    "gnt-instance": "instance",
    "gnt-network": "network",
}
_STANDARD_INPUT = "-"


def show(call: Invocation) -> int:
    for tag in call.client.call("QueryTags", _KINDS[call.command.program], call.get("name", "")):
        out(tag)
    return 0


def add(call: Invocation) -> int:
    return _change(call, "added")


def remove(call: Invocation) -> int:
    return _change(call, "removed")


def search(call: Invocation) -> int:
    matches = jobs.ask(call, {"OP_ID": call.command.op_id, "pattern": call.values["pattern"]})
    for path, tag in sorted(matches):
        out(f"{path} {tag}")
    return 0 if matches else 1


def _change(call: Invocation, deed: str) -> int:
    tags = [*call.values["tags"], *_from_file(call.get("tags_file"))]
    if not tags:
        raise Failure(f"No tags to be {deed}: name them, or a file that has them with --from")
    opcode = {"OP_ID": call.command.op_id, "kind": _KINDS[call.command.program], "tags": tags}
    return jobs.run(call, opcode | {"name": call.get("name")})


def _from_file(path: str | None) -> list[str]:
    """The lines of a file that are not empty, without the space around them."""
    if path is None:
        return []
    try:
        if path == _STANDARD_INPUT:
            text = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                text = file.read()
        lines = text.decode().splitlines()
    except OSError as err:
        raise Failure(f"--from: {path} cannot be read: {err.strerror}") from None
    except UnicodeDecodeError:
        raise Failure(f"--from: {path} is not text in UTF-8") from None
    return [line.strip() for line in lines if line.strip()]
