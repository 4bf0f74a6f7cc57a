"""The tuning run of a service with several workers: one at a time, and every worker knows its progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from retentive.errors import Conflict
from retentive.server.http.tune_job import IN_PROGRESS, TuneJob
from retentive.server.workers.peers import Peers

Progress = Callable[[str], dict[str, Any]]
"""Returns the progress of a profile's run in this process, as JSON."""


class TunePeers:
    """The runs of the other workers. Without other workers there are none."""

    def __init__(self, job: TuneJob, peers: Peers | None) -> None:
        self._job, self._peers = job, peers

    def answer(self, progress: Progress) -> None:
        """Answer the questions of other workers."""
        if self._peers is None:
            return

        def seen(asked: Mapping[str, Any]) -> Any:
            return {"started": self._job.started, "progress": progress(asked["profile"])}

        def stop(asked: Mapping[str, Any]) -> Any:
            self._job.stop_profile(asked["profile"])
            return seen(asked)

        self._peers.answer("tune", seen)
        self._peers.answer("stop tune", stop)

    def reserve(self) -> Callable[[], None]:
        """Reserve the run for this worker, and return a function that ends the reservation.

        `Conflict` if a run is in progress in another worker. The lock is one of a file, so that the system releases it
        if a worker is killed.
        """
        if self._peers is None:
            return lambda: None
        import fcntl

        lock = (self._peers.folder / "tune.lock").open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            raise Conflict(IN_PROGRESS) from None
        return lock.close

    def latest(self, profile: str, own: dict[str, Any], *, stop: bool = False) -> dict[str, Any]:
        """Return the progress of the latest run of a profile, of this worker or another one."""
        answers = self._ask("stop tune" if stop else "tune", profile)
        others = [one for one in answers if one["progress"]["state"] != "idle"]
        mine = {"started": self._job.started if own["state"] != "idle" else 0.0, "progress": own}
        found: dict[str, Any] = max([mine, *others], key=lambda one: one["started"])["progress"]
        return found

    def _ask(self, name: str, profile: str) -> list[Any]:
        return self._peers.ask(name, profile=profile) if self._peers else []
