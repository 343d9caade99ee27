# SPDX-License-Identifier: BSD-2-Clause
"""OP_TAGS_SEARCH: which objects have tags that match a pattern."""

from typing import Annotated

from ganeti.base.command import PRIORITY, Command
from ganeti.base.errors import WRONG_INPUT, PrerequisiteError
from ganeti.base.patterns import Pattern, PatternError
from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.parameters import Text
from ganeti.master.operations.tags.tagged import everything
from ganeti.master.parameter import Parameter
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

Matches = list[tuple[str, str]]


@operation(
    "OP_TAGS_SEARCH",
    summary_field="pattern",
    cli=Command(
        "gnt-cluster search-tags",
        "search all tags for a pattern; the exit status is 1 if none matches",
        arguments=("pattern",),
        options=(PRIORITY,),
        handler="tags.lists:search",
        is_job=False,
    ),
    examples=(Example("tags-search", {"pattern": "."}),),
)
class SearchTags(Operation[Matches], frozen=True, kw_only=True):
    """Give (path of the object, tag) for each tag in which *pattern*, a regular expression, is found anywhere."""

    pattern: Annotated[Text, Parameter("regular expression that is looked for in each tag", subject="text")]

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Matches:
        try:
            pattern = Pattern(self.pattern)
            return [(path, tag) for path, tags in everything(view) for tag in sorted(tags) if pattern.found_in(tag)]
        except PatternError as err:
            raise PrerequisiteError(
                f"Invalid search pattern '{self.pattern}': {err}; put a backslash before a sign that stands for itself",
                WRONG_INPUT,
            ) from err

    async def execute(self, checked: Matches, ctx: OperationContext) -> Matches:
        return checked
