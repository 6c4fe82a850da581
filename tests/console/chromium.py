"""A headless Chromium, and a console in a thread for it. Looks for the browser as tools/ensure_chromium.sh does."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import uvicorn
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from bolide.console.app import Console, ConsoleOptions
from proof.kit.waiting import PATIENCE

ENSURE: Final = Path(__file__).parents[2] / "tools" / "ensure_chromium.sh"
DESKTOP: Final = (1280, 860)
PHONE: Final = (390, 844)
SHOTS: Final = os.environ.get("BOLIDE_SCREENSHOTS", "")
"""A folder: where it is given, the tests leave pictures of what they look at."""


@cache
def chromium() -> tuple[str, str]:
    """The browser and its driver. Skips the test where none can be had."""
    done = subprocess.run([str(ENSURE)], capture_output=True, text=True, timeout=900)
    if done.returncode:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    browser, driver = done.stdout.split()
    return browser, driver


@contextmanager
def serving(namesrv: str) -> Iterator[str]:
    """A console on a free port, by its address."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        app = Console(ConsoleOptions(namesrv)).app()
        config = uvicorn.Config(app, lifespan="on", ws="none", log_level="warning", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
            assert not thread.is_alive()


class Window:
    """One window of the browser at one console."""

    def __init__(self, driver: webdriver.Chrome, root: str) -> None:
        self.driver = driver
        self.root = root

    def open(self, path: str) -> Window:
        """Go to a page, and wait until its script has run."""
        self.driver.get(self.root + path)
        return self.ready()

    def ready(self) -> Window:
        """Wait until the script of the page has run."""
        self.wait("document.documentElement.dataset.ready === ''", "the script")
        return self

    def wait(self, condition: str, what: str) -> None:
        """Wait for an expression of script. Between two pages there is no document to ask."""
        waiting: Any = WebDriverWait(self.driver, PATIENCE, ignored_exceptions=(WebDriverException,))
        waiting.until(lambda driver: driver.execute_script(f"return {condition}"), what)

    def text(self) -> str:
        """What is visible."""
        return self.driver.find_element(By.TAG_NAME, "body").text

    def see(self, *words: str) -> Window:
        """Every one of these is visible; waits for the next page after a click."""
        for word in words:
            self.wait(f"document.body.innerText.includes({json.dumps(word)})", word)
        return self

    def click(self, css: str) -> Window:
        """Click the first element."""
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", self.one(css))
        self.one(css).click()
        return self

    def one(self, css: str) -> Any:
        """The first element, once there is one."""
        waiting: Any = WebDriverWait(self.driver, PATIENCE, ignored_exceptions=(WebDriverException,))
        return waiting.until(lambda driver: driver.find_element(By.CSS_SELECTOR, css), css)

    def fill(self, css: str, text: str) -> Window:
        """Type a text in place of what is there."""
        field = self.one(css)
        field.clear()
        field.send_keys(text)
        return self

    def keys(self, text: str) -> Window:
        """Press keys on the page."""
        self.one("body").send_keys(text)
        return self

    def unfold(self) -> Window:
        """Open everything that is folded."""
        self.driver.execute_script("document.querySelectorAll('details').forEach(each => each.open = true)")
        return self

    def size(self, size: tuple[int, int], phone: bool = False) -> Window:
        """As large as a screen is."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": phone}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        return self

    def scheme(self, name: str) -> Window:
        """Light or dark, as the system says."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        return self

    def fits(self) -> Window:
        """Nothing is wider than the screen, but for what scrolls by itself."""
        wide = self.driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{self.driver.current_url} is {wide} pixels too wide"
        return self

    def shows_tables(self) -> Window:
        """Assert that no table is wider than its place."""
        beyond = "filter(each => each.scrollWidth > each.clientWidth).length"
        wide = self.driver.execute_script(f"return [...document.querySelectorAll('.scroll')].{beyond}")
        assert wide == 0, f"{self.driver.current_url} has {wide} tables of which a part is hidden"
        return self

    def picture(self, name: str) -> Window:
        """Keep what is seen, where pictures are wanted."""
        if SHOTS:
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(SHOTS) / f"{name}.png"))
        return self

    def complaints(self) -> list[str]:
        """What the browser found wrong: refused scripts, missing files, errors of scripts."""
        logs: Any = self.driver
        return [entry["message"] for entry in logs.get_log("browser") if entry["level"] == "SEVERE"]


@contextmanager
def window(root: str, folder: Path) -> Iterator[Window]:
    """A window at a console; `folder` is for what the browser keeps."""
    browser, driver_path = chromium()
    options = Options()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={folder}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        yield Window(driver, root).size(DESKTOP)
    finally:
        driver.quit()
