"""A visitor of the lab without a browser: the messages that one would send, and what comes back."""

import asyncio
import json
import re
from urllib.request import urlopen

from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect


def token_of(address):
    """The token of a session that a page was served for."""
    with urlopen(address, timeout=60) as answer:
        return re.search(r'"token":"([^"]+)"', answer.read().decode()).group(1)


class Visitor:
    """Opens a page by its address, as a browser does, and then its socket."""

    def __init__(self, address):
        self._address, self._heard, self._more = address, [], asyncio.Event()

    async def __aenter__(self):
        token = await asyncio.to_thread(token_of, self._address)
        url = self._address.partition("?")[0].replace("http", "ws") + "ws"
        self._socket = await websocket_connect(HTTPRequest(url), subprotocols=["bokeh", token])
        self._listening = asyncio.ensure_future(self._listen())
        await self.hears('"ACK"')  # before which the server cannot be spoken to
        await self._send("PULL-DOC-REQ", {})
        self._document = json.loads(await self.hears('"roots"'))
        ready = {"type": "event", "name": "document_ready", "values": {"type": "map"}}
        await self._patch(kind="MessageSent", msg_type="bokeh_event", msg_data=ready)
        return self

    async def __aexit__(self, *error):
        self._socket.close()
        await self._listening

    async def hears(self, pattern):
        """The first message since the last change with this text; waits for it."""
        while not (found := self.heard(pattern)):
            self._more.clear()
            await asyncio.wait_for(self._more.wait(), 120)
        return found

    def heard(self, pattern):
        """The first message since the last change with this text, None if there is none yet."""
        return next((text for text in self._heard if re.search(pattern, text)), None)

    async def set(self, title, value):
        """Change the value of the widget whose title begins so."""
        self._heard.clear()
        model = {"id": _identity(self._document, title)}
        await self._patch(kind="ModelChanged", model=model, attr="value", new=value)

    async def _patch(self, **event):
        await self._send("PATCH-DOC", {"events": [event]})

    async def _send(self, kind, content):
        for part in ({"msgid": "1", "msgtype": kind}, {}, content):
            await self._socket.write_message(json.dumps(part))

    async def _listen(self):
        while (message := await self._socket.read_message()) is not None:
            if isinstance(message, str):
                self._heard.append(message)
                self._more.set()


def _identity(part, title):
    """The id of the model with this title, in a document or a part of it."""
    if isinstance(part, dict):
        if str(part.get("attributes", {}).get("title", "")).startswith(title):
            return part["id"]
        part = list(part.values())
    found = (_identity(each, title) for each in part) if isinstance(part, list) else ()
    return next((each for each in found if each), None)
