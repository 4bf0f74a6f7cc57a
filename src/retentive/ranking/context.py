"""Conversation context: adjust scores by the neighbours of a memory and the best of its session.

A turn is short and depends on the turns around it: the answer to "which one?" has none of the query's words. So a
memory gains a share of its better neighbour's score, and a share of its session's best. Long memories depend less on
context: the neighbour's share falls with the square of their length, and the longest, which match a little of
everything, gain less from their session. A memory without a session keeps its score.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import median

from retentive.models import Context, Hit
from retentive.ranking.tuning import Tuning

_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")
UNSPACED_LETTERS = 1.7
"""So many letters are a word, on average, where words are not separated by blanks (Chinese, Japanese, Thai, Lao)."""


def count_words(text: str) -> float:
    """How many words a text has, about."""
    words = text.count(" ") + 1.0
    return words if text.isascii() else words + len(_UNSPACED.findall(text)) / UNSPACED_LETTERS


def by_context(hits: Sequence[Hit], context: Context, tuning: Tuning) -> list[Hit]:
    """Add the shares of neighbours and session to the scores."""
    if not context.neighbours or not (tuning.neighbour_weight or tuning.session_weight):
        return list(hits)
    placed = [hit for hit in hits if hit.memory.id in context.neighbours]
    words = {hit.memory.id: count_words(hit.memory.text) for hit in placed}
    typical = median(words.values()) if words else 1.0
    shortness = min(1.0, (tuning.context_words / max(typical, 1.0)) ** 2)
    scores: dict[str | None, float] = {hit.memory.id: hit.score for hit in hits if hit.score > 0}
    best: dict[str | None, float] = {}
    for hit in placed:
        best[hit.memory.session] = max(hit.score, best.get(hit.memory.session, 0.0))
    weight = tuning.neighbour_weight * shortness
    whole = 1.0 + tuning.session_weight
    note = "({:.3f} + {:.2f} × neighbour {:.3f} + {:.2f} × session {:.3f}) / {:.2f}"
    adjusted = []
    for hit in hits:
        pair = context.neighbours.get(hit.memory.id)
        if pair is None:
            adjusted.append(hit)
            continue
        neighbour = max(scores.get(pair[0], 0.0), scores.get(pair[1], 0.0))
        share = tuning.session_weight
        if shortness < 1.0:  # among short memories, length tells nothing
            share *= min(1.0, typical / words[hit.memory.id]) ** (1.0 - shortness)
        session = best[hit.memory.session]
        score = (hit.score + weight * neighbour + share * session) / whole
        adjusted.append(
            hit.after("context", score, neighbour, note, hit.score, weight, neighbour, share, session, whole)
        )
    return adjusted
