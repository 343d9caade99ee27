# SPDX-License-Identifier: BSD-2-Clause
"""The input file of an allocator as a cluster and a request (spec: protocols, 7; htools, 10).

A big one is decoded into typed records first (`allocator_records`), which takes a sixth of the time. Both ways give the
same cluster; the slow one alone has words for mistakes.
"""

import json
from typing import Any

from ganeti.placement.cluster.picture import Cluster
from ganeti.placement.request import reading
from ganeti.placement.request.terms import RequestError
from ganeti.tools.htools.haskell.failures import decoded
from ganeti.tools.htools.haskell.json_mistakes import parsed
from ganeti.wire.iallocator import modern

_PARSING = "Parsing input IAllocator message"
_SMALL_BYTES = 256 * 1024
"""Up to here it takes longer to load the records than to do without."""


def read(
    data: bytes, path: str, *, static_node_memory_mib: int, small_bytes: int = _SMALL_BYTES
) -> tuple[Cluster, Any]:
    """Read the cluster of a message, and its request as it stands there.

    Raises `ParameterError` for a message that cannot be read; *path* is named if it is no text.
    """
    if len(data) > small_bytes:
        from ganeti.tools.htools.loading import allocator_records

        found = allocator_records.read(data, static_node_memory_mib)
        if found is not None:
            return found
    return _read_slowly(decoded(data, path), static_node_memory_mib)


def whole(data: bytes, path: str) -> dict[str, Any]:
    """A message that could be read, as it stands there: some of it placement never asks for."""
    return modern(parsed(decoded(data, path), _PARSING, dict))


def _read_slowly(text: str, static_node_memory_mib: int) -> tuple[Cluster, Any]:
    message = modern(parsed(text, _PARSING, dict))
    if "request" not in message:
        keys = json.dumps(list(message), ensure_ascii=False, separators=(",", ":"))
        raise RequestError(f"invalid iallocator message: key 'request' not found, object contains only {keys}")
    if not isinstance(message["request"], dict):
        raise RequestError("invalid iallocator message: key 'request': Unable to read JSObject")
    return reading.read_cluster(message, static_node_memory_mib=static_node_memory_mib), message["request"]
