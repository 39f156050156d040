"""Routing netlink, as much of it as ports need: ask for links, change one, find a namespace's number, watch links.

Written here rather than taken from pyroute2: ports use five message kinds, that library takes 0.2 s to import (longer
than most runs take to start), and `mezzo-open`, which may hold capabilities, should load as little code as it can.

A message is a header (length, kind, flags, sequence, port), a fixed body, and attributes: length, kind, value, each
padded to four bytes (rtnetlink(7), netlink(7)).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType

RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK, RTM_SETLINK = 16, 17, 18, 19
RTM_NEWADDR, RTM_NEWROUTE = 20, 24
RTM_NEWNSID, RTM_GETNSID = 88, 90
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST, ACK, ROOT_AND_MATCH, REPLACE, CREATE = 1, 4, 0x300, 0x100, 0x400
GROUP_LINK = 1  # RTMGRP_LINK
HEADER = struct.Struct("=IHHII")
ATTRIBUTE = struct.Struct("=HH")
LINK_BODY = struct.Struct("=BxHiII")  # struct ifinfomsg: family, type, index, flags, change
ADDRESS_BODY = struct.Struct("=BBBBi")  # struct ifaddrmsg: family, prefix length, flags, scope, index
LARGEST = 1 << 18


@dataclass(frozen=True)
class Message:
    """One answer; `rest` is what follows the header."""

    kind: int
    rest: bytes

    def attributes(self, body: int) -> dict[int, bytes]:
        return parse_attributes(self.rest[body:])


def parse_attributes(data: bytes) -> dict[int, bytes]:
    """Attributes by number; the two flag bits of a number are dropped."""
    found, at = {}, 0
    while at + 4 <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += length + 3 & ~3
    return found


def pack_attributes(attributes: Mapping[int, bytes]) -> bytes:
    return b"".join(
        ATTRIBUTE.pack(4 + len(value), kind) + value + bytes(-len(value) % 4) for kind, value in attributes.items()
    )


class Netlink:
    """A socket, for routing or another `family`, in the namespace of the thread that makes it.  `groups` are the
    multicasts it hears."""

    def __init__(self, groups: int = 0, family: int = socket.NETLINK_ROUTE) -> None:
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, family)
        self._sequence = 0
        try:
            self.socket.bind((0, groups))
        except OSError:
            self.socket.close()
            raise

    def __enter__(self) -> Netlink:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def ask(
        self, kind: int, body: bytes, attributes: Mapping[int, bytes] | None = None, *, flags: int = ACK
    ) -> list[Message]:
        """The answers to one request; OSError when the kernel refuses it.

        The kernel works while we send, so what is not there then (no room in the socket) never comes: no waiting.
        """
        self._sequence += 1
        rest = body + pack_attributes(attributes or {})
        self.socket.send(HEADER.pack(16 + len(rest), kind, REQUEST | flags, self._sequence, 0) + rest)
        answers: list[Message] = []
        while True:
            for message in messages(self.socket.recv(LARGEST, socket.MSG_DONTWAIT)):
                if message.kind == NLMSG_DONE:
                    return answers
                if message.kind == NLMSG_ERROR:
                    _raise_refusal(message)
                    return answers
                answers.append(message)

    def heard(self) -> Iterator[Message]:
        """What the multicast groups brought since the last call; never waits."""
        while True:
            try:
                data = self.socket.recv(LARGEST, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            yield from messages(data)


def messages(data: bytes) -> Iterator[Message]:
    at = 0
    while at + 16 <= len(data):
        length, kind = HEADER.unpack_from(data, at)[:2]
        if length < 16:
            return
        yield Message(kind, data[at + 16 : at + length])
        at += length + 3 & ~3


def _raise_refusal(message: Message) -> None:
    number = -struct.unpack_from("=i", message.rest)[0]
    if number:
        raise OSError(number, os.strerror(number))


def text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("utf-8", "replace")


def u32(value: bytes) -> int:
    return int(struct.unpack_from("=I", value)[0])


def i32(value: bytes) -> int:
    return int(struct.unpack_from("=i", value)[0])
