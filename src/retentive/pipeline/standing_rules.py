"""Recognise standing rules and preferences when they are stored: "never …", "always …", "we don't …", "I prefer …".

A filter by words selects texts, and the judge decides. A rule has `"rule": true` in its metadata.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

from retentive.errors import Unavailable
from retentive.inference.judge import RULE_QUERY, Judge, Reading
from retentive.models import Memory

log = logging.getLogger(__name__)

RULE = "rule"
"""The key in the metadata of a standing rule."""

RULE_SECONDS, SECONDS_EACH = 3.0, 0.05
"""A write waits this long for the judge, and besides this long for each text; what was not read then is no rule."""

MAX_READ = 1000
"""A cue stands within this many characters of the text: the judge reads no more."""

CUE = re.compile(
    r"\b(?:"
    # English
    r"never|always|(?:do|can|wo|does)(?:n['’]t| ?not)|must(?:n['’]t)?|should(?:n['’]t)?|prefer\w*|from now on|"
    r"in (?:the )?future|going forward|instead of|rather than|avoid|make sure|only|ever|every(?:thing|where| time)|"
    r"no|not|nothing|nobody|any(?:thing|where)|whenever|unless|except|without|at (?:least|most)|max|"
    r"(?:i|we|she|he|they|i['’]d) (?:like|want|need|hate|use|rather)|use|"
    r"by default|rules?|convention|please|remember to|stop|stays?|allowed|required|has to|have to|keep|"
    # German
    r"nie(?:mals)?|immer|nicht|kein\w*|bevorzug\w*|lieber|ab (?:jetzt|sofort)|künftig|in zukunft|statt|anstatt|"
    r"müssen|muss|sollte?n?|bitte|nur|regel|stets|jedes mal|vermeide\w*|"
    # French
    r"jamais|toujours|ne |n['’]\w+|pas|préfér\w*|préfèr\w*|désormais|dorénavant|à partir de maintenant|plutôt|"
    r"au lieu de|doit|dois|doivent|devons|faut|éviter?|évitez|uniquement|seulement|règle|à chaque fois|"
    # Spanish and Portuguese
    r"nunca|jam[aá]s|siempre|sempre|sin|não|prefier\w*|prefir\w*|a partir de (?:ahora|agora)|tod[oa]s?|"
    r"de ahora en adelante|daqui (?:em|para a) (?:diante|frente)|en (?:lugar|vez) de|em vez de|deb\w+|dev\w+|"
    r"hay que|tem que|solo|sólo|só|somente|evit\w+|regla|regra|por favor|cada vez"
    r")\b"
    # Chinese
    r"|不要|不能|不可|不准|不许|别|永远|从不|绝不|总是|一直|始终|必须|务必|应该|一定要|喜欢|偏好|希望|今后|以后|从现在|而不是|"
    r"每次|只用|只能|请|规则|禁止|避免|所有|统一|不说",
)
"""Words, in small letters, of texts that may state a rule. They also stand in texts that state none."""


def mark_rules(memories: Sequence[Memory], judge: Judge | None) -> list[Memory]:
    """The memories, with `"rule": true` in the metadata of those that state a standing rule or a preference.

    Those that have the key keep it as it is. Nothing is marked without a judge, or if it cannot be loaded.
    """
    places = [place for place, memory in enumerate(memories) if RULE not in memory.metadata and _may_be_rule(memory)]
    marked = list(memories)
    for place, is_rule in zip(places, _read([memories[place] for place in places], judge), strict=True):
        if is_rule:
            marked[place] = memories[place]._replace(metadata={**memories[place].metadata, RULE: True})
    return marked


def mark_again(old: Memory, new: Memory, given: Mapping[str, Any] | None, judge: Judge | None) -> Memory:
    """A memory with another text, marked by what it says now, unless the metadata was given with the key.

    A mark that the old text does not explain was made by hand. It stays.
    """
    if judge is None or RULE in (given or {}):
        return new
    if old.metadata.get(RULE) is True:
        [unmarked] = mark_rules([_without_mark(old)], judge)
        if RULE not in unmarked.metadata:
            return new
        new = _without_mark(new)
    return mark_rules([new], judge)[0]


def is_rule(memory: Memory) -> bool:
    """Whether a memory is marked as a standing rule."""
    return memory.metadata.get(RULE) is True


def _without_mark(memory: Memory) -> Memory:
    return memory._replace(metadata={key: value for key, value in memory.metadata.items() if key != RULE})


def _may_be_rule(memory: Memory) -> bool:
    return (memory.speaker or "").lower() != "assistant" and CUE.search(memory.text[:MAX_READ].lower()) is not None


def _read(memories: Sequence[Memory], judge: Judge | None) -> list[bool]:
    if judge is None or not memories:
        return [False] * len(memories)
    deadline = monotonic() + RULE_SECONDS + SECONDS_EACH * len(memories)
    try:
        logits = judge.score(
            RULE_QUERY, [Reading(memory.text, memory.speaker or "") for memory in memories], deadline=deadline
        )
    except Unavailable as error:
        log.warning("standing rules are not recognised: %s", error)
        return [False] * len(memories)
    return [logit is not None and logit > 0 for logit in logits]
