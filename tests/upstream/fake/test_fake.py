# SPDX-License-Identifier: MIT
"""Cases for test_run.py in the form of PyTorch's tests: one for each way to end."""

import os
import time
import unittest

import torch
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase


class TestFake(TestCase):
    @dtypes(torch.float32, torch.int64)
    def test_passes(self, device, dtype):
        ones = torch.ones(3, device=device, dtype=dtype)
        self.assertEqual(ones.device.type, torch.device(device).type)
        self.assertEqual(ones.sum(), 3)

    def test_skips(self, device):
        self.skipTest("a reason")

    @unittest.expectedFailure
    def test_succeeds_unexpectedly(self, device):
        pass

    @unittest.expectedFailure
    def test_fails_as_upstream_expects(self, device):
        self.fail()

    def test_fails(self, device):
        self.assertEqual(torch.device(device).type, "cpu")

    def test_fails_in_a_subtest(self, device):
        for kind in ("one", "two"):
            with self.subTest(kind=kind):
                self.assertEqual(torch.device(device).type, "cpu")

    def test_fails_everywhere(self, device):
        raise RuntimeError("no device can do this")

    def test_crashes(self, device):
        if torch.device(device).type != "cpu":
            os.abort()

    def test_hangs(self, device):
        if torch.device(device).type != "cpu":
            time.sleep(1000)

    def test_wants_a_card(self, device):
        self.assertNotEqual(torch.device(device).type, "cpu")


class TestBadClass(TestCase):
    @classmethod
    def setUpClass(cls):
        raise RuntimeError("no class")

    def test_one(self, device):
        pass


instantiate_device_type_tests(TestFake, globals())
instantiate_device_type_tests(TestBadClass, globals())
