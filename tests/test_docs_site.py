"""The documents build into a site without broken links that loads nothing from other hosts."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from playwright.sync_api import Browser, sync_playwright
from tools import website

from tests.browser import chromium

DOCS = website.ROOT / "docs"


def copied(folder: Path) -> Path:
    """Copy the documents into a folder of their own."""
    shutil.copytree(DOCS, folder / "docs")
    shutil.copy(website.ROOT / "zensical.toml", folder)
    return folder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return website.build(copied(tmp_path_factory.mktemp("site")))


class Page(HTMLParser):
    """The addresses on a page: resources that the browser loads, links, and anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if (tag == "a" and "href" in given) or (tag == "link" and given.get("rel") in ("canonical", "prev", "next")):
            self.links.append(given["href"])
        else:
            self.fetched += [given[name] for name in ("src", "href", "data", "poster") if given.get(name)]


def named(nav: list[object] | dict[str, object] | str) -> Iterator[str]:
    """Yield the pages of a navigation, in order."""
    if isinstance(nav, str):
        yield nav
    for below in nav.values() if isinstance(nav, dict) else nav if isinstance(nav, list) else ():
        yield from named(below)  # type: ignore[arg-type]


def navigation(text: str) -> list[str]:
    return list(named(tomllib.loads(text)["project"]["nav"]))


def written() -> set[str]:
    return {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_every_page_is_in_the_navigation_and_every_entry_is_a_page():
    places = navigation((website.ROOT / "zensical.toml").read_text(encoding="utf-8"))

    assert len(places) == len(set(places))
    assert set(places) == written(), "every page has one line in the nav of zensical.toml"


def test_the_site_has_every_page(built):
    for page in written():
        assert (built / page).with_suffix(".html").is_file(), page


def test_no_page_fetches_anything_from_another_host(built):
    for file in built.rglob("*.html"):
        for address in Page(file.read_text(encoding="utf-8")).fetched:
            assert not urlsplit(address).netloc, (file.name, address)
    for file in built.rglob("*.css"):
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(\s*['\"]?(?:[a-z]+:)?//", text), file.name


def test_no_link_within_the_site_is_broken(built):
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in built.rglob("*.html") if file.name != "404.html"}

    assert len(pages) > 15
    for file, page in pages.items():
        for link in (*page.links, *page.fetched):
            path, anchor = urldefrag(link)
            if urlsplit(path).scheme:
                continue
            there = (file.parent / unquote(path)).resolve() if path else file
            assert there.is_file(), (file.name, link)
            assert not anchor or there not in pages or anchor in pages[there].anchors | {"__top"}, (file.name, link)


def test_every_page_is_linked_from_another():
    linked = {
        str((page.parent / link).resolve().relative_to(DOCS))
        for page in DOCS.rglob("*.md")
        for link in re.findall(r"\]\(([\w./-]+\.md)", page.read_text(encoding="utf-8"))
    }

    assert written() - linked <= {"index.md"}


@pytest.mark.parametrize("wrong", ["[gone](gone.md)", "[nowhere](start.md#nowhere)"])
def test_a_broken_link_stops_the_build(wrong, tmp_path, capfd):
    root = copied(tmp_path)
    (root / "docs" / "index.md").write_text(f"# A page\n\n{wrong}\n", encoding="utf-8")

    with pytest.raises(subprocess.CalledProcessError):
        website.build(root)
    assert "does not exist" in capfd.readouterr().err


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        path = chromium.find(playwright.chromium.executable_path)
        assert path, chromium.HOW
        opened = playwright.chromium.launch(executable_path=path, args=list(chromium.FLAGS))
        yield opened
        opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_loads_nothing_from_other_hosts_and_nothing_overflows(built, browser, width, scheme):
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked, wrong = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))

    for name in ("index", "how-a-recall-works", "settings"):
        page.goto((built / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} overflows"
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g)[0] < 100")
        assert dark == (scheme == "dark"), name
    page.close()

    assert len(asked) > 6
    assert [url for url in asked if not url.startswith((built.as_uri(), "data:"))] == []
    assert wrong == []


def test_the_search_finds_a_page_in_a_site_opened_from_the_file_system(built, browser):
    page = browser.new_page()
    page.goto((built / "index.html").as_uri())
    page.keyboard.press("Control+k")
    page.get_by_placeholder("Search").fill("write-ahead log")

    found = page.locator("a:has(mark)").first
    found.click()

    page.wait_for_url("**/security.html*")
    page.close()
