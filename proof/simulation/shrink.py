"""Making a failing plan small: fewer actions, then fewer settings, while the same promise is still broken."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from proof.simulation.plan import Action, Plan


class Shrinker:
    """Delta debugging over the actions of a plan. `fails` runs a plan and says whether it fails as before."""

    def __init__(self, fails: Callable[[Plan], bool], most_runs: int, told: Callable[[str], None]) -> None:
        self._fails = fails
        self._left = most_runs
        self._told = told
        self.runs = 0

    def shrink(self, plan: Plan) -> Plan:
        """The smallest plan found within the runs allowed."""
        plan = self._halved_by_time(plan)
        for fault in (True, False):  # faults first: they are few, and without them a run is quick
            plan = self._fewer(plan, fault)
        plan = self._fewer_settings(plan)
        return self._fewer(plan, False)

    def _try(self, plan: Plan) -> bool:
        if self._left <= 0:
            return False
        self._left -= 1
        self.runs += 1
        return self._fails(plan)

    def _halved_by_time(self, plan: Plan) -> Plan:
        """Drop the end as long as the rest fails."""
        actions = plan.actions
        low, high = 0, len(actions)
        while low < high:
            middle = (low + high) // 2
            if self._try(plan.only(actions[:middle])):
                high = middle
            else:
                low = middle + 1
        self._told(f"{high} of {len(actions)} actions are enough")
        return plan.only(actions[:high])

    def _fewer(self, plan: Plan, fault: bool) -> Plan:
        """Leave out parts of the faults, or of the work: halves first, then smaller ones, at last single actions."""
        parts = 2
        while True:
            wanted = [action for action in plan.actions if action.fault is fault]
            if not wanted:
                return plan
            parts = min(parts, len(wanted))
            for chunk in _chunks(wanted, parts):
                without = _without(plan, chunk)
                if self._try(without):
                    self._told(f"{len(without.actions)} actions are enough")
                    plan, parts = without, max(2, parts - 1)
                    break
            else:
                if parts >= len(wanted) or self._left <= 0:
                    return plan
                parts *= 2

    def _fewer_settings(self, plan: Plan) -> Plan:
        for name in sorted(plan.settings):
            without = plan.without_setting(name)
            if self._try(without):
                plan = without
        self._told(f"{len(plan.settings)} settings matter")
        return plan


def _chunks(actions: Sequence[Action], parts: int) -> list[Sequence[Action]]:
    size = -(-len(actions) // parts)
    return [actions[at : at + size] for at in range(0, len(actions), size)]


def _without(plan: Plan, dropped: Sequence[Action]) -> Plan:
    gone = {id(action) for action in dropped}
    return plan.only(action for action in plan.actions if id(action) not in gone)
