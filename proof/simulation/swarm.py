"""Drawing a plan from a seed: each seed turns features and faults on or off, and picks rates and settings of its own.

Most bugs need a few things together and are hidden by too many others. So a seed takes about half of what there is
(swarm testing), and lets faults happen near the moments at which the broker does something by itself.
"""

from __future__ import annotations

import random
from typing import Final

from proof.simulation import liars
from proof.simulation.member_plans import MemberPlan
from proof.simulation.plan import LEVELS_S, SLOW_S, Action, Plan, Value
from proof.simulation.themes import SET_SHARE, SET_THEMES, SHARE, THEMES, Values

FEATURES: Final = (
    "batch", "async", "oneway", "level", "timer", "recall", "transaction", "push", "orderly", "pull", "retry",
    "broadcast", "filter", "topics", "deletion", "groups", "offsets", "settings", "kv", "new_topics", "members",
)  # fmt: skip
CONSUMERS: Final = frozenset({"push", "orderly", "pull", "retry", "broadcast", "filter"})
FAULT_KINDS: Final = (
    "kill", "kill", "power", "power", "restart", "pause", "clock", "cut", "slow_network", "reset_connections",
    "disk_error", "disk_full", "no_new_files", "no_descriptors", "slow_disk", "kill_namesrv",
)  # fmt: skip
SET_FAULT_KINDS: Final = (*FAULT_KINDS, "promote", "promote", "empty", "cut", "cut")
REPLICATED_SHARE: Final = 0.25
"""Of the seeds: their brokers have slaves. Chance of its own decides it, and a seed without slaves is as it was."""
SINGLE: Final = "single"
SETS: Final = "sets"
CONTROLLED: Final = "controlled"
ETCD: Final = "etcd"
MEMBERS: Final = "members"
KINDS: Final = (SINGLE, SETS, CONTROLLED, ETCD, MEMBERS)
CONTROLLED_SHARE: Final = 0.4
"""Of the seeds with slaves: their sets are under a controller. Chance of its own decides it and draws its faults."""
MEMBERS_SHARE: Final = 0.4
"""Part of the seeds with a controller, but no attacker, that damage single members."""
LATE_SHARE: Final = 0.15
"""Of the faults of etcd: a decision takes effect late, where the next ones were made without it."""
ETCD_SHARE: Final = 0.5
"""Of the seeds with a controller: they have two or three, whose decisions are in an etcd of three members."""
TOPICS: Final = ("Orders", "Clicks")
"""Topics that live as long as the run; groups read them."""
SHORT_LIVED: Final = ("Draft", "Scratch")
"""Topics that operators delete and create; nobody consumes them."""
TAGS: Final = ("red", "green", "blue", "")
DISK_CALLS: Final = ("write_at", "write_at", "write_at", "create", "reserve", "rename", "write_file", "read_at", "link")
SET_SETTINGS: Final[Values] = {
    "slave_timeout": (300, 1_000, 3_000),
    "ha_send_heartbeat_interval": (500, 2_000, 5_000),
    "ha_housekeeping_interval": (6_000, 20_000),
    "ha_transfer_batch_size": (64, 1_000, 32_768),
}
"""Of brokers with slaves."""
SLOW_SHARE: Final = 0.25
"""Of the seeds that decide their time. Chance of its own decides it, so that the other seeds stay as they were."""


def draw(seed: int, seconds: float | None = None) -> Plan:
    """The plan of a seed. `seconds` of simulated time; None lets the seed decide, from a minute to four hours."""
    if kind_of(seed) == MEMBERS:
        return MemberPlan(seed, seconds, controllers_of(seed)).plan()
    return _Draw(seed, seconds).plan()


def theme_of(seed: int) -> str:
    """The name of a seed's theme, "" for none."""
    chance = random.Random(f"theme {seed}")
    themes, share = (SET_THEMES, SET_SHARE) if slaves_of(seed) else (THEMES, SHARE)
    return chance.choice(sorted(themes)) if chance.random() < share else ""


def slaves_of(seed: int) -> int:
    """How many slaves each broker of a seed has."""
    chance = random.Random(f"replicas {seed}")
    return chance.choice((1, 1, 2)) if chance.random() < REPLICATED_SHARE else 0


def controlled(seed: int) -> bool:
    """Whether the sets of a seed are under a controller."""
    return slaves_of(seed) > 0 and random.Random(f"controlled {seed}").random() < CONTROLLED_SHARE


def controllers_of(seed: int) -> int:
    """How many controllers a seed has; more than one have an etcd."""
    if not controlled(seed):
        return 0
    chance = random.Random(f"how many controllers {seed}")
    return chance.choice((2, 2, 3)) if chance.random() < ETCD_SHARE else 1


def kind_of(seed: int) -> str:
    """What a seed's brokers are: `SINGLE` masters, `SETS` in plain replication, `CONTROLLED`, `ETCD`: under controllers
    that have one, or `MEMBERS`: under either, with faults of members.
    """
    if controlled(seed):
        if not liars.life_of(seed) and random.Random(f"members {seed}").random() < MEMBERS_SHARE:
            return MEMBERS
        return CONTROLLED if controllers_of(seed) == 1 else ETCD
    return SETS if slaves_of(seed) else SINGLE


class _Draw:
    def __init__(self, seed: int, seconds: float | None) -> None:
        self.chance = random.Random(f"plan {seed}")
        self.seed = seed
        chance = self.chance
        self.small = chance.random() < 0.9
        """A little work and one or two faults that meet it; a second of processor time runs several such seeds."""
        drawn = chance.uniform(20.0, 60.0) if self.small else 60.0 * 60.0 ** (chance.random() ** 1.5)
        pace = random.Random(f"pace {seed}")
        self.slow = seconds is None and pace.random() < SLOW_SHARE
        """Hours of little traffic: long delays, hourly rounds, idle connections."""
        if self.slow:
            drawn = SLOW_S * 4.0 ** pace.random()
        self.seconds = seconds if seconds is not None else round(drawn, 1)
        likely = 0.25 if self.small else 0.5
        self.features = {name for name in FEATURES if chance.random() < likely}
        self.slaves = slaves_of(seed)
        self.controlled = controlled(seed)
        self.liars = liars.life_of(seed) if self.controlled else ""
        kinds = chance.choice((1, 1, 1, 2)) if self.small else chance.choice((0, 1, 1, 2, 3, 6))
        self.faults = sorted({chance.choice(SET_FAULT_KINDS if self.slaves else FAULT_KINDS) for _ in range(kinds)})
        self.theme = {**THEMES, **SET_THEMES}.get(theme_of(seed))
        if self.theme is not None:
            self.features = {*self.theme.features, *(self.features & CONSUMERS)}
            self.faults = sorted(self.theme.faults)
        self.brokers = self.chance.choice((1, 1, 1, 2))
        self.producers = self.chance.randint(1, 3)
        self.actions: list[Action] = []
        self.moments: list[float] = []
        """Times near which faults tell most: something is due, or was just asked for."""
        self.sends = 0

    def plan(self) -> Plan:
        settings = self._settings()
        cluster = self._cluster()
        for _ in range(self.chance.randint(2, 15) if self.small else self.chance.randint(20, 100)):
            self._work(self._time(0.9))
        if self.faults:
            few, many = (1.6, 3.0) if self.theme is not None else (1.0, 2.2 if self.small else 5.0)
            for _ in range(int(self.chance.uniform(few, many) ** 2)):
                self._fault()
        if self.controlled:
            self._faults_of_controllers(random.Random(f"controller {self.seed}"))
        if kind_of(self.seed) == ETCD:
            self._faults_of_etcd(random.Random(f"faults of etcd {self.seed}"))
        if self.liars:
            self.actions += liars.draw(self.seed, self.liars, self.seconds, self.moments, self.small)
        self.actions.sort(key=lambda action: action.at)
        return Plan(self.seed, self.seconds, settings, cluster, tuple(self.actions))

    def _on(self, name: str) -> bool:
        return name in self.features

    def _time(self, until: float = 1.0) -> float:
        """Bursts: half of what happens is within seconds of something else."""
        chance = self.chance
        if self.moments and chance.random() < 0.5:
            return round(min(chance.choice(self.moments) + chance.expovariate(2.0), self.seconds * until), 3)
        at = round(chance.uniform(1.0, max(2.0, self.seconds * until)), 3)
        self.moments.append(at)
        return at

    def _do(self, at: float, do: str, **of: Value) -> None:
        self.actions.append(Action(at, do, of))

    def _operates(self) -> bool:
        return any(map(self._on, ("topics", "deletion", "groups", "offsets")))

    # -- settings

    def _settings(self) -> dict[str, Value]:
        chance = self.chance
        drawn: dict[str, Value] = {
            "flush_disk_type": chance.choice(("SYNC_FLUSH", "SYNC_FLUSH", "ASYNC_FLUSH")),
            "mapped_file_size_commit_log": chance.choice((1 << 14, 1 << 15, 1 << 16, 1 << 18, 1 << 20)),
            "mapped_file_size_consume_queue": chance.choice((200, 2_000, 20_000)),
            "max_hash_slot_num": chance.choice((10, 500)),
            "max_index_num": chance.choice((20, 2_000)),
            "mapped_file_size_timer_log": chance.choice((520, 5_200, 1 << 16)),
            "recall_message_enable": True,
            "enable_property_filter": True,
            "transaction_check_interval": chance.choice((1_000, 3_000, 10_000, 30_000)),
            "transaction_time_out": chance.choice((500, 2_000, 6_000)),
            "transaction_check_max": 1_000,
            "auto_create_topic_enable": True,
        }
        often: dict[str, tuple[Value, ...]] = {
            "timer_precision_ms": (100, 200, 500),
            "timer_roll_window_slot": (20, 60, 300),
            "timer_flush_interval_ms": (100, 5_000),
            "flush_delay_offset_interval": (1_000, 30_000),
            "flush_interval_commit_log": (50, 200, 1_000),
            "flush_interval_consume_queue": (100, 5_000),
            "flush_consume_queue_thorough_interval": (1_000, 10_000),
            "flush_consumer_offset_interval": (500, 20_000),
            "enabled_append_prop_crc": (True,),
            "enable_consume_queue_ext": (True,),
            "enable_calc_filter_bit_map": (True,),
            "message_index_enable": (False,),
            "message_index_safe": (True,),
            "store_version": ("4.9",),
            "default_topic_queue_nums": (1, 2, 16),
            "long_polling_enable": (False,),
            "hold_sweep_interval": (100, 1_000),
            "max_transfer_count_on_message_in_memory": (1, 4),
            "max_transfer_bytes_on_message_in_memory": (100, 4_096),
            "register_name_server_period": (10_000,),
            "notify_consumer_ids_changed_enable": (False,),
            "use_server_side_reset_offset": (False,),
            "max_cold_read_bytes": (4_096,),
            "compressed_register": (True,),
        }
        for name, values in often.items():
            if chance.random() < 0.25:
                drawn[name] = chance.choice(values)
        if self.slaves:
            for name, values in SET_SETTINGS.items():
                drawn[name] = chance.choice(values)
        if self.theme is not None:
            for name, values in self.theme.settings.items():
                drawn[name] = chance.choice(values)
        if self.controlled:  # what a machine says that it has, it has after a loss of power
            drawn["flush_disk_type"] = "SYNC_FLUSH"
        return drawn

    def _of_theme(self, values: Values, name: str, drawn: Value) -> Value:
        """One of the theme's values, if it has any for this; else what was drawn."""
        return self.chance.choice(values[name]) if name in values else drawn

    def _cluster(self) -> dict[str, Value]:
        chance = self.chance
        drawn: dict[str, Value] = {
            "brokers": self.brokers,
            "name_servers": chance.choice((1, 1, 2)),
            "producers": self.producers,
            "retries": chance.choice((0, 0, 2)),
            "queues": chance.choice((1, 2, 4)),
            "push": self._on("push") * chance.randint(1, 3),
            "orderly": int(self._on("orderly")),
            "pull": int(self._on("pull")),
            "broadcast": self._on("broadcast") * 2,
            "filtered": int(self._on("filter")),
            "failing": chance.choice((0.05, 0.3)) if self._on("retry") else 0.0,
            "most_retries": chance.choice((1, 2, 16)),
            "doubled": chance.choice((0.0, 0.0, 0.3)),
            "double_connections": chance.random() < 0.2,
        }
        if self.slaves:
            drawn |= {
                "slaves": self.slaves,
                "in_sync": self._of_set("in_sync", chance.choice((1, 2, 2))),
                "fast_port": chance.random() < 0.5,
            }
        if self.controlled:
            drawn["controller"] = controllers_of(self.seed)
            if controllers_of(self.seed) > 1:
                drawn["etcd"] = 3
            if self.slow:
                drawn["patient"] = True
            if self.liars:
                drawn["liars"] = self.liars
        return drawn

    def _of_set(self, name: str, drawn: Value) -> Value:
        """A figure of the cluster, as the theme has it."""
        return self._of_theme(self.theme.cluster, name, drawn) if self.theme is not None else drawn

    # -- work

    def _work(self, at: float) -> None:
        chance = self.chance
        kinds = ["single"] * 3
        kinds += [name for name in ("batch", "async", "oneway", "level", "timer", "transaction") if self._on(name)]
        if self._on("new_topics"):
            kinds += ["new_topic"] * 2
        roll = chance.random()
        if roll < 0.75:
            self._send(at, chance.choice(kinds))
        elif roll < 0.85 and self._on("members"):
            self._member(at)
        else:
            self._operate(at)

    def _send(self, at: float, how: str) -> None:
        chance = self.chance
        theme = self.theme.send if self.theme is not None else {}
        topics = [*TOPICS, *SHORT_LIVED] if self._on("deletion") else list(TOPICS)
        of: dict[str, Value] = {
            "id": self.sends,
            "producer": chance.randrange(self.producers),
            "topic": self._of_theme(theme, "topic", chance.choice(topics)),
            "how": how,
            "size": self._of_theme(theme, "size", int(10 ** chance.uniform(0.0, 3.2))),
            "tag": self._of_theme(theme, "tag", chance.choice(TAGS)),
            "n": chance.randrange(10),
        }
        self.sends += 1
        if how in ("batch", "async", "oneway"):
            of["count"] = chance.randint(2, 20)
        elif how == "level":
            level = chance.choice((1, 4, 5, 9, 14, 15, 16, 17, 18) if self.slow else (1, 1, 2, 2, 3, 4))
            of["level"] = self._of_theme(theme, "level", level)
            self.moments.append(round(at + LEVELS_S[int(of["level"]) - 1], 3))
        elif how == "timer":
            delay = round(10 ** chance.uniform(0.0, 3.9 if self.slow else 2.0), 1)
            of["delay"] = self._of_theme(theme, "delay", delay)
            self.moments.append(round(at + float(of["delay"]), 3))
            if self._on("recall") and chance.random() < 0.4:
                self._do(round(at + chance.uniform(0.0, float(of["delay"])), 3), "recall", id=of["id"])
        elif how == "transaction":
            of["ends"] = self._of_theme(theme, "ends", chance.choice(("commit", "commit", "rollback", "never")))
            of["checks"] = self._of_theme(theme, "checks", chance.choice((0, 0, 1, 2, 5)))
            self.moments.append(round(at + 1.0 + 3.0 * int(of["checks"]), 3))
        elif how == "new_topic":
            of["topic"] = f"New{self.sends}"
        if chance.random() < 0.2:
            of["queue"] = chance.randrange(4)
        self._do(at, "send", **of)

    def _member(self, at: float) -> None:
        self._do(at, "member", which=self.chance.randrange(8), down=round(self.chance.expovariate(0.1), 1))

    def _operate(self, at: float) -> None:
        chance = self.chance
        kinds = [name for name in ("topics", "deletion", "groups", "offsets", "settings", "kv") if self._on(name)]
        if not kinds:
            return self._send(at, "single")
        kind = chance.choice(kinds)
        broker = chance.randrange(self.brokers)
        self.moments.append(at)
        if kind == "topics":
            queues = chance.randint(1, 6)
            self._do(at, "put_topic", topic=f"Made{chance.randrange(5)}", queues=queues, broker=broker)
        elif kind == "deletion":
            topic = chance.choice(SHORT_LIVED)
            self._do(at, "delete_topic", topic=topic, broker=broker)
            for _ in range(chance.randint(0, 3)):
                self._send(round(at + chance.expovariate(1.0), 3), "single")
        elif kind == "groups":
            name = f"Team{chance.randrange(4)}"
            if chance.random() < 0.3:
                self._do(at, "delete_group", group=name, broker=broker)
            else:
                self._do(at, "put_group", group=name, retries=chance.randrange(30), broker=broker)
        elif kind == "offsets":
            topic = chance.choice(TOPICS)
            self._do(at, "set_offset", group=f"Idle{chance.randrange(2)}", topic=topic, broker=broker,
                     queue=0, offset=chance.randrange(5))  # fmt: skip
        elif kind == "settings":
            self._do(at, "put_setting", key="fileReservedTime", value=str(chance.randint(24, 99)), broker=broker)
        else:
            self._do(at, "put_kv", key=f"k{chance.randrange(3)}", value=f"v{chance.randrange(1000)}")

    # -- faults

    def _fault(self) -> None:
        chance = self.chance
        do = chance.choice(self.faults)
        at = self._time()
        if self.moments and chance.random() < 0.5:
            at = round(max(1.0, chance.choice(self.moments) + chance.uniform(-0.3, 1.0)), 3)
        of: dict[str, Value] = {"broker": chance.randrange(self.brokers * (1 + self.slaves))}
        lasts = round(min(10 ** chance.uniform(-1.0, 1.8), self.seconds / 2), 2)
        if do in ("kill", "power", "restart", "kill_namesrv"):
            of["down"] = round(10 ** chance.uniform(-1.0, 1.3), 2)
            if do in ("kill", "power") and chance.random() < 0.6:
                moments = ["answer", "delivery", *["change"] * (2 * self._operates())]
                of["after"] = chance.choice([*moments, *["new_topic"] * (2 * self._on("new_topics"))])
        if do == "power":
            of["seed"] = chance.randrange(1 << 30)
        elif do in ("pause", "slow_network", "slow_disk", "disk_full", "no_new_files", "no_descriptors"):
            of["lasts"] = lasts
        elif do == "clock":
            of["jump"] = round(chance.choice((-1, 1)) * 10 ** chance.uniform(0.0, 5.0), 1)
            of["lasts"] = chance.choice((0.0, 1.0, 10.0, 29.0, 100.0))
        elif do in ("cut", "reset_connections"):
            of["lasts"] = lasts
            of["ways"] = chance.choice(("both", "to", "from"))
            whom = ("producer", "consumer", "all", "name_server")
            of["whom"] = chance.choice((*whom, "set", "set", "set", "set") if self.slaves else whom)
        elif do == "promote":
            of["how"] = chance.choice(("kill", "power"))
            of["seed"] = chance.randrange(1 << 30)
            of["down"] = round(10 ** chance.uniform(-1.0, 1.5), 2)
            of["back"] = chance.choice((-1.0, 0.1, 3.0, 20.0))
        elif do == "empty":
            of["down"] = round(10 ** chance.uniform(-1.0, 1.3), 2)
        elif do == "disk_error":
            of["call"] = chance.choice(DISK_CALLS)
            of["path"] = chance.choice(("", "commitlog", "commitlog", "config", "consumequeue", "timer"))
            of["error"] = chance.choice(("EIO", "ENOSPC"))
            of["skip"] = chance.choice((0, 0, 1, 5))
            of["times"] = chance.choice((1, 1, 2, 20))
        if self.theme is not None:
            for name, values in self.theme.fault.items():
                if name in of or (name == "after" and do in ("kill", "power")):
                    of[name] = chance.choice(values)
        if self.small or chance.random() < 0.7:
            self._meets(do, at, of)
        self._do(at, do, **of)

    def _meets(self, do: str, at: float, of: dict[str, Value]) -> None:
        """Work that the fault meets: what the broker does by itself at that moment, or is asked for just before."""
        chance = self.chance
        soon = round(at + chance.uniform(0.1, 2.0), 3)
        kinds = [name for name in ("level", "timer", "transaction") if self._on(name)]
        if self.small and not kinds:
            kinds = [chance.choice(("level", "timer", "transaction"))]
        before = round(max(0.5, at - chance.choice((0.5, 1.0, 5.0, 10.0)) - chance.uniform(0.0, 0.2)), 3)
        if of.get("after") == "change":
            if self.theme is not None:
                for _ in range(chance.randint(1, 4)):
                    self._send(before, "single")
            for _ in range(chance.randint(1, 3)):
                self._operate(soon)
        elif of.get("after") == "new_topic":
            self._send(soon, "new_topic")
        elif do in ("clock", "disk_error", "disk_full", "no_new_files", "pause", "slow_disk"):
            for _ in range(chance.randint(1, 8) if kinds else 0):
                self._send(round(before + chance.uniform(0.0, 0.2), 3), chance.choice(kinds))

    def _faults_of_controllers(self, chance: random.Random) -> None:
        """Of the controller itself, and of the way to it."""
        for _ in range(chance.choice((0, 1, 1, 2) if self.small else (0, 2, 4, 8))):
            at = round(chance.uniform(1.0, self.seconds), 3)
            if self.moments and chance.random() < 0.5:
                at = round(max(1.0, chance.choice(self.moments) + chance.uniform(-0.3, 1.0)), 3)
            lasts = round(min(10 ** chance.uniform(-1.0, 1.5), self.seconds / 2), 2)
            if chance.random() < 0.4:
                broker = chance.randrange(self.brokers * (1 + self.slaves))
                ways = chance.choice(("both", "to", "from"))
                self._do(at, "cut", broker=broker, lasts=lasts, ways=ways, whom="controller")
                continue
            of: dict[str, Value] = {"how": chance.choice(("kill", "power", "pause", "disk"))}
            if kind_of(self.seed) == ETCD:
                of["which"] = chance.randrange(3)
                if of["how"] == "disk":
                    of |= {"how": "clock", "jump": round(chance.choice((-1, 1)) * 10 ** chance.uniform(0.0, 5.0), 1)}
            of |= {"lasts": lasts, "down": round(10 ** chance.uniform(-1.0, 1.3), 2), "seed": chance.randrange(1 << 30)}
            of |= {"error": "EIO", "call": chance.choice(("write_file", "rename", "sync"))}
            of["times"] = chance.choice((1, 3))
            self._do(at, "controller", **of)

    def _faults_of_etcd(self, chance: random.Random) -> None:
        """Of its members, and of the ways between them and to controllers."""
        for _ in range(chance.choice((0, 1, 2) if self.small else (0, 2, 4, 8))):
            at = round(chance.uniform(1.0, self.seconds), 3)
            if self.moments and chance.random() < 0.5:
                at = round(max(1.0, chance.choice(self.moments) + chance.uniform(-0.3, 1.0)), 3)
            lasts = round(min(10 ** chance.uniform(-1.0, 1.5), self.seconds / 2), 2)
            how = chance.choice(("kill", "power", "pause", "cut", "cut"))
            of: dict[str, Value] = {"how": how, "which": chance.randrange(3), "lasts": lasts}
            of |= {"down": round(10 ** chance.uniform(-1.0, 1.3), 2), "seed": chance.randrange(1 << 30)}
            of |= {"ways": chance.choice(("both", "to", "from")), "whom": chance.choice(("etcd", "controller", "all"))}
            self._do(at, "etcd", **of)
            if chance.random() < LATE_SHARE:
                self._late_decision(at, chance)
            if chance.random() < 0.3:  # a second one: no majority is left
                self._do(round(at + chance.uniform(0.0, 2.0), 3), "etcd", **{**of, "which": int(of["which"]) + 1})

    def _late_decision(self, at: float, chance: random.Random) -> None:
        """A member stands still with an election in its hands. Two masters later it continues, and then another
        controller leads, with what it finds.
        """
        lasts = round(chance.uniform(12.0, 20.0), 2)
        self._do(at, "etcd", how="pause", which=chance.randrange(3), lasts=lasts, down=1.0, seed=1)
        for after in (0.05, round(chance.uniform(6.0, lasts - 2.0), 2), lasts + 6.0):
            self._do(round(at + after, 3), "promote", broker=0, how="kill", down=3.0, seed=1, back=3.0)
        for which in range(3):
            lost: dict[str, Value] = {"how": "kill", "which": which, "lasts": 1.0, "down": 5.0, "seed": 1}
            self._do(round(at + lasts + chance.uniform(0.1, 1.0), 3), "controller", **lost)
