# SPDX-License-Identifier: BSD-2-Clause
"""A job has a group's state renewed by a LuxiD that is restarted meanwhile: it is asked again."""

import asyncio
from pathlib import Path

from ganeti.base.paths import Paths
from ganeti.job.state import State
from ganeti.system.unix_socket import serve
from ganeti.wire.framing import Connection


def test_a_renewal_that_nobody_answered_is_asked_for_again(tmp_path: Path) -> None:
    asked: list[tuple[str, list[str]]] = []

    async def answer(connection: Connection) -> None:
        call = await connection.receive()
        asked.append((call["method"], call["args"]))
        if len(asked) > 1:
            await connection.send({"success": True, "result": {"nodes": {}}})

    async def go() -> dict[str, object]:
        server = await serve(paths.luxi_socket, answer)
        try:
            return await State(paths).renew_group("u1")
        finally:
            await server.close()

    paths = Paths(str(tmp_path))
    Path(paths.socket_dir).mkdir(parents=True)
    assert asyncio.run(go()) == {"nodes": {}}
    assert asked == [("RenewGroupState", ["u1"])] * 2
