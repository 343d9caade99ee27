# SPDX-License-Identifier: BSD-2-Clause
"""list-tags, for each kind of object that has tags; add-tags, remove-tags and search-tags stand at their operations."""

from ganeti.base.command import Argument, Command


def _list(program: str, what: str, *owner: Argument) -> Command:
    return Command(
        f"{program} list-tags", f"list the tags of {what}", arguments=owner, handler="tags.lists:show", is_job=False
    )


CLUSTER_LIST = _list("gnt-cluster", "the cluster")
GROUP_LIST = _list("gnt-group", "a node group", Argument("name", "group", subject="group"))
NODE_LIST = _list("gnt-node", "a node", Argument("name", "node-name", subject="node"))
INSTANCE_LIST = _list("gnt-instance", "an instance", Argument("name", "instance-name", subject="instance"))
NETWORK_LIST = _list("gnt-network", "a network", Argument("name", "network", subject="network"))
