# SPDX-License-Identifier: BSD-2-Clause
"""`GanetiRapiClient` with the methods that programs for `/2` know: such a program changes one import.

As there, nobody's certificate is checked unless *cafile* is given, and a method that changes something gives a job's
number.
"""

import time
from typing import Any

from ganeti_client.errors import ApiError
from ganeti_client.familiar_instances import Instances
from ganeti_client.familiar_queries import Queries
from ganeti_client.familiar_sender import Job, given_ones
from ganeti_client.familiar_tags import Tags
from ganeti_client.synchronous import Client

GanetiApiError = ApiError
JOB_STATUS_FINALIZED = frozenset(("success", "error", "canceled"))
_FINAL = JOB_STATUS_FINALIZED


class CertificateError(ApiError):
    """Kept for programs that catch it."""


class GanetiRapiClient(Instances, Queries, Tags):
    """Asks `/2` of one cluster."""

    def __init__(
        self,
        host: str,
        port: int = 5080,
        username: str | None = None,
        password: str | None = None,
        logger: Any = None,
        curl_config_fn: Any = None,
        curl_factory: Any = None,
        *,
        cafile: str | None = None,
    ) -> None:
        """*logger* and what is about curl are accepted, and mean nothing here."""
        if password is not None and username is None:
            raise ValueError("a password needs a username")
        self._client = Client(
            host, port, user=username, password=password, cafile=cafile, verify=cafile is not None, timeout_s=120.0
        )

    # The cluster

    def GetVersion(self) -> int:
        return int(self._send("GET", "/version"))

    def GetFeatures(self) -> list[str]:
        return list(self._send("GET", "/2/features"))

    def GetOperatingSystems(self, reason: str | None = None) -> list[str]:
        return list(self._send("GET", "/2/os", {"reason": reason}))

    def GetInfo(self, reason: str | None = None) -> dict[str, Any]:
        return dict(self._send("GET", "/2/info", {"reason": reason}))

    def RedistributeConfig(self, reason: str | None = None) -> Job:
        return int(self._send("PUT", "/2/redistribute-config", {"reason": reason}))

    def ModifyCluster(self, reason: str | None = None, **parameters: Any) -> Job:
        return int(self._send("PUT", "/2/modify", {"reason": reason}, parameters))

    # Jobs

    def GetJobs(self, bulk: bool = False) -> Any:
        rows = self._send("GET", "/2/jobs", {"bulk": bulk})
        return rows if bulk else [int(row["id"]) for row in rows]

    def GetJobStatus(self, job_id: int) -> dict[str, Any]:
        return dict(self._send("GET", f"/2/jobs/{job_id}"))

    def WaitForJobCompletion(self, job_id: int, period: float = 5, retries: int = -1) -> bool:
        """Whether the job has succeeded; False also if it has not ended after so many looks."""
        while retries != 0:
            status = self.GetJobStatus(job_id)["status"]
            if status in _FINAL:
                return bool(status == "success")
            if period:
                time.sleep(period)
            retries -= 1
        return False

    def WaitForJobChange(
        self, job_id: int, fields: list[str], prev_job_info: Any, prev_log_serial: int | None
    ) -> dict[str, Any]:
        body = {"fields": fields, "previous_job_info": prev_job_info, "previous_log_serial": prev_log_serial}
        return dict(self._send("GET", f"/2/jobs/{job_id}/wait", None, body))

    def CancelJob(self, job_id: int, dry_run: bool = False) -> Any:
        return self._send("DELETE", f"/2/jobs/{job_id}", {"dry-run": dry_run})

    # Nodes

    def GetNodes(self, bulk: bool = False, reason: str | None = None) -> Any:
        return self._list("nodes", "id", bulk, reason)

    def GetNode(self, node: str, reason: str | None = None) -> dict[str, Any]:
        return dict(self._send("GET", f"/2/nodes/{node}", {"reason": reason}))

    def EvacuateNode(
        self,
        node: str,
        iallocator: str | None = None,
        remote_node: str | None = None,
        dry_run: bool = False,
        early_release: bool | None = None,
        mode: str | None = None,
        accept_old: bool = False,
        reason: str | None = None,
    ) -> Job:
        return int(
            self._send(
                "POST",
                f"/2/nodes/{node}/evacuate",
                {"dry-run": dry_run, "reason": reason},
                given_ones(iallocator=iallocator, remote_node=remote_node, early_release=early_release, mode=mode),
            )
        )

    def MigrateNode(
        self,
        node: str,
        mode: str | None = None,
        dry_run: bool = False,
        iallocator: str | None = None,
        target_node: str | None = None,
        reason: str | None = None,
    ) -> Job:
        return int(
            self._send(
                "POST",
                f"/2/nodes/{node}/migrate",
                {"dry-run": dry_run, "reason": reason},
                given_ones(mode=mode, iallocator=iallocator, target_node=target_node),
            )
        )

    def GetNodeRole(self, node: str, reason: str | None = None) -> str:
        return str(self._send("GET", f"/2/nodes/{node}/role", {"reason": reason}))

    def SetNodeRole(
        self, node: str, role: str, force: bool = False, auto_promote: bool | None = None, reason: str | None = None
    ) -> Job:
        return int(
            self._send(
                "PUT", f"/2/nodes/{node}/role", {"force": force, "auto-promote": auto_promote, "reason": reason}, role
            )
        )

    def PowercycleNode(self, node: str, force: bool = False, reason: str | None = None) -> Job:
        return int(self._send("POST", f"/2/nodes/{node}/powercycle", {"force": force, "reason": reason}))

    def ModifyNode(self, node: str, reason: str | None = None, **parameters: Any) -> Job:
        return int(self._send("POST", f"/2/nodes/{node}/modify", {"reason": reason}, parameters))

    def GetNodeStorageUnits(self, node: str, storage_type: str, output_fields: str, reason: str | None = None) -> Job:
        return int(
            self._send(
                "GET",
                f"/2/nodes/{node}/storage",
                {"storage_type": storage_type, "output_fields": output_fields, "reason": reason},
            )
        )

    def ModifyNodeStorageUnits(
        self, node: str, storage_type: str, name: str, allocatable: bool | None = None, reason: str | None = None
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/nodes/{node}/storage/modify",
                {
                    "storage_type": storage_type,
                    "name": name,
                    "allocatable": None if allocatable is None else int(allocatable),
                    "reason": reason,
                },
            )
        )

    def RepairNodeStorageUnits(self, node: str, storage_type: str, name: str, reason: str | None = None) -> Job:
        return int(
            self._send(
                "PUT", f"/2/nodes/{node}/storage/repair", {"storage_type": storage_type, "name": name, "reason": reason}
            )
        )

    # Networks

    def GetNetworks(self, bulk: bool = False, reason: str | None = None) -> Any:
        return self._list("networks", "name", bulk, reason)

    def GetNetwork(self, network: str, reason: str | None = None) -> dict[str, Any]:
        return dict(self._send("GET", f"/2/networks/{network}", {"reason": reason}))

    def CreateNetwork(
        self,
        network_name: str,
        network: str,
        gateway: str | None = None,
        network6: str | None = None,
        gateway6: str | None = None,
        mac_prefix: str | None = None,
        add_reserved_ips: list[str] | None = None,
        tags: Any = None,
        dry_run: bool = False,
        reason: str | None = None,
    ) -> Job:
        labels = tags.split(",") if isinstance(tags, str) else tags
        body = given_ones(
            network_name=network_name,
            network=network,
            gateway=gateway,
            network6=network6,
            gateway6=gateway6,
            mac_prefix=mac_prefix,
            add_reserved_ips=add_reserved_ips,
            tags=labels,
        )
        return int(self._send("POST", "/2/networks", {"dry-run": dry_run, "reason": reason}, body))

    def ConnectNetwork(
        self,
        network_name: str,
        group_name: str,
        mode: str,
        link: str,
        vlan: str = "",
        dry_run: bool = False,
        reason: str | None = None,
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/networks/{network_name}/connect",
                {"dry-run": dry_run, "reason": reason},
                given_ones(group_name=group_name, network_mode=mode, network_link=link, network_vlan=vlan),
            )
        )

    def DisconnectNetwork(
        self, network_name: str, group_name: str, dry_run: bool = False, reason: str | None = None
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/networks/{network_name}/disconnect",
                {"dry-run": dry_run, "reason": reason},
                {"group_name": group_name},
            )
        )

    def ModifyNetwork(self, network: str, reason: str | None = None, **parameters: Any) -> Job:
        return int(self._send("PUT", f"/2/networks/{network}/modify", {"reason": reason}, parameters))

    def RenameNetwork(self, network: str, new_name: str, reason: str | None = None) -> Job:
        return int(self._send("PUT", f"/2/networks/{network}/rename", {"reason": reason}, {"new_name": new_name}))

    def DeleteNetwork(self, network: str, dry_run: bool = False, reason: str | None = None) -> Job:
        return int(self._send("DELETE", f"/2/networks/{network}", {"dry-run": dry_run, "reason": reason}))

    # Node groups

    def GetGroups(self, bulk: bool = False, reason: str | None = None) -> Any:
        return self._list("groups", "name", bulk, reason)

    def GetGroup(self, group: str, reason: str | None = None) -> dict[str, Any]:
        return dict(self._send("GET", f"/2/groups/{group}", {"reason": reason}))

    def CreateGroup(
        self, name: str, alloc_policy: str | None = None, dry_run: bool = False, reason: str | None = None
    ) -> Job:
        return int(
            self._send(
                "POST",
                "/2/groups",
                {"dry-run": dry_run, "reason": reason},
                given_ones(name=name, alloc_policy=alloc_policy),
            )
        )

    def ModifyGroup(self, group: str, reason: str | None = None, **parameters: Any) -> Job:
        return int(self._send("PUT", f"/2/groups/{group}/modify", {"reason": reason}, parameters))

    def DeleteGroup(self, group: str, dry_run: bool = False, reason: str | None = None) -> Job:
        return int(self._send("DELETE", f"/2/groups/{group}", {"dry-run": dry_run, "reason": reason}))

    def RenameGroup(self, group: str, new_name: str, reason: str | None = None) -> Job:
        return int(self._send("PUT", f"/2/groups/{group}/rename", {"reason": reason}, {"new_name": new_name}))

    def AssignGroupNodes(
        self, group: str, nodes: list[str], force: bool = False, dry_run: bool = False, reason: str | None = None
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/groups/{group}/assign-nodes",
                {"force": force, "dry-run": dry_run, "reason": reason},
                {"nodes": nodes},
            )
        )
