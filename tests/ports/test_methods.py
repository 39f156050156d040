"""How FromDevice and ToDevice become a driver's, and what is said when they cannot."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.elements import FromDevice, ToDevice, library
from mezzo.ports._end import methods
from mezzo.runtime import Router
from mezzo.tools._page import as_markdown, as_text


def trouble(text: str) -> str:
    with pytest.raises(MezzoError) as told:
        Router.from_click(text).close()
    return str(told.value)


def test_the_folder_is_the_list():
    assert {"memory", "pcap"} <= set(methods())
    assert not {"port", "ring", "from_device", "to_device", "privileged"} & set(methods())


def test_only_elements_have_names():
    found = set(library.names())
    assert {"FromDevice", "ToDevice", "PollDevice"} <= found
    assert not {"Receiver", "Transmitter", "Port", "MemoryPort"} & found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("FromDevice(x, METHOD CARRIER) -> Discard", "there is no method CARRIER; there are"),
        ("FromDevice(METHOD MEMORY) -> Discard", "the argument DEVNAME is missing"),
        ("FromDevice(m, METHOD MEMORY, TIMING true) -> Discard", "TIMING is an option of METHOD PCAP"),
        ("FromDevice(m, METHOD MEMORY, COLOUR red) -> Discard", "unknown keyword COLOUR; it takes DEVNAME"),
        ("FromDevice(m, METHOD MEMORY, PROMISC true) -> Discard", "PROMISC: METHOD MEMORY cannot do that"),
        ("FromDevice(m, METHOD MEMORY, BPF_FILTER icmp) -> Discard", "BPF_FILTER: METHOD MEMORY cannot do that"),
        ("FromDevice(m, METHOD MEMORY, RING 3) -> Discard", "RING: 3 is out of range"),
        ("FromDevice(m, METHOD MEMORY, FAULT drop 101) -> Discard", "drop: expected a percentage from 0 to 100"),
        ("FromDevice(m, METHOD MEMORY, FAULT melt 1) -> Discard", "there is no fault `melt`; there are drop"),
        ("Idle -> ToDevice(m, METHOD MEMORY, BQL_MIN 9, BQL_MAX 8)", "BQL_MIN 9 is more than BQL_MAX 8"),
        ("FromDevice(none.pcap, METHOD PCAP) -> Discard", "cannot read `none.pcap`: No such file"),
    ],
)
def test_what_is_wrong_is_said(text, says):
    assert says in trouble(text)


def test_two_ends_of_one_queue_are_refused_with_both_places():
    text = trouble("a :: FromDevice(m, METHOD MEMORY) -> Discard;\nb :: FromDevice(m, METHOD MEMORY) -> Discard;")
    assert "config:2:1: `b`: `m` is read by `a` already" in text
    assert "config:1:1: the other one is here" in text


def test_several_troubles_are_told_at_once():
    text = trouble("FromDevice(a.pcap, METHOD PCAP) -> Discard; FromDevice(b.pcap, METHOD PCAP) -> Discard;")
    assert "a.pcap" in text and "b.pcap" in text


def test_both_ends_of_a_device_have_one_port():
    text = "FromDevice(m, METHOD MEMORY) -> Queue -> ToDevice(m, METHOD MEMORY); Idle -> ToDevice(n, METHOD MEMORY);"
    with Router.from_click(text) as router:
        assert sorted(p.name for p in router.ports) == ["memory:m", "memory:n"]


def test_a_sender_without_a_method_goes_as_the_receiver_of_its_device():
    with Router.from_click("Idle -> t :: ToDevice(m); FromDevice(m, METHOD MEMORY) -> Discard;") as router:
        assert router.elements["t"].method == "memory"


def test_the_class_is_shown_as_it_was_written():
    with Router.from_click("p :: PollDevice(m, METHOD MEMORY) -> Discard;") as router:
        assert router.read("p.class") == "PollDevice"
        assert router.elements["p"].burst == 8


def test_a_page_lists_the_options_of_each_method():
    text = as_text(FromDevice)
    assert "WITH METHOD PCAP\n" in text and "TIMING" in text
    assert "| MEMORY | `LOOPBACK` |" in as_markdown(ToDevice)
