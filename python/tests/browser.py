# SPDX-License-Identifier: Apache-2.0
"""Opens a page in headless Chromium, through the protocol of its developer tools."""

import atexit
import base64
import contextlib
import functools
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)


class Browser:
    """A browser for the pages of all tests. It ends with the tests' process."""

    def __init__(self):
        self.ended = contextlib.ExitStack()
        atexit.register(self.ended.close)
        # Helpers of the browser outlive it, and may still write there.
        folder = self.ended.enter_context(
            tempfile.TemporaryDirectory(prefix="quarry-browser-", ignore_cleanup_errors=True)
        )
        self.process = subprocess.Popen(
            [
                CHROMIUM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-extensions",
                "--disable-sync",
                "--no-first-run",
                "--remote-debugging-port=0",
                f"--user-data-dir={folder}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.ended.callback(self.process.wait, 20)
        self.ended.callback(self.process.terminate)
        address = Path(folder, "DevToolsActivePort")
        end = time.monotonic() + 60
        while not (address.exists() and len(address.read_text().splitlines()) == 2):
            if time.monotonic() > end:
                raise TimeoutError("Chromium does not tell its port")
            time.sleep(0.05)
        port, path = address.read_text().splitlines()
        self.address = f"ws://127.0.0.1:{port}{path}"


@functools.cache
def browser():
    return Browser()


class Page:
    """A page in a window of its own, without the storage of other pages. `problems` has its errors
    and its messages on the console."""

    def __init__(self, url, width=1400, height=1000):
        from websockets.sync.client import connect

        self.sockets = contextlib.ExitStack()
        self.problems = []
        self.requests = []
        self.numbers = itertools.count(1)
        try:
            self.socket = self.sockets.enter_context(
                connect(browser().address, max_size=None, proxy=None)
            )
            # The context ends with the connection, and its pages with it.
            context = self.call("Target.createBrowserContext", disposeOnDetach=True)
            target = self.call(
                "Target.createTarget",
                url="about:blank",
                width=width,
                height=height,
                newWindow=True,
                **context,
            )["targetId"]
            self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
                "sessionId"
            ]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
            self.call("Page.navigate", url=url)
        except BaseException:
            self.close()
            raise

    session = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sockets.close()

    def call(self, method, **parameters):
        """Calls a method of the protocol and returns its result. Records events meanwhile."""
        return self.answer(self.send(method, **parameters))

    def send(self, method, **parameters):
        """Calls a method of the protocol. Returns the number of the call, for `answer`."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        return number

    def answer(self, number):
        """Waits for the result of a call. Of several calls, the first must be asked for first."""
        while True:
            answer = json.loads(self.socket.recv(timeout=60))
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(str(answer["error"]))
                return answer["result"]
            self.record(answer)

    def record(self, event):
        parameters = event.get("params", {})
        if event["method"] == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif event["method"] == "Runtime.consoleAPICalled" and parameters["type"] in (
            "error",
            "warning",
        ):
            self.problems.append(str([value.get("value") for value in parameters["args"]]))
        elif event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.problems.append(parameters["entry"]["text"])
        elif event["method"] == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def run(self, script):
        """The value of a JavaScript expression; waits for promises."""
        answer = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def wait(self, condition, seconds=60):
        """Waits until a function, or a JavaScript expression, is true."""
        end = time.monotonic() + seconds
        while not (condition() if callable(condition) else self.run(condition)):
            if time.monotonic() > end:
                raise TimeoutError(f"{condition} is still false; problems: {self.problems}")
            time.sleep(0.05)

    def mouse(self, kind, x, y, button="none", clicks=1):
        self.answer(self.send_mouse(kind, x, y, button, clicks))

    def send_mouse(self, kind, x, y, button, clicks):
        position = {"x": x, "y": y, "button": button, "buttons": int(button == "left")}
        return self.send("Input.dispatchMouseEvent", type=kind, clickCount=clicks, **position)

    def double_click(self, x, y):
        """Sends all events at once: on a loaded machine, waiting for the answer to each of them
        takes longer than the 300 ms in which Plotly expects the second click."""
        self.mouse("mouseMoved", x, y)
        sent = [
            self.send_mouse(kind, x, y, "left", clicks)
            for clicks in (1, 2)
            for kind in ("mousePressed", "mouseReleased")
        ]
        for number in sent:
            self.answer(number)

    def drag(self, start, end):
        self.mouse("mouseMoved", *start)
        self.mouse("mousePressed", *start, "left")
        for step in (0.3, 0.7, 1):
            point = [a + (b - a) * step for a, b in zip(start, end, strict=True)]
            self.mouse("mouseMoved", *point, "left")
        self.mouse("mouseReleased", *end, "left")

    def box(self, element):
        """The position of an element in the window, after scrolling there: x, y, width, height."""
        return self.run(
            f"(() => {{ const e = document.getElementById('{element}');"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x, b.y, b.width, b.height]; })()"
        )

    def screenshot(self, path, whole=False):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(picture["data"]))
