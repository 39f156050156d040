"""Port counts, processing and flow of the classes the graph tests use."""

from __future__ import annotations

from typing import NamedTuple

from mezzo.base import MezzoError, Reporter
from mezzo.frontends.click import parse_click
from mezzo.graph import Instance, Resolved, assemble, check


class Spec(NamedTuple):
    ports: str
    processing: str
    flow: str = "x/x"


SPECS = {
    "AddressInfo": Spec("0/0", "a/a"),
    "ARPQuerier": Spec("2/1-2", "h/h", "xy/x"),
    "ARPResponder": Spec("1/1-2", "a/ah"),
    "CheckIPHeader": Spec("1/1-2", "a/ah"),
    "CheckPaint": Spec("1/1-2", "a/ah"),
    "Classifier": Spec("1/-", "h/h"),
    "Counter": Spec("1/1", "a/a"),
    "DecIPTTL": Spec("1/1-2", "a/ah"),
    "Discard": Spec("1/0", "a/a"),
    "DropBroadcasts": Spec("1/1-2", "a/ah"),
    "EtherSwitch": Spec("2-/=", "h/h", "#/[^#]"),
    "FixIPSrc": Spec("1/1", "a/a"),
    "FromDevice": Spec("0/1", "h/h", ""),
    "GetIPAddress": Spec("1/1", "a/a"),
    "ICMPError": Spec("1/1", "a/a"),
    "IPFragmenter": Spec("1/1-2", "h/h"),
    "IPGWOptions": Spec("1/1-2", "a/ah"),
    "Idle": Spec("-/-", "a/a", "x/y"),
    "InfiniteSource": Spec("0/1", "a/a"),
    "LookupIPRoute": Spec("1/-", "h/h", ""),
    "Null": Spec("1/1", "a/a"),
    "Paint": Spec("1/1", "a/a"),
    "PaintTee": Spec("1/2", "a/ah"),
    "PullNull": Spec("1/1", "l/l"),
    "PushNull": Spec("1/1", "h/h"),
    "Queue": Spec("1/1-2", "h/lh"),
    "RoundRobinSched": Spec("-/1", "l/l"),
    "Strip": Spec("1/1", "a/a"),
    "Suppressor": Spec("-/=", "a/a", "#/#"),
    "Tee": Spec("1/1-", "h/h"),
    "TimedSource": Spec("0/1", "h/h"),
    "ToDevice": Spec("1/0", "l/l", ""),
    "ToHost": Spec("1/0", "a/a"),
    "Unqueue": Spec("1/1", "l/h"),
}


def spec_of(instance: Instance) -> Spec:
    return SPECS[instance.cls]


def resolve(text: str) -> tuple[Resolved, Reporter]:
    reporter = Reporter()
    return check(assemble(parse_click(text, "router.click")), spec_of, reporter, SPECS), reporter


def resolved(text: str) -> Resolved:
    result, reporter = resolve(text)
    if reporter.diagnostics:
        raise MezzoError(*reporter.diagnostics)
    return result


def complaints(text: str) -> list[str]:
    return [d.render() for d in resolve(text)[1].diagnostics]


IP_ROUTER = """
// The standard IP router on two networks.
elementclass Host { $dev, $ip, $eth, $color |
  c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
  from :: FromDevice($dev) -> c;
  out :: Queue(200) -> ToDevice($dev);
  c[0] -> ARPResponder($ip $eth) -> out;
  arpq :: ARPQuerier($ip, $eth) -> out;
  c[1] -> [1] arpq;
  c[2] -> Paint($color) -> output;
  c[3] -> Discard;
  input -> DropBroadcasts -> cp :: CheckPaint($color) -> gio :: IPGWOptions($ip) -> FixIPSrc($ip)
    -> dt :: DecIPTTL -> fr :: IPFragmenter(1500) -> arpq;
  cp[1] -> ICMPError($ip, redirect, host) -> [1] output;
  gio[1] -> ICMPError($ip, parameterproblem) -> [1] output;
  dt[1] -> ICMPError($ip, timeexceeded) -> [1] output;
  fr[1] -> ICMPError($ip, unreachable, needfrag) -> [1] output;
}
rt :: LookupIPRoute(18.26.4.24/32 0, 18.26.7.1/32 0, 18.26.4.0/24 1, 18.26.7.0/24 2, 0.0.0.0/0 18.26.4.1 1);
ip :: Strip(14) -> CheckIPHeader(18.26.4.255 18.26.7.255) -> GetIPAddress(16) -> rt;
h0 :: Host(eth0, 18.26.4.24, 0:0:c0:ae:67:ef, 1);
h1 :: Host(eth1, 18.26.7.1, 0:0:c0:4f:71:ef, 2);
h0[0], h1[0] -> ip;
h0[1], h1[1] -> rt;
rt[0] -> ToHost;
rt[1] -> h0;
rt[2] -> h1;
"""
