"""`make pictures`: the console's pictures in the documentation, taken in Chromium of the demo's pipeline as it runs.

Starts ``headrace serve`` with the demo's streams and queries, waits until curves are there, and keeps
``docs/images/console.png`` (the plan, light), ``console-dark.png`` (a query), ``console-sql.png`` (a mistake) and
``console-phone.png``.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from playwright.sync_api import Browser, sync_playwright

from headrace.demo import DEMO_SQL

IMAGES = Path(__file__).parents[1] / "docs" / "images"
PORT = 8433
ADDRESS = f"http://127.0.0.1:{PORT}"
CURVES_S = 60
MISTAKE = """CREATE QUERY hot_and_wet AS
SELECT a.location_id, a.valeu AS celsius, b.value AS percent
FROM temperature a, humidity b
WHERE a.location_id = b.location_id AND b.value > 80
WINDOW 20 SECONDS;"""


def wait_until_ready(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        assert process.poll() is None, "the service has ended"
        try:
            if httpx.get(f"{ADDRESS}/api/stats").json()["batches"] > 2:
                return
        except httpx.HTTPError:
            pass
        time.sleep(1)
    raise AssertionError("the service did not become ready")


def picture(browser: Browser, name: str, view: str, theme: str, width: int, height: int, sql: str = "") -> None:
    scale = 2 if width < 600 else 1
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme, device_scale_factor=scale)
    page.goto(f"{ADDRESS}/#/{view}")
    page.wait_for_selector("main .card")
    page.wait_for_timeout(2500)
    if sql:
        page.locator("#sql").fill(sql)
        page.wait_for_selector("#sql-problem:not([hidden])")
    page.screenshot(path=IMAGES / f"{name}.png")
    page.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory) / "demo.sql"
        program.write_text(f"SET trigger = '1 second';\n{DEMO_SQL}")
        command = [sys.executable, "-m", "headrace", "serve", str(program), "--out", f"{directory}/out"]
        process = subprocess.Popen([*command, "--port", str(PORT)], stdout=subprocess.DEVNULL)
        try:
            wait_until_ready(process)
            time.sleep(CURVES_S)
            with sync_playwright() as playwright:
                arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
                browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
                picture(browser, "console", "plan", "light", 1280, 900)
                picture(browser, "console-dark", "queries/warm_5s", "dark", 1280, 900)
                picture(browser, "console-sql", "sql", "light", 1280, 560, MISTAKE)
                picture(browser, "console-phone", "plan", "dark", 390, 844)
                browser.close()
        finally:
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    main()
