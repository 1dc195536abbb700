"""Receivers of alerts for tests: a real Alertmanager, and a server that stores the requests that it gets."""

from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import shutil
import socket
import ssl
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

from prometheus_server import started_on_a_port

CONFIG = "route: {receiver: none}\nreceivers: [{name: none}]\n"


class Posted:
    """What was posted: documents and the headers that came with them, in order."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.documents: list[Any] = []
        self.authorizations: list[str | None] = []

    def alerts(self, rule: str, state: str) -> list[Any]:
        alerts = [alert for document in list(self.documents) for alert in document["alerts"]]
        return [alert for alert in alerts if (alert["rule"], alert["state"]) == (rule, state)]


@contextlib.contextmanager
def webhook(
    certificate: tuple[pathlib.Path, pathlib.Path] | None = None, redirect: str = "", address: str = "127.0.0.1:0"
) -> Iterator[Posted]:
    """With a certificate and its key it speaks TLS; with a redirect it sends everybody there."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posted.authorizations.append(self.headers["Authorization"])
            posted.documents.append(json.loads(body))
            self.send_response(307 if redirect else 204)
            if redirect:
                self.send_header("Location", redirect)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    host, port = address.split(":")
    server = http.server.ThreadingHTTPServer((host, int(port)), Answer)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    posted = Posted(f"127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield posted
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=60)


@contextlib.contextmanager
def proxy() -> Iterator[tuple[str, list[str]]]:
    """An HTTP proxy for CONNECT: its URL, and the targets that it was asked for."""
    asked: list[str] = []

    class Connect(http.server.BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            asked.append(self.path)
            host, port = self.path.rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=60) as upstream:
                self.send_response(200)
                self.end_headers()
                forward = threading.Thread(target=copy, args=(self.connection, upstream))
                forward.start()
                copy(upstream, self.connection)
                forward.join(timeout=60)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Connect)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=60)


class Alertmanager:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=10) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def alerts(self, rule: str) -> list[Any]:
        """Those that are active there now."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts?filter=alertname={rule}", timeout=10) as answer:
            found: list[Any] = json.load(answer)
            return found


@contextlib.contextmanager
def alertmanager(folder: pathlib.Path) -> Iterator[Alertmanager]:
    """Alone, without a cluster; ended with the block."""
    program = shutil.which("prometheus-alertmanager")
    assert program, "Debian's package prometheus-alertmanager is needed"
    config = folder / "alertmanager.yml"
    config.write_text(CONFIG)
    words = [program, f"--config.file={config}", f"--storage.path={folder / 'alertmanager'}"]
    words += ["--cluster.listen-address=", "--log.level=error"]
    log = folder / "alertmanager.log"
    with started_on_a_port(words, log, lambda port: Alertmanager(port).is_ready()) as port:
        yield Alertmanager(port)
