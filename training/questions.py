"""Questions without labels, made from the conversations themselves. The teacher's scores are their labels.

Two kinds: turns that are questions, and questions about a phrase of a turn ("What did Anna say about pottery?"). Also
gives speakers who are only numbered or called by their role a first name, because people have names in memories.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterable

from training.packed import Conversation, Question, Turn

NAMES = [
    "Anna", "Ben", "Carla", "David", "Elena", "Frank", "Grace", "Henry", "Irene", "Jack", "Karen", "Leo", "Maria",
    "Nick", "Olivia", "Paul", "Quinn", "Rosa", "Sam", "Tina", "Umar", "Vera", "Will", "Xenia", "Yusuf", "Zoe", "Amir",
    "Bianca", "Chen", "Dana", "Erik", "Fatima", "George", "Hanna", "Ivan", "Julia", "Kofi", "Lena", "Marco", "Nora",
    "Oscar", "Priya", "Ravi", "Sofia", "Tom", "Uma", "Victor", "Wendy", "Yuki", "Zara", "Alice", "Bruno", "Clara",
    "Diego", "Emma", "Felix", "Gina", "Hugo", "Isla", "Jonas",
]  # fmt: skip

RENAMED = {"synthetic-persona-chat-weak", "sgd-template"}

STOP = frozenset({
    "a", "about", "after", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "because",
    "been", "before", "being", "but", "by", "can", "could", "did", "do", "does", "doing", "don", "down", "for",
    "from", "get", "go", "going", "gonna", "got", "had", "has", "have", "he", "her", "here", "him", "his", "how", "i",
    "if", "in", "into", "is", "it", "its", "just", "know", "let", "like", "ll", "look", "m", "make", "maybe", "me",
    "mean", "more", "my", "no", "not", "now", "of", "off", "oh", "ok", "okay", "on", "one", "only", "or", "our",
    "out", "over", "people", "please", "really", "re", "right", "s", "said", "say", "see", "she", "should", "so",
    "some", "something", "sure", "t", "take", "than", "thank", "thanks", "that", "the", "their", "them", "then",
    "there", "they", "thing", "things", "think", "this", "those", "to", "too", "uh", "um", "up", "us", "ve", "very",
    "want", "was", "way", "we", "well", "were", "what", "when", "where", "which", "who", "why", "will", "with",
    "would", "yeah", "yes", "you", "your",
})  # fmt: skip

THIRD_PERSON = (
    "What did {name} say about {phrase}?",
    "When did {name} talk about {phrase}?",
    "What does {name} think about {phrase}?",
    "Why did {name} mention {phrase}?",
    "Who told {name} about {phrase}?",
    "What happened with {name} and {phrase}?",
    "Where did {name} see {phrase}?",
    "How does {name} feel about {phrase}?",
)
FIRST_PERSON = (
    "What did I say about {phrase}?",
    "When did I mention {phrase}?",
    "Can you remind me what I told you about {phrase}?",
    "What did you recommend about {phrase}?",
    "How many times did I talk about {phrase}?",
    "What was that about {phrase} again?",
)
ROLES = frozenset({"user", "assistant", "system", "memory"})

_WORD = re.compile(r"[^\W\d_][\w'’-]*|\d[\w.,:]*")


def rename_speakers(conversation: Conversation, chance: random.Random) -> Conversation:
    """The conversation with first names instead of "User 1" or "User", in the turns' speakers and in the questions."""
    speakers = sorted({turn.speaker for turn in conversation.turns})
    names = dict(zip(speakers, chance.sample(NAMES, len(speakers)), strict=True))

    def renamed(text: str) -> str:
        for old, new in names.items():
            text = re.sub(rf"\b{re.escape(old)}\b", new, text) if any(char.isdigit() for char in old) else text
        return text

    turns = tuple(Turn(names[turn.speaker], turn.text) for turn in conversation.turns)
    questions = tuple(Question(renamed(one.text), one.gold) for one in conversation.questions)
    return conversation._replace(turns=turns, questions=questions)


def asked_turns(conversation: Conversation) -> list[tuple[int, str]]:
    """The turns that ask something with content of its own: their numbers, and the last question in each."""
    found = []
    for number, turn in enumerate(conversation.turns):
        asked = re.findall(r"[^.?!\n]+\?", turn.text)
        if asked:
            words = [word.lower() for word in _WORD.findall(asked[-1])]
            if 5 <= len(words) <= 30 and len({word for word in words if word not in STOP}) >= 3:
                found.append((number, asked[-1].strip()))
    return found


def word_weights(conversations: Iterable[Conversation]) -> dict[str, float]:
    """How rare each word is over all turns: log of the number of turns over the number with the word."""
    counts: Counter[str] = Counter()
    turns = 0
    for conversation in conversations:
        for turn in conversation.turns:
            counts.update({word.lower() for word in _WORD.findall(turn.text)})
            turns += 1
    return {word: math.log(turns / count) for word, count in counts.items()}


def phrase_of(text: str, weights: dict[str, float], chance: random.Random) -> str | None:
    """One to three words of the text that stand together, rare ones likelier; None if it has no words of content."""
    words = _WORD.findall(text)
    runs: list[list[str]] = [[]]
    for word in words:
        if word.lower() in STOP or len(word) < 3 or "'" in word:
            runs.append([])
        else:
            runs[-1].append(word)
    phrases = [run[at : at + size] for run in runs for size in (1, 2, 3) for at in range(len(run) - size + 1)]
    if not phrases:
        return None
    rarity = [sum(weights.get(word.lower(), 8.0) for word in phrase) / len(phrase) ** 0.5 for phrase in phrases]
    return " ".join(chance.choices(phrases, [value**3 for value in rarity])[0])


def ask_about(turn: Turn, weights: dict[str, float], chance: random.Random) -> str | None:
    """A question about a phrase of the turn, in the third person, or in the first if the speaker is a role."""
    phrase = phrase_of(turn.text, weights, chance)
    if phrase is None:
        return None
    templates = FIRST_PERSON if turn.speaker.lower() in ROLES else THIRD_PERSON
    return chance.choice(templates).format(name=turn.speaker, phrase=phrase)
