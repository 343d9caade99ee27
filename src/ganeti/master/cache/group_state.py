# SPDX-License-Identifier: BSD-2-Clause
"""What is known of one node group, as `OP_UPDATE_NODE_GROUP_CACHE` gives it (S1.39, S1.40, S1.54). Pure.

Values are those of query fields, null where there is none; sizes are in MiB. Only the group's nodes were asked: an
instance whose guest runs in another group is said to be down.
"""

from collections.abc import Sequence
from typing import Any

from ganeti.base.natural import natural_key
from ganeti.master.query.fields import Resource
from ganeti.master.query.running import cell

NODE_FIELDS = ("offline", "bootid", "mtotal", "mnode", "mfree", "ctotal", "cnos", "dtotal", "dfree")
INSTANCE_FIELDS = ("pnode", "status", "admin_state", "oper_ram")
_VALUE = 1

Plain = dict[str, Any]


def values(resource: Resource, names: Sequence[str], row: Any) -> Plain:
    """The plain value of each field of one row."""
    return {name: cell(resource.fields[name], row)[_VALUE] for name in names}


def in_order(state: Plain) -> Plain:
    """The same, nodes and instances in the natural order of their names."""
    sorted_parts = {
        part: {name: state[part][name] for name in sorted(state[part], key=natural_key)}
        for part in ("nodes", "instances")
    }
    return {"group": state["group"], **sorted_parts}
