# SPDX-License-Identifier: BSD-2-Clause
"""OS definitions on this node: where they are, whether they are whole, which variants and parameters they have.

Protocols, section 8. Versions 20, 15 and 10 of the interface are known: 15 brings variants, 20 parameters and the
script `verify`. A name is ``OS`` or ``OS+variant``.
"""

import os
import re
import stat

import msgspec

from ganeti.base.errors import UNKNOWN_ENTITY, WRONG_INPUT, ParameterError, PrerequisiteError
from ganeti.base.names import os_name_fault, shown
from ganeti.base.paths import OS_SEARCH_PATH, Paths
from ganeti.model.node_calls.operating_systems import KNOWN_VERSIONS, OsStatus

VARIANTS_SINCE = 15
PARAMETERS_SINCE = 20
CREATE = "create"
SCRIPTS = (CREATE, "import", "export", "rename")
VERIFY_SCRIPT = "verify"
UNTRUSTED_CREATE = "create_untrusted"
"""In place of `CREATE`: never run on the node, but inside a helper guest."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def split_name(name: str) -> tuple[str, str]:
    """Give OS and variant; the variant is empty where none is named."""
    base, _, variant = name.partition("+")
    return base, variant


def find_all(paths: Paths) -> list[OsStatus]:
    found: list[OsStatus] = []
    for directory in OS_SEARCH_PATH:
        top = paths.under(directory)
        try:
            names = sorted(os.listdir(top))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as err:
            found.append(OsStatus(name="", path=top, valid=False, message=f"{top} cannot be read: {err.strerror}"))
            continue
        seen = {status.name for status in found}
        for name in names:
            if _NAME.fullmatch(name) and os.path.isdir(f"{top}/{name}"):
                status = load(f"{top}/{name}")
                if name in seen:
                    status = msgspec.structs.replace(
                        status, valid=False, message=f"{status.path} is not used: another {name} comes before it"
                    )
                found.append(status)
    return found


def get(paths: Paths, name: str) -> OsStatus:
    """Give the definition that counts; raises `PrerequisiteError` unless it is there and valid."""
    base, _ = split_name(name)
    if (fault := os_name_fault(name)) is not None:
        raise PrerequisiteError(f"OS '{shown(name)}' cannot be used: {fault}", WRONG_INPUT)
    for directory in OS_SEARCH_PATH:
        path = f"{paths.under(directory)}/{base}"
        if os.path.isdir(path):
            status = load(path)
            if not status.valid:
                raise PrerequisiteError(f"OS '{base}' cannot be used: {status.message}", WRONG_INPUT)
            return status
    known = sorted({status.name for status in find_all(paths) if status.valid})
    there = f"there are {', '.join(known)}" if known else f"put definitions into {OS_SEARCH_PATH[0]}"
    raise PrerequisiteError(f"OS '{base}' not known: {there}", UNKNOWN_ENTITY)


def choose_variant(status: OsStatus, name: str, *, force: bool = False) -> str:
    """Give the variant *name* asks for; raises `PrerequisiteError` listing the known ones."""
    _, variant = split_name(name)
    if status.api_version < VARIANTS_SINCE or not status.variants:
        if variant and not force:
            raise PrerequisiteError(f"OS '{status.name}' has no variants: leave '+{variant}' away", WRONG_INPUT)
        return variant
    known = ", ".join(status.variants)
    if not variant:
        raise PrerequisiteError(
            f"OS '{status.name}' needs a variant: write {status.name}+VARIANT, with {known}", WRONG_INPUT
        )
    if variant not in status.variants and not force:
        raise PrerequisiteError(f"OS '{status.name}' has no variant '{variant}': there are {known}", UNKNOWN_ENTITY)
    return variant


def check_parameter_names(status: OsStatus, names: list[str]) -> None:
    """Raises `ParameterError` listing the parameters there are."""
    known = [name for name, _ in status.parameters]
    unknown = [name for name in names if name.lower() not in {other.lower() for other in known}]
    if unknown:
        there = f"there are {', '.join(known)}" if known else "it has none"
        raise ParameterError(f"Unknown parameter of OS '{status.name}': {', '.join(unknown)}; {there}")


def load(path: str) -> OsStatus:
    """Read one directory; what is wrong with it is told in the answer."""
    problems: list[str] = []
    versions = _read_versions(path, problems)
    common = set(versions) & set(KNOWN_VERSIONS)
    if versions and not common:
        problems.append(
            f"it has version {', '.join(map(str, versions))} of the interface, this node knows "
            f"{', '.join(map(str, KNOWN_VERSIONS))}"
        )
    newest = max(common, default=0)
    trusted = os.path.exists(f"{path}/{CREATE}") or not os.path.exists(f"{path}/{UNTRUSTED_CREATE}")
    wanted = [UNTRUSTED_CREATE if script == CREATE and not trusted else script for script in SCRIPTS]
    if newest >= PARAMETERS_SINCE:
        wanted.append(VERIFY_SCRIPT)
    problems.extend(problem for script in wanted if (problem := _script_problem(path, script)) is not None)
    variants = _lines(path, "variants.list") if newest >= VARIANTS_SINCE else []
    parameters = _lines(path, "parameters.list") if newest >= PARAMETERS_SINCE else []
    return OsStatus(
        name=os.path.basename(path),
        path=path,
        valid=not problems,
        message="; ".join(problems),
        variants=variants,
        parameters=[_parameter(line) for line in parameters],
        api_versions=versions,
        trusted=trusted,
    )


def _read_versions(path: str, problems: list[str]) -> list[int]:
    try:
        return [int(line) for line in _lines(path, "ganeti_api_version", must=True)]
    except OSError as err:
        problems.append(f"the file ganeti_api_version cannot be read: {err.strerror}")
    except ValueError:
        problems.append("the file ganeti_api_version must hold one whole number a line")
    return []


def _lines(path: str, name: str, *, must: bool = False) -> list[str]:
    try:
        with open(f"{path}/{name}", encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file]
    except OSError:
        if must:
            raise
        return []
    return [line for line in lines if line and not line.startswith("#")]


def _parameter(line: str) -> tuple[str, str]:
    name, _, description = line.partition(" ")
    return name, description.strip()


def _script_problem(path: str, script: str) -> str | None:
    try:
        mode = os.stat(f"{path}/{script}").st_mode
    except OSError as err:
        return f"the script {script} is missing" if isinstance(err, FileNotFoundError) else f"{script}: {err.strerror}"
    if not stat.S_ISREG(mode):
        return f"{script} is not a file"
    if not os.access(f"{path}/{script}", os.X_OK):
        return f"the script {script} is not executable"
    return None
