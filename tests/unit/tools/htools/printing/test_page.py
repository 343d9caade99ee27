# SPDX-License-Identifier: BSD-2-Clause
"""The page of ``--html``: whole in itself, true to the plan, and safe whatever the names."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ganeti.tools.htools.printing.page import Act, Page, Run, render
from ganeti.tools.htools.programs import hbal, hspace

CLUSTERS = Path(__file__).resolve().parents[4] / "golden" / "htools" / "clusters"
TAGGED = CLUSTERS / "tagged.data"
EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)>&amp;\u2028"
BROWSER = shutil.which("chromium")


class Reader(HTMLParser):
    """Collects elements with their attributes, and the content of the data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self._inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = dict(attrs).get("id") == "data"

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        self.data += data if self._inside else ""


def page_of(path: Path) -> tuple[str, dict[str, Any]]:
    text = path.read_text()
    return text, json.loads(Reader(text).data)


@pytest.fixture
def balanced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, list[str]]:
    """The page of a plan, and the steps that were printed."""
    path = tmp_path / "page.html"
    assert hbal.main(["-t", str(TAGGED), "--html", str(path)]) == 0
    return path, re.findall(r"^ +\d+\. .*$", capsys.readouterr().out, re.MULTILINE)


def test_nothing_comes_from_outside(balanced: tuple[Path, list[str]]) -> None:
    text, _ = page_of(balanced[0])
    for tag, attributes in Reader(text).elements:
        assert tag not in ("link", "img", "iframe", "object", "base")
        assert not {"src", "href", "style"} & attributes.keys()
    assert not re.search(r"https?:|url\(|@import|innerHTML|document\.write|eval\(", text)


def test_it_tells_the_steps_that_were_printed(balanced: tuple[Path, list[str]]) -> None:
    _, data = page_of(balanced[0])
    (run,) = data["runs"]
    assert len(run["acts"]) == len(balanced[1]) > 0
    for (_, price, score, changes), line in zip(run["acts"], balanced[1], strict=True):
        assert score in line
        assert price.startswith("copies ")
        assert 1 <= len(changes) <= 3
    assert len(data["looks"]) == len(data["nodes"])
    moved = sum(look[4] for look in data["looks"])
    now = {look[0]: look for look in data["looks"]}
    for act in run["acts"]:
        now |= {look[0]: look for look in act[3]}
    assert sum(look[4] for look in now.values()) == moved


def test_the_usual_words_are_the_same_with_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for more in ([], ["--html", str(tmp_path / "page")]):
        assert hbal.main(["-t", str(TAGGED), *more]) == 0
        said.append(capsys.readouterr())
    assert said[0] == said[1]


def test_a_balanced_cluster_has_a_page_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert hbal.main(["-t", str(TAGGED), "--min-score=1000", "--html", str(tmp_path / "page")]) == 0
    assert "Nothing to do" in capsys.readouterr().out
    assert page_of(tmp_path / "page")[1]["runs"][0]["acts"] == []


def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "missing" / "page"
    assert hbal.main(["-t", str(TAGGED), "-q", "--html", str(path)]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"hbal: {path}")


def test_names_are_only_text() -> None:
    page = Page(EVIL, [EVIL], [EVIL], [(0, 0.1, 0.2, 0.3, 1, 2, 0)], [Run(EVIL, [Act(EVIL, EVIL, EVIL, [])])])
    text = render(page)
    reader = Reader(text)
    assert [tag for tag, _ in reader.elements].count("script") == 2
    assert "img" not in [tag for tag, _ in reader.elements]
    data = json.loads(reader.data)
    assert data["nodes"] == [EVIL]
    assert data["runs"][0]["acts"][0][:3] == [EVIL, EVIL, EVIL]


def test_room_is_shown_instance_by_instance(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page"
    assert hspace.main(["--simulate=p,4,100G,16G,8", "--html", str(path)]) == 0
    fits = [int(count) for count in re.findall(r"(\d+) instances allocated", capsys.readouterr().out)]
    _, data = page_of(path)
    assert [run["name"] for run in data["runs"]] == ["tiered", "standard"]
    assert len(data["runs"][1]["acts"]) == fits[-1]
    assert all(run["acts"] for run in data["runs"])
    first, last = data["looks"], data["runs"][1]["acts"][-1][3]
    assert any(look[1:4] != first[look[0]][1:4] for look in last)


@pytest.mark.skipif(BROWSER is None, reason="there is no browser")
def test_a_browser_draws_it(balanced: tuple[Path, list[str]], tmp_path: Path) -> None:
    assert BROWSER is not None
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--virtual-time-budget=2000", "--dump-dom", balanced[0].as_uri()]
    drawn = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    _, data = page_of(balanced[0])
    steps = len(balanced[1])
    assert f"after step {steps} of {steps}" in drawn
    assert f"{len(data['nodes'])} of {len(data['nodes'])} nodes" in drawn
    assert len(re.findall(r'<div class="row', drawn)) == len(data["nodes"])
    assert len(re.findall("<li", drawn)) == steps
