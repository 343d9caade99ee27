# SPDX-License-Identifier: BSD-2-Clause
"""The familiar client's methods for instances."""

from typing import Any

from ganeti_client.familiar_sender import Job, Sender, given_ones


class Instances(Sender):
    """Lists, changes and moves instances."""

    def GetInstances(self, bulk: bool = False, reason: str | None = None) -> Any:
        return self._list("instances", "id", bulk, reason)

    def GetInstance(self, instance: str, reason: str | None = None) -> dict[str, Any]:
        return dict(self._send("GET", f"/2/instances/{instance}", {"reason": reason}))

    def GetInstanceInfo(self, instance: str, static: bool | None = None, reason: str | None = None) -> Job:
        return int(self._send("GET", f"/2/instances/{instance}/info", {"static": static, "reason": reason}))

    def InstanceAllocation(
        self, mode: str, name: str, disk_template: str, disks: list[Any], nics: list[Any], **parameters: Any
    ) -> dict[str, Any]:
        own = {"mode": mode, "name": name, "disk_template": disk_template, "disks": disks, "nics": nics}
        return {"__version__": 1, **own, **parameters}

    def CreateInstance(
        self,
        mode: str,
        name: str,
        disk_template: str,
        disks: list[Any],
        nics: list[Any],
        reason: str | None = None,
        **parameters: Any,
    ) -> Job:
        dry_run = parameters.pop("dry_run", False)
        body = self.InstanceAllocation(mode, name, disk_template, disks, nics, **parameters)
        return int(self._send("POST", "/2/instances", {"dry-run": dry_run, "reason": reason}, body))

    def InstancesMultiAlloc(self, instances: list[Any], reason: str | None = None, **parameters: Any) -> Job:
        dry_run = parameters.pop("dry_run", False)
        body = {**parameters, "instances": instances}
        return int(self._send("POST", "/2/instances-multi-alloc", {"dry-run": dry_run, "reason": reason}, body))

    def DeleteInstance(self, instance: str, dry_run: bool = False, reason: str | None = None, **parameters: Any) -> Job:
        return int(
            self._send("DELETE", f"/2/instances/{instance}", {"dry-run": dry_run, "reason": reason}, parameters or None)
        )

    def ModifyInstance(self, instance: str, reason: str | None = None, **parameters: Any) -> Job:
        return int(self._send("PUT", f"/2/instances/{instance}/modify", {"reason": reason}, parameters))

    def ActivateInstanceDisks(self, instance: str, ignore_size: bool | None = None, reason: str | None = None) -> Job:
        return int(
            self._send("PUT", f"/2/instances/{instance}/activate-disks", {"ignore_size": ignore_size, "reason": reason})
        )

    def DeactivateInstanceDisks(self, instance: str, reason: str | None = None, force: bool = False) -> Job:
        return int(self._send("PUT", f"/2/instances/{instance}/deactivate-disks", {"force": force, "reason": reason}))

    def RecreateInstanceDisks(
        self,
        instance: str,
        disks: Any = None,
        nodes: list[str] | None = None,
        reason: str | None = None,
        iallocator: str | None = None,
    ) -> Job:
        return int(
            self._send(
                "POST",
                f"/2/instances/{instance}/recreate-disks",
                {"reason": reason},
                given_ones(disks=disks, nodes=nodes, iallocator=iallocator),
            )
        )

    def GrowInstanceDisk(
        self, instance: str, disk: int, amount: int, wait_for_sync: bool | None = None, reason: str | None = None
    ) -> Job:
        return int(
            self._send(
                "POST",
                f"/2/instances/{instance}/disk/{disk}/grow",
                {"reason": reason},
                given_ones(amount=amount, wait_for_sync=wait_for_sync),
            )
        )

    def RebootInstance(
        self,
        instance: str,
        reboot_type: str | None = None,
        ignore_secondaries: bool | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        **parameters: Any,
    ) -> Job:
        return int(
            self._send(
                "POST",
                f"/2/instances/{instance}/reboot",
                {"type": reboot_type, "ignore_secondaries": ignore_secondaries, "dry-run": dry_run, "reason": reason},
                parameters or None,
            )
        )

    def ShutdownInstance(
        self,
        instance: str,
        dry_run: bool = False,
        no_remember: bool = False,
        reason: str | None = None,
        **parameters: Any,
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/instances/{instance}/shutdown",
                {"no_remember": no_remember, "dry-run": dry_run, "reason": reason},
                parameters,
            )
        )

    def StartupInstance(
        self, instance: str, dry_run: bool = False, no_remember: bool = False, reason: str | None = None
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/instances/{instance}/startup",
                {"no_remember": no_remember, "dry-run": dry_run, "reason": reason},
            )
        )

    def ReinstallInstance(
        self,
        instance: str,
        os: str | None = None,
        no_startup: bool = False,
        osparams: Any = None,
        reason: str | None = None,
    ) -> Job:
        return int(
            self._send(
                "POST",
                f"/2/instances/{instance}/reinstall",
                {"reason": reason},
                given_ones(os=os, start=not no_startup, osparams=osparams),
            )
        )

    def ReplaceInstanceDisks(
        self,
        instance: str,
        disks: list[int] | None = None,
        mode: str = "replace_auto",
        remote_node: str | None = None,
        iallocator: str | None = None,
        reason: str | None = None,
        early_release: bool | None = None,
    ) -> Job:
        return int(
            self._send(
                "POST",
                f"/2/instances/{instance}/replace-disks",
                {"reason": reason},
                given_ones(
                    disks=disks, mode=mode, remote_node=remote_node, iallocator=iallocator, early_release=early_release
                ),
            )
        )

    def PrepareExport(self, instance: str, mode: str, reason: str | None = None) -> Job:
        return int(self._send("PUT", f"/2/instances/{instance}/prepare-export", {"mode": mode, "reason": reason}))

    def ExportInstance(
        self,
        instance: str,
        mode: str,
        destination: Any,
        shutdown: bool | None = None,
        remove_instance: bool | None = None,
        x509_key_name: Any = None,
        destination_x509_ca: str | None = None,
        compress: str | None = None,
        reason: str | None = None,
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/instances/{instance}/export",
                {"reason": reason},
                given_ones(
                    mode=mode,
                    destination=destination,
                    shutdown=shutdown,
                    remove_instance=remove_instance,
                    x509_key_name=x509_key_name,
                    destination_x509_ca=destination_x509_ca,
                    compress=compress,
                ),
            )
        )

    def MigrateInstance(
        self,
        instance: str,
        mode: str | None = None,
        cleanup: bool | None = None,
        target_node: str | None = None,
        reason: str | None = None,
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/instances/{instance}/migrate",
                {"reason": reason},
                given_ones(mode=mode, cleanup=cleanup, target_node=target_node),
            )
        )

    def FailoverInstance(
        self,
        instance: str,
        iallocator: str | None = None,
        ignore_consistency: bool | None = None,
        target_node: str | None = None,
        reason: str | None = None,
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/instances/{instance}/failover",
                {"reason": reason},
                given_ones(iallocator=iallocator, ignore_consistency=ignore_consistency, target_node=target_node),
            )
        )

    def RenameInstance(
        self,
        instance: str,
        new_name: str,
        ip_check: bool | None = None,
        name_check: bool | None = None,
        reason: str | None = None,
    ) -> Job:
        return int(
            self._send(
                "PUT",
                f"/2/instances/{instance}/rename",
                {"reason": reason},
                given_ones(new_name=new_name, ip_check=ip_check, name_check=name_check),
            )
        )

    def GetInstanceConsole(self, instance: str, reason: str | None = None) -> dict[str, Any]:
        return dict(self._send("GET", f"/2/instances/{instance}/console", {"reason": reason}))
