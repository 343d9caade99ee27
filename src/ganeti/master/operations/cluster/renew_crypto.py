# SPDX-License-Identifier: BSD-2-Clause
"""OP_CLUSTER_RENEW_CRYPTO: new certificates of nodes, and new ssh keys, while all daemons and guests go on."""

from dataclasses import dataclass
from typing import Annotated

from ganeti.base.command import Command, Option
from ganeti.base.errors import WRONG_INPUT, WRONG_STATE, PrerequisiteError
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.lock_plans import plan
from ganeti.master.operations.node.certificate_renewal import find_awake, renew_authority, renew_certificates
from ganeti.master.operations.node.root_key_renewal import renew_root_keys
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import ALL_NODES, LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext

BITS = {"rsa": range(1024, 16385), "ecdsa": (256, 384, 521), "ed25519": (256,)}
DEFAULT_BITS = {"rsa": 2048, "ecdsa": 256, "ed25519": 256}


@dataclass(frozen=True)
class Plan:
    """What is renewed."""

    authority: bool
    nodes: tuple[str, ...]
    """Uuids of those that get new certificates."""
    ssh_key: tuple[str, int] | None


def _flag(flag: str, field: str, what: str) -> Option:
    return Option((flag,), field, "flag", what)


@operation(
    "OP_CLUSTER_RENEW_CRYPTO",
    cli=Command(
        "gnt-cluster renew-crypto",
        "renew certificates, keys and secrets of the cluster while it works",
        options=(
            _flag("--new-cluster-certificate", "cluster_certificate", "a new authority, and new certificates from it"),
            _flag("--new-rapi-certificate", "new_rapi_certificate", "a new certificate of the remote API"),
            Option(("--rapi-certificate",), "rapi_certificate_file", help="take the one in this file", metavar="FILE"),
            _flag("--new-confd-hmac-key", "new_confd_hmac_key", "a new key that ConfD signs with"),
            Option(("-f", "--force"), "force", "flag", "do not ask whether to go on"),
            _flag("--new-cluster-domain-secret", "new_cluster_domain_secret", "a new secret between clusters"),
            Option(
                ("--cluster-domain-secret",), "cluster_domain_secret_file", help="take it from a file", metavar="FILE"
            ),
            _flag("--new-spice-certificate", "new_spice_certificate", "a new certificate of SPICE displays"),
            Option(("--spice-certificate",), "spice_certificate_file", help="take it from a file", metavar="FILE"),
            Option(("--spice-ca-certificate",), "spice_ca_file", help="the authority of that one", metavar="FILE"),
            Option(
                ("--no-ssh-key-check",),
                "no_ssh_key_check",
                "flag",
                "for scripts of 3.1: ssh sends no keys",
            ),
            Option(("-v", "--verbose"), "verbose", "flag", "say more"),
        ),
        handler="cluster.renewal:renew",
        is_job=False,
        needs_root=True,
    ),
    not_played="no two plays are the same, for keys are random; tests/system/test_renew_crypto.py kills it everywhere",
)
class RenewCrypto(Operation[None], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Renew certificates and ssh keys. Nodes that do not answer keep theirs, which stay good, and are renewed later."""

    node_certificates: Annotated[
        bool, Parameter("new keys and certificates of all nodes", "--new-node-certificates")
    ] = False
    cluster_certificate: Annotated[bool, Parameter("a new authority first, and all nodes' certificates from it")] = (
        False
    )
    renew_ssh_keys: Annotated[bool, Parameter("new ssh keys of root on all nodes", "--new-ssh-keys")] = False
    ssh_key_type: Annotated[
        Text | None, Parameter("type of the new ssh keys, in place of the cluster's", "--ssh-key-type", metavar="TYPE")
    ] = None
    ssh_key_bits: Annotated[
        int | None, Parameter("length of the new ssh keys, in place of the cluster's", "--ssh-key-bits", metavar="BITS")
    ] = None
    only_nodes: Annotated[
        list[Text] | None, Parameter("new certificates of these nodes only, in place of all", subject="node")
    ] = None
    verbose: Annotated[bool, Parameter("say on which nodes")] = False
    debug: Annotated[bool, Parameter("say on which nodes")] = False

    def locks(self, view: ConfigView) -> LockPlan:
        return plan(exclusive=[ALL_NODES])

    def check(self, view: ConfigView, facts: None, ctx: OperationContext) -> Plan:
        named = None if self.only_nodes is None else {view.find_node(name).uuid for name in self.only_nodes}
        nodes: tuple[str, ...] = ()
        if self.node_certificates or self.cluster_certificate:
            chosen = None if self.cluster_certificate else named
            nodes = tuple(node.uuid for node in view.nodes() if chosen is None or node.uuid in chosen)
        return Plan(self.cluster_certificate, nodes, self._ssh_key(view))

    def _ssh_key(self, view: ConfigView) -> tuple[str, int] | None:
        if not self.renew_ssh_keys:
            if self.ssh_key_type is not None or self.ssh_key_bits is not None:
                raise PrerequisiteError(
                    "A type or length of ssh keys is given, but no new ones are asked for: add --new-ssh-keys",
                    WRONG_INPUT,
                )
            return None
        cluster = view.cluster
        if not cluster.modify_ssh_setup:
            raise PrerequisiteError(
                "This cluster leaves ssh to its administrator (--no-ssh-init): its keys are not renewed here",
                WRONG_STATE,
            )
        kind = self.ssh_key_type or cluster.ssh_key_type
        if kind not in BITS:
            raise PrerequisiteError(f"'{kind}' is not a type of ssh key: it is one of {', '.join(BITS)}", WRONG_INPUT)
        same_kind = kind == cluster.ssh_key_type and cluster.ssh_key_bits in BITS[kind]
        bits = self.ssh_key_bits or (cluster.ssh_key_bits if same_kind else DEFAULT_BITS[kind])
        if bits not in BITS[kind]:
            raise PrerequisiteError(f"A key of the type {kind} cannot have {bits} bits", WRONG_INPUT)
        return kind, bits

    async def execute(self, checked: Plan, ctx: OperationContext) -> None:
        awake = await find_awake(ctx)
        if checked.authority:
            await renew_authority(ctx, awake)
        if checked.nodes:
            await renew_certificates(ctx, checked.nodes, awake)
        if self.verbose or self.debug:
            ctx.log.info(f" - INFO: Renewed on {', '.join(node.name for node in awake)}")
        if checked.ssh_key is not None:
            await renew_root_keys(ctx, awake, *checked.ssh_key)
