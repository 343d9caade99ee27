# SPDX-License-Identifier: BSD-2-Clause
"""Which user a guest gets on its node."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ganeti.base.errors import HypervisorError
from ganeti.base.paths import Paths
from ganeti.node.hypervisors.kvm import users
from ganeti.node.hypervisors.kvm.places import Places


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    made = Places(Paths(str(tmp_path)))
    made.prepare()
    Path(made.paths.data_dir).mkdir(parents=True)
    Path(made.paths.ssconf_file("uid_pool")).write_text("700001-700002\n")
    monkeypatch.setattr(users, "_running", set)
    return made


def guest(name: str, **hvparams: Any) -> Any:
    values = {"security_model": "pool", "security_domain": ""} | hvparams
    return SimpleNamespace(name=name, uuid=f"uuid of {name}", hvparams=values)


def test_each_guest_has_one_of_its_own_until_it_is_gone(places: Places) -> None:
    found = {users.user_of(places, guest(name)) for name in ("a", "b")}
    assert found == {"700001:700001", "700002:700002"}
    with pytest.raises(HypervisorError, match=r"700001-700002\) has none left for c"):
        users.user_of(places, guest("c"))
    assert users.user_of(places, guest("a")) in found  # started again
    places.forget("b")
    assert users.user_of(places, guest("c")) in found


def test_an_id_that_some_process_has_is_taken(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "_running", lambda: {700001})
    assert users.user_of(places, guest("a")) == "700002:700002"


def test_other_models_take_none(places: Places) -> None:
    assert users.user_of(places, guest("a", security_model="none")) == ""
    assert users.user_of(places, guest("a", security_model="user", security_domain="nobody")) == "nobody"
    assert list(Path(places.uid_dir).iterdir()) == []
