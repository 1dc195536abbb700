"""The plug-in: what TensorBoard asks it, and its answers to the browser."""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tensorboard.plugins import base_plugin
from werkzeug.wrappers import Request, Response

from tensorboard_vram._folder import LogFolder
from tensorboard_vram._pages import Pages
from vram._texts import tr

_SCRIPT = Path(__file__).with_name("index.js")
_NOTHING_RUNS = "default-src 'none'"
_POLICY = re.compile(rb'<meta http-equiv="Content-Security-Policy" content="([^"\r\n]*)">')
_MAX_HEAD = 4096  # the policy is at the beginning of the page


class VramPlugin(base_plugin.TBPlugin):
    """The tab "vram": a list of the recordings of the log directory, and the page of the selected one. Read-only."""

    plugin_name = "vram"

    def __init__(self, context: Any) -> None:
        self._folder = LogFolder(context.logdir)
        self._pages = Pages()

    def get_plugin_apps(self) -> dict[str, Callable[..., Any]]:
        """Return the functions that answer requests, by path."""
        return {"/index.js": _app(_script), "/recordings": _app(self._recordings), "/page": _app(self._page)}

    def is_active(self) -> bool:
        """Return whether the tab is shown without being searched for: if there is a recording."""
        return self._folder.has_recordings()

    def frontend_metadata(self) -> Any:
        """Return the script of the tab."""
        return base_plugin.FrontendMetadata(es_module_path="/index.js", tab_name="vram")

    def _recordings(self, _request: Request) -> Response:
        recordings, is_limited = self._folder.recordings()
        items = [{"name": each.name, "bytes": each.bytes, "mtime_ms": each.mtime_ns // 10**6} for each in recordings]
        answer = {"logdir": self._folder.name, "is_limited": is_limited, "recordings": items}
        return _response(json.dumps(answer), "application/json")

    def _page(self, request: Request) -> Response:
        name = request.args.get("recording", "")
        recording = self._folder.find(name)
        if recording is None:
            return _message(tr("{!r} is no recording of the log directory {!r}").format(name, self._folder.name), 404)
        try:
            page = self._pages.page_of(recording)
        except Exception as error:  # anything that is wrong with a file is that file's page
            command = f"vram report {shlex.quote(str(recording.path))}"
            return _message(
                tr("{}: {}. {} shows it in a terminal, with --serve in a browser.").format(name, error, command), 500
            )
        # TensorBoard expects the policy in a header. It is the page's own, which admits its script by hash.
        policy = _POLICY.search(page[:_MAX_HEAD])
        return _response(page, "text/html", policy[1].decode("latin-1") if policy else _NOTHING_RUNS)


def _app(answer: Callable[[Request], Response]) -> Callable[..., Any]:
    """Return a WSGI application that answers GET and HEAD."""

    def app(environ: dict[str, Any], start_response: Any) -> Any:
        request = Request(environ)
        if request.method not in ("GET", "HEAD"):
            return _response("expected GET", "text/plain", status=405)(environ, start_response)
        return answer(request)(environ, start_response)

    return app


def _script(_request: Request) -> Response:
    return _response(_SCRIPT.read_bytes(), "application/javascript")


def _message(text: str, status: int) -> Response:
    body = f'<!doctype html><meta charset="utf-8"><title>vram</title><p>{html.escape(text)}</p>'
    return _response(body, "text/html", status=status)


def _response(body: bytes | str, kind: str, policy: str = _NOTHING_RUNS, status: int = 200) -> Response:
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": policy,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(body, status=status, content_type=f"{kind}; charset=utf-8", headers=headers)
