# SPDX-License-Identifier: BSD-2-Clause
"""Which operations keep all others waiting: those of docs/design/0062, and groups are locked one by one."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.master import operations
from ganeti.master.operation import REGISTRY, decode
from ganeti.model.locks import BGL, group_lock
from ganeti.model.objects import NodeGroup

operations.load()
PAGE = Path(__file__).resolve().parents[4] / "docs/design/0062-what-takes-the-cluster-lock.md"


def test_who_takes_the_cluster_lock_is_listed_with_the_reason() -> None:
    taking = {
        op_id
        for op_id, operation in REGISTRY.items()
        if operation.__module__.startswith("ganeti.")
        and re.search(r"whole_cluster\(\)|exclusive=\[[^\]]*BGL", inspect.getsource(sys.modules[operation.__module__]))
    }
    assert taking == set(re.findall(r"^\| `(OP_\w+)` \| \S", PAGE.read_text(), re.MULTILINE))


@pytest.mark.requirement("S1.37")
@pytest.mark.parametrize(
    "opcode",
    [
        {"OP_ID": "OP_GROUP_SET_PARAMS", "alloc_policy": "last_resort"},
        {"OP_ID": "OP_GROUP_RENAME", "new_name": "other"},
        {"OP_ID": "OP_GROUP_REMOVE"},
        {"OP_ID": "OP_GROUP_VERIFY_DISKS"},
    ],
)
def test_work_on_one_group_leaves_others_alone(opcode: dict[str, object]) -> None:
    view = configuration()
    view.put("nodegroups", "uuid-green", NodeGroup(uuid="uuid-green", name="green"))
    view.put("nodes", "uuid-node3", replace(view.node("uuid-node3"), group="uuid-green"))
    add_instance(view, "web1")
    plan = decode(opcode | {"group_name": "green"}).locks(view)
    locks = plan.exclusive | plan.shared
    assert group_lock("uuid-green") in locks
    assert BGL not in plan.exclusive
    assert not {lock for lock in locks if lock.startswith(("nodegroup/", "node/", "instance/"))} - {
        group_lock("uuid-green"),
        "node/uuid-node3",
    }
