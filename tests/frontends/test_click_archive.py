"""Archives of configurations, compared with what `ar` makes of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mezzo.base import MezzoError
from mezzo.frontends.click.archive import is_archive, read_archive, write_archive

MEMBERS = {
    "config": "x :: Null;\n",
    "componentmap": "A\nB",
    "a name of more than sixteen characters": "odd",
    "ü": "größer\n",
    "empty": "",
}


def test_archives_come_back_as_they_were() -> None:
    text = write_archive(MEMBERS)
    assert is_archive(text) and read_archive(text, "x") == MEMBERS


def test_bytes_that_are_no_utf8_are_read() -> None:
    data = write_archive({"config": "Xe"}).encode("latin-1").replace(b"Xe", b"\xe9\n")
    assert read_archive(data.decode("latin-1"), "x") == {"config": "é\n"}


@pytest.mark.skipif(shutil.which("ar") is None, reason="there is no ar (binutils)")
def test_archives_of_ar_are_read(tmp_path: Path) -> None:
    names = ["config", "componentmap", "a-name-of-more-than-sixteen-characters"]
    for name in names:
        (tmp_path / name).write_text(f"this is {name}\n")
    subprocess.run(["ar", "cr", "x.a", *names], cwd=tmp_path, check=True)
    assert read_archive((tmp_path / "x.a").read_text(), "x") == {n: f"this is {n}\n" for n in names}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("!<arch>\nconfig/  0", "no sound header"),
        (write_archive({"config": "x" * 100})[:-10], "cut short"),
        (write_archive({"config": "x"}).replace("1         `", "-1        `"), "no sound header"),
        (write_archive({"config": "x"}) + "rest", "member at byte"),
    ],
)
def test_broken_archives_are_refused(text: str, said: str) -> None:
    with pytest.raises(MezzoError, match=said):
        read_archive(text, "x")
