# SPDX-License-Identifier: BSD-2-Clause
"""How a placement tool ends when the machine has nothing left to give."""

import errno

import pytest

from ganeti.base.errors import NO_MEMORY
from ganeti.tools.htools.command_line.options import Options
from ganeti.tools.htools.programs.program import run


def test_a_file_that_cannot_be_opened_for_want_of_memory_is_told_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    """The import of a module fails like this as well, and names a folder that the user never gave."""

    def work(_: Options) -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory", "/usr/share/ganeti/loading")

    assert run("hbal", [], work) == 1
    assert capsys.readouterr().err == f"Error: {NO_MEMORY}\n"
