"""Calls interrupted at each of their lines, by signals, and by calls of other threads: the tests of any list of cases.

The sample runs with all other tests, and always takes the same lines. `make faults` takes all lines, and sends signals:
which line a signal meets depends on the machine.
"""

from __future__ import annotations

import zlib
from random import Random

import pytest
from faults.injection import Trial, Verdict, sample

__all__ = [
    "test_a_sample_of_lines",
    "test_calls_that_meet",
    "test_every_line",
    "test_many_signals",
]

LINES, MEETINGS = 12, 4  # of the sample, for each case
MANY_SIGNALS = 200


def test_a_sample_of_lines(trial: Trial) -> None:
    errors = trial.case.errors
    found = [
        trial.interrupted_at(n, errors[i % len(errors)])
        for i, n in enumerate(sample(trial.lines(), LINES, seed=zlib.crc32(trial.case.name.encode())))
    ]
    _check(found)


def test_calls_that_meet(trial: Trial) -> None:
    assert trial.met_at(sample(trial.lines(), MEETINGS, seed=1)) == []


@pytest.mark.faults
def test_every_line(trial: Trial) -> None:
    errors = trial.case.errors
    _check([trial.interrupted_at(n, errors[n % len(errors)]) for n in range(1, trial.lines() + 1)])


@pytest.mark.faults
def test_many_signals(trial: Trial) -> None:
    random, longest = Random(5), trial.seconds()
    found = [trial.signalled_after(random.uniform(0, 1.2 * longest)) for _ in range(MANY_SIGNALS)]
    assert any(verdict.state != "committed" for verdict in found), "no signal met the call"
    _check(found)


def _check(found: list[Verdict]) -> None:
    problems = [verdict.problem for verdict in found if verdict.problem]
    assert not problems, f"{len(problems)} of {len(found)}:\n" + "\n".join(problems)
