"""Hypothesis profiles: `ci` repeats the same examples on every run, `dev` looks for new ones.

All tests of Spark share one session.
"""

import os
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """All tests of Spark go to one worker, where they share a session; the others go file by file, as --dist says."""
    from xdist.scheduler import LoadFileScheduling

    class OneSession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            # `test_stages` runs the pipeline's stages without Spark, and long.
            needs_spark = nodeid.startswith("tests/spark/") and "::test_stages[" not in nodeid
            return "spark" if needs_spark else str(super()._split_scope(nodeid))

    return OneSession(config, log) if config.getvalue("dist") == "loadfile" else None
