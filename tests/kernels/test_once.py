"""Real processes that need the same kernel at the same time, and a cache of their own."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from windlass.kernels import CannotCompile, compiled, once

# Says how many kernels it has compiled rather than loaded. What it waits for is that all of them have started.
RUN = """
    import sys
    import numpy as np
    from windlass.kernels import compiled

    def total(values):
        found = 0.0
        for i in range(len(values)):
            found += values[i]
        return found

    kernel = compiled(total)
    print("ready", flush=True)
    sys.stdin.readline()
    assert kernel(np.array([1.0, 2.0])) == 3.0
    print(kernel.compilations, flush=True)
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "run.py").write_text(textwrap.dedent(RUN))
    started = []

    def one():
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": tmp_path}
        started.append(subprocess.Popen([sys.executable, "run.py"], **streams))
        return started[-1]

    yield one
    for process in started:
        process.kill()
        process.communicate()


def test_one_of_many_compiles(start):
    processes = [start() for _ in range(4)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    assert sorted(int(process.stdout.readline()) for process in processes) == [0, 0, 0, 1]


HELD = """
    import sys
    from windlass.kernels import once
    print(once._lock(sys.argv[1], "kernel"), flush=True)
    sys.stdin.readline()
"""


def test_a_lock_ends_with_its_process(tmp_path, monkeypatch):
    program = [sys.executable, "-c", textwrap.dedent(HELD), str(tmp_path)]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "True\n"
        monkeypatch.setattr(once, "_PATIENCE", 0.05)
        assert not once._lock(str(tmp_path), "kernel")  # after a while one goes on without
        assert once._lock(str(tmp_path), "another")
        holder.kill()
    monkeypatch.setattr(once, "_PATIENCE", 60.0)
    assert once._lock(str(tmp_path), "kernel")


def test_what_cannot_be_compiled_is_not_held():
    def broken(values):
        return values.no_such_thing

    kernel = compiled(broken)
    for _ in range(2):
        with pytest.raises(CannotCompile):
            kernel(np.array([1.0]))
        assert not kernel.dispatcher._cache.held


def test_a_directory_that_may_only_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(once.os, "open", lambda *_: (_ for _ in ()).throw(PermissionError))
    assert not once._lock(str(tmp_path), "kernel")
