"""examples/new-flows.click between namespaces: the first packet of each flow is in the capture, and no other."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from scapy.utils import RawPcapReader

from mezzo.runtime import Router
from tests.elements.ip_packets import ip, udp
from tests.ports.netlab import inside, namespace, raw_socket, veth_pair, wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "new-flows.click"
pytestmark = [pytest.mark.needs_root, pytest.mark.slow]


def frame(flow: int) -> bytes:
    return bytes.fromhex("02000000000102000000000208 00") + ip(udp(b"x" * 20, ports=(1000 + flow, 53)))


@pytest.mark.parametrize(("method", "more"), [("PACKET", {}), ("XDP", {"place": "auto"})])
def test_the_first_packet_of_each_flow(method: str, more: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "flows.pcap"
    with namespace() as here, namespace() as there, veth_pair(here, there) as pair:
        said = {"DEV": pair.a.name, "FILE": str(file), "METHOD": method}
        text, options = EXAMPLE.read_text(), {"frames": 4096, **more}
        with inside(pair.a.ns), Router.from_click(text, str(EXAMPLE), said, **options) as router:
            router.run(rounds=1)
            runner = threading.Thread(target=router.run)
            runner.start()
            with raw_socket(pair.b, receive=False) as wire:
                for _ in range(3):
                    for flow in range(20):
                        wire.send(frame(flow))
            counts = ("flows.hits", "40"), ("flows.misses", "20")
            wait_until(lambda: all(router.read(name) == count for name, count in counts))
            levels = {r.name: r.level for r in router.plan.placement.rows} if router.plan.placement else {}
            router.please_stop()
            runner.join()
        assert levels.get("flows", "native") == ("kernel" if more else "native")
    assert [data for data, _ in RawPcapReader(str(file))] == [frame(flow) for flow in range(20)]
