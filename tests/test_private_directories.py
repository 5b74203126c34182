"""The rule for directories that code is loaded from, and what is created for one user alone."""

import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from windlass import private_directories
from windlass.errors import UntrustedDirectory
from windlass.private_directories import (
    create_file,
    create_private,
    own,
    trusted,
    user_cache,
    weakness,
    weakness_of,
)

pytestmark = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")
USER, OTHER = 1000, 1001


def status(mode, owner):
    return os.stat_result((mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))


@pytest.fixture(params=[0o000, 0o002, 0o022, 0o077, 0o277])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture(autouse=True)
def first_warnings(monkeypatch):
    monkeypatch.setattr(private_directories, "_warned", set())


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    "bits, owner, is_parent, reason",
    [
        (0o700, USER, False, None),
        (0o755, 0, False, None),
        (0o755, USER, True, None),
        (0o1777, 0, True, None),  # /tmp
        (0o1777, 0, False, "it is writable by its group and everyone (mode 1777)"),
        (0o777, 0, True, "it is writable by its group and everyone (mode 0777)"),
        (0o775, USER, False, "it is writable by its group (mode 0775)"),
        (0o775, USER, True, "it is writable by its group (mode 0775)"),
        (0o702, USER, False, "it is writable by everyone (mode 0702)"),
        (0o700, OTHER, False, "it belongs to another user (uid 1001)"),
        (0o1755, OTHER, True, "it belongs to another user (uid 1001)"),
    ],
)
def test_the_rule_for_one_directory(bits, owner, is_parent, reason):
    assert weakness_of(status(stat.S_IFDIR | bits, owner), USER, is_parent=is_parent) == reason


def test_what_is_no_directory():
    assert weakness_of(status(stat.S_IFREG | 0o600, USER), USER, is_parent=False) == "it is not a directory"


def test_the_rule_holds_for_parents(tmp_path):
    path = tmp_path / "open" / "inner"
    create_private(path)
    assert weakness(path) is None
    path.parent.chmod(0o777)
    assert weakness(path) == f"its parent {path.parent} is writable by its group and everyone (mode 0777)"
    path.parent.chmod(0o1777)
    assert weakness(path) is None


def test_a_warning_names_the_directory_and_the_reason_once(tmp_path):
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    with pytest.warns(UntrustedDirectory, match=rf"MY_CACHE {place} is not used: it is writable by .* \(mode 0777\)\."):
        assert trusted(place, "MY_CACHE") is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trusted(place, "MY_CACHE") is None


def test_links_are_resolved(tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert trusted(tmp_path / "link", "MY_CACHE") == (tmp_path / "real").resolve()
    (tmp_path / "real").chmod(0o777)
    with pytest.warns(UntrustedDirectory, match=rf"link \(which is {tmp_path}/real\) is not used: it is writable"):
        assert trusted(tmp_path / "link", "MY_CACHE") is None


def test_what_cannot_be_a_directory(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for name in ("file", "file/below", "circle"):
        with pytest.warns(UntrustedDirectory, match="is not used: it "):
            assert trusted(tmp_path / name, "MY_CACHE") is None


def test_new_directories_are_private_under_any_umask(tmp_path, umask):
    create_private(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3


def test_the_mode_of_a_directory_that_exists_stays(tmp_path):
    (tmp_path / "given").mkdir()
    (tmp_path / "given").chmod(0o2750)
    create_private(tmp_path / "given" / "new")
    assert mode(tmp_path / "given") == 0o2750


@pytest.mark.parametrize("bits, readable", [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644), (0o777, 0o644)])
def test_who_may_list_a_directory_may_read_a_new_file(tmp_path, bits, readable):
    before = os.umask(0)
    try:
        tmp_path.chmod(bits)
        create_file(tmp_path / "file")
        assert mode(tmp_path / "file") == readable
        os.umask(0o077)
        create_file(tmp_path / "stricter")
        assert mode(tmp_path / "stricter") == 0o600
    finally:
        os.umask(before)
        tmp_path.chmod(0o700)


def test_a_place_that_was_prepared_by_another_is_refused(tmp_path):
    own(tmp_path / "mine")
    own(tmp_path / "mine")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for name in ("open", "link"):
        with pytest.raises(PermissionError, match="not a directory of this user alone"):
            own(tmp_path / name)


def test_the_cache_of_the_user(tmp_path, monkeypatch, umask):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert user_cache() == tmp_path / "cache" / "windlass"
    assert mode(tmp_path / "cache") == mode(tmp_path / "cache" / "windlass") == 0o700


def test_another_place_if_others_can_write_to_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(private_directories.tempfile, "tempdir", str(tmp_path))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    ours = tmp_path / f"windlass-{os.geteuid()}"
    with pytest.warns(UntrustedDirectory, match="cache/windlass is not used: its parent"):
        assert user_cache() == ours  # which the next process finds
    assert mode(ours) == 0o700
    ours.rmdir()
    ours.mkdir()
    ours.chmod(0o777)  # by someone who was here first
    private_directories.temporary_directory.cache_clear()
    with pytest.warns(UntrustedDirectory):
        last = user_cache()
    assert last != ours and last.parent == tmp_path and mode(last) == 0o700
    private_directories.temporary_directory.cache_clear()


def test_a_directory_of_a_process_goes_with_it_and_not_with_its_forks(tmp_path):
    program = """
import os, sys
from windlass.private_directories import temporary_directory
place = temporary_directory()
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
print(place, oct(place.stat().st_mode & 0o777))
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    place, bits = run.stdout.split()
    assert bits == "0o700" and Path(place).parent == tmp_path and not Path(place).exists()
