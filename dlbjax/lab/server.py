"""The server of the lab: on loopback, one page for every visitor."""

import asyncio
import signal
import socket
from typing import Any
from urllib.parse import urlencode

import panel as pn
from bokeh.server.server import Server
from panel.io.resources import LOCAL_DIST

from dlbjax.lab.page import Page
from dlbjax.model.problem import Problem

ADDRESS = "127.0.0.1"
MOST_VISITORS = 50
_LARGEST_MESSAGE = 2**20  # bytes from a browser
_PATIENCE = 30  # seconds that a browser has to load the page's scripts

_open: set[Page] = set()  # pages that are being looked at


def serve(given: Problem | None, name: str, port: int, show: bool) -> None:
    """Serve the lab until Ctrl-C, and open a browser if wanted."""

    async def run() -> None:
        handler = signal.getsignal(signal.SIGINT)
        server = make_server(given, name, port)
        signal.signal(signal.SIGINT, handler)  # Panel's own would stop the loop under us
        server.start()
        print(f"the lab is at http://{ADDRESS}:{server.port}/ (Ctrl-C ends it)", flush=True)
        if show:
            server.show("/")
        try:
            await asyncio.Event().wait()
        finally:
            server.stop()
            for page in _open:
                page.close()

    asyncio.run(run())


def make_server(given: Problem | None = None, name: str = "", port: int = 0) -> Server:
    """A server on a port of this machine, 0 for any that is free; not started yet."""
    port = port or _free_port()
    origins = [f"{host}:{port}" for host in (ADDRESS, "localhost")]
    pn.extension("tabulator")
    return pn.io.server.get_server(
        lambda: _page(given, name), port=port, address=ADDRESS, title="dlbjax lab",
        websocket_origin=origins, websocket_max_message_size=_LARGEST_MESSAGE,
        unused_session_lifetime_milliseconds=_PATIENCE * 1000,
    )  # fmt: skip


def _free_port() -> int:
    """A port for the list of origins, which is fixed before the server is bound."""
    with socket.socket() as probe:
        probe.bind((ADDRESS, 0))
        return probe.getsockname()[1]


def _page(given: Problem | None, name: str) -> Any:
    # Panel sets this only where it answers a GET. A browser whose session was discarded before its socket
    # opened gets a new one without: its styles would come from elsewhere.
    document: Any = pn.state.curdoc
    document.template_variables["dist_url"] = LOCAL_DIST
    if len(_open) >= MOST_VISITORS:
        return pn.pane.Str(
            f"The lab is full: {MOST_VISITORS} pages are open. Close one and reload."
        )
    page = Page(given, name, urlencode(pn.state.session_args, doseq=True))
    _open.add(page)

    def leave(context: Any) -> None:
        _open.discard(page)
        page.close()

    pn.state.on_session_destroyed(leave)
    pn.state.onload(page.start)
    return page.layout
