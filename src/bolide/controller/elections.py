"""Decides elections and counts their results. Tracks pending elections while this controller is the leader."""

from __future__ import annotations

from collections import Counter
from typing import Final

from bolide.controller.decisions import SetDecision, elect_master, waiting
from bolide.controller.election import ElectionWait, Living, Terms
from bolide.controller.liveness import Liveness
from bolide.controller.options import ControllerSettings
from bolide.controller.replica_set import ReplicaSet
from bolide.remoting import codes
from bolide.remoting.replica_claims import NOT_KNOWN

_NOBODY: Final = "no_master_elected"
_RESULTS: Final = {
    codes.SUCCESS: "new_master_elected",
    codes.CONTROLLER_MASTER_STILL_EXIST: "keep_current_master",
    codes.CONTROLLER_MASTER_NOT_AVAILABLE: _NOBODY,
    codes.CONTROLLER_ELECT_MASTER_FAILED: _NOBODY,
}


class Elections:
    """The elections of all sets. `now` is ms."""

    def __init__(self, live: Liveness, settings: ControllerSettings) -> None:
        self._live = live
        self._settings = settings
        self.counts: Counter[tuple[str, str, str]] = Counter()
        """Number of finished elections by cluster, set and result. The results are labels of RocketMQ's metrics."""
        self.waiting: dict[str, ElectionWait] = {}
        """Sets whose election waits for members or for an operator."""
        self._vacant: dict[str, int] = {}
        """Time of the first election without a result, by name of the set, for sets without a master."""

    def follow(self) -> None:
        """Called when another controller may be the leader. Clears all state except the counters."""
        self.waiting.clear()
        self._vacant.clear()

    def decide(
        self, one: ReplicaSet | None, now: int, asking: int | None, designate: bool, life: str | None
    ) -> SetDecision:
        """Decide an election with `elect_master`. `designate`: whether an operator chose the replica `asking`."""
        if one is None:
            return elect_master(one, {}, asking, Terms(), life)
        living = self._live.alive_in(one, now)
        return elect_master(one, living, asking, self._terms(one, living, asking if designate else None, now), life)

    def _terms(self, one: ReplicaSet, living: Living, designated: int | None, now: int) -> Terms:
        office, options = self._live.office(one), self._settings.options
        first = min((living[each].since for each in one.electable if each in living), default=now)
        return Terms(
            designated=designated,
            unclean=options.enable_elect_unclean_master,
            waited=now - max(self._vacant.get(one.name, now), first),
            longest_wait=options.max_wait_for_members,
            confirmed=NOT_KNOWN if office is None else office.confirmed,
            synced=office is not None and office.synced,
        )

    def decided(self, one: ReplicaSet, decision: SetDecision, now: int) -> str:
        """Record the result of an election. Return a text to log if it waits for a new reason, otherwise ""."""
        result = _RESULTS.get(decision.code)
        if result is None:
            return ""
        if result == _NOBODY:
            self._vacant.setdefault(one.name, now)
        else:
            self._vacant.pop(one.name, None)
        waits = decision.waits
        if waits is None:
            self.waiting.pop(one.name, None)
            self.counts[one.cluster, one.name, result] += 1
            return ""
        said, self.waiting[one.name] = self.waiting.get(one.name), waits
        return "" if waits == said else waiting(one, waits)
