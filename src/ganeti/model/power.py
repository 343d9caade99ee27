# SPDX-License-Identifier: BSD-2-Clause
"""What can be asked of a node's out-of-band program, and what it may answer (opcodes, OP_OOB_COMMAND).

The program, the node parameter ``oob_program``, lies on the master and is called with a command and a node's name. It
ends with status 0, and prints JSON where it is asked something: ``[[item, status], …]`` for its health,
``{"powered": true}`` for its power.
"""

from typing import Final, Literal

import msgspec

from ganeti.base.errors import ExecutionError

PowerCommand = Literal["health", "power-cycle", "power-off", "power-on", "power-status"]
HEALTH, CYCLE, OFF, ON, STATUS = "health", "power-cycle", "power-off", "power-on", "power-status"
Status = Literal["OK", "WARNING", "CRITICAL", "UNKNOWN"]
ALARMING: Final = ("WARNING", "CRITICAL")


class PowerStatus(msgspec.Struct, frozen=True):
    powered: bool


Health = list[tuple[str, Status]]
Answer = Health | dict[str, bool] | None


def read_answer(command: str, text: str) -> Answer:
    """Give what a program printed in answer to *command*, as the opcode gives it.

    Raises `ExecutionError` for what is no answer to it. What is printed where nothing is asked does not count.
    """
    try:
        if command == HEALTH:
            return msgspec.json.decode(text, type=Health)
        if command == STATUS:
            return {"powered": msgspec.json.decode(text, type=PowerStatus).powered}
    except (msgspec.DecodeError, UnicodeError) as err:
        wanted = '[["ITEM", "OK"], …]' if command == HEALTH else '{"powered": true}'
        raise ExecutionError(f"it printed {_shown(text)} ({err}): it must print {wanted}") from err
    return None


def _shown(text: str) -> str:
    text = text.strip()
    return f"'{text[:60]}{'…' if len(text) > 60 else ''}'" if text else "nothing"
