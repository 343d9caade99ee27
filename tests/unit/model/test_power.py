# SPDX-License-Identifier: BSD-2-Clause
"""What out-of-band programs print, and what is no answer."""

import pytest

from ganeti.base.errors import ExecutionError
from ganeti.model.power import read_answer


@pytest.mark.parametrize(
    ("command", "text", "answer"),
    [
        ("health", '[["disk0", "OK"], ["fan", "CRITICAL"]]\n', [("disk0", "OK"), ("fan", "CRITICAL")]),
        ("health", "[]", []),
        ("power-status", '{"powered": true}', {"powered": True}),
        ("power-status", '{"powered": false, "watts": 3}\n', {"powered": False}),
        ("power-on", "", None),
        ("power-off", "bye\n", None),
        ("power-cycle", "{", None),
    ],
)
def test_answers(command: str, text: str, answer: object) -> None:
    assert read_answer(command, text) == answer


@pytest.mark.parametrize(
    ("command", "text"),
    [
        *(
            ("health", text)
            for text in ("", "x", "{}", '["disk0"]', '[["disk0", "FINE"]]', '[["a", "OK", 1]]', '[[1, "OK"]]')
        ),
        *(("power-status", text) for text in ("", "on", "true", "[]", "{}", '{"powered": 1}', '{"powered": "yes"}')),
    ],
)
def test_what_is_no_answer(command: str, text: str) -> None:
    with pytest.raises(ExecutionError) as caught:
        read_answer(command, text)
    shown = f"'{text}'" if text else "nothing"
    assert str(caught.value).startswith(f"it printed {shown} (") and "it must print" in str(caught.value)


def test_not_all_of_a_long_text_is_told() -> None:
    with pytest.raises(ExecutionError, match=r"it printed 'x{60}…' "):
        read_answer("health", "x" * 5000)
