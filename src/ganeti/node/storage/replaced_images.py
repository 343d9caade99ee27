# SPDX-License-Identifier: BSD-2-Clause
"""The image of a copy that is made anew: ``IMAGE.old``, kept until the new one has everything.

What a mirrored disk notes of its copy (``IMAGE.mirror``) is renamed first, so that a new image never lies beside the
note that the old one was complete. It is removed first, too: ``IMAGE.old`` without it is a removal that was cut short.
"""

import contextlib
import os

from ganeti.model.templates import TEMPLATES
from ganeti.node.storage import image_io

_NOTE = next(f".{traits.name}" for traits in TEMPLATES.values() if traits.directory_based and traits.has_secondary)
OLD = ".old"


def set_aside(path: str) -> None:
    """Let a complete image be the old one; what was kept before goes."""
    old = f"{path}{OLD}"
    forget(path)
    if os.path.exists(f"{path}{_NOTE}"):
        image_io.publish(f"{path}{_NOTE}", f"{old}{_NOTE}")
    image_io.publish(path, old)


def remove_incomplete(path: str) -> None:
    """Remove an image that has not everything, unless it is the one that an interrupted `set_aside` has left."""
    old = f"{path}{OLD}"
    if os.path.exists(f"{old}{_NOTE}") and not os.path.exists(old) and os.path.exists(path):
        image_io.publish(path, old)
    for name in (f"{path}{_NOTE}", path):
        image_io.unlink(name)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        image_io.sync(os.path.dirname(path))


def put_back(path: str) -> None:
    """Let the old image be the copy again, where a new one could not be made."""
    old = f"{path}{OLD}"
    if os.path.exists(old):
        image_io.publish(old, path)
    if os.path.exists(f"{old}{_NOTE}"):
        image_io.publish(f"{old}{_NOTE}", f"{path}{_NOTE}")


def forget(path: str) -> None:
    for name in (f"{path}{OLD}{_NOTE}", f"{path}{OLD}"):
        image_io.unlink(name)
