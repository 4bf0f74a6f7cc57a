"""Take the screenshots of the documentation: `python -m tests.browser.screenshots docs/images`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from retentive.engine import Engine
from retentive.server.http.app import create_app
from retentive.settings import LlmSettings, ServerSettings
from retentive.transfer.samples import load_samples
from tests.browser import chromium
from tests.surfaces.model_server import model_server
from tests.surfaces.serving import listening

QUERY = "why did they choose induction?"


def recall(page: Page) -> None:
    page.get_by_label("Query").fill(QUERY)
    page.keyboard.press("Enter")
    page.locator(".hit").first.wait_for()


def tuning(page: Page) -> None:
    recall(page)
    page.get_by_label("Preset").select_option("classic-rrf")
    page.locator(".hits.shown .move").first.wait_for()


def explain(page: Page) -> None:
    recall(page)
    page.get_by_role("button", name="Explain…").click()
    page.locator("dialog[open]").get_by_text("The carpenter was here this morning").click()
    page.locator("dialog[open]").get_by_text("Semantic retriever").wait_for()


def session(page: Page) -> None:
    page.goto(page.url.split("#")[0] + "#/memories?project=sample-kitchen&session=sample-kitchen-plan")
    page.get_by_text("Induction it is then").first.click()


def chat(page: Page) -> None:
    page.goto(page.url.split("#")[0] + "#/chat?project=sample-assistant&session=Monday")
    page.get_by_role("button", name="New chat").wait_for()
    page.wait_for_load_state("networkidle")
    page.get_by_role("textbox", name="Message").fill("What does the cat eat?")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Remembered 2").wait_for()


def compare(page: Page) -> None:
    page.goto(page.url.split("#")[0] + "#/compare?q=why+did+the+logins+fail%3F&b=classic-rrf")
    page.locator(".compare-row").first.wait_for()


def status(page: Page) -> None:
    recall(page)
    page.goto(page.url.split("#")[0] + "#/status")
    page.get_by_text("Memories over time").wait_for()


SCREENSHOTS: dict[str, tuple[Callable[[Page], None], int, int, str]] = {
    "recall": (recall, 1440, 980, "light"),
    "tuning": (tuning, 1440, 980, "dark"),
    "explain": (explain, 1280, 900, "light"),
    "memories": (session, 1440, 860, "dark"),
    "chat": (chat, 1440, 760, "light"),
    "compare": (compare, 1280, 900, "light"),
    "status": (status, 1280, 1000, "light"),
    "narrow": (recall, 390, 844, "light"),
}


def animation(page: Page, path: Path) -> None:
    """Record ten seconds in which the balance of the two retrievers is moved to either side and back."""
    recall(page)
    slider = page.get_by_role("slider", name="Balance")
    frames = []
    for key, times in (("ArrowLeft", 8), ("ArrowRight", 16), ("ArrowLeft", 8)):
        for _ in range(times):
            for _ in range(4):
                slider.press(key)
            page.wait_for_load_state("networkidle")
            page.locator(".results:not([aria-busy=true])").wait_for()
            page.wait_for_timeout(300)  # until the hits have their full colour again
            frames.append(Image.open(BytesIO(page.screenshot())).convert("RGB"))
    first, *others = frames
    first.save(path, save_all=True, append_images=others, duration=10_000 // len(frames), loop=0, quality=70, method=6)


def main(folder: Path) -> None:
    """Take all screenshots, and record the animation."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as directory,
        Engine.open(Path(directory) / "samples.db") as engine,
        model_server() as llm,
    ):
        load_samples(engine)
        llm.answer = "Only the **salmon pâté**. You said so on *20 February*."
        chosen = {"server": ServerSettings(log="off"), "llm": LlmSettings(url=llm.url, model="small-model")}
        settings = engine.settings.model_copy(update=chosen)
        with listening(create_app(engine, settings), lifespan="on") as port, sync_playwright() as playwright:
            path = chromium.find(playwright.chromium.executable_path)
            browser = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
            for name, (show, width, height, scheme) in SCREENSHOTS.items():
                page = browser.new_page(
                    viewport={"width": width, "height": height},
                    color_scheme=scheme,
                    reduced_motion="reduce",
                    locale="en-GB",
                    timezone_id="UTC",
                )
                page.goto(f"http://127.0.0.1:{port}/")
                show(page)
                page.wait_for_load_state("networkidle")
                page.screenshot(path=folder / f"{name}.png")
                page.close()
            page = browser.new_page(viewport={"width": 1200, "height": 760}, reduced_motion="reduce", locale="en-GB")
            page.goto(f"http://127.0.0.1:{port}/")
            animation(page, folder / "tuning.webp")
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
