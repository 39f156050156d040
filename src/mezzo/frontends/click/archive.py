"""A configuration as an archive: the text with what tools know beside it, as `ar` files have it.

Click's tools hand each other archives: the member `config` is the text, `componentmap` names the routers which
click-combine put together, and packages are members too.  Each member has a header of 60 bytes (ar(5)); longer names
are written behind it, as BSD does (`#1/LENGTH`), or in a table `//`, as GNU does.

A file is read as text before anybody looks what it is, so an archive is a text here too, with lengths in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from mezzo.base import MezzoError

MAGIC = "!<arch>\n"

_HEADER = 60
_LONGEST_NAME = 15


def is_archive(text: str) -> bool:
    return text.startswith(MAGIC)


def read_archive(text: str, file: str) -> dict[str, str]:
    """The members of an archive by name; MezzoError where it is cut short or none."""
    trouble: MezzoError | None = None
    for encoding in ("utf-8", "latin-1"):
        # Lengths count the bytes of the file, which was UTF-8 unless that was impossible.
        try:
            members = _members(text.encode(encoding), file)
            return {name.decode(encoding): data.decode(encoding) for name, data in members.items()}
        except UnicodeError:
            continue
        except MezzoError as error:
            trouble = trouble or error
    raise trouble or MezzoError(f"{file} is an archive whose bytes are no text")


def configuration_of(text: str, file: str) -> str:
    """The configuration in an archive."""
    members = read_archive(text, file)
    if "config" not in members:
        raise MezzoError(f"{file} is an archive without a member `config`, so there is no configuration in it")
    return members["config"]


def write_archive(members: Mapping[str, str]) -> str:
    """An archive of these members, all of them with a time of 0, so that equal members give equal archives."""
    parts = [MAGIC]
    for name, text in members.items():
        size = len(text.encode("utf-8", "surrogateescape"))
        length = len(name.encode())
        head = name if length <= _LONGEST_NAME and name.isascii() else f"#1/{length}"
        size += length if head != name else 0
        parts += [f"{head:<16}{0:<12}{0:<6}{0:<6}{'100600':<8}{size:<10}`\n", name if head != name else "", text]
        parts.append("\n" if size % 2 else "")
    return "".join(parts)


def _members(data: bytes, file: str) -> dict[bytes, bytes]:
    members: dict[bytes, bytes] = {}
    names, pos = b"", len(MAGIC)
    while pos < len(data):
        header = data[pos : pos + _HEADER]
        size = header[48:58].strip()
        if len(header) < _HEADER or header[58:] != b"`\n" or not size.isdigit():
            raise MezzoError(f"{file} is an archive whose member at byte {pos} has no sound header")
        begin, end = pos + _HEADER, pos + _HEADER + int(size)
        if end > len(data):
            raise MezzoError(f"{file} is an archive that is cut short in the member at byte {pos}")
        name, body = _named(header[:16].rstrip(b" "), data[begin:end], names)
        if name == b"//":
            names = body
        elif name not in (b"/", b"__.SYMDEF"):
            members[name] = body
        pos = end + end % 2
    return members


def _named(name: bytes, body: bytes, names: bytes) -> tuple[bytes, bytes]:
    """The whole name, and the data without it."""
    if name.startswith(b"#1/") and name[3:].isdigit():
        length = int(name[3:])
        return body[:length].rstrip(b"\0"), body[length:]
    if name.startswith(b"/") and name[1:].isdigit():
        return names[int(name[1:]) :].split(b"\n")[0].removesuffix(b"/"), body
    return (name if name in (b"/", b"//") else name.removesuffix(b"/")), body
