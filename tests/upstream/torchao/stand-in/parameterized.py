# SPDX-License-Identifier: MIT
"""The part of the package parameterized that torchao's tests use."""

import sys


class param:
    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs


class parameterized:
    @staticmethod
    def expand(cases, **options):
        """Adds a method to the class for each case, in place of the decorated one."""

        def decorate(function):
            scope = sys._getframe(1).f_locals
            for i, case in enumerate(cases):
                if not isinstance(case, param):
                    case = param(*case) if isinstance(case, (tuple, list)) else param(case)

                def one(self, case=case):
                    return function(self, *case.args, **case.kwargs)

                scope[f"{function.__name__}_{i}"] = one

        return decorate
