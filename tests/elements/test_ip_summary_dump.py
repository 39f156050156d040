"""ToIPSummaryDump, FromIPSummaryDump."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dpkt
import pytest

from mezzo.base import MezzoError
from mezzo.elements._summary_fields import FIELDS
from mezzo.packet.capture_write import CaptureWriter
from mezzo.runtime import Router
from mezzo.targets import target_names
from mezzo.wire.build import icmp, ip, ip6, tcp, udp

ENDS = ("1.2.3.4", "5.6.7.8")


def summary(path: Path, packets: list[bytes], args: str, target: str = "native", offset: int = 0) -> list[str]:
    """The lines that ToIPSummaryDump writes about packets."""
    text = f"in0 :: Feed -> MarkIPHeader({offset}) -> d :: ToIPSummaryDump({path}, {args});"
    with Router.from_click(text, target=target, virtual=True) as router:
        router.feed("in0", packets)
        router.run()
        assert router.read("d.count") == str(len(packets))
    return path.read_text().splitlines()


def test_fields_of_every_kind(tmp_path: Path) -> None:
    fields = (
        "ip_src ip_dst ip_proto ip_len ip_id ip_tos ip_ttl ip_frag ip_fragoff sport dport payload_len cap_len wire_len"
    )
    packets = [
        ip(*ENDS, 17, udp(53, 1000, b"abc", ENDS), id=7, tos=4, ttl=9),
        ip(*ENDS, 6, tcp(80, 1000, payload=b"hello", ends=ENDS), frag=0x2000),
        ip(*ENDS, 17, b"01234567", frag=0x2001),
        ip(*ENDS, 17, b"01234567", frag=0x0002),
        ip(*ENDS, 47, b"gre"),
        ip(*ENDS, 17, b"xy"),
        b"\x60" + bytes(39),
        b"",
    ]
    found = summary(tmp_path / "o", packets, f"FIELDS {fields}")
    assert found[:2] == ["!IPSummaryDump 1.3", "!data " + fields]
    assert found[2:] == [
        "1.2.3.4 5.6.7.8 U 31 7 4 9 . 0 53 1000 3 31 31",
        "1.2.3.4 5.6.7.8 T 45 0 0 64 F 0+ 80 1000 5 45 45",
        "1.2.3.4 5.6.7.8 U 28 0 0 64 f 8+ - - 8 28 28",
        "1.2.3.4 5.6.7.8 U 28 0 0 64 f 16 - - 8 28 28",
        "1.2.3.4 5.6.7.8 47 23 0 0 64 . 0 - - 3 23 23",
        "1.2.3.4 5.6.7.8 U 22 0 0 64 . 0 30841 - 0 22 22",
        ":: :: 0 40 - - - - - - - 0 40 40",
        "- - - 0 - - - - - - - 0 0 0",
    ]


def test_transport_fields(tmp_path: Path) -> None:
    fields = "tcp_seq tcp_ack tcp_flags tcp_window tcp_urp udp_len icmp_type icmp_code payload"
    packets = [
        ip(*ENDS, 6, tcp(80, 1000, seq=1, ack=2, flags=0x12, window=3, payload=b'say "hi"\n', ends=ENDS)),
        ip(*ENDS, 17, udp(53, 1000, b"", ENDS)),
        ip(*ENDS, 1, icmp(8, 0, 0x10002, b"x")),
    ]
    found = summary(tmp_path / "o", packets, f"FIELDS {fields}, HEADER false")
    assert found[0] == '1 2 SA 3 0 - - - "say \\"hi\\"\\<0A>"'
    assert found[1:] == ['- - - - - 8 - - ""', '- - - - - - 8 0 "x"']


def test_old_names_bad_packets_and_comments(tmp_path: Path) -> None:
    args = 'CONTENTS src "ip dst" "tcp seq" len, VERBOSE true, BANNER "made by hand", BAD_PACKETS true'
    found = summary(tmp_path / "o", [ip(*ENDS, 17, b""), b"\x45\0"], args)
    assert found[:2] == ["!IPSummaryDump 1.3", '!creator "made by hand"']
    assert [line.split()[0] for line in found[2:4]] == ["!host", "!runtime"]
    assert found[4:] == [
        "!data ip_src ip_dst tcp_seq ip_len",
        "!bad truncated transport header",
        "1.2.3.4 5.6.7.8 - 20",
        "!bad truncated IP header",
        "- - - 2",
    ]


def test_ethernet_addresses_need_a_header(tmp_path: Path) -> None:
    frame = b"\2\0\0\0\0\1\2\0\0\0\0\2\x08\0" + ip(*ENDS, 17, b"")
    text = f"in0 :: Feed -> EtherMirror -> Strip(14) -> MarkIPHeader -> ToIPSummaryDump({tmp_path}/o, FIELDS eth_src);"
    with Router.from_click(text, virtual=True) as router:
        router.feed("in0", [frame])
        router.run()
    assert (tmp_path / "o").read_text().splitlines()[2:] == ["-"]


def test_passes_on_pulls_and_survives_a_full_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target in target_names():
        text = f"""in0 :: Feed -> MarkIPHeader -> ToIPSummaryDump(/dev/full) -> out0 :: Collect;
            in1 :: Feed -> Queue -> d :: ToIPSummaryDump({tmp_path}/o);"""
        with Router.from_click(text, target=target, virtual=True) as router:
            router.feed("in0", [ip(*ENDS, 17, b"")] * 3)
            router.feed("in1", [b"x"] * 3)
            router.run()
            assert len(router.collect("out0")) == 3
            assert router.read("d.count") == "3"
            router.write("d.flush", "")
            assert (tmp_path / "o").read_text().count("- -\n") == 3
    assert capsys.readouterr().err.count("No space left on device") == len(target_names())


@pytest.mark.parametrize(
    ("args", "said"),
    [("FIELDS nothing", "`nobody`|`nothing` is not a field"), ("FIELDS len, CONTENTS len", "the same")],
)
def test_refused(tmp_path: Path, args: str, said: str) -> None:
    with pytest.raises(MezzoError, match=said):
        Router.from_click(f"Idle -> ToIPSummaryDump({tmp_path}/o, {args});")
    with pytest.raises(MezzoError, match="cannot write"):
        Router.from_click(f"Idle -> ToIPSummaryDump({tmp_path}/no/o);")


# -- from text


def made(path: Path, text: str, args: str = "", take: Any = bytes) -> list[Any]:
    """The packets that FromIPSummaryDump makes, the same on every target."""
    path.write_text(text)
    found = []
    for target in target_names():
        config = f"f :: FromIPSummaryDump({path}, STOP true, {args}) -> c :: Collect;"
        with Router.from_click(config, target=target, virtual=True) as router:
            assert router.run() == "stopped"
            found.append(router.collect_packets("c", take))
    assert found[0] == found[-1]
    return list(found[0])


def test_packets_from_lines(tmp_path: Path) -> None:
    text = """!IPSummaryDump 1.3
!data timestamp ip_src sport ip_dst dport ip_proto ip_len tcp_flags ip_id
# a comment
1000000000.000001 1.2.3.4 80 5.6.7.8 1000 T 1000 SA 5
1000000000.5 1.2.3.4 53 5.6.7.8 1001 U - - -
2 1.2.3.4 - 5.6.7.8 - I 28 - -
not a line
3.0 1.2.3.4 - 5.6.7.8 - 300 28 - -
"""
    take = lambda p: (p.timestamp, bytes(p), int.from_bytes(p.anno[28:32], "little"), p.mark("net"))  # noqa: E731
    found = made(tmp_path / "i", text, take=take)
    first, second, third = ((time, dpkt.ip.IP(data), *rest) for time, data, *rest in found)
    assert (first[0], first[2], first[3]) == (10**18 + 1000, 960, 0)
    assert (first[1].len, first[1].id, first[1].data.sport, first[1].data.dport, first[1].data.flags) == (
        1000,
        5,
        80,
        1000,
        0x12,
    )
    assert (second[0], second[1].p, second[1].len, second[1].data.dport) == (10**18 + 5 * 10**8, 17, 28, 1001)
    assert (third[0], third[1].p, third[2]) == (2 * 10**9, 1, 0)


def test_checksums_when_asked(tmp_path: Path) -> None:
    text = "!data ip_src ip_dst ip_proto sport dport payload\n" + "".join(
        f'1.2.3.4 5.6.7.8 {p} 1 2 "some data"\n' for p in ("T", "U", "I", "47")
    )
    for data in made(tmp_path / "i", text, "CHECKSUM true"):
        again = dpkt.ip.IP(data)
        sums = again.sum, getattr(again.data, "sum", 0)
        again.sum = 0
        if hasattr(again.data, "sum"):
            again.data.sum = 0
        fresh = dpkt.ip.IP(bytes(again))
        assert sums == (fresh.sum, getattr(fresh.data, "sum", 0))
        assert data.endswith(b"some data")


def test_the_paint_is_a_link_a_number_and_a_direction(vectors: Any, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("!data direction\n>\n<\n2\nR\n")
    fields = "FIELDS link paint direction, HEADER false"
    vectors(f"FromIPSummaryDump({tmp_path}/in) -> ToIPSummaryDump({tmp_path}/out, {fields});")
    assert (tmp_path / "out").read_text() == "0 0 >\n1 1 <\n2 2 2\n1 1 <\n"


def test_counts_annotations_and_defaults(tmp_path: Path) -> None:
    text = "!data ip_src count aggregate link\n1.1.1.1 3 77 <\n"
    anno = lambda p: (int.from_bytes(p.anno[24:28], "little"), int.from_bytes(p.anno[20:24], "little"), p.anno[16])  # noqa: E731
    assert made(tmp_path / "i", text, take=anno) == [(2, 77, 1)]
    assert made(tmp_path / "i", text, "MULTIPACKET true", take=anno) == [(0, 77, 1)] * 3
    protos = lambda p: (bytes(p)[9], bytes(p)[12:16])  # noqa: E731
    text = "1.2.3.4 5.6.7.8\n!proto U\n1.2.3.5 5.6.7.8\n!flowid 9.9.9.9 1 8.8.8.8 2 T\n- -\n"
    want = [(6, b"\1\2\3\4"), (17, b"\1\2\3\5"), (6, b"\x09" * 4)]
    assert made(tmp_path / "i", text, take=protos) == want
    assert made(tmp_path / "i", "8.8.8.8", "FIELDS dst, PROTO 1", take=protos) == [(1, bytes(4))]


def test_what_was_written_comes_back(tmp_path: Path) -> None:
    """All fields that can be read are the same after one more round."""
    fields = " ".join(f.name for f in FIELDS.values() if f.take and not f.name.startswith(("ts_", "link", "timestamp")))
    packets = [
        ip(*ENDS, 6, tcp(80, 1000, seq=2**32 - 1, ack=5, flags=0xFF, window=9, payload=b"\0\xff x", ends=ENDS)),
        ip(*ENDS, 17, udp(53, 1000, b"abc", ENDS), id=7, tos=4, ttl=9),
        ip(*ENDS, 17, b"01234567", frag=0x2001),
        ip(*ENDS, 1, icmp(8, 0, 0x10002, b"x")),
    ]
    lines = summary(tmp_path / "a", packets, f"FIELDS {fields}")
    text = f"FromIPSummaryDump({tmp_path}/a, STOP true) -> ToIPSummaryDump({tmp_path}/b, FIELDS {fields});"
    with Router.from_click(text, virtual=True) as router:
        router.run()
    assert (tmp_path / "b").read_text().splitlines() == lines


def test_missing_and_empty_files(tmp_path: Path) -> None:
    assert made(tmp_path / "i", "") == []
    with pytest.raises(MezzoError, match=r"cannot read .*No such file"):
        Router.from_click(f"FromIPSummaryDump({tmp_path}/nowhere) -> Discard;")


def test_bad_lines_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "!data ip_src ip_fragoff tcp_flags\n1.2.3.4 7 .\n1.2.3 0 .\n1.2.3.4 0 Q\n1.2.3.4\n1.2.3.4 8+ .\n"
    assert len(made(tmp_path / "i", text)) == 1
    assert "4 lines could not be read" in capsys.readouterr().err


def test_ip6_addresses(tmp_path: Path) -> None:
    packet = ip6("2001:db8::1", "2001:db8::2", 17, udp(1, 2, b"x", ("2001:db8::1", "2001:db8::2")))
    with CaptureWriter(tmp_path / "in", linktype=101) as out:
        out.write(1, packet)
    fields = "ip_src ip_dst ip_proto sport ip_len"
    text = f"FromDump({tmp_path}/in, STOP true) -> ToIPSummaryDump({tmp_path}/o, FIELDS {fields});"
    with Router.from_click(text, virtual=True) as router:
        router.run()
    assert (tmp_path / "o").read_text().splitlines()[-1] == "2001:db8::1 2001:db8::2 U 1 49"
