"""Names for addresses and ports: kinds, suffixes, scopes, conflicts."""

from __future__ import annotations

import pytest

from mezzo.base import MezzoError
from mezzo.elements.args import Env, EtherAddress, IPAddress, IPPrefix
from mezzo.elements.library import maybe_find
from mezzo.pipeline import compile_text


def define(env: Env, name: str, *words: str, cls: str = "AddressInfo") -> list[str]:
    found = maybe_find(cls)
    assert found is not None
    element = found()
    element.name = name
    return element.setup(list(words), env) or element.warnings


def test_Bo07_a_plain_name_is_the_host_and_as_a_prefix_the_network() -> None:
    env = Env()
    assert define(env, "a", "a 18.26.4.9/24 00:01:02:03:04:05") == []
    assert IPAddress().parse("a", env) == 0x121A0409
    address, length = IPPrefix().parse("a", env)
    assert (address >> 8, length) == (0x121A04, 24)
    assert EtherAddress().parse("a", env) == 0x000102030405
    assert IPPrefix().parse("a:ip/32", env) == (0x121A0409, 32)


def test_a_network_without_host_bits_names_no_host() -> None:
    env = Env()
    define(env, "a", "net 10.0.0.0/8")
    assert env.look("ip", "net") is None
    assert env.look("prefix", "net") == (0x0A000000, 8)


def test_an_address_of_its_own_wins_over_that_of_the_prefix() -> None:
    env = Env()
    troubles = define(env, "a", "a 10.0.0.7 10.0.0.1/24", "b 10.0.0.1/24 10.0.0.7")
    assert troubles == ["`b` has two different values as ip; the later one counts"]
    assert env.look("ip", "a") == env.look("ip", "b") == 0x0A000007


def test_suffixes_say_which_kind() -> None:
    env = Env()
    define(env, "a", "a 10.0.0.1/8 00:01:02:03:04:05 2001:db8::1")
    assert env.look("ip", "a:ip") == 0x0A000001
    assert env.look("prefix", "a:ipnet") == (0x0A000001, 8)
    assert env.look("ether", "a:eth") == 0x000102030405
    assert env.look("ip6", "a:ip6") == 0x20010DB8 << 96 | 1
    assert env.look("ip", "a:eth") is None


def test_names_made_in_a_compound_are_known_inside_only() -> None:
    env = Env()
    define(env, "AddressInfo@1", "a 10.0.0.1", "b 10.0.0.2")
    define(env, "c/AddressInfo@2", "a 10.0.0.3")
    assert env.within("x").look("ip", "a") == 0x0A000001
    assert env.within("c/x").look("ip", "a") == 0x0A000003
    assert env.within("c/d/x").look("ip", "a") == 0x0A000003
    assert env.within("c/d/x").look("ip", "b") == 0x0A000002
    assert env.within("d/x").look("ip", "a") == 0x0A000001


def test_troubles() -> None:
    assert "expected a name" in define(Env(), "a", "lonely")[0]
    assert "`10.0.0` is no address" in define(Env(), "a", "a 10.0.0")[0]
    assert "two different values as ether" in define(Env(), "a", "a 0:0:0:0:0:1", "a 0:0:0:0:0:2")[0]


def test_port_info() -> None:
    env = Env()
    assert define(env, "p", "game 27015/udp", "web 8080", cls="PortInfo") == []
    assert env.look("udp_port", "game") == 27015
    assert env.look("tcp_port", "game") is None
    assert env.look("tcp_port", "web") == env.look("udp_port", "web") == 8080
    assert "is no port" in define(env, "p", "x 65536", cls="PortInfo")[0]
    assert "is no port" in define(env, "p", "x 80/icmp", cls="PortInfo")[0]


def test_names_are_known_before_the_elements_that_use_them() -> None:
    compile_text("in0 :: Feed -> SetIPAddress(server) -> Discard; AddressInfo(server 10.0.0.1)")
    with pytest.raises(MezzoError, match="client"):
        compile_text("in0 :: Feed -> SetIPAddress(client) -> Discard; AddressInfo(server 10.0.0.1)")


def test_an_interface_stands_for_its_own_addresses() -> None:
    env = Env()
    assert IPAddress().parse("lo", env) == IPAddress().parse("lo:ip", env) == 0x7F000001
    assert IPPrefix().parse("lo:ipnet", env) == (0x7F000000, 8)
    assert EtherAddress().parse("lo:eth", env) == 0
    assert define(env, "a", "lo 10.0.0.1 00:00:00:00:00:07") == []
    assert (IPAddress().parse("lo", env), EtherAddress().parse("lo", env)) == (0x0A000001, 7)
    with pytest.raises(ValueError, match="mznone0"):
        EtherAddress().parse("mznone0:eth", env)
