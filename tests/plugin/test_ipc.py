# SPDX-License-Identifier: BSD-3-Clause
"""Tensors and events that two processes share: the scenes of ipc_cases.py,
ipc_event_cases.py and ipc_error_cases.py. The suite plugin runs one scene of each test in
a VM."""

import inspect

import ipc_cases
import ipc_error_cases
import ipc_event_cases
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
    "unsent_messages_leave_nothing",
    "interrupted_receive",
    "sender_cannot_share",
    "other_users",
    "another_user_answers",
    "sender_without_room",
]
HELPERS = {"describe", "keep", "sum_up", "rebuild"}
MODULES = ipc_cases, ipc_error_cases, ipc_event_cases


def scenes():
    """The module of each scene, by name."""
    return {
        name: module.__name__
        for module in MODULES
        for name, found in vars(module).items()
        if inspect.isfunction(found)
        and found.__module__ == module.__name__
        and name not in HELPERS
    }


@pytest.fixture
def play(run_forked):
    return lambda scene: run_forked(f"import {scenes()[scene]} as m\nm.{scene}()")


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
    assert set(scenes()) == {*MEMORY, *LIFE, *ORDER, *EVENTS, *ERRORS}
