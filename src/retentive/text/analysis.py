"""Turn text into index terms, query terms and a normal form, the same for every store.

Case and diacritics are folded and English words stemmed. Words of a text in another language have a second term, their
stem in that language, beside the English one: both sides of a match need not be detected. An identifier
(`ERR_CONN_42`, `v2.13.0`, `auth-service/login`) is one term as typed, beside its pieces. Runs of CJK give single
characters and pairs, an emoji is a term of its own. A term contains no white space and no quote, so it can be handed to
any full-text engine as one token.

The language of a text is detected by its script and its function words. One is named only where the evidence is clear,
and never English, which is stemmed without being detected.

The normal form of a text tells whether two texts are the same; the content hash of a memory is made of it.
"""

from __future__ import annotations

import hashlib
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import zip_longest
from typing import NamedTuple

import Stemmer

MAX_TERM = 100
MAX_QUERY_TERMS = 64
MAX_QUERY_LENGTH = 20_000

LAST = chr(0x10FFFF)
"""Sorts after every character of a term."""

_JOINERS = r"\-_./:@#+"
_CJK = (
    "\u1100-\u11ff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Hangul letters; Thai, Lao, Burmese, Khmer: no spaces
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\U00020000-\U0003134f"
)
_SYMBOLS = "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff"
_ASCII_CHUNK = re.compile(rf"[a-z0-9]+(?:['{_JOINERS}][a-z0-9]+)*(?:\+\+|#)?")
_ALPHANUMERIC = re.compile(r"[^\W_]+")
_WRITTEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_DIACRITICS = re.compile("[\u0300-\u036f]")
_SPLIT = re.compile(rf"[{_JOINERS}]+")
_ENDINGS = frozenset(("s", "d", "m", "ll", "re", "ve"))

_STOP_WORDS = """
    a about after again all also am an and any are as at be because been before being but by can could did do does
    doing done dont down during each few for from further get gets got had has have having he her here hers
    herself him himself his how i if in into is it its itself just let like me more most much my myself no nor not
    now of off on once one only or other our ours out over own same she should so some such than that the their
    theirs them themselves then there these they this those through to too under until up us very was we were what
    when where which while who whom whose why will with would you your yours yourself yourselves didnt doesnt isnt
    wasnt arent werent cant couldnt wouldnt shouldnt wont havent hasnt hadnt tell know remember recall please
"""
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that do not tell what a query is about."""


class _Stems(dict[str, str]):
    """The stems of words in one language, computed at first use. The stemmer itself is not thread-safe."""

    def __init__(self, language: str) -> None:
        self._stemmer = Stemmer.Stemmer(language, 0)
        self._lock = threading.Lock()

    def __missing__(self, word: str) -> str:
        with self._lock:
            stem: str = self._stemmer.stemWord(word)
        if len(self) > 200_000:
            self.clear()
        self[word] = stem
        return stem


# Patterns with many ranges of characters take as long to compile as a recall; a text in ASCII needs none of them.


@cache
def _any_chunk() -> re.Pattern[str]:
    return re.compile(
        rf"(?P<cjk>[{_CJK}]+)|(?P<symbol>[{_SYMBOLS}])"
        rf"|(?P<word>[^\W_{_CJK}]+(?:['{_JOINERS}][^\W_{_CJK}]+)*(?:\+\+|#)?)"
    )


@cache
def _any_whole_chunk() -> re.Pattern[str]:
    """As `_any_chunk`, with the combining marks of a word inside it: vowel signs do not split words."""
    marks = "".join(mark for mark in map(chr, range(0x370, 0xFE00)) if unicodedata.category(mark) in ("Mn", "Mc"))
    letters = rf"[^\W_{_CJK}]+(?:[{marks}]+[^\W_{_CJK}]*)*"
    return re.compile(
        rf"(?P<cjk>[{_CJK}]+)|(?P<symbol>[{_SYMBOLS}])|(?P<word>{letters}(?:['{_JOINERS}]{letters})*(?:\+\+|#)?)"
    )


@cache
def _cjk_run() -> re.Pattern[str]:
    return re.compile(rf"[{_CJK}]{{2}}")


@cache
def _word_pattern() -> re.Pattern[str]:
    marks = r"\u0300-\u036f\u0900-\u097f\u0b80-\u0bff\u064b-\u0652"
    return re.compile(rf"[^\W\d_{_CJK}{_SYMBOLS}]+(?:[{marks}]+[^\W\d_]*)*")


@cache
def _other_script() -> re.Pattern[str]:
    return re.compile("[\u0370-\u1cff\u2c00-\ud7ff\uf900-\ufaff]")


def _chunks(folded: str) -> Iterator[re.Match[str]]:
    """The runs of a folded text: the last group of a match is `cjk`, `symbol`, or else a word."""
    return (_ASCII_CHUNK if folded.isascii() else _any_chunk()).finditer(folded)


_stems = _Stems("english")
_other_stems: dict[str, _Stems] = {}


def index_terms(text: str) -> list[str]:
    """Return every term of a text in order, as a store indexes it."""
    terms: list[str] = []
    if text.isascii():
        chunks = _ASCII_CHUNK.findall(text.lower())
        for chunk in chunks:
            if chunk.isalpha():
                terms.append(_stems[chunk[:MAX_TERM]])
            else:
                _add_chunk(chunk, terms)
        return terms + _language_terms(text, chunks)
    folded = _folded(text)
    for match in _chunks(folded):
        if match.lastgroup == "cjk":
            run = match[0]
            terms.extend(run)
            terms.extend(run[at : at + 2] for at in range(len(run) - 1))
        elif match.lastgroup == "symbol":
            terms.append(match[0])
        else:
            _add_chunk(match[0], terms)
    return terms + _language_terms(text, folded.split())


def sequence_terms(text: str) -> list[str]:
    """Return the terms of a text as they follow one another: no pairs of CJK characters, no stems by language.

    Part of a text gives the same terms as it does inside the text. No store keeps these.
    """
    folded = folded_text(text)
    terms: list[str] = []
    for match in (_ASCII_CHUNK if folded.isascii() else _any_whole_chunk()).finditer(folded):
        if match.lastgroup == "cjk":
            terms.extend(match[0])
        elif match.lastgroup == "symbol":
            terms.append(match[0])
        else:
            _add_chunk(match[0], terms)
    return terms


@lru_cache(maxsize=512)
def query_terms(text: str) -> tuple[str, ...]:
    """Return the distinct terms of a query in order, without stop words unless there is nothing else."""
    found: dict[str, bool] = {}
    text = text[:MAX_QUERY_LENGTH]
    folded = text.lower() if text.isascii() else _folded(text)
    for match in _chunks(folded):
        chunk = match[0]
        if match.lastgroup == "cjk" and len(chunk) > 1:
            found.update((chunk[at : at + 2], True) for at in range(len(chunk) - 1))
        elif match.lastgroup in ("cjk", "symbol"):
            found[chunk] = True
        else:
            terms: list[str] = []
            _add_chunk(chunk, terms)
            informative = any(piece not in STOP_WORDS for piece in _split_apostrophes(chunk))
            found.update((term, informative or found.get(term, False)) for term in terms)
        if len(found) >= 8 * MAX_QUERY_TERMS:
            break
    telling = [term for term, informative in found.items() if informative] or list(found)
    return tuple(dict.fromkeys(telling + _language_terms(text, folded.split())))


_SOCIAL_WORDS = """
    hello hi hey thanks thank thx ok okay yes yeah yep nope bye goodbye good great morning evening night sorry cheers
    welcome nice cool sure hmm haha lol
"""
SOCIAL_WORDS = frozenset(_SOCIAL_WORDS.split())
"""English words of greetings and thanks, which ask for nothing."""

MOST_KEYWORDS = 4


def is_keywords(text: str) -> bool:
    """Whether a query is a few words of content, such as "plumber appointment": no question and no instruction."""
    words = folded_words(text)
    plain = text.isascii() and "?" not in text and 0 < len(words) <= MOST_KEYWORDS
    return plain and not any(word in STOP_WORDS or word in SOCIAL_WORDS for word in words)


_FUNCTION_CHARACTERS = re.compile(
    "[的了吗呢吧啊呀么是我你您他她它们这那哪谁什怎几何请和与就都也很还要会能可把被在有没不个为所以谢好]"
)
"""Chinese characters that alone do not tell what a query is about."""

_NAME = re.compile(r"(?<=[\w,;:] )[A-Z][a-z]+")
"""In a query, a capital after a word and a blank."""

_TOKEN = re.compile(r"\w+(?:[-_./#]\w+)*")
_QUANTITY = re.compile(r"\d{1,4}(?:[^\W\d_]{1,3}|(?:-[^\W\d_]+)+)?|\d{1,4}[-./]\d{1,4}(?:[-./]\d{2,4})?")
"""Numbers that are no identifiers: `42`, `21st`, `5pm`, `2-year-old`, `3.5`, `2026-05-08`."""

MAX_ENDING = 4
"""The longest ending after a stem: `run` in `running`."""


class InformativeTerm(NamedTuple):
    """A term that tells what a query is about: the start of a word, or characters that may stand anywhere.

    A name is a word with a capital that does not begin a sentence. `words` is how many words of the query it stands
    for: in a script without blanks, terms are overlapping pairs of characters, about two for each word. A prefix is
    followed by any ending.
    """

    text: str
    is_word: bool
    is_name: bool = False
    words: float = 1.0
    is_prefix: bool = False

    def occurs(self, folded: str) -> bool:
        """Whether it is in a folded text: as a word with any ending of a few letters, or as characters."""
        text = self.text
        at = folded.find(text)
        if not self.is_word:
            return at >= 0
        while at >= 0:
            end = at + len(text)
            ending = folded[end : end + MAX_ENDING + 1]
            is_long = len(ending) > MAX_ENDING and ending.isalnum()
            if not (at and folded[at - 1].isalnum()) and (self.is_prefix or not is_long):
                return True
            at = folded.find(text, at + 1)
        return False


@lru_cache(maxsize=512)
def informative_terms(text: str) -> tuple[InformativeTerm, ...]:
    """Return the distinct terms of a query that tell what it is about: no stop words, no greetings."""
    found: dict[InformativeTerm, None] = {}
    names = {name.lower() for name in _NAME.findall(text[:MAX_QUERY_LENGTH])}
    for match in _chunks(folded_text(text[:MAX_QUERY_LENGTH])):
        chunk = match[0]
        if match.lastgroup == "cjk":
            for run in _FUNCTION_CHARACTERS.split(chunk):
                pairs = [run[at : at + 2] for at in range(len(run) - 1)] or [run]
                words = max(len(run) / 2, 1.0) / len(pairs)
                found.update((InformativeTerm(pair, False, words=words), None) for pair in pairs if pair)
        elif match.lastgroup == "symbol":
            found[InformativeTerm(chunk, False)] = None
        else:
            for piece in _split_apostrophes(chunk):
                if piece not in STOP_WORDS and piece not in SOCIAL_WORDS:
                    stem = _stems[piece[:MAX_TERM]] if piece.isalpha() else piece[:MAX_TERM]
                    # A stem that ends in i stands for words in y, too.
                    stem = stem[:-1] if len(stem) > 3 and stem[-1] == "i" else stem
                    found[InformativeTerm(stem, True, piece in names)] = None
        if len(found) >= MAX_QUERY_TERMS:
            break
    return tuple(found)


def has_telling_terms(text: str) -> bool:
    """Whether a keyword match means much even in a short memory.

    It does if the query is one word, has an identifier such as ERR_CONN_42 or v2.13.0, or is in another language than
    English: the semantic retriever knows these less well. In a script without blanks, terms are pairs of characters.
    """
    text = text[:MAX_QUERY_LENGTH]
    tokens = _TOKEN.findall(text)
    if len(tokens) == 1 or any(_is_identifier(token) for token in tokens):
        return True
    if not text.isascii() and _cjk_run().search(text):
        return True
    return detect(text, folded_text(text).split(), english=STOP_WORDS) is not None


def _is_identifier(token: str) -> bool:
    return ("_" in token.strip("_") or any(map(str.isdigit, token))) and not _QUANTITY.fullmatch(token)


def _language_terms(text: str, words: list[str]) -> list[str]:
    """The stems of the words in the text's language, where they differ from the English ones."""
    language = detect(text, words, english=STOP_WORDS)
    if language is None:
        return []
    stems = _other_stems.get(language)
    if stems is None:
        stems = _other_stems.setdefault(language, _Stems(language))
    found = []
    # Stemmers know letters with their diacritics, so words are folded after they are stemmed.
    for word in _word_pattern().findall(unicodedata.normalize("NFC", text).lower()):
        stem = _folded(stems[word[:MAX_TERM]])
        if stem != _stems[_folded(word)[:MAX_TERM]]:
            found += stem.split()  # one character may fold to several words
    return found


def is_other_language(text: str) -> bool:
    """Whether a text is clearly not English: by its function words, or because most letters are of another script."""
    letters = sum(letter.isalpha() for letter in text)
    if letters and len(_other_script().findall(text)) > letters / 2:
        return True
    return detect(text, _folded(text).split(), english=STOP_WORDS) is not None


def written_words(text: str) -> dict[str, str]:
    """Return the terms of single words, each with the first word that it is of, as written; a CJK term is itself."""
    found: dict[str, str] = {}
    for word in _WRITTEN.findall(text):
        is_cjk = not word.isascii() and _cjk_run().search(word)
        for term in index_terms(word):
            found.setdefault(term, term if is_cjk else word)
    return found


def folded_words(text: str) -> list[str]:
    """Return the words of a text with case and diacritics folded, not stemmed."""
    words: list[str] = _ALPHANUMERIC.findall(text.lower() if text.isascii() else _folded(text))
    return words


def folded_text(text: str) -> str:
    """Return a text with case and diacritics folded."""
    return text.lower() if text.isascii() else _folded(text)


def _folded(text: str) -> str:
    """Fold case, Unicode form and diacritics."""
    decomposed = unicodedata.normalize("NFKD", text).casefold().replace("\u2019", "'")
    return unicodedata.normalize("NFC", _DIACRITICS.sub("", decomposed))


def _add_chunk(chunk: str, terms: list[str]) -> None:
    """Add the terms of one run of letters, digits and joiners: the run itself, and its pieces if it has any."""
    if "'" in chunk:
        for piece in _split_apostrophes(chunk):
            _add_chunk(piece, terms)
        return
    if chunk.isalpha():
        terms.append(_stems[chunk[:MAX_TERM]])
        return
    terms.append(chunk[:MAX_TERM])
    pieces = [piece for piece in _SPLIT.split(chunk) if piece]
    if len(pieces) > 1 or pieces[0] != chunk:
        terms.extend(_stems[piece[:MAX_TERM]] if piece.isalpha() else piece[:MAX_TERM] for piece in pieces)


def _split_apostrophes(chunk: str) -> list[str]:
    """Split at apostrophes: `caroline's` gives caroline, `don't` gives dont, `l'amour` gives two words."""
    head, *tails = chunk.split("'")
    pieces = [head]
    for tail in tails:
        if tail == "t":
            pieces[-1] += tail
        elif tail not in _ENDINGS:
            pieces.append(tail)
    return [piece for piece in pieces if piece]


class _Script(NamedTuple):
    """A script, and the language that is written in it: the first whose own letters are in the text."""

    letters: re.Pattern[str]
    languages: tuple[tuple[str, str | None], ...]

    def matches(self, text: str) -> bool:
        """Whether at least a third of the text is in this script; a Greek letter in a formula is not a Greek text."""
        return 3 * len(self.letters.findall(text)) >= len(text)

    def language(self, text: str) -> str | None:
        """The language of a text in this script, or None if it has no stemmer."""
        return next(name for letters, name in self.languages if not letters or not set(letters).isdisjoint(text))


_SCRIPTS = (
    _Script(re.compile("[\u0370-\u03ff\u1f00-\u1fff]"), (("", "greek"),)),
    _Script(re.compile("[\u0531-\u058f]"), (("", "armenian"),)),
    _Script(re.compile("[\u0b80-\u0bff]"), (("", "tamil"),)),
    _Script(re.compile("[\u0900-\u097f]"), (("", "hindi"),)),
    _Script(re.compile("[\u0600-\u06ff]"), (("\u067e\u0686\u0698\u06af\u06cc", "persian"), ("", "arabic"))),
    _Script(
        re.compile("[\u0400-\u04ff]"),
        (("\u0452\u0458\u0459\u045a\u045b\u045f", "serbian"), ("\u0454\u0456\u0457\u0491", None), ("", "russian")),
    ),
)

FUNCTION_WORDS = {
    "catalan": "els amb aquest aquesta meva meu perque quan molt tambe pero dels",
    "czech": "jsem jsi jste byl byla neni ktery ktera ale jak kde kdy jeho nebo uz",
    "danish": "og ikke jeg det er af hvad hvor hvem som til har ved blev mig dig eller",
    "dutch": "het een en ik niet zijn voor maar ook mijn jij hij waar wanneer wie deze heeft naar werd bij",
    "finnish": "ja ei etta mina sina han olen mutta kun mita missa tama oli ovat myos kuka",
    "french": "le les des une est et je tu il elle nous vous que qui dans pas sur avec mon mes ses aux ce cette "
    "quand pourquoi comment ont sont etait quel quelle du",
    "german": "der die das und ist nicht ich ein eine einen zu den mit sich auf dem des von wir sie er es im auch "
    "wie wo wer wann warum habe haben bist wird mein meine dein welche welcher wurde durch nach bei",
    "hungarian": "az es hogy nem egy volt vagy mikor hol ez meg csak mint milyen",
    "indonesian": "yang dan di ini itu saya tidak dengan untuk dari ke pada apa mana kapan kami adalah",
    "italian": "il gli di che non con del della dei delle sono mio mia dove quando quale ho ha nel nella una "
    "era cosa chi",
    "norwegian": "og ikke jeg det er av hva hvor hvem som til har ved ble meg deg eller",
    "polish": "nie sie jest jak gdzie kiedy czy dla od byl byla moj moja ktory ktora przez oraz",
    "portuguese": "os uma do da dos das em na nas que com para por meu minha seu sua nao voce eu ele ela onde quando "
    "qual como foi sao",
    "romanian": "si este nu pe cu unde cand mai sunt meu din fost pentru ce ca",
    "spanish": "el los las una es y en que de por con para mi su del al yo ella donde cuando cual como muy pero se lo "
    "fue esta que",
    "swedish": "och att det ar som pa jag inte har med den till av om nar vad vem ett blev",
    "turkish": "ve bir bu ne icin ben sen degil ile cok nerede zaman hangi olarak daha gibi",
}
_LANGUAGES: dict[str, list[str]] = {}
for _language, _words in FUNCTION_WORDS.items():
    for _word in dict.fromkeys(_words.split()):
        _LANGUAGES.setdefault(_word, []).append(_language)


def detect(text: str, words: Iterable[str], *, english: frozenset[str]) -> str | None:
    """The name of the language, as the stemmer spells it; None for English and where it is not clear.

    `words` are the folded words of the text, `english` are English function words. Two different function words decide
    (one, if the text has at most six words), if they outnumber those of English and of every other language.
    """
    if not text.isascii():
        script = next((one for one in _SCRIPTS if one.matches(text)), None)
        if script is not None:
            return script.language(text)
    seen = set(words)
    found = [language for word in seen if word in _LANGUAGES for language in _LANGUAGES[word]]
    if not found:
        return None
    (best, count), *others = Counter(found).most_common(2)
    needed = 1 if len(seen) <= 6 else 2
    if count < needed or count <= len(seen & english) or (others and others[0][1] == count):
        return None
    return best


# The normal form

_MEANINGFUL = "#@%&/\\"
"""Punctuation that changes the meaning: C is not C#."""


class _Blanks(dict[int, str]):
    """Maps punctuation, white space and control characters to spaces. Symbols and marks stay: 👍 is not 👎.

    So does what this Python's version of Unicode does not know: it may be a letter.
    """

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        blank = category[0] in "PZC" and category != "Cn" and char not in _MEANINGFUL
        self[code] = " " if blank else char
        return self[code]


_BLANKS = _Blanks()


_SIGNS = re.compile(
    r"(?<![^\W_])[-\u2013\u2212]+(?=[.$€£]?[^\W_])"  # a minus or an option, but no hyphen and no bullet
    r"|(?<=\d)[-.,:\u2013](?=\d)"  # 3.5 is not 3-5
    r"|(?<![^\W_])\.(?=\d)"  # .5 is not 5
    r"|!(?==)|(?<![^\W_])!(?=[^\W_]|\()"  # x != y is not x = y, and !done is not done
    r"|(?<=[^\W_])\*{1,2}(?=\d)|(?<=\d)\*{1,2}(?=[^\W_])"  # 2*3
    r"|[:;]-?[()]"  # :) is not :(
)
"""Punctuation that changes the meaning where it stands."""

_DASHES = str.maketrans("\u2013\u2212", "--")


def normalised(text: str) -> str:
    """Normalise case, white space, punctuation and Unicode form. Punctuation that changes the meaning is kept."""
    folded = _case_folded(text)
    parts = _SIGNS.split(folded)
    if len(parts) == 1:
        return _blanked(folded)
    signs = [sign.translate(_DASHES) for sign in _SIGNS.findall(folded)]
    kept = "".join(part.translate(_BLANKS) + sign for part, sign in zip_longest(parts, signs, fillvalue=""))
    return " ".join(kept.split())


def without_punctuation(text: str) -> str:
    """Normalise case, white space, all punctuation and Unicode form; texts that differ here differ when `normalised`.

    The content hash of stored memories is made of this form.
    """
    return _blanked(_case_folded(text))


def _case_folded(text: str) -> str:
    return text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _blanked(folded: str) -> str:
    # A text of punctuation alone ("?!") is its own normal form: two different ones are not the same.
    return " ".join(folded.translate(_BLANKS).split()) or folded.strip()


def content_hash(text: str) -> str:
    """A hash of the text that ignores case, white space and punctuation."""
    return hashlib.blake2b(without_punctuation(text).encode(), digest_size=16).hexdigest()
