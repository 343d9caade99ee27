# SPDX-License-Identifier: BSD-2-Clause
"""Stories of scenarios: what is told, and how two are compared."""

from ganeti_simulation.plans.stories import Story, differences, read_scenario

UUID = "00000000-0000-4000-8000-000000000002"


def _told(*events):
    story = Story()
    for who, sentence in events:
        story.hear(1.0, who, sentence)
    return story.lines


def test_a_story_begins_with_the_first_step_and_tells_what_matters():
    assert _told(
        ("node1.example.com/ganeti-wconfd[103]", "job 1.1 step 2: ChangeCluster committed as 1.3 (1 put, 0 removed)"),
        ("plan", "user sets limit 9"),
        ("user", "user sets limit 9: accepted as job 1"),
        ("node1.example.com/ganeti-wconfd[103]", "job 1.1 step 2: ChangeCluster committed as 1.3 (1 put, 0 removed)"),
        ("node1.example.com/ganeti-noded[99]", "node daemon of node1.example.com listens on port 1811"),
        ("node2.example.com", "loses its power"),
    ) == [
        "user sets limit 9",
        "  user: user sets limit 9: accepted as job 1",
        "  node1 ganeti-wconfd: job 1: ChangeCluster committed as 1.3",
        "  node2: loses its power",
    ]


def test_names_are_short_and_chance_is_left_out():
    who = "node3.example.com/ganeti-noded[9]"
    assert _told(
        ("plan", "x"),
        (who, f"epoch 1777991 promised to node {UUID}, which has a copy of 1.3"),
        (who, f"Epoch 2 begins: Membership(version=(2, 1), members=('{UUID}',))"),
        (
            who,
            "WARNING: The copy at node node1.example.com was in-sync and is away now: Node node1.example.com cannot be "
            "reached: 10.0.0.1 port 1811: connection refused",
        ),
    )[1:] == [
        "  node3 ganeti-noded: epoch FORCED promised to node node2, which has a copy of 1.3",
        "  node3 ganeti-noded: Epoch 2 begins: members node2",
        "  node3 ganeti-noded: WARNING: The copy at node node1 was in-sync and is away now: Node node1 does not answer",
    ]


def test_a_sentence_is_told_once_a_step():
    assert _told(("plan", "a"), ("user", "x"), ("user", "x"), ("plan", "b"), ("user", "x")) == [
        "a",
        "  user: x",
        "b",
        "  user: x",
    ]


def test_within_a_step_the_order_says_nothing():
    assert differences(["a", "  x", "  y"], ["a", "  y", "  x"]) == []
    assert differences(["a", "  x", "b", "  y"], ["a", "  y", "b", "  x"]) == [
        "'a': no longer told:  x",
        "'a': told now:  y",
        "'b': no longer told:  y",
        "'b': told now:  x",
    ]


def test_another_step_ends_the_comparison():
    assert differences(["a", "b"], ["a", "c", "  x"]) == ["after 1 steps 'c' came, and the file has 'b'"]
    assert differences(["a"], ["a", "b"]) == ["after 1 steps 'b' came, and the file has ''"]


def test_a_scenario_keeps_its_head():
    head = "# why\nnodes 3\n2 user removes one"
    scenario = read_scenario(f"{head}\n---\nuser removes one\n  user: x\n")
    assert scenario.story == ("user removes one", "  user: x")
    assert scenario.with_story(["y"]) == f"{head}\n---\ny\n"
    assert read_scenario(head).story is None
    assert read_scenario(head).with_story(["y"]) == f"{head}\n---\ny\n"
