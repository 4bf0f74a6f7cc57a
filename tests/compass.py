"""An embedder whose vectors are directions: `at30` in a text points to 30 degrees, so that likeness is a cosine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import cos, radians, sin

import numpy as np

from retentive.errors import Unavailable
from retentive.inference.embedders import Embedder, Matrix
from retentive.models import Model


class Compass(Embedder):
    """Points where a text says, or to 90 degrees; `down` makes it unreachable."""

    def __init__(self) -> None:
        self.model = Model("compass", "1", 2, "fingerprint of compass")
        self.down = False

    def embed(self, texts: Sequence[str]) -> Matrix:
        if self.down:
            raise Unavailable("the embedder does not answer")
        angles = [radians(int(found.group(1)) if (found := re.search(r"at(\d+)", text)) else 90) for text in texts]
        return np.array([(cos(angle), sin(angle)) for angle in angles], np.float32).reshape(-1, 2)
