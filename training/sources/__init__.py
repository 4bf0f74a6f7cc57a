"""Readers of the source repositories: each takes the folder of a clone and yields lines of the packed form."""

from __future__ import annotations

from training.sources.dialogues import friendsqa, molweni, persona_chat, precisionmem, qmsum
from training.sources.texts import clinc, disfl_qa, squad_sentences

CONVERSATIONS = {
    "friendsqa": friendsqa,
    "qmsum": qmsum,
    "molweni": molweni,
    "precisionmem": precisionmem,
    "synthetic-persona-chat-weak": persona_chat,
}
PASSAGES = {"squad-sentences(nqg)": squad_sentences, "disfl-qa": disfl_qa}
TEXTS = {"clinc-oos": clinc}

__all__ = ["CONVERSATIONS", "PASSAGES", "TEXTS"]
