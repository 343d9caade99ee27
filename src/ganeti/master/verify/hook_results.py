# SPDX-License-Identifier: BSD-2-Clause
"""What the hook scripts of verification said (protocols, section 10)."""

from collections.abc import Iterator, Sequence

from ganeti.base.errors import NodeTimeoutError, NodeUnreachableError
from ganeti.master.verify.findings import Finding
from ganeti.model.view import ConfigView
from ganeti.ports.nodes import NodeAnswer

FAILED = 1


def findings(view: ConfigView, answers: Sequence[NodeAnswer]) -> Iterator[Finding]:
    for answer in answers:
        name = view.node(answer.node_uuid).name
        if isinstance(answer.error, NodeUnreachableError | NodeTimeoutError):
            continue  # told already
        if answer.error is not None:
            yield Finding("ENODEHOOKS", name, f"Communication failure in hooks execution: {answer.error}")
            continue
        for script, status, output in answer.value:
            if status == FAILED:
                yield Finding("ENODEHOOKS", name, f"Script {script} failed, output: {' / '.join(output.splitlines())}")
