"""The requests of the simulated netmap kernel side: NIOCCTRL, and the old ones in front of it."""

from __future__ import annotations

import ctypes
import errno
import re
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from mezzo.ports import _netmap_abi as abi
from tests.ports.netmap_double_ports import Monitor, Nic, Pipe, Port, Switch, Vale
from tests.ports.netmap_double_rings import RX, TX, KernelError, Kring, Memory

if TYPE_CHECKING:
    from tests.ports.netmap_double import File

MOST_SLOTS, MOST_VALE_RINGS, MOST_PIPE_RINGS, SLOTS, BRIDGES = 4096, 16, 256, 1024, 8
MODES = {abi.ALL_NIC, abi.SW, abi.NIC_SW, abi.ONE_NIC, abi.NULL, abi.ONE_SW}


class Requests:
    """What `NetmapDouble` inherits."""

    memories: dict[int, Memory]
    nics: dict[str, Nic]
    ports: dict[str, Port]
    switches: dict[str, Switch]

    def _control(self, file: File, address: int) -> None:
        if not address:
            raise KernelError(errno.EINVAL)
        header = ctypes.string_at(address, abi.HEADER.size)
        version, request = abi.HEADER.get(header, "version"), abi.HEADER.get(header, "reqtype")
        if not abi.OLDEST <= version <= abi.NEWEST or abi.HEADER.get(header, "reserved"):
            raise KernelError(errno.EINVAL)
        handler = HANDLERS.get(request)
        if handler is None:
            raise KernelError(errno.EOPNOTSUPP if abi.REGISTER <= request <= abi.CSB_ENABLE else errno.EINVAL)
        layout, job = handler
        place = abi.HEADER.get(header, "body")
        if bool(place) != (layout is not None):
            raise KernelError(errno.EINVAL)
        self._options(abi.HEADER.get(header, "options"))
        name = abi.HEADER.text(header, "name")
        if layout is None:
            job(self, file, name, None)
            return
        body = bytearray(ctypes.string_at(place, layout.size))
        fields = Body(layout, body)
        job(self, file, name, fields)
        ctypes.memmove(place, bytes(body), layout.size)

    def _options(self, place: int) -> None:
        """None is modelled: each says so, and the request fails."""
        refused = False
        while place:
            option = ctypes.string_at(place, abi.OPTION.size)
            ctypes.memmove(place + abi.OPTION.offset["status"], struct.pack("<I", errno.EOPNOTSUPP), 4)
            place, refused = abi.OPTION.get(option, "next"), True
        if refused:
            raise KernelError(errno.EOPNOTSUPP)

    # -- REGISTER

    def register(self, file: File, name: str, body: Body) -> None:
        if file.port is not None:
            raise KernelError(errno.EBUSY)
        if body["mode"] not in MODES:
            raise KernelError(errno.EINVAL)
        memory = self._memory(body["mem_id"])
        port = self._port(name, body, memory)
        if port.header_length and not body["flags"] & abi.ACCEPT_VNET_HDR:
            self._drop_unused(port)
            raise KernelError(errno.EIO)
        try:
            rings = self._choose(port, body)
            port.start(rings)
            self._publish(file, port, rings, body)
        except KernelError:
            self._drop_unused(port)
            raise
        port.users += 1
        for ring in rings:
            ring.users += 1
            ring.exclusive |= bool(body["flags"] & abi.EXCLUSIVE)
        self.ports[port.name] = port

    def _memory(self, number: int) -> Memory | None:
        if number and number not in self.memories:
            raise KernelError(errno.EINVAL)
        return self.memories.get(number)

    def _new_memory(self, rings: tuple[int, int], slots: tuple[int, int], extra: int) -> Memory:
        number = max(self.memories) + 1
        made = self.memories[number] = Memory.private(number, rings, slots, extra)
        return made

    def _port(self, name: str, body: Body, memory: Memory | None) -> Port:
        if body["flags"] & (abi.MONITOR_TX | abi.MONITOR_RX | abi.ZCOPY_MON):
            return self._monitor(name, body)
        if name in self.ports:
            return self._same_memory(self.ports[name], memory)
        if re.search(r"[{}]", name):
            return self._pipe(name, body, memory)
        if name.startswith("vale"):
            return self._vale(name, body, memory)
        if name in self.nics:
            nic = self.nics[name]
            if memory is not None and memory is not nic.memory:
                nic.memory = memory
                for ring in nic.all(TX) + nic.all(RX):
                    ring.memory = memory
            return nic
        raise KernelError(errno.ENXIO)

    def _same_memory(self, port: Port, memory: Memory | None) -> Port:
        if memory is not None and memory is not port.memory:
            raise KernelError(errno.EINVAL)
        return port

    def _monitor(self, name: str, body: Body) -> Port:
        of = self.ports.get(name)
        if of is None or not of.in_netmap_mode or isinstance(of, Monitor):
            raise KernelError(errno.EINVAL)
        if body["flags"] & abi.ZCOPY_MON:
            return self._same_memory(Monitor(self, of, of.memory, body["flags"]), self._memory(body["mem_id"]))
        slots = (of.krings[RX][0].n,) * 2
        count = max(len(of.krings[TX]), len(of.krings[RX]))
        memory = self._memory(body["mem_id"]) or self._new_memory((count, count), slots, body["extra_bufs"])
        made = Monitor(self, of, memory, body["flags"])
        made.name = f"{name}/monitor#{id(made)}"
        return made

    def _pipe(self, name: str, body: Body, memory: Memory | None) -> Port:
        mark = re.search(r"[{}]", name)
        assert mark is not None
        base, number = name[: mark.start()], name[mark.end() :]
        if not base or not number:
            raise KernelError(errno.EINVAL)
        parent = self._parent(base, memory)
        rings = tuple(min(max(body[k], 1), MOST_PIPE_RINGS) for k in ("tx_rings", "rx_rings"))
        slots = tuple(min(body[f"{k}_slots"] or parent.krings[d][0].n, MOST_SLOTS) for k, d in (("tx", TX), ("rx", RX)))
        ends = {}
        for sign in mark[0], "}" if mark[0] == "{" else "{":
            ends[sign] = Pipe(self, f"{base}{sign}{number}", parent.memory, (rings[0], rings[1]), (slots[0], slots[1]))
            rings, slots = rings[::-1], slots[::-1]
        ends["{"].join(ends["}"])
        for end in ends.values():
            self.ports[end.name] = end
        return ends[mark[0]]

    def _parent(self, base: str, memory: Memory | None) -> Port:
        """What a pipe hangs at; an interface of that name is made where there is nothing."""
        if base in self.ports:
            return self._same_memory(self.ports[base], memory)
        if base in self.nics:
            return self._same_memory(self.nics[base], memory)
        if not base.startswith("vale"):
            made = self.nics[base] = Nic(
                self, base, memory or self._new_memory((1, 1), (SLOTS, SLOTS), 0), (1, 1), (SLOTS, SLOTS)
            )
            return made
        return self._vale(base, Body.of(abi.REGISTER_BODY), memory, join=False)

    def _vale(self, name: str, body: Body, memory: Memory | None, join: bool = True) -> Port:
        switch, _, port = name.partition(":")
        if not re.fullmatch(r"\w*", switch, re.ASCII) or len(port) + 1 > abi.IFNAMSIZ or ":" not in name:
            raise KernelError(errno.ENOMEM)
        if join and switch not in self.switches:
            if len(self.switches) == BRIDGES:
                raise KernelError(errno.ENXIO)
            self.switches[switch] = Switch(self, switch)
        rings = tuple(min(body[k] or 1, MOST_VALE_RINGS) for k in ("tx_rings", "rx_rings"))
        slots = tuple(min(body[k] or SLOTS, MOST_SLOTS) for k in ("tx_slots", "rx_slots"))
        both = (rings[0], rings[1]), (slots[0], slots[1])
        made = Vale(self, name, memory or self._new_memory(*both, body["extra_bufs"]), *both)
        if join:
            self.switches[switch].enter(made)
        return made

    def _choose(self, port: Port, body: Body) -> list[Kring]:
        """The rings that the request is about."""
        mode, number, flags = body["mode"], body["ringid"], body["flags"]
        if mode in (abi.SW, abi.NIC_SW, abi.ONE_SW) and not port.can_host:
            raise KernelError(errno.EINVAL)
        chosen: list[Kring] = []
        for direction, leave_out in ((TX, abi.RX_RINGS_ONLY), (RX, abi.TX_RINGS_ONLY)):
            if flags & leave_out:
                continue
            hardware, host = port.krings[direction], port.host[direction]
            if mode in (abi.ONE_NIC, abi.ONE_SW):
                most = max(len(port.krings[TX]), len(port.krings[RX])) if mode == abi.ONE_NIC else len(host)
                if number >= most:
                    raise KernelError(errno.EINVAL)
                chosen += (hardware if mode == abi.ONE_NIC else host)[number : number + 1]
            else:
                chosen += hardware if mode in (abi.ALL_NIC, abi.NIC_SW) else []
                chosen += host if mode in (abi.SW, abi.NIC_SW) else []
        if any(r.exclusive or (r.users and flags & abi.EXCLUSIVE) for r in chosen):
            raise KernelError(errno.EBUSY)
        return chosen

    def _publish(self, file: File, port: Port, rings: list[Kring], body: Body) -> None:
        """Writes the interface structure, and the answer."""
        memory = port.memory
        file.if_index = memory.ifs.take()
        at = memory.ifs.at(file.if_index)
        tx, rx = port.krings[TX], port.krings[RX]
        host = {d: max(len(port.host[d]), 1) for d in (TX, RX)}
        memory.mem[at : at + memory.ifs.size] = bytes(memory.ifs.size)
        mem: Any = memory.mem
        abi.IF.set(mem, "name", port.name.encode()[:15], at)
        private = memory.number != 1
        for name, value in (
            ("flags", abi.PRIV_MEM if private else 0), ("tx_rings", len(tx)), ("rx_rings", len(rx)),
            ("host_tx_rings", host[TX]), ("host_rx_rings", host[RX]), ("bufs_head", memory.extra(body["extra_bufs"])),
        ):  # fmt: skip
            abi.IF.set(mem, name, value, at)
        places = [*_padded(tx, len(tx)), *_padded(port.host[TX], host[TX])]
        places += [*_padded(rx, len(rx)), *_padded(port.host[RX], host[RX])]
        for k, ring in enumerate(places):
            offset = ring.at - at if ring in rings and ring is not None else 0
            struct.pack_into("<q", memory.mem, at + abi.IF_SIZE + 8 * k, offset)
        file.port, file.rings, file.flags = port, rings, body["flags"]
        count, head = 0, abi.IF.get(mem, "bufs_head", at)
        while head:
            count, head = count + 1, struct.unpack("<I", memory.buffer(head, 4))[0]
        body.update(
            offset=at, memsize=memory.size, tx_slots=tx[0].n, rx_slots=rx[0].n, tx_rings=len(tx), rx_rings=len(rx),
            host_tx_rings=host[TX], host_rx_rings=host[RX], mem_id=memory.number, extra_bufs=count,
        )  # fmt: skip

    def _unregister(self, file: File) -> None:
        port = file.port
        assert port is not None
        at = port.memory.ifs.at(file.if_index)
        port.memory.give_list(abi.IF.get(port.memory.mem, "bufs_head", at))  # type: ignore[arg-type]
        port.memory.ifs.give(file.if_index)
        for ring in file.rings:
            ring.users -= 1
            ring.exclusive = ring.exclusive and ring.users > 0
        port.stop(file.rings)
        port.users -= 1
        self._drop_unused(port)

    def _drop_unused(self, port: Port) -> None:
        if port.users:
            return
        if isinstance(port, Pipe):
            assert port.other is not None
            if port.other.users:
                return
            self.ports.pop(port.other.name, None)
        elif not isinstance(port, Nic):
            port.gone()
        if isinstance(port, Vale) and port.switch is not None and not port.switch.ports:
            self.switches.pop(port.switch.name, None)
        self.ports.pop(port.name, None)

    # -- other requests

    def port_info(self, file: File, name: str, body: Body) -> None:
        if not name:
            memory = self.memories.get(body["mem_id"] or 1)
            if memory is None:
                raise KernelError(errno.EINVAL)
            body.update(memsize=memory.size, mem_id=memory.number)
            return
        port = self.ports.get(name) or self.nics.get(name)
        if port is None:
            raise KernelError(errno.ENXIO)
        host = {d: max(len(port.host[d]), 1) for d in (TX, RX)}
        body.update(
            memsize=port.memory.size, mem_id=port.memory.number, tx_slots=port.krings[TX][0].n,
            rx_slots=port.krings[RX][0].n, tx_rings=len(port.krings[TX]), rx_rings=len(port.krings[RX]),
            host_tx_rings=host[TX], host_rx_rings=host[RX],
        )  # fmt: skip

    def vale_list(self, file: File, name: str, body: Body) -> None:
        if name:
            found = self.ports.get(name)
            if not isinstance(found, Vale) or found.switch is None:
                raise KernelError(errno.ENOENT)
            body.update(bridge_idx=list(self.switches).index(found.switch.name), port_idx=found.number)
            return
        for b, switch in list(enumerate(self.switches.values()))[body["bridge_idx"] :]:
            for number in sorted(switch.ports):
                if b > body["bridge_idx"] or number >= body["port_idx"]:
                    body.update(bridge_idx=b, port_idx=number)
                    return
        raise KernelError(errno.ENOENT)

    def header_set(self, file: File, name: str, body: Body) -> None:
        port = self.ports.get(name)
        if port is None:
            raise KernelError(errno.ENXIO)
        if body["hdr_len"] not in (0, 10, 12):
            raise KernelError(errno.EINVAL)
        port.header_length = body["hdr_len"]

    def header_get(self, file: File, name: str, body: Body) -> None:
        port = self.ports.get(name)
        if port is None:
            raise KernelError(errno.ENXIO)
        body.update(hdr_len=port.header_length)

    def new_interface(self, file: File, name: str, body: Body) -> None:
        if name in self.nics:
            raise KernelError(errno.EEXIST)
        rings = (body["tx_rings"] or 1, body["rx_rings"] or 1)
        slots = (body["tx_slots"] or SLOTS, body["rx_slots"] or SLOTS)
        memory = self._memory(body["mem_id"]) or self._new_memory(rings, slots, 0)
        self.nics[name] = Nic(self, name, memory, rings, slots)

    def delete_interface(self, file: File, name: str, body: None) -> None:
        if name not in self.nics:
            raise KernelError(errno.ENXIO)
        if self.nics[name].users:
            raise KernelError(errno.EBUSY)
        del self.nics[name]

    def pools(self, file: File, name: str, body: Body) -> None:
        memory = file.port.memory if file.port is not None else self.memories.get(body["mem_id"] or 1)
        if memory is None:
            raise KernelError(errno.EINVAL)
        body.update(memsize=memory.size, mem_id=memory.number)
        for kind, pool in (("if", memory.ifs), ("ring", memory.rings), ("buf", memory.buffers)):
            offset = {f"{kind}_pool_offset": pool.offset}
            body.update(**offset, **{f"{kind}_objtotal": pool.total, f"{kind}_objsize": pool.size})

    # -- the old requests

    def _legacy(self, file: File, request: int, address: int) -> None:
        old = bytearray(ctypes.string_at(address, abi.LEGACY.size))
        fields = Body(abi.LEGACY, old)
        if not abi.OLDEST <= fields["version"] <= abi.NEWEST:
            raise KernelError(errno.EINVAL)
        if fields["cmd"]:
            raise KernelError(errno.EOPNOTSUPP)
        name = abi.LEGACY.text(old, "name")
        if request == abi.GINFO:
            new = Body.of(abi.PORT_INFO)
            new.update(mem_id=fields["arg2"])
            self.port_info(file, name, new)
        else:
            new = Body.of(abi.REGISTER_BODY)
            mode, ring = fields["flags"] & 0xF, fields["ringid"]
            if not mode:
                mode = abi.SW if ring & 0x2000 else abi.ONE_NIC if ring & 0x4000 else abi.ALL_NIC
            if mode in (abi.PIPE_MASTER, abi.PIPE_SLAVE):
                name += ("{" if mode == abi.PIPE_MASTER else "}") + str(ring & 0xFFF)
                mode = abi.ALL_NIC
            flags = fields["flags"] & ~0xF
            flags |= (abi.NO_TX_POLL if ring & 0x1000 else 0) | (abi.DO_RX_POLL if ring & 0x8000 else 0)
            new.update(mode=mode, ringid=ring & 0xFFF, flags=flags, mem_id=fields["arg2"], extra_bufs=fields["arg3"])
            new.update(**{k: fields[k] for k in ("tx_slots", "rx_slots", "tx_rings", "rx_rings")})
            self.register(file, name, new)
            fields.update(offset=new["offset"], arg3=new["extra_bufs"])
        fields.update(**{k: new[k] for k in ("memsize", "tx_slots", "rx_slots", "tx_rings", "rx_rings")})
        fields.update(arg2=new["mem_id"])
        ctypes.memmove(address, bytes(old), len(old))


class Body:
    """A request's structure, field by field."""

    def __init__(self, layout: abi.Layout, memory: bytearray) -> None:
        self.layout, self.memory = layout, memory

    @classmethod
    def of(cls, layout: abi.Layout) -> Body:
        return cls(layout, bytearray(layout.size))

    def __getitem__(self, name: str) -> int:
        return self.layout.get(self.memory, name)

    def update(self, **values: int) -> None:
        for name, value in values.items():
            self.layout.set(self.memory, name, value)


def _padded(rings: list[Kring], count: int) -> Iterable[Kring | None]:
    return [*rings, *[None] * (count - len(rings))]


HANDLERS: dict[int, tuple[abi.Layout | None, Any]] = {
    abi.REGISTER: (abi.REGISTER_BODY, Requests.register),
    abi.PORT_INFO_GET: (abi.PORT_INFO, Requests.port_info),
    abi.VALE_LIST: (abi.VALE_LIST_BODY, Requests.vale_list),
    abi.PORT_HDR_SET: (abi.PORT_HDR, Requests.header_set),
    abi.PORT_HDR_GET: (abi.PORT_HDR, Requests.header_get),
    abi.VALE_NEWIF: (abi.VALE_NEWIF_BODY, Requests.new_interface),
    abi.VALE_DELIF: (None, Requests.delete_interface),
    abi.POOLS_INFO_GET: (abi.POOLS_INFO, Requests.pools),
}
