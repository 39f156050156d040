"""`--metrics ADDR`: the metrics of a router over HTTP, from a thread of its own.

Listens on this machine alone unless the address names another.  GET /metrics (or /) is all there is; who asks for
OpenMetrics gets it.  At most `MOST` clients at a time, each with `PATIENCE_S` to ask.
"""

from __future__ import annotations

import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from mezzo.base import Diagnostic, MezzoError
from mezzo.runtime.metrics import OLD, OPEN, Registry

if TYPE_CHECKING:
    from mezzo.runtime.router import Router

ADDRESS = re.compile(r"(?:(?:\[([^\]]+)\]|([^:\[\]]*)):)?(\d{1,5})")
MOST, PATIENCE_S = 16, 5.0


def parse_address(text: str) -> tuple[str, int]:
    """`9100`, `HOST:9100` or `[::1]:9100`; without a host it is this machine alone."""
    match = ADDRESS.fullmatch(text.strip())
    if match is None or int(match[3]) > 0xFFFF:
        hint = "write PORT or HOST:PORT; port 0 is any that is free"
        raise MezzoError(Diagnostic(f"`{text}` is no address", hint=hint))
    return match[1] or match[2] or "127.0.0.1", int(match[3])


class MetricsServer(ThreadingHTTPServer):
    """Serves until `stop`; `address` is where."""

    daemon_threads, block_on_close, allow_reuse_address = True, False, True

    def __init__(self, router: Router, address: tuple[str, int]) -> None:
        self.registry, self._room = Registry(router), threading.BoundedSemaphore(MOST)
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            super().__init__(address, _Handler)
        except OSError as trouble:
            where = f"{address[0]}:{address[1]}"
            raise MezzoError(f"--metrics {where}: {trouble.strerror or trouble}") from None
        self.thread = threading.Thread(target=self.serve_forever, args=(0.1,), name="mezzo-metrics", daemon=True)
        self.thread.start()

    @property
    def where(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    @property
    def address(self) -> tuple[str, int]:
        return self.server_address[0], self.server_address[1]  # type: ignore[return-value]

    def server_bind(self) -> None:
        """As of a TCP server: HTTPServer's asks for the host's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes in the middle is no trouble of ours."""

    def close(self) -> None:
        self.shutdown()
        self.server_close()
        self.thread.join(2)


class _Handler(BaseHTTPRequestHandler):
    server: MetricsServer
    server_version, sys_version, timeout = "mezzo", "", PATIENCE_S

    def do_GET(self) -> None:
        self._answer(self.command)

    do_HEAD = do_GET

    def _answer(self, method: str) -> None:
        if self.path.partition("?")[0] not in ("/", "/metrics"):
            self.send_error(404, "only /metrics is here")
            return
        is_open = "application/openmetrics-text" in self.headers.get("Accept", "")
        try:
            body = self.server.registry.text(is_open).encode()
        except MezzoError:
            self.send_error(503, "the router has ended")
            return
        self.send_response(200)
        self.send_header("Content-Type", OPEN if is_open else OLD)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if method == "GET":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: standard error is the router's."""
