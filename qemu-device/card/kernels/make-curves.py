#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes kernel_curve_tables.h: erf and tanh in F32 as polynomials, one for each of 32 pieces.

Piece i is about i * step. There the function is high + (low + a1 * t + a2 * t^2 + ...)
with t the distance from it. high is a float and the rest is small beside it, so that only
the last addition's rounding counts. Near 0, where no float is near enough, the function
is x + x * (b0 + b1 * x^2 + ...) instead. Each polynomial goes through the function at
Chebyshev's points. Needs numpy.

usage: make-curves.py > kernel_curve_tables.h"""

import math

import numpy as np

PIECES = 32


def points(low, high, count):
    k = np.arange(count)
    x = np.cos((2 * k + 1) * math.pi / (2 * count))
    return (low + high) / 2 + (high - low) / 2 * x


def fit(f, low, high, degree):
    x = points(low, high, degree + 1)
    scale = max(abs(low), abs(high))
    a = np.linalg.solve(np.vander(x / scale, increasing=True), [f(v) for v in x])
    return a / scale ** np.arange(degree + 1)


def piece(f, centre, half, degree):
    a = fit(lambda t: f(centre + t), -half, half, degree)
    high = np.float32(f(centre))
    return [high, f(centre) - float(high), *a[1:]]


def near_zero(f, end, degree):
    def rest(u):
        x = math.sqrt(u)
        return f(x) / x - 1

    return fit(rest, 0, end * end, degree)


def text(name, values):
    floats = [float(np.float32(v)).hex() + "f" for v in values]
    lines = [", ".join(floats[i : i + 4]) for i in range(0, len(floats), 4)]
    body = ",\n\t".join(lines)
    return f"static const float {name}[{len(floats)}] = {{\n\t{body}\n}};\n"


def curve(name, f, step, degree, near, near_degree):
    table = np.array([piece(f, i * step, step / 2, degree) for i in range(PIECES)])
    end = (near + 0.5) * step
    print(f"/* {name}: x + x * q(x^2) below piece {near + 1} */")
    print(f"#define {name.upper()}_STEP {float(step).hex()}f")
    print(f"#define {name.upper()}_DEGREE {degree}")
    print(f"#define {name.upper()}_NEAR {near}")
    print(f"#define {name.upper()}_NEAR_DEGREE {near_degree}")
    # The columns are what a lookup wants: one coefficient of all pieces.
    print(text(f"{name}_piece", table.T.flatten()))
    print(text(f"{name}_near", near_zero(f, end, near_degree)))


print("/* SPDX-License-Identifier: MIT */")
print("/* make-curves.py writes this file. */")
print("#ifndef OPENREG_KERNEL_CURVE_TABLES_H\n#define OPENREG_KERNEL_CURVE_TABLES_H\n")
curve("erf", math.erf, 1 / 8, 4, 3, 4)
curve("tanh", math.tanh, 9.25 / 32, 6, 1, 5)
print("#endif")
