"""A trial for each of the `CASES` of a test module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from faults.injection import Case, Trial


def pytest_generate_tests(metafunc: Any) -> None:
    if "trial" in metafunc.fixturenames:
        metafunc.parametrize("trial", metafunc.module.CASES, ids=str, indirect=True, scope="module")


@pytest.fixture(scope="module")
def trial(request: pytest.FixtureRequest) -> Iterator[Trial]:
    case: Case = request.param
    made = Trial(case)
    yield made
    made.close()
