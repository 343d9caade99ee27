# SPDX-License-Identifier: BSD-2-Clause
"""Node calls about devices of a running guest.

The master says what the guest should have, not what to do: the node compares that with the guest's runtime record, and
unplugs and plugs until they agree.

- The same call completes what was interrupted, and the call with the former devices takes a change back: it is the undo
  of itself.
- A device that the guest does not release, or that the emulator refuses, is an error. The guest keeps running with what
  the record then says.
- A guest that does not run has nothing to change: its next start makes it from the configuration.
"""

from ganeti.model.node_calls import NodeRequest
from ganeti.model.node_requests import InstanceSpec


class InstanceChangeNics(NodeRequest[None], frozen=True, kw_only=True):
    """Give a guest the NICs of its specification, in their order.

    A NIC whose address, mode, link, VLAN or IP differs is unplugged and plugged again at its place; a change of its
    index or name alone does not reach the guest. Other parts of the specification are not looked at: they hold from
    the next start on.

    Raises `HypervisorError` on the node.
    """

    instance: InstanceSpec
