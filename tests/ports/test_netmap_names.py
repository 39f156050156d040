"""Names of netmap ports: what each part says, and what is wrong with those that are refused."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.ports import _netmap_abi as abi
from mezzo.ports._netmap_abi import Spec, parse


@pytest.mark.parametrize(
    ("text", "want", "kind"),
    [
        ("eth0", Spec("eth0"), "nic"),
        ("netmap:eth0", Spec("eth0"), "nic"),
        ("netmap:br-lan", Spec("br-lan"), "nic"),
        ("eth0-3", Spec("eth0", abi.ONE_NIC, 3), "nic"),
        ("eth0^", Spec("eth0", abi.SW), "host"),
        ("eth0^1", Spec("eth0", abi.ONE_SW, 1), "host"),
        ("eth0*", Spec("eth0", abi.NIC_SW), "nic"),
        ("eth0-0/x", Spec("eth0", abi.ONE_NIC, 0, abi.EXCLUSIVE), "nic"),
        ("eth0/R", Spec("eth0", flags=abi.RX_RINGS_ONLY), "nic"),
        ("eth0/T@1", Spec("eth0", flags=abi.TX_RINGS_ONLY, memory=1), "nic"),
        ("eth0/rt", Spec("eth0", flags=abi.MONITOR_RX | abi.MONITOR_TX), "monitor"),
        ("eth0/z", Spec("eth0", flags=abi.ZCOPY_MON), "monitor"),
        ("eth0{1", Spec("eth0{1"), "pipe"),
        ("vale0:a}x_2-0", Spec("vale0:a}x_2", abi.ONE_NIC, 0), "pipe"),
        ("vale0:a", Spec("vale0:a"), "vale"),
        ("vale_x:port.1", Spec("vale_x:port.1"), "vale"),
        ("vale0:", Spec("vale0:"), "vale"),
        ("vale0:a@share=vale0:b", Spec("vale0:a", share="vale0:b"), "vale"),
        ("eth0@conf:rings=2,tx_slots=64", Spec("eth0", config={"tx_rings": 2, "rx_rings": 2, "tx_slots": 64}), "nic"),
    ],
)
def test_what_names_say(text: str, want: Spec, kind: str) -> None:
    assert parse(text) == want
    assert parse(text).kind == kind


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "it names no port"),
        ("netmap:^", "it names no port"),
        ("eth0^x", "`^x` is no choice of rings"),
        ("eth0*2", "`*2` is no choice of rings"),
        ("eth0/q", "`q` is no flag"),
        ("eth0/RT", "R and T exclude each other"),
        ("eth0{", "a pipe is BASE{ID or BASE}ID"),
        ("{1", "a pipe is BASE{ID or BASE}ID"),
        ("eth0{a.b", "a pipe is BASE{ID or BASE}ID"),
        ("vale-x:a", "has other characters"),
        ("vale0:" + "a" * 16, "has more than 15 characters"),
        ("a" * 16, "no interface has a name of 16 characters"),
        ("vale" + "x" * 70 + ":a", "63 at most"),
        ("eth0@", "`@` is no option"),
        ("eth0@conf:rings", "`rings` is no setting"),
        ("eth0@conf:colour=2", "`colour=2` is no setting"),
        ("eth0@extmem:file=x", "@extmem is nothing that mezzo uses"),
    ],
)
def test_what_is_wrong_with_names(text: str, what: str) -> None:
    with pytest.raises(MezzoError) as told:
        parse(text)
    assert what in str(told.value) and f"netmap port `{text}`" in str(told.value)
