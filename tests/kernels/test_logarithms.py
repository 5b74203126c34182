"""Logarithms in plain arithmetic, against the C library's, and compiled against interpreted."""

import math

import numpy as np
import pytest

from windlass.kernels import branchless_exp, branchless_log, compiled

INF, NAN = math.inf, math.nan
RANDOM = np.random.default_rng(8)
POSITIVE = np.concatenate(
    [
        np.exp(RANDOM.uniform(-745, 709, 20_000)),
        RANDOM.uniform(0.5, 2.0, 20_000),
        1.0 + RANDOM.uniform(-1e-9, 1e-9, 5_000),
        np.arange(1.0, 5_000.0),
        2.0 ** np.arange(-1074.0, 1024.0),
        [5e-324, 1e-310, np.finfo(float).tiny, np.finfo(float).max, np.sqrt(0.5), np.sqrt(2.0)],
    ]
)
ANY = np.concatenate([RANDOM.uniform(-745, 709.78, 20_000), RANDOM.uniform(-1, 1, 20_000), [0.0, 1e-300, -1e-300]])


def log_kernel(values, out):
    for i in range(len(values)):
        out[i] = branchless_log(values[i])


def exp_kernel(values, out):
    for i in range(len(values)):
        out[i] = branchless_exp(values[i])


def run(kernel, values):
    out = np.empty(len(values))
    compiled(kernel)(np.asarray(values, float), out)
    return out


@pytest.mark.parametrize(
    ("kernel", "values", "reference"), [(log_kernel, POSITIVE, math.log), (exp_kernel, ANY, math.exp)]
)
def test_within_one_unit_in_the_last_place(kernel, values, reference):
    expected = np.array([reference(x) for x in values.tolist()])
    assert (np.abs(run(kernel, values) - expected) <= np.spacing(np.abs(expected))).all()


@pytest.mark.parametrize(
    ("kernel", "function", "values"), [(log_kernel, branchless_log, POSITIVE), (exp_kernel, branchless_exp, ANY)]
)
def test_the_same_bits_compiled_and_interpreted(kernel, function, values):
    interpreted = np.array([function(x) for x in values[::7].tolist()])
    assert np.array_equal(run(kernel, values)[::7].view(np.int64), interpreted.view(np.int64))


LOGARITHMS = [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (-5e-324, NAN), (NAN, NAN), (-INF, NAN), (INF, INF), (1.0, 0.0)]
EXPONENTIALS = [
    (0.0, 1.0),
    (-INF, 0.0),
    (INF, INF),
    (NAN, NAN),
    (1e300, INF),
    (-1e300, 0.0),
    (709.8, INF),
    (-746.0, 0.0),
]


@pytest.mark.parametrize(
    ("kernel", "function", "cases"),
    [(log_kernel, branchless_log, LOGARITHMS), (exp_kernel, branchless_exp, EXPONENTIALS)],
)
def test_edges(kernel, function, cases):
    values, expected = map(list, zip(*cases, strict=True))
    assert np.array_equal(run(kernel, values), expected, equal_nan=True)
    assert np.array_equal([function(x) for x in values], expected, equal_nan=True)
