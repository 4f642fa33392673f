# SPDX-License-Identifier: BSD-3-Clause
"""Tensors and events that two processes share: the scenes of ipc_cases.py. The suite plugin
runs two scenes of each test in a VM."""

import inspect

import ipc_cases
import pytest

MEMORY = [
    "writes_on_both_sides",
    "metadata",
    "same_storage",
    "holders",
    "reductions_by_hand",
    "second_card",
]
LIFE = [
    "killed_receiver",
    "sender_frees_first",
    "killed_sender",
    "no_leaks",
    "unsent_messages_leave_nothing",
]
ORDER = [
    "order_on_the_card",
    "moving_keeps_the_order",
    "work_that_never_ends",
    "threads_send",
]
EVENTS = [
    "event_of_the_sender",
    "event_recorded_before",
    "event_of_the_receiver",
    "event_freed_early",
    "event_of_a_dead_process",
    "event_arguments",
]
ERRORS = [
    "nothing_else_is_shown",
    "strangers_get_nothing",
    "refused_at_put",
    "received_is_not_sent_again",
    "forked_child",
    "forged_handles",
]
HELPERS = {"describe", "echo", "keep", "raises", "sum_up", "used_memory"}


@pytest.fixture
def play(run_forked):
    return lambda scene: run_forked(f"import ipc_cases\nipc_cases.{scene}()")


@pytest.mark.parametrize("scene", MEMORY)
def test_memory(play, scene):
    play(scene)


@pytest.mark.parametrize("scene", LIFE)
def test_life(play, scene):
    play(scene)


@pytest.mark.parametrize("scene", ORDER)
def test_order(play, scene):
    play(scene)


@pytest.mark.parametrize("scene", EVENTS)
def test_events(play, scene):
    play(scene)


@pytest.mark.parametrize("scene", ERRORS)
def test_errors(play, scene):
    play(scene)


def test_every_scene_is_played():
    scenes = {
        name
        for name, found in vars(ipc_cases).items()
        if inspect.isfunction(found) and found.__module__ == "ipc_cases"
    }
    assert scenes - HELPERS == {*MEMORY, *LIFE, *ORDER, *EVENTS, *ERRORS}
