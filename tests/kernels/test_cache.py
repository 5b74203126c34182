"""Kernels on disk: found by other installations, compiled again if they are damaged, and never taken from a directory
that others could have written to."""

import hashlib
import os
import pickle
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from random import Random

import pytest

from windlass.kernels import cache
from windlass.kernels.cache import VARIABLE
from windlass.private_directories import create_private

SOURCE = Path(__file__).parents[2] / "src"

PROGRAM = """
import numpy as np
import windlass
from windlass import agg
from windlass.aggregates import evaluation
total = agg.define("total", lift=lambda x: x * 2.0, combine=lambda a, b: a + b)
assert total().of(np.array([3.0, 1.0])) == 8.0
assert agg.max().of(np.array([3, 1])) == 3
print(windlass.__file__)
print(sum(kernel.compilations for kernel in evaluation._kernels.values()))
"""


def running(program, home, directory, umask=0o022, **environment):
    """Run a program with a home and directories of its own; gives its output and its warnings."""
    inherited = {k: v for k, v in os.environ.items() if k not in ("XDG_CACHE_HOME", VARIABLE, "NUMBA_CACHE_DIR")}
    given = inherited | {"HOME": str(home), "TMPDIR": str(directory), "PYTHONPATH": str(SOURCE)} | environment
    command = [sys.executable, "-W", "error::windlass.errors.InterpretedAggregate", "-c", program]
    done = subprocess.run(command, env=given, cwd=directory, capture_output=True, text=True, umask=umask, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A directory with the kernels of the program."""
    place = tmp_path_factory.mktemp("real")
    running(PROGRAM, place, place, WINDLASS_CACHE_DIR="kernels")
    return place / "kernels"


@pytest.fixture
def home(tmp_path, real):
    """A home whose cache has the kernels, so that nothing is compiled where it is used."""
    create_private(tmp_path / "home" / ".cache" / "windlass")
    shutil.copytree(real, tmp_path / "home" / ".cache" / "windlass" / "kernels")
    return tmp_path / "home"


@pytest.fixture
def run(tmp_path, home):
    def run(program=PROGRAM, **options):
        return running(program, home, tmp_path, **options)

    return run


def test_what_one_installation_compiled_is_found_by_another(run, tmp_path):
    found = []
    for place in ("one", "two"):
        archive = tmp_path / place / "windlass.zip"
        archive.parent.mkdir()
        with zipfile.ZipFile(archive, "w") as zipped:
            for file in sorted((SOURCE / "windlass").rglob("*.py")):
                zipped.write(file, file.relative_to(SOURCE))
        (where, compilations), warned = run(PYTHONPATH=str(archive), WINDLASS_CACHE_DIR="kernels")
        assert where.startswith(str(archive)) and not warned
        found.append(int(compilations))
    assert found[0] > 0 and found[1] == 0
    assert list((tmp_path / "kernels").glob("*.kernel"))


def test_damaged_kernels_are_compiled_again_and_replaced(run, tmp_path, real):
    shutil.copytree(real, tmp_path / "kernels")
    files = sorted((tmp_path / "kernels").iterdir())
    for file in files:
        file.write_bytes(b"")
    assert run(WINDLASS_CACHE_DIR="kernels")[0][1] == str(len(files))
    assert run(WINDLASS_CACHE_DIR="kernels")[0][1] == "0"
    assert sorted((tmp_path / "kernels").iterdir()) == files and all(file.stat().st_size for file in files)


def damaged(whole, other, flips):
    yield from (b"", b"x", whole[:16], whole[-16:], whole[1:], whole + b"x", whole * 2, other)
    yield from (whole[:length] for length in range(1, len(whole), len(whole) // 50))
    random = Random(7)
    for _ in range(flips):
        flipped = bytearray(whole)
        flipped[random.randrange(len(whole))] ^= 1 << random.randrange(8)
        yield bytes(flipped)


def test_no_damage_passes_for_a_kernel(real, tmp_path):
    """Cut off, flipped, exchanged, empty: what is not as it was written under this name is not there."""
    first, second = sorted(real.iterdir())[:2]
    file = tmp_path / first.name
    for content in damaged(first.read_bytes(), second.read_bytes(), 500):
        file.write_bytes(content)
        assert cache._read(file) is None
    file.write_bytes(first.read_bytes())
    assert cache._read(file) == first.read_bytes()[:-16]


FORKS = """
import os
from pathlib import Path
import numpy as np
from windlass.kernels import compiled

def total(a):
    found = 0.0
    for i in range(len(a)):
        found += a[i]
    return found

def compilations():
    kernel = compiled(total)
    assert kernel(np.array([2.0, 3.0, 4.0])) == 9.0
    return kernel.compilations

def in_a_fork(expected):
    child = os.fork()
    if child == 0:
        os._exit(compilations() != expected)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended == 0, f"ended with {ended}"

assert compilations() == 1
(file,) = Path("kernels").iterdir()
whole = file.read_bytes()
for middle in range(1000, len(whole), 2000):
    file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :])
    in_a_fork(1)
    in_a_fork(0)
file.unlink()
file.mkdir()  # can neither be read nor replaced
in_a_fork(1)
assert list(Path("kernels").iterdir()) == [file]
"""


def test_damaged_machine_code_is_not_run(run):
    run(FORKS, WINDLASS_CACHE_DIR="kernels")


# ---------------------------------------------------------------- planted code

MARK = "planted"


class Planted:
    """What someone would leave in a cache: a pickle that runs a program when it is loaded."""

    def __reduce__(self):
        return os.system, (f"touch {MARK}",)


def plant(place, like):
    """Replace all kernels by ones whose digests are right, as a user who can write to a directory could."""
    for file in like.glob("*.kernel"):
        content = pickle.dumps(Planted())
        digest = hashlib.blake2b(file.name.encode() + b"\0" + content, digest_size=16).digest()
        (place / file.name).write_bytes(content + digest)


@pytest.fixture
def planted(tmp_path, real):
    """A directory with planted kernels."""
    place = tmp_path / "shared"
    place.mkdir(mode=0o755)
    plant(place, real)
    return place


def ran(tmp_path):
    return (tmp_path / MARK).exists()


def test_whoever_can_write_to_the_directory_of_a_user_runs_code(run, tmp_path, planted):
    """The attempts below fail because of their directories, not because the planted code is none."""
    with pytest.raises(AssertionError):
        run(WINDLASS_CACHE_DIR=str(planted))
    assert ran(tmp_path)


@pytest.mark.parametrize("variable", [VARIABLE, "NUMBA_CACHE_DIR"])
def test_nothing_is_loaded_from_a_directory_that_others_can_write_to(run, tmp_path, planted, variable):
    planted.chmod(0o777)
    (_, compilations), warned = run(**{variable: str(planted)})
    assert not ran(tmp_path) and compilations == "0"
    assert warned.count("is not used") == 1 and f"{variable} {planted} is not used: it is writable by" in warned


def test_what_takes_its_place_is_private_under_any_umask(run, tmp_path, home, planted):
    planted.chmod(0o777)
    shutil.rmtree(home / ".cache")
    (_, compilations), _ = run(umask=0, WINDLASS_CACHE_DIR=str(planted))
    assert not ran(tmp_path) and int(compilations) > 0
    private = home / ".cache" / "windlass" / "kernels"
    assert [path.stat().st_mode & 0o777 for path in (private, *private.parents[:2])] == [0o700] * 3
    assert {file.stat().st_mode & 0o777 for file in private.iterdir()} == {0o600}


def test_nothing_is_loaded_below_such_a_directory(run, tmp_path, planted):
    (tmp_path / "open").mkdir()
    planted = planted.rename(tmp_path / "open" / "shared")
    (tmp_path / "open").chmod(0o777)
    _, warned = run(WINDLASS_CACHE_DIR=str(planted))
    assert not ran(tmp_path) and f"is not used: its parent {tmp_path / 'open'} is writable by" in warned


def test_nothing_is_loaded_from_a_directory_of_another_user(run, tmp_path, planted):
    program = PROGRAM
    if os.geteuid() == 0:
        os.chown(planted, 65534, 65534)
    else:  # only root can change the owner: compare with another user instead
        program = "import os\nos.geteuid = lambda me=os.geteuid(): me + 1\n" + PROGRAM
    _, warned = run(program, WINDLASS_CACHE_DIR=str(planted))
    assert not ran(tmp_path) and "belongs to another user" in warned


def test_nothing_is_loaded_through_a_link_to_such_a_directory(run, tmp_path, planted):
    planted.chmod(0o777)
    (tmp_path / "link").symlink_to(planted)
    _, warned = run(WINDLASS_CACHE_DIR="link")
    assert not ran(tmp_path) and f"link (which is {planted}) is not used: it is writable by" in warned


def test_nothing_is_loaded_from_such_a_directory_beside_the_source(run, tmp_path, real):
    """A checkout that others can write to has no safe kernels; that its source is not safe either is another matter."""
    source = tmp_path / "source"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    beside = source / "windlass" / "kernels" / "__pycache__"
    beside.mkdir()
    plant(beside, real)
    beside.chmod(0o777)
    _, warned = run(PYTHONPATH=str(source))
    assert not ran(tmp_path) and f"{beside} is not used: it is writable by" in warned


def test_a_directory_that_may_only_be_read_is_used_and_the_rest_goes_to_the_user(run, tmp_path, home, real):
    """As of an image that brings its kernels along."""
    shutil.rmtree(home / ".cache")
    image = tmp_path / "image"
    shutil.copytree(real, image)
    lacking = next(image.glob("*.kernel"))
    lacking.unlink()
    image.chmod(0o555)
    program = PROGRAM
    if os.geteuid() == 0:  # who may write everywhere
        program = "import os\nos.access = lambda path, mode: not str(path).endswith('image')\n" + PROGRAM
    for expected in ("1", "0"):
        (_, compilations), warned = run(program, WINDLASS_CACHE_DIR=str(image))
        assert compilations == expected and not warned
    assert [file.name for file in (home / ".cache/windlass/kernels").iterdir()] == [lacking.name]
    image.chmod(0o755)


def test_the_directory_beside_the_source_can_be_read_by_those_who_read_the_source(tmp_path, real):
    """It has Python's compiled modules, too: as root leaves it, others use it."""
    source = tmp_path / "source"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
    running(PROGRAM, tmp_path, tmp_path, PYTHONPATH=str(source), PYTHONDONTWRITEBYTECODE="1")
    beside = source / "windlass" / "kernels" / "__pycache__"
    assert beside.stat().st_mode & 0o777 == 0o755
    assert {file.stat().st_mode & 0o777 for file in beside.glob("*.kernel")} == {0o644}
