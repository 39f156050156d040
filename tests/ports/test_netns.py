"""Namespaces: entering, coming back, finding; nothing stays open (Jo02)."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.ports import _netdev, _netns
from tests.ports.netlab import ip, namespace, unique

pytestmark = pytest.mark.needs_root


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def enter(where: str) -> None:
    with _netns.inside(where):
        pass


def test_inside_and_back():
    before = _netns.inode_here()
    with namespace() as ns:
        with _netns.inside(ns):
            assert _netns.inode_here() != before
            assert [x.name for x in _netdev.links()] == ["lo"]
        assert _netns.inode_here() == before


def test_back_also_after_an_error():
    before = _netns.inode_here()
    with namespace() as ns, pytest.raises(RuntimeError), _netns.inside(ns):
        raise RuntimeError
    assert _netns.inode_here() == before


def test_only_this_thread_goes():
    seen = []
    with namespace() as ns, _netns.inside(ns):
        here = _netns.inode_here()
        main = os.stat(f"/proc/{os.getpid()}/ns/net").st_ino
        other = threading.Thread(target=lambda: seen.append(_netns.inode_here()))
    other.start()
    other.join()
    assert here == main and seen != [here]  # the main thread is the process; a thread of later is where it started


def test_by_path_and_by_process():
    with namespace() as ns:
        with _netns.inside(ns):
            inode = _netns.inode_here()
            child = subprocess.Popen(["sleep", "60"])
        try:
            with _netns.inside(child.pid):
                assert _netns.inode_here() == inode
            with _netns.inside(f"/run/netns/{ns}"):
                assert _netns.inode_here() == inode
        finally:
            child.kill()
            child.wait()


def test_a_namespace_that_is_not_there_is_answered_with_those_that_are():
    with namespace() as ns:
        with pytest.raises(MezzoError, match="no network namespace /run/netns/nowhere") as told:
            enter("nowhere")
        assert ns in str(told.value)


def test_a_namespace_without_a_name_is_found_by_its_process():
    child = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        inode = os.stat(f"/proc/{child.pid}/ns/net").st_ino
        found = _netns.by_inode(inode)
        assert found == _netns.Space(inode, f"/proc/{child.pid}/ns/net", f"of process {child.pid}")
    finally:
        child.kill()
        child.communicate()
    assert _netns.by_inode(inode) is None


def test_a_file_without_a_namespace_in_run_netns_is_passed_over():
    left = Path("/run/netns") / unique("f")
    with namespace():
        left.touch()
        try:
            assert left.name not in [s.name for s in _netns.spaces()]
        finally:
            left.unlink()


def test_jo02_a_thousand_times_nothing_grows():
    with namespace() as a, namespace() as b:
        ip("link", "add", "p0", "netns", a, "type", "veth", "peer", "name", "p1", "netns", b)
        before, tasks = descriptors(), len(os.listdir("/proc/self/task"))
        mounts = Path("/proc/self/mounts").read_text().count("\n")
        for _ in range(1000):
            with _netns.inside(a):
                space, _ = _netdev.peer_of(_netdev.link("p0"))
                assert space.name == b
        assert (descriptors(), len(os.listdir("/proc/self/task"))) == (before, tasks)
        assert Path("/proc/self/mounts").read_text().count("\n") == mounts


def test_nothing_keeps_a_deleted_namespace():
    with namespace() as a:
        with _netns.inside(a):
            inode = _netns.inode_here()
        assert _netns.by_inode(inode)
    assert _netns.by_inode(inode) is None
