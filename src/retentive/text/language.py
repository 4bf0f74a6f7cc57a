"""The language of a text, detected by its script and its function words.

A language is named only where the evidence is clear, and never English, whose words are stemmed without detecting it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from retentive.text.normal_form import folded_text

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


def detect(text: str, words: Iterable[str]) -> str | None:
    """The name of the language, as the stemmer spells it; None for English and where it is not clear.

    `words` are the folded words of the text. Two different function words decide (one, if the text has at most six
    words), if they outnumber those of English and of every other language.
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
    if count < needed or count <= len(seen & STOP_WORDS) or (others and others[0][1] == count):
        return None
    return best


@cache
def _other_script() -> re.Pattern[str]:
    return re.compile("[\u0370-\u1cff\u2c00-\ud7ff\uf900-\ufaff]")


def is_other_language(text: str) -> bool:
    """Whether a text is clearly not English: by its function words, or because most letters are of another script."""
    letters = sum(letter.isalpha() for letter in text)
    if letters and len(_other_script().findall(text)) > letters / 2:
        return True
    return detect(text, folded_text(text).split()) is not None
