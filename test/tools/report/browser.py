"""Chromium without a window, driven by its own protocol over pipes."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")
_LIMIT = 120


class Browser:
    """A page in Chromium. `messages` are what its console said."""

    def __init__(self, folder: Path, width: int = 1300, height: int = 900) -> None:
        assert CHROMIUM
        ours, theirs = os.pipe(), os.pipe()
        # The browser reads commands from descriptor 3, and writes answers to 4.
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu",
                   f"--window-size={width},{height}", f"--user-data-dir={folder / 'profile'}",
                   "--remote-debugging-pipe", "about:blank"]  # fmt: skip
        line = f'exec 3<&{ours[0]} 4>&{theirs[1]}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", line, "bash", *command],
            pass_fds=(ours[0], theirs[1]), stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(ours[0])
        os.close(theirs[1])
        self._to, self._from = os.fdopen(ours[1], "wb"), os.fdopen(theirs[0], "rb")
        self._numbers, self._session, self._rest = itertools.count(1), "", b""
        self.messages: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        (page,) = [t for t in targets if t["type"] == "page"]
        found = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._to.close()
        self._from.close()

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": arguments}
        if self._session:
            message["sessionId"] = self._session
        self._to.write(json.dumps(message).encode() + b"\0")
        self._to.flush()
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            found = os.read(self._from.fileno(), 1 << 16)
            assert found, "the browser ended"
            self._rest += found
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, facts: dict[str, Any]) -> None:
        if event == "Log.entryAdded":
            self.messages.append(facts["entry"]["text"])
        elif event == "Runtime.consoleAPICalled":
            self.messages.append(str(facts["args"]))
        elif event == "Runtime.exceptionThrown":
            self.messages.append(facts["exceptionDetails"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(facts["request"]["url"])

    def open(self, file: Path, section: str = "") -> None:
        """Shows a page, from a section of it; returns when it is whole."""
        self.load(file, section)
        self.js("new Promise(done => { const look = () => document.querySelector('[aria-busy]') ? "
                "setTimeout(look, 5) : done(); look(); })")  # fmt: skip

    def load(self, file: Path, section: str = "") -> None:
        """Shows a file; returns when it is loaded."""
        self.call("Page.navigate", url=file.as_uri() + (section and f"#{section}"))
        self.js("new Promise(done => document.readyState === 'complete' ? done() : "
                "addEventListener('load', done))")  # fmt: skip

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        found = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def texts(self, selector: str) -> list[str]:
        """The texts of the elements that a selector finds."""
        return list(
            self.js(f"[...document.querySelectorAll({selector!r})].map(e => e.textContent)")
        )

    def click(self, selector: str) -> None:
        """Clicks on an element's middle, as a mouse does."""
        place = self.js(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: "
            "'center'}); const b = e.getBoundingClientRect(); return [b.x + b.width / 2, "
            "b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1],
                      button="left", clickCount=1)  # fmt: skip

    def key(self, name: str) -> None:
        """Presses a key, by the name that its event has."""
        codes = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
                 "ArrowRight": 39, "ArrowDown": 40}  # fmt: skip
        text = {"Enter": "\r"}.get(name, name if len(name) == 1 else "")
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name,
                      windowsVirtualKeyCode=codes.get(name, 0), **more)  # fmt: skip

    def theme(self, name: str) -> None:
        """Asks the page for 'light' or 'dark'."""
        wanted = [{"name": "prefers-color-scheme", "value": name}]
        self.call("Emulation.setEmulatedMedia", features=wanted)

    def shot(self, file: Path) -> None:
        """A picture of the whole page."""
        found = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(found["data"]))
