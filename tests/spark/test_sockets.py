"""The directory of sockets between Spark and Python: for this user alone, short, gone at the end."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from windlass.spark import sockets
from windlass.spark.sockets import DIRECTORY, ENABLED, LONGEST, socket_settings

SOURCE = Path(__file__).parents[2] / "src"
pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(os.name != "posix", reason="there are no Unix sockets"),
]


def test_what_the_user_chose_stays():
    assert socket_settings({ENABLED: "false"}) == {ENABLED: "false"}
    assert socket_settings({DIRECTORY: "/run/mine"}) == {ENABLED: "true"}


@pytest.mark.parametrize("name", ["long" * 20, "Upper"])
def test_spark_can_use_the_directory_whatever_the_temporary_one_is(tmp_path, monkeypatch, name):
    """Spark refuses long ones. The paths of state servers reach workers in lower case."""
    (tmp_path / name).mkdir()
    monkeypatch.setattr(sockets, "LONGEST", LONGEST if len(name) > LONGEST else 1000)
    monkeypatch.setattr(sockets.tempfile, "tempdir", str(tmp_path / name))
    found = sockets._directory.__wrapped__(os.getpid())
    assert found is not None and found.parent == Path("/tmp").resolve() and list((tmp_path / name).iterdir()) == []
    found.rmdir()


def test_without_a_place_for_it_spark_uses_tcp_and_a_secret(monkeypatch):
    monkeypatch.setattr(sockets, "_directory", lambda process: None)
    assert socket_settings({}) == {ENABLED: "false"}


def test_a_place_where_others_could_replace_it_is_none(tmp_path):
    tmp_path.chmod(0o777)
    assert sockets._locked(tmp_path) is None and list(tmp_path.iterdir()) == []


HOLD = """
import os, sys
from pathlib import Path
from windlass.spark import sockets
sockets.LONGEST = 1000
sockets._remove_stale(Path(sys.argv[1]))
print(sockets._locked(Path(sys.argv[1])), flush=True)
sys.stdin.read()
"""


def test_directories_of_killed_drivers_are_removed(tmp_path):
    (tmp_path / "windlass-sockets-link").symlink_to(SOURCE)

    def start():
        command = [sys.executable, "-c", HOLD, str(tmp_path)]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, umask=0)
        place = Path(child.stdout.readline().strip())
        assert stat.S_IMODE(place.stat().st_mode) == 0o700
        return child, place

    (first, killed), (second, running) = start(), start()
    (killed / ".0.sock").touch()
    first.kill()
    first.wait()
    third, new = start()
    assert not killed.exists() and running.exists() and new.exists()
    for child in (second, third):
        child.communicate()
    assert [path.name for path in tmp_path.iterdir()] == ["windlass-sockets-link"] and SOURCE.exists()


SESSION = """
import errno, json, os, socket, sys, threading
from pathlib import Path
from windlass import Query, Tumbling, agg
from windlass.spark.session import session
from windlass.spark.pipeline import shared_windows

temporary = Path(sys.argv[1])
spark = session(master="local[1]", config={"spark.sql.shuffle.partitions": 1, "spark.local.dir": str(temporary)})
place = Path(spark.sparkContext.getConf().get("spark.python.unix.domain.socket.dir"))
found, outside, tried, modes = set(), set(), set(), set()
running = threading.Event()


def refused_to_others(path):
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        os._exit(socket.socket(socket.AF_UNIX).connect_ex(str(path)))
    return errno.errorcode.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def watch():
    while not running.wait(0.02):
        outside.update(map(str, temporary.glob(".*.sock")))
        modes.update(oct(path.stat().st_mode & 0o777) for path in temporary.glob("*/windlass-rows"))
        for path in place.iterdir():
            found.add(str(path))
            if not tried and os.geteuid() == 0:
                tried.add(refused_to_others(path))


watcher = threading.Thread(target=watch, daemon=True)
watcher.start()
events = spark.readStream.format("windlass-generator").options(rows=200, rowsPerSecond=10, rowsPerBatch=100).load()
windows = shared_windows(
    events, Query("q", Tumbling("1s"), agg.count()), time="ts", key="sensor", watermark="0 seconds", buckets=1
)
query = windows.writeStream.foreachBatch(lambda frame, batch: frame.collect()).option(
    "checkpointLocation", str(temporary / "checkpoint")
).trigger(availableNow=True).start()
query.awaitTermination()
running.set()
watcher.join()
mode = oct(place.stat().st_mode & 0o777)
print(json.dumps([str(place), mode, len(found), *map(sorted, (outside, tried, modes))]))
spark.stop()
"""


@pytest.mark.slow
def test_nobody_else_can_connect_to_the_workers_of_a_session(tmp_path):
    """A stream with state, a file of rows and a function for each batch, under umask 0."""
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "TMPDIR": str(tmp_path)}
    options = f"{environment.get('JDK_JAVA_OPTIONS', '')} -Djava.io.tmpdir={tmp_path}"
    run = subprocess.run(
        [sys.executable, "-c", SESSION, str(tmp_path)],
        env=environment | {"JDK_JAVA_OPTIONS": options},
        capture_output=True,
        text=True,
        timeout=300,
        umask=0,
    )
    assert run.returncode == 0, run.stderr
    place, mode, sockets_seen, outside, tried, modes = json.loads(run.stdout.splitlines()[-1])
    assert mode == "0o700" and sockets_seen > 2 and outside == []
    assert tried == (["EACCES"] if os.geteuid() == 0 else [])
    assert modes == ["0o700"]
    assert not Path(place).exists()
