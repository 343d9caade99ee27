# SPDX-License-Identifier: BSD-2-Clause
"""OP_BACKUP_FILES (not in 3.1): what the disks of a backup hold, without a restore."""

from typing import Annotated, Any

import msgspec

from ganeti.base.command import Argument, Command
from ganeti.master.operation import Operation, operation
from ganeti.master.operations.backup.chains import KeptBackup
from ganeti.master.operations.backup.reading import (
    BackupId,
    DiskNumber,
    InstanceOfBackup,
    PartitionNumber,
    Place,
    VolumeName,
    file_systems,
    find_path,
    reading_locks,
    served,
    whole_chain,
)
from ganeti.master.operations.parameters import Text
from ganeti.master.parameter import Parameter
from ganeti.model.locks import LockPlan
from ganeti.model.view import ConfigView
from ganeti.ports.context import OperationContext


@operation(
    "OP_BACKUP_FILES",
    summary_field="instance_name",
    cli=Command(
        "gnt-backup files",
        "list file systems, or a directory, of a backup (not in Ganeti 3.1)",
        arguments=("instance_name", Argument("path", "path", minimum=0)),
        handler="backup.files:listing",
        is_job=False,
    ),
    not_played="guests of the simulator have no file systems",
)
class ListFiles(Operation[dict[str, Any]], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """List a directory of a backed-up disk; without a path, the file systems that its disks have."""

    instance_name: InstanceOfBackup
    path: Annotated[Text | None, Parameter("path in the guest; without it its file systems are listed")] = None
    backup: BackupId = None
    disk: DiskNumber = None
    partition: PartitionNumber = None
    volume: VolumeName = None

    def locks(self, view: ConfigView) -> LockPlan:
        return reading_locks(view, self.instance_name)

    async def gather(self, ctx: OperationContext, view: ConfigView) -> list[KeptBackup]:
        return await whole_chain(ctx, view, self.instance_name, self.backup, self.disk)

    def check(self, view: ConfigView, facts: list[KeptBackup], ctx: OperationContext) -> list[KeptBackup]:
        return facts

    async def execute(self, checked: list[KeptBackup], ctx: OperationContext) -> dict[str, Any]:
        place = Place(self.disk, self.partition, self.volume)
        found: dict[str, Any] = {"backup": checked[0].backup.id}
        async with served(ctx, checked) as name:
            if self.path is None:
                listed = await file_systems(ctx, checked[0], name, place)
                return found | {"file_systems": msgspec.to_builtins(listed)}
            file_system, path = await find_path(ctx, checked[0], name, place, self.path)
            found["file_system"] = msgspec.to_builtins(file_system)
            return found | dict(msgspec.to_builtins(path))
