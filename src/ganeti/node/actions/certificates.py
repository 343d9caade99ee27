# SPDX-License-Identifier: BSD-2-Clause
"""Node calls that renew this node's certificate, and the authority that all trust.

The node's key is made here and never leaves. The authority's key is answered by a reading call only, since answers of
changing ones are kept on disk; who may call is a master candidate, and has the key itself.
"""

import contextlib
import os
from typing import TYPE_CHECKING

from ganeti.base.errors import ExecutionError, NodeCallError, ParameterError
from ganeti.model.node_calls.certificates import (
    CertificateState,
    ForgetFormer,
    IssueCertificate,
    MakeAuthority,
    NewAuthorityPair,
    RequestCertificate,
    ShownCertificate,
    StageCertificate,
    UseCertificate,
)
from ganeti.node.actions.files import read_text
from ganeti.node.actions.registry import answers
from ganeti.node.state import NodeState
from ganeti.system.accounts import owner_for
from ganeti.system.files import write_atomically
from ganeti.system.ssconf import ssconf_words
from ganeti.system.tls import former_certificates

if TYPE_CHECKING:
    from ganeti.node.certificates import Authority

_FORMER_MAX = 8
_NODE_MODE = 0o440


@answers(ShownCertificate)
async def shown_certificate(node: NodeState, asked: ShownCertificate) -> CertificateState:
    """Raises `NodeCallError` where there is none."""
    from ganeti.node import certificates

    shown = _read(node, node.paths.client_cert)
    trusted = _read(node, node.paths.authority_cert)
    issuer = certificates.issuer_in(shown, trusted)
    key = read_text(node.paths.authority_key)
    return CertificateState(
        digest=certificates.digest(shown),
        expires_s=certificates.expiry_s(shown),
        authority=trusted,
        authority_expires_s=certificates.expiry_s(trusted),
        issued_by=issuer or "",
        admits=_admitted(node),
        authority_key_fits=None if key is None else certificates.fits(key, trusted),
    )


@answers(MakeAuthority)
async def make_authority(node: NodeState, asked: MakeAuthority) -> NewAuthorityPair:
    from ganeti.node.certificates import create_authority

    made = create_authority(asked.cluster)
    return NewAuthorityPair(key=made.key, certificate=made.certificate)


@answers(RequestCertificate)
async def request_certificate(node: NodeState, asked: RequestCertificate) -> str:
    from ganeti.node import certificates

    key, request = certificates.request_certificate()
    write_atomically(node.paths.renewed_key, key.encode(), mode=0o400)
    return request


@answers(IssueCertificate)
async def issue_certificate(node: NodeState, asked: IssueCertificate) -> str:
    """Raises `NodeCallError` on a node without the authority's key, `ParameterError` for a request that is none."""
    from ganeti.node.certificates import sign_request

    return sign_request(_authority(node), asked.request, asked.node, asked.cluster, asked.addresses, asked.days)


@answers(StageCertificate)
async def stage_certificate(node: NodeState, asked: StageCertificate) -> str:
    """Raises `ParameterError` for a certificate that is not for the key here, or of an authority not known here."""
    from ganeti.node import certificates

    digest = certificates.digest(asked.certificate)
    key = read_text(node.paths.renewed_key)
    if key is None or not certificates.fits(key, asked.certificate):
        staged = read_text(node.paths.renewed_cert)
        if staged is not None and certificates.digest(staged) == digest:
            return digest
        raise ParameterError("The certificate is not for the key that this node has made last")
    if certificates.issuer_in(asked.certificate, _read(node, node.paths.authority_cert)) is None:
        raise ParameterError("The certificate comes from an authority that this node does not know")
    write_atomically(node.paths.renewed_cert, (key + asked.certificate).encode(), mode=0o400)
    _remove(node.paths.renewed_key)
    return digest


@answers(UseCertificate)
async def use_certificate(node: NodeState, asked: UseCertificate) -> None:
    """Raises `ExecutionError` where no such certificate is staged."""
    from ganeti.node.certificates import digest

    paths = node.paths
    shown, staged = _read(node, paths.client_cert), read_text(paths.renewed_cert)
    if digest(shown) != asked.digest:
        if staged is None or digest(staged) != asked.digest:
            raise ExecutionError("No such certificate is prepared here: renew it again (gnt-cluster renew-crypto)")
        _write(node, paths.former_client_cert(f"{node.world.now_s():.0f}"), shown)
        _write(node, paths.server_cert, staged)  # first: a daemon that finds both different trusts both
        _write(node, paths.client_cert, staged)
        node.world.log("the renewed certificate of this node is in use")
    elif staged is not None and _read(node, paths.server_cert) != shown:
        _write(node, paths.server_cert, shown)
    _remove(paths.renewed_cert)
    for path in former_certificates(paths)[_FORMER_MAX if asked.former_too else 1 :]:
        _remove(path)


@answers(ForgetFormer)
async def forget_former(node: NodeState, asked: ForgetFormer) -> None:
    for path in former_certificates(node.paths):
        _remove(path)


def _admitted(node: NodeState) -> list[str]:
    lines = ssconf_words(node.paths, "master_candidates_certs")
    return [line.partition("=")[2] for line in lines]


def _authority(node: NodeState) -> "Authority":
    from ganeti.node.certificates import Authority

    return Authority(_read(node, node.paths.authority_key), _read(node, node.paths.authority_cert))


def _read(node: NodeState, path: str) -> str:
    text = read_text(path)
    if text is None:
        raise NodeCallError(f"{path} is missing: add the node {node.world.node_name} again (gnt-node add --readd)")
    return text


def _write(node: NodeState, path: str, text: str) -> None:
    write_atomically(path, text.encode(), mode=_NODE_MODE, owner=owner_for(path, node.paths))


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
