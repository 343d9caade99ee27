# SPDX-License-Identifier: BSD-2-Clause
"""Which nodes a renewal finds behind, and which candidates are given the authority's key."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.context import FakeContext, run
from tests.fakes.sample_cluster import catalogue, configuration

from ganeti.base.errors import NodeCallError
from ganeti.master.operations.cluster.renew_due import RenewDue
from ganeti.master.operations.node.certificate_renewal import find_due, renew_authority, renew_certificates
from ganeti.model.node_calls.certificates import RENEWED, CertificateState

FAR_S = 10 * 365 * 86400.0
GOOD = CertificateState(
    digest="d",
    expires_s=FAR_S,
    authority="new",
    authority_expires_s=FAR_S,
    issued_by="new",
    admits=[],
    authority_key_fits=True,
)


class Cluster:
    """Nodes that show certificates, in place of machines: *states* by name."""

    def __init__(self) -> None:
        self.ctx = FakeContext(configuration(), catalogue())
        self.names = [node.name for node in self.ctx.config.view().nodes() if not node.offline]
        self.states = dict.fromkeys(self.names, GOOD)
        self.uploads: list[tuple[str, str, str, int]] = []
        handlers = self.ctx.nodes.handlers
        handlers["shown_certificate"] = self._shown
        handlers["candidate_keys"] = lambda name, **_: {"authority_key": f"key of {name}", "public_keys": {}}
        handlers["upload_file"] = self._upload
        handlers["request_certificate"] = handlers["issue_certificate"] = lambda name, **_: "pem"
        handlers["stage_certificate"] = lambda name, **_: "d"

    def _shown(self, name: str, **_: Any) -> CertificateState:
        if name not in self.states:
            raise NodeCallError("no answer")
        return self.states[name]

    def _upload(self, name: str, *, path: str, content: str, mode: int) -> None:
        self.uploads.append((name, path, content, mode))
        if path.endswith("ca.key"):
            self.states[name] = replace(self.states[name], authority_key_fits=True)

    @property
    def master(self) -> str:
        return self.ctx.config.view().node(self.ctx.config.view().cluster.master_node).name

    def other(self, *, candidate: bool) -> str:
        """Name of a node beside the master."""
        view = self.ctx.config.view()
        node = next(node for node in view.nodes() if node.name in self.names and node.name != self.master)
        self.ctx.config.config.put("nodes", node.uuid, replace(node, master_candidate=candidate))
        return node.name

    def state(self, name: str, **values: Any) -> None:
        self.states[name] = replace(self.states[name], **values)

    def due(self) -> tuple[bool, list[str]]:
        found = asyncio.run(find_due(self.ctx))
        return found.authority, [self.ctx.config.view().node(uuid).name for uuid in found.nodes]

    def renew(self, *names: str) -> None:
        nodes = [node for node in self.ctx.config.view().nodes() if node.name in self.names]
        wanted = [node.uuid for node in nodes if node.name in names]
        asyncio.run(renew_certificates(self.ctx, wanted, nodes))


def test_where_all_fits_nothing_is_due() -> None:
    cluster = Cluster()
    cluster.state(cluster.other(candidate=False), authority_key_fits=None)
    assert cluster.due() == (False, [])


@pytest.mark.parametrize("fits", [False, None])
def test_a_candidate_with_a_former_key_of_the_authority_is_given_the_present_one(fits: bool | None) -> None:
    """It was away when the authority was renewed; as the master it could add no node."""
    cluster = Cluster()
    name = cluster.other(candidate=True)
    cluster.state(name, authority_key_fits=fits)
    assert cluster.due() == (False, [name])
    cluster.renew(name)
    assert (name, "/var/lib/ganeti/ca.key", f"key of {cluster.master}", 0o400) in cluster.uploads
    assert cluster.due() == (False, [])


def test_another_node_is_given_no_key() -> None:
    cluster = Cluster()
    name = cluster.other(candidate=False)
    cluster.state(name, authority="former", issued_by="former", authority_key_fits=None)
    assert cluster.due() == (False, [name])
    cluster.renew(name)
    assert [(node, path) for node, path, _, _ in cluster.uploads] == [(name, "/var/lib/ganeti/ca.pem")]


def test_a_node_that_has_missed_the_new_authority_is_found() -> None:
    cluster = Cluster()
    name = cluster.other(candidate=True)
    cluster.state(name, authority="former")
    assert cluster.due() == (False, [name])


@pytest.mark.parametrize("fits", [False, None])
def test_an_authority_without_its_key_is_made_anew(fits: bool | None) -> None:
    """The job that renewed it died after its certificate had been given out, and before its key."""
    cluster = Cluster()
    cluster.state(cluster.master, authority_key_fits=fits)
    assert cluster.due()[0]
    cluster.renew(cluster.other(candidate=True))
    assert not [path for _, path, _, _ in cluster.uploads if path.endswith("ca.key")]


def test_what_a_candidate_that_is_away_has_half_done_is_no_reason_to_renew_the_others() -> None:
    """The watcher asks in every round then: a certificate each would soon push out the one by which it knows us."""
    cluster = Cluster()
    name = cluster.other(candidate=True)
    view = cluster.ctx.config.view()
    certs = view.cluster.candidate_certs | {view.find_node(name).uuid + RENEWED: "coming"}
    cluster.ctx.config.config.put("cluster", "cluster", replace(view.cluster, candidate_certs=certs))
    assert sorted(cluster.due()[1]) == sorted(cluster.names)
    del cluster.states[name]
    assert cluster.due() == (False, [])


def test_a_renewal_that_nobody_asked_for_lets_other_jobs_go_first() -> None:
    """It waits for all nodes, and long jobs hold them for hours."""
    cluster = Cluster()
    cluster.states[cluster.other(candidate=True)] = replace(GOOD, expires_s=0)
    [[renewal]] = run(RenewDue(), cluster.ctx).jobs
    assert renewal.node_certificates and renewal.priority == 10
    cluster.states[cluster.master] = replace(GOOD, authority_expires_s=0)
    [[renewal]] = run(RenewDue(), cluster.ctx).jobs
    assert renewal.cluster_certificate and renewal.priority == 10


def test_nodes_are_renewed_at_once() -> None:
    """One after the other takes minutes on a large cluster."""
    cluster = Cluster()
    for name in cluster.names:
        cluster.state(name, issued_by="former", authority="former" if name != cluster.master else "new")
    running, most = Counter[str](), Counter[str]()
    call = cluster.ctx.nodes.call

    async def slow(uuid: str, name: str, **arguments: Any) -> Any:
        running[name] += 1
        most[name] = max(most[name], running[name])
        for _ in range(50):
            await asyncio.sleep(0)
        running[name] -= 1
        return await call(uuid, name, **arguments)

    cluster.ctx.nodes.call = slow  # type: ignore[method-assign]
    cluster.renew(*cluster.names)
    assert len(cluster.names) > 2
    for each in ("request_certificate", "stage_certificate", "use_certificate"):
        assert most[each] == len(cluster.names), each


def test_a_new_authority_goes_to_the_master_before_all_others() -> None:
    cluster = Cluster()
    cluster.ctx.nodes.handlers["make_authority"] = lambda name, **_: {"certificate": "c", "key": "k"}
    nodes = [node for node in cluster.ctx.config.view().nodes() if node.name in cluster.names]
    nodes.sort(key=lambda node: node.name == cluster.master)
    asyncio.run(renew_authority(cluster.ctx, nodes))
    assert cluster.uploads[0][:2] == (cluster.master, "/var/lib/ganeti/ca.pem")
    assert {name for name, path, _, _ in cluster.uploads if path.endswith("ca.pem")} == set(cluster.names)
