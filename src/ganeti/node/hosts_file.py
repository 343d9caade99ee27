# SPDX-License-Identifier: BSD-2-Clause
"""Entries of /etc/hosts, as text. Pure."""


def with_host(text: str, name: str, address: str) -> str:
    """Give *text* with *name* at *address*; an entry of that name at another address goes."""
    short = name.partition(".")[0]
    names = list(dict.fromkeys((name, short)))
    lines = []
    for line in text.splitlines():
        entry = line.partition("#")[0].split()
        if entry[:1] == [address] and name in entry[1:]:
            return text
        if name in entry[1:]:
            rest = [word for word in entry[1:] if word not in names]
            if rest:
                lines.append("\t".join((entry[0], " ".join(rest))))
            continue
        lines.append(line)
    lines.append(f"{address}\t{' '.join(names)}")
    return "".join(f"{line}\n" for line in lines)


def without_host(text: str, name: str) -> str:
    """Give *text* without the name and its short form."""
    names = {name, name.partition(".")[0]}
    lines = []
    for line in text.splitlines():
        entry = line.partition("#")[0].split()
        if name in entry[1:]:
            rest = [word for word in entry[1:] if word not in names]
            if rest:
                lines.append("\t".join((entry[0], " ".join(rest))))
            continue
        lines.append(line)
    return "".join(f"{line}\n" for line in lines)
