"""What every store promises about backups."""

from __future__ import annotations

from pathlib import Path

import pytest

from retentive.errors import Invalid
from retentive.stores.base import Store
from retentive.stores.sqlite import SqliteStore
from tests.stores.build import MODEL, NOW, embedded


def test_a_store_is_backed_up_or_names_another_way(store: Store, tmp_path: Path):
    store.add([embedded(1)], model=MODEL)

    if isinstance(store, SqliteStore):
        assert store.backup(tmp_path / "backups", at=NOW).memories == 1
    else:
        with pytest.raises(Invalid, match=r"pg_dump|snapshots|export"):
            store.backup(tmp_path / "backups", at=NOW)
        assert not (tmp_path / "backups").exists()
