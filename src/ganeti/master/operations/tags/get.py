# SPDX-License-Identifier: BSD-2-Clause
"""OP_TAGS_GET: the tags of an object, by a job."""

from typing import Any

from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import UseLocking
from ganeti.master.operations.tags.tagged import ObjectName, TagKind, find, locks_of
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_TAGS_GET", summary_field="name", examples=(Example("tags-get", {"kind": "cluster", "use_locking": True}),)
)
class GetTags(Operation[list[str]], frozen=True, kw_only=True):
    """Give the tags of an object; with *use_locking* nobody is changing it at that moment."""

    kind: TagKind
    use_locking: UseLocking = False
    name: ObjectName | None = None

    def locks(self, view: ConfigView) -> LockPlan:
        found = find(view, self.kind, self.name)
        return plan(shared=locks_of(self.kind, found) if self.use_locking else ())

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> list[str]:
        return sorted(find(view, self.kind, self.name).tags)

    async def execute(self, checked: list[str], ctx: OperationContext) -> Any:
        return checked
