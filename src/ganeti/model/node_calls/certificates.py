# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that renew certificates and the ssh key of root.

A node keeps its old certificate until it is told to use the new one: by then every other node knows both.
"""

from collections.abc import Mapping

import msgspec

from ganeti.model.node_calls import FAST_S, NodeRequest

RENEWED = "-renewed"
"""After a candidate's uuid in `Cluster.candidate_certs`: the certificate that it is about to show."""


def digests_of(certificates: Mapping[str, str], node_uuid: str) -> list[str]:
    """Those of `Cluster.candidate_certs` that a node may show: one, or two while its certificate is renewed."""
    names = (node_uuid, node_uuid + RENEWED)
    return [certificates[name] for name in names if name in certificates]


class NewAuthorityPair(msgspec.Struct, frozen=True, kw_only=True):
    """Key and certificate of an authority, as PEM texts."""

    key: str
    certificate: str


class CertificateState(msgspec.Struct, frozen=True, kw_only=True):
    """What a node shows, and whom it trusts."""

    digest: str
    """SHA-256 of its certificate."""
    expires_s: float
    """Seconds since the epoch."""
    authority: str
    """Its `ca.pem`."""
    authority_expires_s: float
    """Of the first certificate in it."""
    issued_by: str
    """The trusted certificate that has issued its own (PEM); empty if none has."""
    admits: list[str]
    """Digests of the certificates whose calls it takes."""
    authority_key_fits: bool | None = None
    """Whether its `ca.key` is that of the first certificate in *authority*; None without a `ca.key`."""


class ShownCertificate(NodeRequest[CertificateState], frozen=True, kw_only=True):
    """The certificate that this node shows."""

    answer_within_s = FAST_S
    changes_node = False


class MakeAuthority(NodeRequest[NewAuthorityPair], frozen=True, kw_only=True):
    """Make an authority for *cluster*; nothing is kept of it here."""

    answer_within_s = FAST_S
    changes_node = False
    cluster: str


class RequestCertificate(NodeRequest[str], frozen=True, kw_only=True):
    """Make a key that stays here, and give the request for its certificate (PEM)."""

    answer_within_s = FAST_S


class IssueCertificate(NodeRequest[str], frozen=True, kw_only=True):
    """Issue the certificate for *request* of *node*, with the authority's key of this master candidate (PEM)."""

    answer_within_s = FAST_S
    changes_node = False
    request: str
    node: str
    cluster: str
    addresses: list[str]
    days: float | None = None


class StageCertificate(NodeRequest[str], frozen=True, kw_only=True):
    """Keep the certificate for the key made last, for `UseCertificate`; gives its SHA-256 digest."""

    answer_within_s = FAST_S
    certificate: str


class UseCertificate(NodeRequest[None], frozen=True, kw_only=True):
    """Show the staged certificate from now on, which has this *digest*; nothing happens where it is shown already.

    The former one is kept for nodes that know this one by it; with *former_too*, older ones as well.
    """

    answer_within_s = FAST_S
    digest: str
    former_too: bool


class ForgetFormer(NodeRequest[None], frozen=True, kw_only=True):
    """Remove the certificates that were shown before: every node knows the one that is shown now."""

    answer_within_s = FAST_S


class MakeRootKey(NodeRequest[str], frozen=True, kw_only=True):
    """Make an ssh key for root beside the one in use; gives its public part."""

    answer_within_s = FAST_S
    kind: str
    bits: int


class UseRootKey(NodeRequest[None], frozen=True, kw_only=True):
    """Root uses the key with this public part from now on; nothing happens where that is so already."""

    answer_within_s = FAST_S
    kind: str
    public: str
