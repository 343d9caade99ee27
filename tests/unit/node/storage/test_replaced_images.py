# SPDX-License-Identifier: BSD-2-Clause
"""The image of a mirrored copy that is made anew: no moment at which a new image has the note of the old one."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

from ganeti.node.storage import image_io, replaced_images
from ganeti.node.storage.replaced_images import forget, put_back, remove_incomplete, set_aside


class KilledError(Exception):
    """The daemon is killed before a change of the directory."""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A complete copy, with its note."""
    path = tmp_path / "disk0"
    path.write_text("complete")
    Path(f"{path}.mirror").write_text("valid")
    return path


def read(path: Path, suffix: str = "") -> str | None:
    found = Path(f"{path}{suffix}")
    return found.read_text() if found.exists() else None


def state(path: Path) -> list[str | None]:
    """Image and note, and those of the old copy."""
    return [read(path, suffix) for suffix in ("", ".mirror", ".old", ".old.mirror")]


def test_a_complete_copy_is_set_aside_put_back_and_forgotten(image: Path) -> None:
    set_aside(str(image))
    assert state(image) == [None, None, "complete", "valid"]
    image.write_text("new")
    put_back(str(image))
    assert state(image) == ["complete", "valid", None, None]
    set_aside(str(image))
    for _ in ("once", "again"):
        forget(str(image))
        assert state(image) == [None] * 4


def test_an_incomplete_copy_goes_and_the_old_one_stays(image: Path) -> None:
    set_aside(str(image))
    image.write_text("half")
    remove_incomplete(str(image))
    assert state(image) == [None, None, "complete", "valid"]


@pytest.mark.parametrize("after", range(8))
@pytest.mark.parametrize("act", [set_aside, put_back, forget, remove_incomplete])
def test_no_image_is_ever_beside_the_note_of_another(
    image: Path, act: Callable[[str], None], after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a complete copy that is cut off on its way is found by the next renewal, unless it was being removed."""
    if act is not set_aside:
        set_aside(str(image))
        image.write_text("half")
    left = after

    def counted(change: Callable[..., None]) -> Callable[..., None]:
        def call(*words: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise KilledError
            change(*words)

        return call

    with monkeypatch.context() as patched:
        patched.setattr(replaced_images.os, "rename", counted(replaced_images.os.rename))
        patched.setattr(image_io, "unlink", counted(image_io.unlink))
        with contextlib.suppress(KilledError):
            act(str(image))
    content, note, old, old_note = state(image)
    assert note is None or content == "complete"
    assert old in (None, "complete") and (old_note is None or old != "half")
    if act is forget:
        return
    if note is None:  # without its note a copy counts as incomplete
        remove_incomplete(str(image))
        assert state(image) == [None, None, "complete", "valid"]
