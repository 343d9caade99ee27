# SPDX-License-Identifier: BSD-2-Clause
"""A master's side of a copy, in memory: real commits of a small cluster, as the arguments of the calls `replica_*`."""

import base64
import time
import zlib
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from tests.fakes.sample_cluster import configuration

from ganeti.base import version
from ganeti.master.config.head import Head
from ganeti.master.config.importing import import_commit
from ganeti.master.config.publication import PublishedForm
from ganeti.master.config.records import StepAnswer
from ganeti.model.configuration import Configuration, Draft
from ganeti.model.objects import CLUSTER_KEY

MASTER = "uuid-node1"


def sound_configuration(nodes: int = 3) -> Configuration:
    """One that WConfD would take."""
    config = configuration(nodes)
    cluster = msgspec.structs.replace(config.cluster, hvparams={"pretend": {}})
    config.put("cluster", CLUSTER_KEY, cluster)
    return config


@dataclass(frozen=True)
class SetTags:
    """A change of the cluster alone."""

    tags: tuple[str, ...]

    def apply(self, draft: Draft) -> None:
        draft.put("cluster", msgspec.structs.replace(draft.cluster, tags=list(self.tags)))


@dataclass(frozen=True)
class AddNode:
    name: str
    address: str = "10.77.9.9"

    def apply(self, draft: Draft) -> None:
        node = draft.node("uuid-node3")
        addresses = {"primary_ip": self.address, "secondary_ip": self.address}
        draft.put("nodes", msgspec.structs.replace(node, uuid=f"uuid-{self.name}", name=self.name, **addresses))


@dataclass(frozen=True)
class RemoveNode:
    name: str

    def apply(self, draft: Draft) -> None:
        draft.remove("nodes", f"uuid-{self.name}")


class SendingMaster:
    """Of epoch *epoch*; `caller` is the first arguments of each call."""

    def __init__(
        self, config: Configuration | None = None, epoch: int = 2, uuid: str = MASTER, cluster: str = "cluster-uuid"
    ) -> None:
        self.epoch = epoch
        self.uuid = uuid
        config = config or sound_configuration()
        config.position = (epoch, 1)
        self.head = Head(config)
        whole = import_commit(config, 1000.5)
        self.form = PublishedForm(config, {(put.kind, put.uuid): put.data for put in whole.puts}, whole.time_s)
        self.cluster = cluster
        self.software = version.RELEASE
        self.clock_ahead_s = 0.0
        self._steps = 0

    @property
    def position(self) -> tuple[int, int]:
        return self.form.position

    @property
    def caller(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster,
            "software": self.software,
            "epoch": self.epoch,
            "master": self.uuid,
            "time_s": time.time() + self.clock_ahead_s,
        }

    def record(self, change: Any, *, job: int = 7) -> dict[str, Any]:
        """Commit *change*; gives it as it is sent."""
        self._steps += 1
        staged = self.head.stage(change, 2000.25 + self._steps)
        answer = StepAnswer(job, 1, self._steps, False, f"/run/ganeti/livelocks/job_{job:06d}_1", b'{"result":null}')
        commit = staged.commit(answer)
        commit = replace(commit, digest=next(self.form.fingerprint.after([commit])))
        self.form.apply(commit)
        return {
            "position": commit.position,
            "time_s": commit.time_s,
            "digest": commit.digest,
            "put": [[put.kind, put.uuid, msgspec.Raw(put.data)] for put in commit.puts],
            "remove": commit.removes,
            "step": [job, 1, self._steps, False, answer.lock_file, answer.answer.decode()],
        }

    def append(self, after: tuple[int, int], *records: dict[str, Any], **others: Any) -> dict[str, Any]:
        plain = {"files": {}, "archived": [], "serial": 0, "membership": None}
        return self.caller | {"after": after, "commits": list(records)} | plain | others

    def snapshot(self, members: tuple[str, ...] = (MASTER,), number: int = 1) -> dict[str, Any]:
        data = b"".join(self.form.config_parts())
        return self.caller | {
            "position": self.position,
            "config": base64.b64encode(zlib.compress(data)).decode(),
            "steps": [[7, 1, 99, True, "/run/ganeti/livelocks/job_000007_1", '{"result":1}']],
            "membership": self.membership(members, number),
            "digest": self.form.digest,
            "acknowledged": self.acknowledged,
        }

    @property
    def acknowledged(self) -> tuple[tuple[int, int], str]:
        """All there is, as a master says it that has heard from every member."""
        return self.position, self.form.digest

    def membership(self, members: tuple[str, ...], number: int) -> dict[str, Any]:
        return {"version": [self.epoch, number], "members": list(members)}
