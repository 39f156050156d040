"""Rights: each request in process, and by mezzo-open for a process that has none; what is refused says what to do."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mezzo.base import MezzoError
from mezzo.ports import _capabilities, _ethtool, _launcher, _netdev, _opener, privileged
from mezzo.ports.privileged import RIGHTS, Refused, ask
from mezzo.tools import open as mezzo_open
from tests.ports import unprivileged
from tests.ports.netlab import Pair, inside, ip, raw_socket, started_in, unique, wait_until

pytestmark = [pytest.mark.needs_root, pytest.mark.slow]

ASK = """
import json, os, sys
from mezzo.ports import privileged
request = json.loads(sys.argv[1])
try:
    descriptors, facts = privileged.ask(request)
    print(json.dumps({"kinds": [os.readlink(f"/proc/self/fd/{d}").split(":")[0] for d in descriptors], "facts": facts}))
except privileged.Refused as no:
    print(json.dumps({"reason": no.reason, "hint": no.hint, "missing": no.missing, "errno": no.errno}))
"""


def asked_by_nobody(request: dict[str, Any], ns: str, *capabilities: str, **env: str) -> Any:
    with inside(ns):
        done = unprivileged.python(ASK, json.dumps(request), capabilities=capabilities, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@contextmanager
def helper(pair: Pair, *words: str, users: str = "nobody") -> Iterator[str]:
    """A mezzo-open that listens in the namespace of the pair's first end; gives its socket."""
    path = f"/tmp/{unique('open')}.sock"
    argv = [sys.executable, "-m", "mezzo.tools.open", "--listen", path, "--users", users, *words]
    with started_in(pair.a.ns, argv, stderr=subprocess.DEVNULL):
        wait_until(lambda: os.path.exists(path))
        yield path
    assert not os.path.exists(path)


# -- in process


def test_a_packet_socket_that_hears_nothing_until_it_is_bound(pair):
    with inside(pair.a.ns):
        (descriptor,), facts = ask({"do": "packet", "device": pair.a.name})
    with socket.socket(fileno=descriptor) as made, raw_socket(pair.b) as other:
        assert (made.family, made.type, made.proto) == (socket.AF_PACKET, socket.SOCK_RAW, 0)
        assert not os.get_inheritable(descriptor)
        other.send(pair.a.mac_bytes + pair.b.mac_bytes + b"\x88\xb5" + bytes(50))
        with pytest.raises(BlockingIOError):
            made.recv(100, socket.MSG_DONTWAIT)
    assert facts["name"] == pair.a.name and facts["mtu"] == 1500


def test_io07_promiscuous_as_long_as_the_descriptor(pair):
    """The kernel counts who wants it: a sniffer's coming and going changes nothing."""

    def promiscuity() -> int:
        return int(json.loads(ip("-d", "-j", "link", "show", pair.a.name, ns=pair.a.ns))[0]["promiscuity"])

    with inside(pair.a.ns):
        (one,), _ = ask({"do": "promiscuous", "device": pair.a.name})
        (sniffer,), _ = ask({"do": "promiscuous", "device": pair.a.name})
    assert promiscuity() == 2
    os.close(sniffer)
    assert promiscuity() == 1
    os.close(one)
    assert promiscuity() == 0


def test_io07_frames_to_others_arrive_then_and_only_then(pair):
    to_another = bytes.fromhex("020000000099") + pair.b.mac_bytes + b"\x88\xb5" + bytes(50)
    to_host, to_others = 0, 3  # PACKET_HOST, PACKET_OTHERHOST
    with raw_socket(pair.a) as port, raw_socket(pair.b) as other, inside(pair.a.ns):
        other.send(to_another)
        assert port.recvfrom(100)[1][2] == to_others  # a veth hands everything up; a real one would not have
        (descriptor,), _ = ask({"do": "promiscuous", "device": pair.a.name})
        assert _netdev.link(pair.a.name).facts()["mac"] == pair.a.mac
        other.send(to_another)
        assert port.recvfrom(100)[1][2] == to_others
        other.send(pair.a.mac_bytes + to_another[6:])
        assert port.recvfrom(100)[1][2] == to_host
        os.close(descriptor)


def test_a_tap_with_queues_that_goes_with_its_descriptors(pair):
    with inside(pair.a.ns):
        descriptors, facts = ask({"do": "tap", "device": "tap%d", "queues": 2, "vnet_header": True})
        assert len(descriptors) == 2 and facts["name"] == "tap0" and facts["kind"] == "tun"
        for descriptor in descriptors:
            os.close(descriptor)
        assert _netdev.maybe_link("tap0") is None


def test_a_persistent_tun_stays(pair):
    with inside(pair.a.ns):
        (descriptor,), _ = ask({"do": "tap", "device": "tun5", "kind": "tun", "persistent": True})
        os.close(descriptor)
        assert _netdev.maybe_link("tun5")


def test_a_tap_that_cannot_be_made_leaves_nothing(pair):
    before = len(os.listdir("/proc/self/fd"))
    with inside(pair.a.ns), pytest.raises(Refused, match="a tap device: there is an interface of that name"):
        ask({"do": "tap", "device": pair.a.name})
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_goes_with_its_descriptors_needs_no_undoing(pair):
    with inside(pair.a.ns):
        (descriptor,), made = ask({"do": "tap", "device": "tap7"})
        _, facts = ask({"do": "link", "device": "tap7", "up": True, "mtu": 1400, "addresses": ["10.9.0.1/24"]})
        assert made["vanishes"] and facts["up"] and facts["undo"] == []
        ask({"do": "route", "device": "tap7", "gateway": "10.9.0.2"})
        assert "default via 10.9.0.2 dev tap7" in ip("route", "show", ns=pair.a.ns)
        os.close(descriptor)
        with pytest.raises(Refused, match="a default route over it: it would stay when the router is gone"):
            ask({"do": "route", "device": pair.a.name, "gateway": "10.7.0.2"})
    assert "default" not in ip("route", "show", ns=pair.a.ns)


def test_the_host_gets_nothing_as_long_as_the_descriptor_is_open(pair):
    frame = pair.a.mac_bytes + pair.b.mac_bytes + b"\x08\x00" + bytes(50)  # no IP packet, but counted as one

    def received() -> int:
        return int(Path("/proc/thread-self/net/snmp").read_text().splitlines()[1].split()[3])

    with inside(pair.a.ns), raw_socket(pair.b) as other, raw_socket(pair.a) as port:
        first = received()
        (descriptor,), _ = ask({"do": "alone", "device": pair.a.name})
        other.send(frame)
        assert port.recv(100) == frame  # who listens by a packet socket hears it
        os.close(descriptor)
        other.send(frame)
        wait_until(lambda: received() > first)
        assert received() == first + 1


def test_addresses_with_a_mistake(pair):
    with inside(pair.a.ns), pytest.raises(Refused, match=r"'10\.0\.0\.300' does not appear to be"):
        ask({"do": "link", "device": pair.a.name, "addresses": ["10.0.0.300"]})


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"do": "reboot", "device": "lo"}, "there is no right `reboot`; there are: packet"),
        ({"do": "packet"}, "packet: which device"),
        ({"do": "packet", "device": "lo", "x": 1}, "packet: x 1 is not part of this request"),
        ({"do": "packet", "device": 5}, "device 5 is not part"),
        ({"do": "packet", "device": "a\nb"}, "is not part"),
        ({"do": "link", "device": "lo", "mtu": 1 << 40}, "is not part"),
        ({"do": "features", "device": "lo", "off": [{}]}, "is not part"),
        ({"do": "features", "device": "lo", "at": "moon"}, "at `moon`: here, or at the peer"),
        ({"do": "xdp", "device": "lo", "mode": "moon", "queues": 1}, "lo: an XDP program: 'moon'"),
        ({"do": "xdp", "device": "lo", "take": "x", "queues": 1}, "lo: an XDP program: invalid literal"),
        ({"do": "xdp", "device": "lo", "queues": (1 << 31) - 1}, "xdp: queues 2147483647 is not part"),
        ({"do": "route", "device": "lo"}, "lo: a default route"),
        ({"do": "xdp_root", "device": "lo"}, "xdp_root: 0 descriptors are not part"),
        ({"do": "bpf_program", "device": "lo"}, "bpf_program: 0 descriptors are not part"),
        ({"do": "channels", "device": "lo"}, "lo: its number of queues: the driver has one"),
    ],
)
def test_requests_that_are_none(request_, said):
    with pytest.raises(Refused, match=said):
        ask(request_)


def test_every_right_has_work_and_a_line_in_the_list():
    for name, right in RIGHTS.items():
        assert name in privileged.__doc__
        assert all(need in _capabilities.NUMBERS for need in right.needs)
        module, _, function = right.work.partition(":")
        assert callable(getattr(__import__(f"mezzo.ports.{module}", fromlist=["x"]), function))


def test_jo02_nothing_grows(pair):
    """Descriptors and processes, over a few hundred openings, switches and undoings."""

    def there() -> tuple[int, int]:
        me = Path("/proc/self")
        return len(list((me / "fd").iterdir())), len((me / "task" / str(os.getpid()) / "children").read_text().split())

    def once() -> None:
        for request in ({"do": "packet"}, {"do": "promiscuous"}, {"do": "xdp", "queues": 1, "mode": "generic"}):
            for descriptor in ask({**request, "device": pair.a.name})[0]:
                os.close(descriptor)
        _, facts = ask({"do": "features", "device": pair.a.name, "at": "peer", "off": ["tso"]})
        assert privileged.undo(facts["undo"]) == []

    with inside(pair.a.ns):
        once()
        before = there()
        for _ in range(50):
            once()
        assert there() == before


# -- without rights


@pytest.mark.parametrize(
    ("request_", "missing"),
    [
        ({"do": "packet"}, ["CAP_NET_RAW"]),
        ({"do": "promiscuous"}, ["CAP_NET_RAW"]),
        ({"do": "tap"}, ["CAP_NET_ADMIN"]),
        ({"do": "link", "mtu": 1400}, ["CAP_NET_ADMIN"]),
        ({"do": "features", "off": ["tso"]}, ["CAP_NET_ADMIN"]),
        ({"do": "features", "off": ["tso"], "at": "peer"}, ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"]),
        ({"do": "xdp"}, ["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"]),
        ({"do": "xdp_sockets"}, ["CAP_NET_RAW"]),
        ({"do": "alone"}, ["CAP_NET_ADMIN", "CAP_BPF"]),
        ({"do": "bpf_map", "kind": 2, "key": 4, "value": 8, "entries": 1}, ["CAP_BPF"]),
        ({"do": "xdp_pass"}, ["CAP_NET_ADMIN", "CAP_BPF"]),
    ],
)
def test_what_is_missing_is_said_with_how_to_grant_it(pair, request_, missing):
    said = asked_by_nobody({**request_, "device": pair.a.name}, pair.a.ns)
    assert said["missing"] == missing
    what = f"{pair.a.name}: {RIGHTS[request_['do']].what}"
    assert said["reason"].replace(" needs ", " need ") == (
        f"{what} need {' and '.join(missing)}, which this process has not"
    )
    peers = " --peers" if "CAP_SYS_ADMIN" in missing else ""
    assert f"sudo mezzo-open --install /usr/local/bin/mezzo-open --devices {pair.a.name}{peers} makes" in said["hint"]
    assert "for once: sudo mezzo run" in said["hint"]


def test_one_capability_is_enough_for_what_needs_one(pair):
    said = asked_by_nobody({"do": "packet", "device": pair.a.name}, pair.a.ns, "net_raw")
    assert said["kinds"] == ["socket"]
    said = asked_by_nobody({"do": "link", "device": pair.a.name, "mtu": 1400}, pair.a.ns, "net_raw")
    assert said["missing"] == ["CAP_NET_ADMIN"]


# -- by a helper that listens


def test_a_process_without_rights_gets_what_the_helper_opens(pair):
    with helper(pair, "--devices", pair.a.name) as path:
        said = asked_by_nobody({"do": "packet", "device": pair.a.name}, "", MEZZO_OPEN=path)
        assert said["kinds"] == ["socket"] and said["facts"]["name"] == pair.a.name
        said = asked_by_nobody({"do": "packet", "device": "wrong0"}, "", MEZZO_OPEN=path)
        assert said["reason"] == "wrong0: mezzo-open may not open it"
        assert said["hint"] == f"it was started with --devices {pair.a.name}"


def test_only_the_rights_and_the_users_that_were_named(pair):
    with helper(pair, "--devices", "*", "--rights", "packet") as path:
        said = asked_by_nobody({"do": "link", "device": pair.a.name, "mtu": 1400}, "", MEZZO_OPEN=path)
        assert said["reason"] == f"{pair.a.name}: mezzo-open may not give `link`"
        with pytest.raises(Refused, match="mezzo-open does not serve the user 0"):
            _opener.Helper.at(path).ask({"do": "packet", "device": pair.a.name})


def test_a_device_that_is_not_there_is_said_as_if_it_were_here(pair):
    with helper(pair, "--devices", "*") as path:
        said = asked_by_nobody({"do": "packet", "device": "nosuch"}, "", MEZZO_OPEN=path)
    assert said["reason"] == "there is no network interface `nosuch`"
    assert pair.a.name in said["hint"] and said["errno"] == 19


def test_no_helper_at_that_place():
    said = asked_by_nobody({"do": "packet", "device": "lo"}, "", MEZZO_OPEN="/tmp/nobody-listens")
    assert said["reason"] == "/tmp/nobody-listens: no helper answers (No such file or directory)"


def test_the_helper_undoes_when_its_client_ends(pair):
    request = {"do": "features", "device": pair.a.name, "at": "here", "off": ["tso"]}
    with helper(pair, "--devices", pair.a.name) as path:
        said = asked_by_nobody(request, "", MEZZO_OPEN=path)
        assert said["facts"]["changed"]["tx-tcp-segmentation"] is False
        with inside(pair.a.ns):
            wait_until(lambda: _ethtool.wanted(pair.a.name)["tx-tcp-segmentation"])


def test_undoing_by_the_helper_and_only_ones_own(pair):
    with helper(pair, "--devices", pair.a.name, users="root") as path, inside(pair.a.ns):
        one, other = _opener.Helper.at(path), _opener.Helper.at(path)
        _, facts = one.ask({"do": "link", "device": pair.a.name, "mtu": 1400})
        assert other.ask({"undo": facts["undo"]})[1] == {"left": []}
        assert _netdev.link(pair.a.name).mtu == 1400
        assert one.ask({"undo": facts["undo"]})[1] == {"left": []}
        assert _netdev.link(pair.a.name).mtu == 1500
        one.close()
        other.close()


def test_the_helper_survives_what_is_no_request(pair):
    """Not a line of it is trusted; a connection that sends nonsense is answered, and the next one served."""
    nonsense = [b"x", b"[]", b'{"do": {}}', b'{"undo": 5}', b"[" * 60000, b'{"do":"packet","device":"' + b"\xff" * 9]
    with helper(pair, "--devices", "*", users="root") as path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as raw:
            raw.connect(path)
            raw.settimeout(5)
            for text in nonsense:
                socket.send_fds(raw, [text], [0, 1])
                assert b"refused" in raw.recv(5000) or text == b'{"undo": 5}'
        made = _opener.Helper.at(path)
        (descriptor,), _ = made.ask({"do": "packet", "device": pair.a.name})
        os.close(descriptor)
        made.close()


def test_a_helper_that_goes_away_is_said(pair):
    with helper(pair, "--devices", "*", users="root") as path:
        made = _opener.Helper.at(path)
    with pytest.raises(Refused, match="the helper went away"):
        made.ask({"do": "packet", "device": pair.a.name})
    made.close()


def test_a_socket_from_a_supervisor(pair):
    """As systemd does: descriptor 3 listens, and two variables say so (sd_listen_fds(3))."""
    path = f"/tmp/{unique('sd')}.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(path)
        listener.listen()
        command = f"{sys.executable} -m mezzo open --devices '*'"
        script = f"exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec {command}"
        process = subprocess.Popen(["ip", "netns", "exec", pair.a.ns, "sh", "-c", script], stdin=listener.fileno())
    made = _opener.Helper.at(path)
    os.close(made.ask({"do": "packet", "device": pair.a.name})[0][0])
    made.close()
    process.terminate()
    assert process.wait(10) == 0
    os.unlink(path)


# -- by a program that holds capabilities


def may_carry() -> str:
    """Why a file cannot be given capabilities here; "" when it can."""
    place = Path(f"/tmp/{unique('try')}")
    try:
        _launcher.install(place, ["/bin/true"], ["CAP_NET_RAW"])
    except MezzoError as trouble:
        return str(trouble)
    place.unlink()
    return ""


@pytest.fixture
def carrying() -> None:
    if why := may_carry():
        pytest.skip(f"no file can be given capabilities here: {why}")


@pytest.fixture
def installed(pair, carrying) -> Iterator[Path]:
    """The program, in a folder that everybody can reach.  Its Python is where nobody cannot read, so it may read."""
    place = Path(f"/tmp/{unique('bin')}") / "mezzo-open"
    place.parent.mkdir(mode=0o755)
    words = ["--install", str(place), "--devices", pair.a.name, "--trust"]
    done = subprocess.run([sys.executable, "-m", "mezzo", "open", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{place}: cap_bpf,cap_net_admin,cap_net_raw,cap_perfmon for {pair.a.name}\n"
    subprocess.run(["setcap", "cap_net_raw,cap_net_admin,cap_bpf,cap_dac_read_search=p", str(place)], check=True)
    yield place
    place.unlink()
    place.parent.rmdir()


def test_it_is_found_and_started_by_who_lacks_rights(pair, installed):
    path = f"{installed.parent}:{os.environ['PATH']}"
    said = asked_by_nobody({"do": "packet", "device": pair.a.name}, pair.a.ns, PATH=path)
    assert said.get("kinds") == ["socket"], said
    said = asked_by_nobody({"do": "packet", "device": "lo"}, pair.a.ns, PATH=path)
    assert said["reason"] == "lo: mezzo-open may not open it"


def test_it_undoes_when_who_started_it_is_gone(pair, installed):
    path = f"{installed.parent}:{os.environ['PATH']}"
    asked_by_nobody({"do": "link", "device": pair.a.name, "mtu": 1400}, pair.a.ns, PATH=path)
    with inside(pair.a.ns):
        wait_until(lambda: _netdev.link(pair.a.name).mtu == 1500)


def test_it_is_for_a_group_if_that_is_said(carrying, tmp_path):
    place = tmp_path / "mezzo-open"
    _launcher.install(place, ["/bin/true"], ["CAP_NET_RAW"], 65534)
    assert (place.stat().st_gid, place.stat().st_mode & 0o777) == (65534, 0o750)
    assert os.getxattr(place, _opener.CAPABILITIES)


def test_started_by_hand_it_says_what_it_is_for(pair, installed):
    done = subprocess.run([installed, "ignored"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "standard input is no connection" in done.stderr


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/usr/bin/env"], "PATH=/usr/sbin:/usr/bin:/sbin:/bin\nLANG=C.UTF-8\n"),
        (["/usr/bin/echo", "a b", "", "ü"], "a b  ü\n"),
        (["/usr/bin/grep", "-E", "Cap(Prm|Eff|Amb)", "/proc/self/status"],
         "".join(f"Cap{x}:\t{1 << 12 | 1 << 13:016x}\n" for x in ("Prm", "Eff", "Amb"))),
    ],
)  # fmt: skip
def test_the_program_hands_on_its_capabilities_and_nothing_of_its_callers(carrying, command, said):
    place = Path(f"/tmp/{unique('prog')}")
    _launcher.install(place, command, ["CAP_NET_ADMIN", "CAP_NET_RAW"])
    try:
        done = subprocess.run(
            [place, "an", "argument"], env={"LD_PRELOAD": "/x.so", "A": "b"}, user=65534, group=65534, extra_groups=[],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert (done.stdout, done.stderr) == (said, "")
    finally:
        place.unlink()


def test_a_place_that_cannot_be_written_leaves_nothing(carrying, tmp_path):
    with pytest.raises(MezzoError, match="No such file or directory"):
        _launcher.install(tmp_path / "no" / "mezzo-open", ["/bin/true"], ["CAP_NET_RAW"])
    with pytest.raises(MezzoError, match="setcap cap_of_the_future=p"):
        _launcher.install(tmp_path / "mezzo-open", ["/bin/true"], ["CAP_OF_THE_FUTURE"])
    assert list(tmp_path.iterdir()) == []


def test_install_refuses_what_others_can_change(tmp_path, monkeypatch, capsys):
    python = tmp_path / "python"
    python.touch()
    python.chmod(0o777)
    monkeypatch.setattr(sys, "executable", str(python))
    from mezzo.tools.main import main

    assert main(["open", "--install", str(tmp_path / "x"), "--devices", "eth0"]) == 1
    assert "can be changed by others than root" in capsys.readouterr().err


def test_which_devices_must_be_said(capsys):
    from mezzo.tools.main import main

    assert main(["open", "--listen", "/tmp/x"]) == 1
    assert "which devices?" in capsys.readouterr().err
    assert mezzo_open.words("a,,b") == ("a", "b")


def test_rights_are_given_up_after_opening(pair):
    script = ASK + (
        "from mezzo.ports import _capabilities\n"
        "before = _capabilities.no_new_privileges()\n"
        "privileged.renounce()\n"
        "print(json.dumps([before, _capabilities.no_new_privileges()]))\n"
        "privileged.ask(request)\n"
    )
    with helper(pair, "--devices", pair.a.name) as path:
        request = json.dumps({"do": "packet", "device": pair.a.name})
        done = unprivileged.python(script, request, env={"MEZZO_OPEN": path})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[1]) == [False, True]


def test_without_a_helper_nothing_is_given_up():
    privileged.renounce()
    assert not _capabilities.no_new_privileges()


def test_who_asks_is_known_by_the_kernel():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, b:
        assert struct.unpack("=iII", a.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1] == os.getuid()
