# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_PREPARE: what the importing side must know before an export; nothing within one cluster."""

from typing import Annotated, Any, Literal

from ganeti.master.operation import Example, Operation, operation
from ganeti.master.operations.backup.transfers import KEY_VALID_S, removing_key
from ganeti.master.operations.instance.existing import require_complete
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.parameters import InstanceName, InstanceUuid
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan, instance_lock
from ganeti.model.node_calls.transfers import TransferKeyMake
from ganeti.model.objects import Instance
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask
from ganeti.wire.cluster_signatures import handshake, key_name, sign_certificate

_SALT_BYTES = 8


@operation(
    "OP_BACKUP_PREPARE",
    summary_field="instance_name",
    rapi="PUT /2/instances/[instance_name]/prepare-export",
    examples=(
        Example(
            "prepare-remote", {"instance_name": "one.example.com", "mode": "remote"}, before=("create-on-file-stopped",)
        ),
    ),
)
class PrepareExport(Operation[dict[str, Any] | None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tell what an export needs from the importing side; nothing for one that a node of this cluster keeps."""

    instance_name: InstanceName
    instance_uuid: InstanceUuid = None
    mode: Annotated[
        Literal["local", "remote"], Parameter("whether a node of this cluster keeps it, or another cluster takes it")
    ]

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(shared=[instance_lock(view.find_instance(self.instance_uuid or self.instance_name).name)])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Instance:
        instance = view.find_instance(self.instance_uuid or self.instance_name)
        require_complete(instance, "exported")
        return instance

    async def execute(self, checked: Instance, ctx: OperationContext) -> dict[str, Any] | None:
        """The key stays on the primary node until the export has used it, or its day is over."""
        if self.mode == "local":
            return None
        secret = ctx.master.domain_secret()
        name, node = f"x509-{ctx.entropy.token(_SALT_BYTES).hex()}", checked.primary_node
        await ctx.undo.push(removing_key(name, node, ctx.config.view().node(node).name))
        made = await ask(
            ctx.nodes, node, TransferKeyMake(name=name, owner=f"export of {checked.uuid}", validity_s=KEY_VALID_S)
        )
        salts = [ctx.entropy.token(_SALT_BYTES).hex() for _ in range(3)]
        return {
            "handshake": handshake(secret, salts[0]),
            "x509_key_name": key_name(secret, salts[1], name),
            "x509_ca": sign_certificate(secret, salts[2], made.certificate),
        }
