# SPDX-License-Identifier: BSD-2-Clause
"""OP_TAGS_DEL: take tags from an object."""

from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.tags.tagged import (
    ObjectName,
    RemoveTags,
    Tagged,
    TagKind,
    Tags,
    commands,
    find,
    locks_of,
    require,
    routes,
)
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_TAGS_DEL",
    cli=commands("remove-tags", "take tags from {}", "tags.lists:remove"),
    rapi=routes("DELETE"),
    examples=(
        Example(
            "tags-deleted", {"kind": "node", "name": "node3.example.com", "tags": ["a", "b"]}, before=("tags-set",)
        ),
    ),
)
class DeleteTags(Operation[None], frozen=True, kw_only=True):
    """Remove tags from an object; where it has not got them all, none is removed.

    What they look like does not matter: an imported configuration may have odd ones.
    """

    kind: TagKind
    tags: Tags
    name: ObjectName | None = None

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=locks_of(self.kind, find(view, self.kind, self.name)))

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Tagged:
        found = find(view, self.kind, self.name)
        require(found, self.tags)
        return found

    async def execute(self, checked: Tagged, ctx: OperationContext) -> None:
        if self.tags:
            await ctx.config.commit(RemoveTags(kind=self.kind, uuid=checked.uuid, tags=self.tags), settles=True)
