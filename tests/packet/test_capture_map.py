"""Captures as memory: compressed, from pipes, mapped or copied."""

import bz2
import gzip
import lzma
import mmap
import os
from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.packet.capture_map import map_capture
from mezzo.packet.capture_write import CaptureWriter


@pytest.fixture
def plain(tmp_path: Path) -> bytes:
    with CaptureWriter(tmp_path / "plain", linktype=101) as out:
        out.write(5, b"abc")
    return (tmp_path / "plain").read_bytes()


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("use_mmap", [None, False, True])
def test_the_bytes_are_those_of_the_plain_file(tmp_path: Path, plain: bytes, pack, use_mmap: bool | None) -> None:
    path = tmp_path / "in"
    path.write_bytes(pack(plain))
    found = map_capture(str(path), use_mmap)
    assert bytes(found.data) == plain
    assert isinstance(found.data, mmap.mmap) == bool(use_mmap)
    assert found.name == found.index.path == str(path)
    assert (found.index.linktype, found.index.is_classic) == (101, True)


def test_a_pipe_is_read_to_its_end(plain: bytes) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, gzip.compress(plain))
    os.close(write_end)
    assert bytes(map_capture(f"/proc/self/fd/{read_end}").data) == plain
    os.close(read_end)


def test_a_plain_capture_in_a_pipe_can_be_streamed(plain: bytes) -> None:
    read_end, write_end = os.pipe()
    os.write(write_end, plain)
    os.close(write_end)
    found = map_capture(f"/proc/self/fd/{read_end}", stream=True)
    assert found.pipe is not None and found.index.is_classic
    assert [found.data + found.pipe.maybe_read(), found.pipe.maybe_read()] == [plain, b""]
    found.pipe.close()
    os.close(read_end)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", r"in` is empty"),
        (b"no capture at all, a text", r"in` is not a capture file"),
        (gzip.compress(bytes(range(256)))[:40], r"cannot read .*in`"),
        (b"BZh9 and no more", r"cannot read .*in`"),
        (b"\xfd7zXZ\0 broken", r"cannot read .*in`"),
        (gzip.compress(b""), r"in` is empty"),
        (gzip.compress(b"x")[:10] + b"\xff" * 20, r"cannot read .*in`"),
    ],
)
def test_what_is_wrong_names_the_file(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "in"
    path.write_bytes(data)
    with pytest.raises(MezzoError, match=said):
        map_capture(str(path))


def test_missing_files_and_folders(tmp_path: Path) -> None:
    with pytest.raises(MezzoError, match="No such file"):
        map_capture(str(tmp_path / "nowhere"))
    with pytest.raises(MezzoError, match="Is a directory"):
        map_capture(str(tmp_path))
