"""The small programs that the recorded hosts run: `python services.py names | ask | web`."""

from __future__ import annotations

import http.server
import socket
import socketserver
import struct
import sys

NAME_SERVER, ANSWER = "18.26.7.2", "18.26.7.3"
QUESTIONS = 10
PAGE_BYTES = 48_000


def names() -> None:
    """A name server with one answer for every name (RFC 1035, 4.1)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("", 53))
        print("ready", flush=True)
        while True:
            query, client = server.recvfrom(512)
            header = struct.pack(">2s5H", query[:2], 0x8580, 1, 1, 0, 0)
            answer = struct.pack(">HHHIH", 0xC00C, 1, 1, 60, 4) + socket.inet_aton(ANSWER)
            server.sendto(header + query[12:] + answer, client)


def ask() -> None:
    """Questions to the name server, one after the other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        for number in range(QUESTIONS):
            labels = (f"host{number}", "demo", "example")
            name = b"".join(bytes([len(label)]) + label.encode() for label in labels) + b"\0"
            client.sendto(struct.pack(">6H", number, 0x0100, 1, 0, 0, 0) + name + b"\0\1\0\1", (NAME_SERVER, 53))
            client.recv(512)


class Page(http.server.BaseHTTPRequestHandler):
    """One page, whatever is asked for."""

    def do_GET(self) -> None:
        body = b"".join(b"%08d mezzo demo\n" % n for n in range(PAGE_BYTES // 20))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def web() -> None:
    """A web server.  A plain TCPServer, because HTTPServer asks the network for its own name first."""
    with socketserver.TCPServer(("", 80), Page) as server:
        print("ready", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    {"names": names, "ask": ask, "web": web}[sys.argv[1]]()
