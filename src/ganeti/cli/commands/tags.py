# SPDX-License-Identifier: BSD-2-Clause
"""The commands about tags, the same for each kind of object that has them."""

from ganeti.base.command import Argument, Command, Option
from ganeti.cli.commands.options import PRINT_JOBID, PRIORITY, SUBMIT, option

_TAG = Argument("tags", "tag", 0, None)
_FROM: tuple[Option, ...] = (
    option("--from", field="tags_file", metavar="FILE", help="more tags, one a line; - is standard input"),
    PRIORITY,
    SUBMIT,
    PRINT_JOBID,
)


def _list(program: str, what: str, *owner: Argument) -> Command:
    return Command(
        f"{program} list-tags", f"list the tags of {what}", arguments=owner, handler="tag_lists:show", is_job=False
    )


def _add(program: str, what: str, *owner: Argument) -> Command:
    return Command(
        f"{program} add-tags",
        f"give {what} more tags",
        arguments=(*owner, _TAG),
        handler="tag_lists:add",
        op_id="OP_TAGS_SET",
        is_job=False,
        options=_FROM,
    )


def _remove(program: str, what: str, *owner: Argument) -> Command:
    return Command(
        f"{program} remove-tags",
        f"take tags from {what}",
        arguments=(*owner, _TAG),
        handler="tag_lists:remove",
        op_id="OP_TAGS_DEL",
        is_job=False,
        options=_FROM,
    )


_GROUP = Argument("name", "group")
_NODE = Argument("name", "node-name")
_INSTANCE = Argument("name", "instance-name")
_NETWORK = Argument("name", "network")

CLUSTER_LIST = _list("gnt-cluster", "the cluster")
CLUSTER_ADD = _add("gnt-cluster", "the cluster")
CLUSTER_REMOVE = _remove("gnt-cluster", "the cluster")
CLUSTER_SEARCH = Command(
    "gnt-cluster search-tags",
    "look for a pattern in the tags of everything; the exit status is 1 if there are none",
    arguments=(Argument("pattern", "pattern"),),
    handler="tag_lists:search",
    op_id="OP_TAGS_SEARCH",
    is_job=False,
    options=(PRIORITY,),
)
GROUP_LIST = _list("gnt-group", "a node group", _GROUP)
GROUP_ADD = _add("gnt-group", "a node group", _GROUP)
GROUP_REMOVE = _remove("gnt-group", "a node group", _GROUP)
NODE_LIST = _list("gnt-node", "a node", _NODE)
NODE_ADD = _add("gnt-node", "a node", _NODE)
NODE_REMOVE = _remove("gnt-node", "a node", _NODE)
INSTANCE_LIST = _list("gnt-instance", "an instance", _INSTANCE)
INSTANCE_ADD = _add("gnt-instance", "an instance", _INSTANCE)
INSTANCE_REMOVE = _remove("gnt-instance", "an instance", _INSTANCE)
NETWORK_LIST = _list("gnt-network", "a network", _NETWORK)
NETWORK_ADD = _add("gnt-network", "a network", _NETWORK)
NETWORK_REMOVE = _remove("gnt-network", "a network", _NETWORK)
