# SPDX-License-Identifier: BSD-2-Clause
"""OP_TAGS_SET: give an object tags."""

from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.tags.tagged import (
    AddTags,
    ObjectName,
    Tagged,
    TagKind,
    Tags,
    commands,
    find,
    locks_of,
    routes,
)
from ganeti.model.locks import LockPlan
from ganeti.model.tags import check_tag, with_tags
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_TAGS_SET",
    cli=commands("add-tags", "give {} more tags", "tags.lists:add"),
    rapi=routes("PUT"),
    examples=(Example("tags-set", {"kind": "node", "name": "node3.example.com", "tags": ["a", "b"]}),),
)
class SetTags(Operation[None], frozen=True, kw_only=True):
    """Add tags to an object; one that it has already is no error, one that is malformed stops them all."""

    kind: TagKind
    tags: Tags
    name: ObjectName | None = None

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=locks_of(self.kind, find(view, self.kind, self.name)))

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Tagged:
        for tag in self.tags:
            check_tag(tag)
        found = find(view, self.kind, self.name)
        with_tags(found.tags, self.tags)
        return found

    async def execute(self, checked: Tagged, ctx: OperationContext) -> None:
        if not set(self.tags) <= set(checked.tags):
            await ctx.config.commit(AddTags(kind=self.kind, uuid=checked.uuid, tags=self.tags), settles=True)
