# SPDX-License-Identifier: BSD-2-Clause
"""A commit of what its job has not locked is told in the log; where tests want it, it is refused."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.sample_cluster import add_instance, configuration

from ganeti.base.errors import LockError
from ganeti.master.config.head import Head, Staged
from ganeti.master.locks.owners import Owner
from ganeti.master.operations.changes import SetInstanceState
from ganeti.wconfd.commits import JobStep
from ganeti.wconfd.lock_check import STRICT, LockCheck

STEP = JobStep(9, 1, 3, "lock-9", settles=False)


def staged() -> Staged:
    config = configuration()
    add_instance(config, "web1")
    return Head(config).stage(SetInstanceState(instance_uuid="uuid-web1", admin_state="down"), 1000.0)


def locks(**held: str) -> Any:
    def of(owner: Owner) -> dict[str, str]:
        assert owner == Owner(9, "lock-9")
        return {lock.replace("_", "/"): state for lock, state in held.items()}

    return SimpleNamespace(table=SimpleNamespace(held=of))


@pytest.mark.requirement("S2.58")
@pytest.mark.parametrize("strict", [False, True])
def test_a_breach_is_told_and_refused_where_that_is_wanted(
    strict: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(STRICT, "1" if strict else "")
    sentence = "job 9.1 step 3 changes instance web1 without having the lock for itself"
    check = LockCheck(locks(instance_web1="shared"))
    if strict:
        with pytest.raises(LockError, match=sentence):
            check(STEP, staged())
    else:
        check(STEP, staged())
    assert sentence in caplog.text
    caplog.clear()
    LockCheck(locks(instance_web1="exclusive"))(STEP, staged())
    LockCheck(locks())(replace_job(STEP), staged())
    assert not caplog.text


def test_a_successor_without_any_lock_undoes_alone_what_another_master_s_job_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(STRICT, "1")
    second = replace(STEP, attempt=2)
    LockCheck(locks())(second, staged())
    for held, step in ((locks(), STEP), (locks(instance_web2="exclusive"), second)):
        with pytest.raises(LockError, match="changes instance web1"):
            LockCheck(held)(step, staged())


def replace_job(step: JobStep) -> JobStep:
    """The same step of a daemon, which holds no locks."""
    return JobStep(0, step.attempt, step.step, step.lock_file, step.settles)
