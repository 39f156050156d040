"""How fast handlers are asked: a counter through Python and through the control socket, routes in a batch.

Through the socket a client in a process of its own reads `c.count`, first without waiting for answers (pipelined), then
one by one; the router is idle.  One by one each read is two system calls and a change of process on both sides, so
beside it stands the floor: the same bytes from a server that does nothing but epoll, recv and send.  Routes are added
while a thread forwards; `forwarding` is its rate in a second with a batch, as a part of that in the second before.
"""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time

from harness import report

from mezzo.runtime import Router

READS, BURST = 20_000, 100
COMMAND, ANSWER = b"READ c.count\n", b"200 Read handler 'c.count' OK\r\nDATA 1\r\n5"
GRAPH = "InfiniteSource(LIMIT 5) -> c :: Counter -> Discard;"
FORWARD = """s :: InfiniteSource(LENGTH 60, BURST 32) -> SetIPAddress(10.1.2.3) -> rt :: RadixIPLookup(0/0 0, 10/8 1)
    -> Discard; rt[1] -> c :: Counter -> Discard;"""


def connected(place: str) -> socket.socket:
    if "/" in place:
        made = socket.socket(socket.AF_UNIX)
        made.connect(place)
        return made
    made = socket.create_connection(("127.0.0.1", int(place)))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


def one_by_one(wire: socket.socket, reads: int) -> None:
    for _ in range(reads):
        wire.send(COMMAND)
        wire.recv(4096)


def pipelined(wire: socket.socket, reads: int) -> None:
    many = COMMAND * BURST
    sender = threading.Thread(target=lambda: [wire.sendall(many) for _ in range(reads // BURST)])
    sender.start()
    left = reads * len(ANSWER)
    while left:
        left -= len(wire.recv(1 << 16))
    sender.join()


def client(place: str, how: str, reads: int) -> None:
    """In a process of its own: prints reads a second, five times."""
    with connected(place) as wire:
        wire.recv(100)
        ask = {"one": one_by_one, "pipelined": pipelined}[how]
        ask(wire, reads // 10)
        rates = []
        for _ in range(5):
            begun = time.perf_counter()
            ask(wire, reads)
            rates.append(reads / (time.perf_counter() - begun))
    print(json.dumps(rates))


def rates(place: str, how: str, reads: int) -> list[float]:
    command = [sys.executable, __file__, place, how, str(reads)]
    return list(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout))


def floor(path: str) -> list[float]:
    """The same exchange with a server that knows the answer."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        child = os.fork()
        if not child:
            wire, _ = server.accept()
            wire.setblocking(False)
            wire.send(b"hello")
            poll = select.epoll()
            poll.register(wire, select.EPOLLIN)
            while poll.poll() and wire.recv(4096):
                wire.send(ANSWER)
            os._exit(0)
        found = rates(path, "one", READS)
        os.waitpid(child, 0)
        return found


def python_ns(calls: int = 100_000) -> float:
    with Router.from_click(GRAPH) as router:
        router.run()
        read = router.read
        begun = time.perf_counter_ns()
        for _ in range(calls):
            read("c.count")
        return (time.perf_counter_ns() - begun) / calls


def batch() -> tuple[list[float], list[float]]:
    """(ms for 10,000 routes, the rate of forwarding in a second with such a batch as a part of that without)."""
    lines = "".join(f"add {11 + (i >> 16)}.{i >> 8 & 255}.{i & 255}.0/24 1\n" for i in range(10_000))
    spent: list[float] = []
    parts: list[float] = []
    with Router.from_click(FORWARD) as router:
        router.write("rt.ctrl", lines)  # numpy comes with the first large table

        def forwarded() -> float:
            before = int(router.read("c.count"))
            begun = time.perf_counter()
            router.run(1)
            return (int(router.read("c.count")) - before) / (time.perf_counter() - begun)

        def work(text: str) -> None:
            time.sleep(0.4)
            begun = time.perf_counter()
            router.write("rt.ctrl", text)
            spent.append((time.perf_counter() - begun) * 1e3)

        for word in ("remove", "add", "remove", "add", "remove"):
            alone = forwarded()
            thread = threading.Thread(target=work, args=(lines.replace("add", word),))
            thread.start()
            parts.append(forwarded() / alone)
            thread.join()
    return spent, parts


def main() -> None:
    report("control_read_python", "ns", [python_ns() for _ in range(5)], 1000)
    with tempfile.TemporaryDirectory() as folder:
        least = floor(f"{folder}/floor")
        text = f"k :: ControlSocket(UNIX, {folder}/s); t :: ControlSocket(TCP, 0); {GRAPH}"
        with Router.from_click(text) as router:
            runner = threading.Thread(target=router.run)
            runner.start()
            port = router.read("t.port")
            for where, place in (("unix", f"{folder}/s"), ("tcp", port)):
                for how, name, reads in (("pipelined", "pipelined", 5 * READS), ("one", "one_by_one", READS)):
                    runs = rates(place, how, reads)
                    report(f"control_reads_{where}_{name}", "reads/s", runs, 50_000, most=max(runs), floor=max(least))
            router.please_stop()
            runner.join()
    spent, parts = batch()
    report("control_routes_batch", "ms", spent, 100, forwarding=[round(part, 3) for part in parts])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        client(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        main()
