"""Articles, abstracts and documentation, as texts without labels: eLife, ACL Anthology, Kubernetes, MDN."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from training.sources.reading import Line, one_line, some

ELIFE_ARTICLES = 5_000
ELIFE_SENTENCES = 4
ELIFE_PARAGRAPHS = 4
"""How many sentences of the abstract and paragraphs of the text are taken of an article."""

ACL_PAPERS = 12_000
ACL_TITLES = 12_000
"""Papers of which title and abstract are taken, and further ones of which the title is."""

KUBERNETES_TEXTS = 16_000
MDN_TEXTS = 24_000
WORDS = range(4, 161)
"""How many words a text can have; longer ones are cut."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_FRONT_MATTER = re.compile(r"\A---\n(.*?)\n---\n", re.DOTALL)
_TEMPLATE = re.compile(r"\{\{<?%?.*?%?>?\}\}", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_TITLE = re.compile(r"^title: *[\"']?(.*?)[\"']?$", re.MULTILINE)


def _texts(found: Iterable[str]) -> Iterator[Line]:
    """Texts on one line, each once, cut to the most words."""
    known: set[str] = set()
    for text in found:
        words = text.split()[: WORDS[-1]]
        cut = " ".join(words)
        if len(words) >= WORDS[0] and cut not in known:
            known.add(cut)
            yield {"text": cut}


def _read(element: ET.Element | None) -> str:
    """All text of an element of XML."""
    return "" if element is None else one_line("".join(element.itertext()))


def elife_files(names: Iterable[str]) -> list[str]:
    """The names of the articles that are taken: the latest version of each article, chosen by a hash."""
    latest: dict[str, tuple[int, str]] = {}
    for name in names:
        found = re.fullmatch(r"(elife-\d+)-v(\d+)\.xml", name)
        if found:
            version = (int(found[2]), name)
            latest[found[1]] = max(version, latest.get(found[1], version))
    return some(sorted(name for _, name in latest.values()), ELIFE_ARTICLES)


def elife(clone: Path) -> Iterator[Line]:
    """Titles, abstracts, some of their sentences, and some paragraphs."""
    yield from _texts(_elife(clone / "articles"))


def _elife(folder: Path) -> Iterator[str]:
    for name in elife_files(path.name for path in folder.iterdir()):
        root = ET.parse(folder / name).getroot()
        yield _read(root.find("front/article-meta/title-group/article-title"))
        abstract = root.find("front/article-meta/abstract")
        paragraphs = [] if abstract is None else [_read(one) for one in abstract.iter("p")]
        text = " ".join(one for one in paragraphs if not one.startswith("DOI:"))
        yield text
        yield from some(_SENTENCE_END.split(text), ELIFE_SENTENCES)
        body = root.find("body")
        yield from some([] if body is None else [_read(one) for one in body.iter("p")], ELIFE_PARAGRAPHS)


def acl_anthology(clone: Path) -> Iterator[Line]:
    """Titles and abstracts of papers since 2020, which are under CC BY 4.0."""
    files = sorted((clone / "data" / "xml").glob("202?.*.xml"))
    papers = [one for path in files for one in ET.parse(path).getroot().iter("paper")]
    chosen = some(papers, ACL_PAPERS + ACL_TITLES, key=lambda one: _read(one.find("url")))
    whole = [_read(one.find(part)) for one in chosen[:ACL_PAPERS] for part in ("title", "abstract")]
    yield from _texts(whole + [_read(one.find("title")) for one in chosen[ACL_PAPERS:]])


def kubernetes(clone: Path) -> Iterator[Line]:
    """Titles and paragraphs of the English documentation and articles."""
    yield from _markdown(clone / "content" / "en", KUBERNETES_TEXTS)


def mdn(clone: Path) -> Iterator[Line]:
    """Titles and paragraphs of the English documentation."""
    yield from _markdown(clone / "files" / "en-us", MDN_TEXTS)


def _markdown(folder: Path, count: int) -> Iterator[Line]:
    files = sorted(folder.rglob("*.md"))
    found = [text for path in files for text in paragraphs(path.read_text(encoding="utf-8"))]
    yield from some(_texts(found), count)


def paragraphs(markdown: str) -> Iterator[str]:
    """The title and the paragraphs of a page, without code, tables, headings and the marks of links."""
    front = _FRONT_MATTER.match(markdown)
    if front:
        title = _TITLE.search(front[1])
        yield title[1] if title else ""
        markdown = markdown[front.end() :]
    text = _TEMPLATE.sub(" ", _FENCED.sub("", markdown))
    for block in re.split(r"\n\s*\n", text):
        if not block.lstrip().startswith(("#", "|", "<", ">", ":::")):
            yield one_line(_LINK.sub(r"\1", block).replace("`", "").replace("**", "").lstrip("-* "))
