# SPDX-License-Identifier: BSD-2-Clause
"""Reading the dumps of an export before anything is made of them: are they as they were written?

The node that keeps them reads all of them and compares checksums. What Ganeti 3.1 has exported has none.
"""

from msgspec.structs import replace

from ganeti.base.errors import WRONG_STATE, PrerequisiteError
from ganeti.base.names import shown
from ganeti.master.operations.backup.importing import IMPORT_TIMEOUT_S, Source
from ganeti.master.operations.backup.pace import Pace
from ganeti.master.operations.instance.os.script_output import followed
from ganeti.model.node_calls.exports import ExportDamagedDumps, ExportDumpSizes
from ganeti.ports.context import OperationContext
from ganeti.ports.nodes import ask


async def require_undamaged(ctx: OperationContext, source: Source) -> None:
    """Raises `PrerequisiteError` for a dump that was changed, `JobCanceled` where that is asked for meanwhile."""
    dumps = [disk.dump for disk in source.export.disks if disk.dump]
    known = {disk.dump: disk.sha256 for disk in source.export.disks if disk.dump and disk.sha256}
    if unknown := [dump for dump in dumps if dump not in known]:
        ctx.log.info(
            f"The export has no checksum of {', '.join(map(shown, unknown))} (Ganeti 3.1 notes none): whether it is as "
            "it was written could not be checked"
        )
    if not known:
        return
    ctx.log.info(f"Checking {len(known)} dump{'s' * (len(known) > 1)} of {source.export.name} on {source.node_name}")
    request = ExportDamagedDumps(directory=source.directory, dumps=known)
    sizes = await ask(ctx.nodes, source.node_uuid, ExportDumpSizes(directory=source.directory, dumps=list(known)))
    pace = Pace(ctx, source.node_uuid, "the export", "checked", sum(sizes))
    damaged = await followed(
        ctx,
        source.node_uuid,
        lambda token: ask(ctx.nodes, source.node_uuid, replace(request, token=token), deadline_s=IMPORT_TIMEOUT_S),
        until_cancelled=True,
        meanwhile=pace.tell,
        what="the check of dumps",
    )
    pace.end()
    for dump in damaged:
        raise PrerequisiteError(
            f"The export in {shown(source.directory)} on {source.node_name} is damaged: its dump {shown(dump)} is not "
            "what was written, its checksum (SHA-256) is another. Export the instance again; if you have changed the "
            "dump yourself, take its lines out of [dumps] and [dumps_sha256] in config.ini",
            WRONG_STATE,
        )
