# SPDX-License-Identifier: BSD-2-Clause
"""gnt-debug record: the flight recorder's lines about one thing, from all nodes, in order of time."""

from __future__ import annotations

import time

from ganeti.cli.invocation import err, out

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ganeti.cli.invocation import Invocation

_SINCE_S = 24 * 3600


def tell(call: Invocation) -> int:
    """Print a line an event; nodes that cannot be asked are named on standard error."""
    what: str = call.values["what"]
    since_s = time.time() - (call.get("since") or _SINCE_S)
    told = call.client.call("ReadFlightRecord", int(what) if what.isdecimal() else what, since_s)
    width = max((len(node) for _, node, _ in told["lines"]), default=0)
    for at_s, node, text in told["lines"]:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))
        out(f"{moment}.{int(at_s * 1000) % 1000:03d}  {node:{width}}  {text}")
    for node, why in sorted(told["missing"].items()):
        err(f"What node {node} has recorded is missing: {why}")
    if not told["lines"]:
        err(f"Nothing is recorded of '{what}' since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(since_s))}")
        return 1
    return 0
