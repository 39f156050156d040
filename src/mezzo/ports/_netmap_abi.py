"""What /dev/netmap understands: numbers and structures of its interface (netmap(4), API version 14), and port names.

A structure is a row of (field, struct letter, times), packed as C packs it on a 64-bit little-endian machine; `Layout`
turns a row into bytes and back.  Nothing here opens anything.

A port is named as libnetmap names it:

    eth0  netmap:eth0   the interface, all its rings      eth0-3    one ring of it
    eth0^               the host's side of it             eth0^0    one ring of that
    eth0*               both                              eth0{1  eth0}1   the two ends of pipe 1 at it
    vale0:a             port `a` of the switch `vale0`    …@N       the memory of number N
    …/FLAGS             x: nobody else; t r: monitor what is sent, received; z: so without a copy; T R: no other rings
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from mezzo.base import Diagnostic, MezzoError

PATH = "/dev/netmap"
VERSION, OLDEST, NEWEST = 14, 14, 15
# ioctl requests
GINFO, REGIF, TXSYNC, RXSYNC, CONFIG, CTRL = 0xC03C6991, 0xC03C6992, 0x6994, 0x6995, 0xC1106996, 0xC0586997
# nr_reqtype
REGISTER, PORT_INFO_GET, VALE_ATTACH, VALE_DETACH, VALE_LIST, PORT_HDR_SET, PORT_HDR_GET = 1, 2, 3, 4, 5, 6, 7
VALE_NEWIF, VALE_DELIF, POLLING_ENABLE, POLLING_DISABLE, POOLS_INFO_GET = 8, 9, 10, 11, 12
KLOOP_START, KLOOP_STOP, CSB_ENABLE = 13, 14, 15
# nr_mode
DEFAULT, ALL_NIC, SW, NIC_SW, ONE_NIC, PIPE_MASTER, PIPE_SLAVE, NULL, ONE_SW = range(9)
# nr_flags
MONITOR_TX, MONITOR_RX, ZCOPY_MON, EXCLUSIVE = 0x100, 0x200, 0x400, 0x800
RX_RINGS_ONLY, TX_RINGS_ONLY, ACCEPT_VNET_HDR, DO_RX_POLL, NO_TX_POLL = 0x2000, 0x4000, 0x8000, 0x10000, 0x20000
# struct netmap_slot, flags
BUF_CHANGED, REPORT, FORWARD, NO_LEARN, INDIRECT, MORE_FRAG, TX_MON = 1, 2, 4, 8, 16, 32, 64
# struct netmap_ring, flags
TIMESTAMP, RING_FORWARD = 2, 4
PRIV_MEM = 1  # struct netmap_if, ni_flags
MOST_FRAGMENTS = 64
NAME, IFNAMSIZ = 64, 16  # bytes of nr_name; of an interface's
RESERVED_BUFFERS = 2  # 0 and 1 are never handed out
OPT_EXTMEM, OPT_KLOOP_EVENTFDS, OPT_CSB, OPT_KLOOP_MODE, OPT_OFFSETS = 1, 2, 3, 4, 5
MOST_REQUEST = 4096  # bytes of a request with its options


class Layout:
    """A C structure."""

    def __init__(self, *rows: tuple[str, str] | tuple[str, str, int]) -> None:
        self.offset: dict[str, int] = {}
        self._form: dict[str, struct.Struct] = {}
        at = 0
        for name, letter, *times in rows:
            form = struct.Struct(f"<{times[0] if times else ''}{letter}")
            width = struct.calcsize(f"<{letter}")
            at += -at % width
            self.offset[name], self._form[name] = at, form
            at += form.size
        widest = max(struct.calcsize(f"<{letter}") for _, letter, *_ in rows)
        self.size = at + -at % widest

    def pack(self, **values: int | bytes) -> bytearray:
        made = bytearray(self.size)
        for name, value in values.items():
            self.set(made, name, value)
        return made

    def set(self, memory: bytearray | memoryview, name: str, value: int | bytes, base: int = 0) -> None:
        self._form[name].pack_into(memory, base + self.offset[name], value)

    def get(self, memory: bytes | bytearray | memoryview, name: str, base: int = 0) -> int:
        return int(self._form[name].unpack_from(memory, base + self.offset[name])[0])

    def text(self, memory: bytes | bytearray | memoryview, name: str, base: int = 0) -> str:
        raw: bytes = self._form[name].unpack_from(memory, base + self.offset[name])[0]
        return raw.split(b"\0", 1)[0].decode("latin-1")

    def values(self, memory: bytes | bytearray | memoryview, base: int = 0) -> dict[str, int]:
        """All fields that are single numbers."""
        rows = {n: f.unpack_from(memory, base + self.offset[n]) for n, f in self._form.items()}
        return {n: row[0] for n, row in rows.items() if len(row) == 1 and isinstance(row[0], int)}


def _rows(text: str) -> list[tuple[str, str]]:
    return [(name, letter) for letter, name in (part.split() for part in text.split(","))]


IF = Layout(
    ("name", "s", 16),
    *_rows("I version, I flags, I tx_rings, I rx_rings, I bufs_head, I host_tx_rings, I host_rx_rings"),
    ("spare", "I", 3),
    ("ring_ofs", "q", 0),
)
IF_SIZE = 56
RING = Layout(
    *_rows("q buf_ofs, I num_slots, I buf_size, H ringid, H dir, I head, I cur, I tail, I flags"),
    ("ts", "q", 2),
    *_rows("Q offset_mask, Q buf_align"),
)
RING_HEADER = 256
SLOT = Layout(*_rows("I buf_idx, H len, H flags, Q ptr"))
HEADER = Layout(*_rows("H version, H reqtype, I reserved"), ("name", "s", NAME), *_rows("Q options, Q body"))
REGISTER_BODY = Layout(
    *_rows(
        "Q offset, Q memsize, I tx_slots, I rx_slots, H tx_rings, H rx_rings, H host_tx_rings, H host_rx_rings,"
        "H mem_id, H ringid, I mode, I extra_bufs, Q flags"
    )
)
PORT_INFO = Layout(
    *_rows("Q memsize, I tx_slots, I rx_slots, H tx_rings, H rx_rings, H host_tx_rings, H host_rx_rings, H mem_id"),
    ("pad", "H", 3),
)
VALE_LIST_BODY = Layout(*_rows("H bridge_idx, H pad, I port_idx"))
VALE_DETACH_BODY = Layout(*_rows("I port_index, I pad"))
VALE_ATTACH_BODY = Layout(("register", "s", 56), ("port_index", "I"), ("pad", "I"))
PORT_HDR = Layout(*_rows("I hdr_len, I pad"))
VALE_NEWIF_BODY = Layout(*_rows("I tx_slots, I rx_slots, H tx_rings, H rx_rings, H mem_id, H pad"))
POLLING = Layout(*_rows("I mode, I first_cpu, I ncpus, I pad"))
POOLS_INFO = Layout(
    *_rows(
        "Q memsize, H mem_id, Q if_pool_offset, I if_objtotal, I if_objsize, Q ring_pool_offset, I ring_objtotal,"
        "I ring_objsize, Q buf_pool_offset, I buf_objtotal, I buf_objsize"
    )
)
OPTION = Layout(*_rows("Q next, I reqtype, I status, Q size"))
OPTION_EXTMEM = Layout(("header", "s", 24), ("usrptr", "Q"), ("pools", "s", 64))
OPTION_CSB = Layout(("header", "s", 24), ("atok", "Q"), ("ktoa", "Q"))
OPTION_KLOOP_MODE = Layout(("header", "s", 24), ("mode", "I"), ("pad", "I"))
OPTION_OFFSETS = Layout(("header", "s", 24), *_rows("Q max_offset, Q initial, I offset_bits, I tx_align, Q min_gap"))
LEGACY = Layout(
    ("name", "s", 16),
    *_rows(
        "I version, I offset, I memsize, I tx_slots, I rx_slots, H tx_rings, H rx_rings, H ringid, H cmd, H arg1,"
        "H arg2, I arg3, I flags, I spare"
    ),
)


@dataclass(frozen=True)
class Spec:
    """What a name says: the name that the kernel gets, and the fields of the request that the rest became."""

    name: str
    mode: int = ALL_NIC
    ring: int = 0
    flags: int = 0
    memory: int = 0  # number of a memory; 0: as the kernel likes
    share: str = ""  # the memory of this port
    config: dict[str, int] = field(default_factory=dict)  # rings and slots

    @property
    def kind(self) -> str:
        """nic, host, pipe, vale or monitor."""
        if self.flags & (MONITOR_TX | MONITOR_RX | ZCOPY_MON):
            return "monitor"
        if "{" in self.name or "}" in self.name:
            return "pipe"
        if self.name.startswith("vale"):
            return "vale"
        return "host" if self.mode in (SW, ONE_SW) else "nic"

    @property
    def interface(self) -> str:
        """The network interface behind it, or what would be one."""
        return re.split(r"[{}]", self.name)[0]


FLAGS = {
    "x": EXCLUSIVE, "z": ZCOPY_MON, "t": MONITOR_TX, "r": MONITOR_RX, "R": RX_RINGS_ONLY, "T": TX_RINGS_ONLY,
}  # fmt: skip
SIZES = ("tx_rings", "rx_rings", "tx_slots", "rx_slots", "host_tx_rings", "host_rx_rings")
SETTINGS = {"rings": SIZES[:2], "slots": SIZES[2:4], "host_rings": SIZES[4:], **{n: (n,) for n in SIZES}}
_LONE = {"^": SW, "*": NIC_SW}
_NUMBERED = {"-": ONE_NIC, "^": ONE_SW}
_SUFFIX = re.compile(r"(?:(?P<lone>[\^*])|(?P<numbered>[-^])(?P<ring>\d+))?(?:/(?P<flags>[A-Za-z]*))?$")


def parse(text: str) -> Spec:
    """A port's name.  MezzoError says what is wrong with it."""
    head, *options = text.removeprefix("netmap:").split("@")
    name, suffix = _split(head)
    _check_name(text, name)
    found = _SUFFIX.match(suffix)
    if found is None:
        hint = "behind the name: nothing, ^, ^N, *, -N, then /FLAGS"
        raise _wrong(text, f"`{suffix}` is no choice of rings", hint)
    mode = _LONE.get(found["lone"] or "", _NUMBERED.get(found["numbered"] or "", ALL_NIC))
    spec = Spec(name, mode, int(found["ring"] or 0), _flags(text, found["flags"] or ""))
    for option in options:
        spec = _with_option(text, spec, option)
    return spec


def _split(head: str) -> tuple[str, str]:
    """The name, and what says which rings.  A dash and digits at the end are a ring's number, as libnetmap has it."""
    start = head.index(":") + 1 if head.startswith("vale") and ":" in head else 0
    at = re.search(r"[\^*/]|-\d+(?=$|/)", head[start:])
    end = start + at.start() if at else len(head)
    return head[:end], head[end:]


def _check_name(text: str, name: str) -> None:
    if not name:
        raise _wrong(text, "it names no port", "write an interface (eth0), a pipe (eth0{1), a switch's port (vale0:a)")
    if len(name) >= NAME:
        raise _wrong(text, f"the name has {len(name)} characters, {NAME - 1} at most", "")
    if pipe := re.search(r"[{}]", name):
        base, number = name[: pipe.start()], name[pipe.end() :]
        if not base or not re.fullmatch(r"\w+", number, re.ASCII):
            what = "a pipe is BASE{ID or BASE}ID, with an ID of letters, digits and _"
            raise _wrong(text, what, "for example eth0{1")
        name = base
    if name.startswith("vale") and ":" in name:
        switch, _, port = name.partition(":")
        if not re.fullmatch(r"\w+", switch, re.ASCII):
            raise _wrong(text, f"the switch `{switch}` has other characters than letters, digits and _", "")
        if len(port) + 1 > IFNAMSIZ:
            raise _wrong(text, f"the switch's port `{port}` has more than {IFNAMSIZ - 1} characters", "")
    elif len(name) >= IFNAMSIZ:
        raise _wrong(text, f"no interface has a name of {len(name)} characters, {IFNAMSIZ - 1} at most", "")


def _flags(text: str, letters: str) -> int:
    value = 0
    for letter in letters:
        if letter not in FLAGS:
            raise _wrong(text, f"`{letter}` is no flag", "the flags are x z t r R T")
        value |= FLAGS[letter]
    if value & RX_RINGS_ONLY and value & TX_RINGS_ONLY:
        raise _wrong(text, "R and T exclude each other", "leave both out to have all rings")
    return value


def _with_option(text: str, spec: Spec, option: str) -> Spec:
    if option.isdigit():
        return replace(spec, memory=int(option))
    key, sign, value = re.fullmatch(r"(\w*)([:=]?)(.*)", option, re.DOTALL).groups()  # type: ignore[union-attr]
    if key == "share" and value:
        return replace(spec, share=value)
    if key == "conf" and sign:
        return replace(spec, config=spec.config | dict(_config(text, value)))
    if key in ("extmem", "offset"):
        raise _wrong(text, f"@{key} is nothing that mezzo uses", "leave it out")
    raise _wrong(text, f"`@{option}` is no option", "write @NUMBER of a memory, @share=PORT, or @conf:slots=N,rings=N")


def _config(text: str, value: str) -> Iterator[tuple[str, int]]:
    for pair in value.split(","):
        key, _, number = pair.partition("=")
        if key not in SETTINGS or not number.isdigit():
            hint = f"settings are {', '.join(SETTINGS)}, each with =NUMBER"
            raise _wrong(text, f"@conf: `{pair}` is no setting", hint)
        for name in SETTINGS[key]:
            yield name, int(number)


def _wrong(text: str, what: str, hint: str) -> MezzoError:
    return MezzoError(Diagnostic(f"netmap port `{text}`: {what}", hint=hint))
