# SPDX-License-Identifier: BSD-2-Clause
"""A strict reader of Prometheus' text format 0.0.4: it refuses what some of its readers would let pass.

Rules beyond the grammar are those of `promtool check metrics`: each family has its help and its type before its
samples, and its samples together; counters end with `_total`; no sample is there twice; buckets of histograms add up.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, field

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|})')
_HEAD = re.compile(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
_KINDS = ("counter", "gauge", "histogram")
_OF_HISTOGRAM = ("_bucket", "_sum", "_count")

Labels = tuple[tuple[str, str], ...]


@dataclass
class Family:
    meaning: str = ""
    kind: str = ""
    samples: dict[tuple[str, Labels], float] = field(default_factory=dict)


def read_page(text: str) -> dict[str, Family]:
    """Give the families by their names; raises `AssertionError` for what is wrong."""
    assert text.endswith("\n")
    families: dict[str, Family] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            _take_head(line, families)
            continue
        name, labels, value = _sample(line)
        family = next(reversed(families)) if families else ""
        found = families[family]
        endings = _OF_HISTOGRAM if found.kind == "histogram" else ("",)
        assert name in [family + ending for ending in endings], f"{line}: not together with its family"
        assert found.kind and (name, labels) not in found.samples, line
        found.samples[name, labels] = value
    for name, each in families.items():
        _check(name, each)
    return families


def _take_head(line: str, families: dict[str, Family]) -> None:
    head = _HEAD.fullmatch(line)
    assert head is not None, line
    word, name, rest = head.groups()
    if word == "HELP":
        assert name not in families, f"{line}: it is there twice"
        families[name] = Family(rest)
        return
    family = families.get(name)
    assert family is not None and next(reversed(families)) == name, f"{line}: no help stands before it"
    assert not family.kind and not family.samples and rest in _KINDS, line
    family.kind = rest


def _sample(line: str) -> tuple[str, Labels, float]:
    name = _NAME.match(line)
    assert name is not None, line
    place, labels = name.end(), []
    if line[place] == "{":
        place += 1
        while line[place - 1] != "}":
            label = _LABEL.match(line, place)
            assert label is not None, line
            labels.append((label[1], label[2]))
            place = label.end()
    assert line[place] == " " and len({each for each, _ in labels}) == len(labels), line
    return name.group(), tuple(sorted(labels)), float(line[place + 1 :])


def _check(name: str, family: Family) -> None:
    assert family.kind, name
    assert (family.kind == "counter") == name.endswith("_total"), f"{name} is a {family.kind}"
    if family.kind == "counter":
        assert all(value >= 0 for value in family.samples.values()), name
    if family.kind == "histogram":
        _check_histogram(name, family)


def _check_histogram(name: str, family: Family) -> None:
    buckets: dict[Labels, list[tuple[float, float]]] = defaultdict(list)
    for (sample, labels), value in family.samples.items():
        if sample.endswith("_bucket"):
            rest = tuple(each for each in labels if each[0] != "le")
            buckets[rest].append((float(dict(labels)["le"].replace("Inf", "inf")), value))
    for labels, found in buckets.items():
        bounds, counts = [bound for bound, _ in found], [count for _, count in found]
        assert bounds == sorted(set(bounds)) and bounds[-1] == math.inf and counts == sorted(counts), (name, labels)
        assert family.samples[f"{name}_count", labels] == counts[-1] and (f"{name}_sum", labels) in family.samples
