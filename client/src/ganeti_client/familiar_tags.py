# SPDX-License-Identifier: BSD-2-Clause
"""The familiar client's methods for tags."""

from ganeti_client.familiar_sender import Job, Sender


class Tags(Sender):
    """Lists, adds and removes tags."""

    def _tags(self, path: str, reason: str | None) -> list[str]:
        return list(self._send("GET", f"{path}/tags", {"reason": reason}))

    def _change_tags(self, method: str, path: str, tags: list[str], dry_run: bool, reason: str | None) -> Job:
        return int(self._send(method, f"{path}/tags", {"tag": list(tags), "dry-run": dry_run, "reason": reason}))

    def GetClusterTags(self, reason: str | None = None) -> list[str]:
        return self._tags("/2", reason)

    def AddClusterTags(self, tags: list[str], dry_run: bool = False, reason: str | None = None) -> Job:
        return self._change_tags("PUT", "/2", tags, dry_run, reason)

    def DeleteClusterTags(self, tags: list[str], dry_run: bool = False, reason: str | None = None) -> Job:
        return self._change_tags("DELETE", "/2", tags, dry_run, reason)

    def GetInstanceTags(self, instance: str, reason: str | None = None) -> list[str]:
        return self._tags(f"/2/instances/{instance}", reason)

    def AddInstanceTags(self, instance: str, tags: list[str], dry_run: bool = False, reason: str | None = None) -> Job:
        return self._change_tags("PUT", f"/2/instances/{instance}", tags, dry_run, reason)

    def DeleteInstanceTags(
        self, instance: str, tags: list[str], dry_run: bool = False, reason: str | None = None
    ) -> Job:
        return self._change_tags("DELETE", f"/2/instances/{instance}", tags, dry_run, reason)

    def GetNodeTags(self, node: str, reason: str | None = None) -> list[str]:
        return self._tags(f"/2/nodes/{node}", reason)

    def AddNodeTags(self, node: str, tags: list[str], dry_run: bool = False, reason: str | None = None) -> Job:
        return self._change_tags("PUT", f"/2/nodes/{node}", tags, dry_run, reason)

    def DeleteNodeTags(self, node: str, tags: list[str], dry_run: bool = False, reason: str | None = None) -> Job:
        return self._change_tags("DELETE", f"/2/nodes/{node}", tags, dry_run, reason)

    def GetGroupTags(self, group: str, reason: str | None = None) -> list[str]:
        return self._tags(f"/2/groups/{group}", reason)

    def AddGroupTags(self, group: str, tags: list[str], dry_run: bool = False, reason: str | None = None) -> Job:
        return self._change_tags("PUT", f"/2/groups/{group}", tags, dry_run, reason)

    def DeleteGroupTags(self, group: str, tags: list[str], dry_run: bool = False, reason: str | None = None) -> Job:
        return self._change_tags("DELETE", f"/2/groups/{group}", tags, dry_run, reason)

    def GetNetworkTags(self, network: str, reason: str | None = None) -> list[str]:
        return self._tags(f"/2/networks/{network}", reason)

    def AddNetworkTags(self, network: str, tags: list[str], dry_run: bool = False, reason: str | None = None) -> Job:
        return self._change_tags("PUT", f"/2/networks/{network}", tags, dry_run, reason)

    def DeleteNetworkTags(self, network: str, tags: list[str], dry_run: bool = False, reason: str | None = None) -> Job:
        return self._change_tags("DELETE", f"/2/networks/{network}", tags, dry_run, reason)
