# SPDX-License-Identifier: BSD-2-Clause
"""gnt-cluster apply: make the cluster what a file says; a second time there is nothing left to do."""

from __future__ import annotations

from itertools import groupby

from ganeti.cli import confirm, jobs
from ganeti.cli.described import FIELDS, Current, steps
from ganeti.cli.failures import Failure
from ganeti.cli.invocation import out
from ganeti.cli.yaml_subset import YamlFault, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ganeti.cli.invocation import Invocation


def apply(call: Invocation) -> int:
    path = call.values["file"]
    with open(path, encoding="utf-8") as file:
        try:
            wanted = read(file.read())
        except (YamlFault, UnicodeDecodeError) as fault:
            raise Failure(f"{path}: {fault}") from None
    found = steps(wanted, _current(call))
    if not found:
        out("Nothing to change.")
        return 0
    for step in found:
        out(step.sentence)
    if call.get("plan") or call.get("dry_run"):
        return 0
    if not call.get("assume_yes"):
        confirm.require(f"Do these {len(found)} steps?", "give -f to go on without the question.")
    for _, stage in groupby(found, key=lambda step: step.stage):
        batch = jobs.Batch(call)
        for step in stage:
            batch.add(step.sentence, [step.opcode])
        status = batch.finish(quiet_submission=True)
        if status:
            raise Failure("What follows was not begun. Apply the file again when the cause is mended: it does the rest")
    return 0


def _current(call: Invocation) -> Current:
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for kind, fields in FIELDS.items():
        answer = call.client.call("Query", kind.removesuffix("s"), fields, None)
        rows = [[value if status == 0 else None for status, value in row] for row in answer["data"]]
        found[kind] = {str(row[0]): dict(zip(fields, row, strict=True)) for row in rows}
    return Current(call.client.call("QueryTags", "cluster", ""), **found)
