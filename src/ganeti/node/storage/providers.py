# SPDX-License-Identifier: BSD-2-Clause
"""Providers of external storage: directories of scripts on the search path (protocols, section 9)."""

import os

from ganeti.base.paths import EXTSTORAGE_SEARCH_PATH, Paths
from ganeti.model.node_calls.storage import ProviderStatus

REQUIRED = ("create", "remove", "grow", "attach", "detach", "setinfo", "verify")
_PARAMETERS = "parameters.list"


def find_all(paths: Paths) -> list[ProviderStatus]:
    """All that are there, those that are shadowed or broken too, in the order of the search path."""
    found: list[ProviderStatus] = []
    for directory in EXTSTORAGE_SEARCH_PATH:
        top = paths.under(directory)
        try:
            names = sorted(os.listdir(top))
        except OSError:
            continue
        found += [load(f"{top}/{name}") for name in names if os.path.isdir(f"{top}/{name}")]
    return found


def load(path: str) -> ProviderStatus:
    """Look at one directory."""
    name = os.path.basename(path)
    for script in REQUIRED:
        place = f"{path}/{script}"
        if not os.path.isfile(place):
            return ProviderStatus(name=name, path=path, fault=f"the script {script} is missing")
        if not os.access(place, os.X_OK):
            return ProviderStatus(name=name, path=path, fault=f"the script {script} is not executable")
    try:
        with open(f"{path}/{_PARAMETERS}", encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeError) as err:
        return ProviderStatus(name=name, path=path, fault=f"{_PARAMETERS} cannot be read: {err}")
    words = [line.split(None, 1) for line in lines]
    parameters = [(each[0], each[1] if len(each) > 1 else "") for each in words]
    return ProviderStatus(name=name, path=path, parameters=parameters)
