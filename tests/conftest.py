"""Hypothesis profiles: `ci` repeats the same examples on every run, `dev` looks for new ones.

All tests of Spark share one session.
"""

import os
from typing import Any

import pytest
from hypothesis import settings

# Java for runs of seconds: without the second compiler and the parallel collectors a session takes half the processor
# time. Whatever starts a JVM here hands it on, to executors too.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

settings.register_profile("ci", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("dev", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Tests marked `faults` run only where `-m` asks for them."""
    if "faults" not in config.getoption("-m"):
        long = [item for item in items if item.get_closest_marker("faults")]
        items[:] = [item for item in items if item not in long]
        config.hook.pytest_deselected(items=long)
    items.sort(key=lambda item: _turn(item.nodeid))


# Tests of Spark that take long and have sessions of their own, or none.
_APART = (
    "::test_stages[",
    "/test_kills.py::",
    "/test_java.py::",
    "/test_merge.py::",
    "::test_functions_of_a_program",
    "::test_a_new_session_is_quiet_and_listens_on_loopback_only",
)


def _needs_the_session(nodeid: str) -> bool:
    return nodeid.startswith("tests/spark/") and not any(part in nodeid for part in _APART)


def _turn(nodeid: str) -> int:
    """What takes longest begins first, so that no worker is left alone with it in the end."""
    return 0 if _needs_the_session(nodeid) else 1 if nodeid.startswith("tests/spark/") else 2


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """All tests of Spark go to one worker, where they share a session; the others go file by file, as --dist says."""
    from xdist.scheduler import LoadFileScheduling

    class OneSession(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if _needs_the_session(nodeid) else str(super()._split_scope(nodeid))

    config.option.loadscopereorder = False  # xdist would begin with the scopes of most tests
    return OneSession(config, log) if config.getvalue("dist") == "loadfile" else None
