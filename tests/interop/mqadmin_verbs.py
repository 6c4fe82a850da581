"""What mqadmin is told to do at Java's servers and at ours, one step after the other, and how its words are compared.

A step is the words of one call. `{broker}`, `{namesrv}`, `{controller}`, `{folder}` and what the drivers found out
(`{unique}`, `{offset}`, `{traced}`, `{client}`) are filled in. Steps follow each other: a topic is made before it is
shown. Topics have one queue, so that what is sent to them goes to the same one at both.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

OLD, NEW = "4.9.7", "5.5.0"
BOTH = (OLD, NEW)

SAME = "same"
"""The same lines, but for addresses, times, ids and rates."""
SORTED = "sorted"
"""The same lines in any order: Java prints a hash table."""
NAMES = "names"
"""Figures of a broker: each name that Java's shows is shown by ours."""
WORKS = "works"
"""Both do it; what they print is their own, such as their settings."""


@dataclass(frozen=True)
class Step:
    """One call. With `ours`, a regular expression, ours is meant to say something else than Java's, for `because`."""

    words: str
    versions: tuple[str, ...] = BOTH
    compared: str = SAME
    ours: str = ""
    because: str = ""

    @property
    def verb(self) -> str:
        """Its name in mqadmin's list."""
        return self.words.split()[0]


def steps(text: str, versions: tuple[str, ...] = BOTH, compared: str = SAME) -> list[Step]:
    """A step a line."""
    return [Step(line.strip(), versions, compared) for line in text.strip().splitlines()]


def differs(words: str, ours: str, because: str, versions: tuple[str, ...] = (NEW,)) -> Step:
    """A step to which ours is meant to say something else."""
    return Step(words, versions, SAME, ours, because)


SEND, CONSUME, STOP = Step("#send"), Step("#consume"), Step("#stop")
"""What clients do in between: RocketMQ's own, of each side."""

COLD = "reads of old messages are not limited by group"
POP = "there is no POP consumption"
LITE = "there are no lite topics"
OFF = "access control is off: set authenticationEnabled = true"
IN_FILES = "users and permissions of 4.9 are in files"
NONE_HERE = "refused with the reason"

MADE = [
    *steps(
        """
        updateTopic -c DefaultCluster -t Alpha -r 1 -w 1
        updateTopic -b {broker} -t Wide -r 3 -w 3
        updateTopic -b {broker} -t Beta -r 1 -w 1 -p 6
        updateTopic -b {broker} -t Ordered -r 1 -w 1 -o true
        updateTopic -b {broker} -t Traced -r 1 -w 1
        updateTopicPerm -b {broker} -t Beta -p 4
        updateTopicPerm -c DefaultCluster -t Beta -p 6
        updateSubGroup -c DefaultCluster -g ga -s true
        updateSubGroup -b {broker} -g gb -r 3
        """
    ),
    *steps(
        """
        updateTopicList -b {broker} -f {folder}/topics.json
        updateSubGroupList -b {broker} -f {folder}/groups.json
        """,
        (NEW,),
    ),
]
SHOWN = [
    Step("clusterList", (NEW,)),
    differs("clusterList", "V5_5_0", "ours is a broker of 5.5.0", (OLD,)),
    Step("clusterList -m", compared=WORKS),
    Step("brokerStatus -b {broker}", compared=NAMES),
    Step("brokerStatus -c DefaultCluster", compared=NAMES),
    Step("topicList", (NEW,), SORTED),
    Step("topicList", (OLD,), NAMES),
    Step("topicList -c", (OLD,), NAMES),
    differs("topicList -c", "RMQ_SYS_TRANS_HALF_TOPIC +CID_RMQ_SYS_TRANS", "its own group is known before it commits"),
    *steps(
        """
        topicRoute -t Alpha
        topicRoute -t Wide -l
        topicRoute -t Nope
        topicClusterList -t Alpha
        topicStatus -t Alpha
        allocateMQ -t Alpha -i 10.0.0.1,10.0.0.2
        statsAll -t Alpha
        statsAll -a -t Alpha
        consumerProgress
        consumerProgress -g ga
        consumerProgress -g ga -s true
        consumerProgress -g nope
        consumerConnection -g ga
        consumerConnection -g ga -b {broker}
        consumerConnection -g nope
        consumerStatus -g ga
        consumerStatus -g ga -i {client}
        producerConnection -g interop_producer -t Alpha
        producerConnection -g nope -t Alpha
        brokerConsumeStats -b {broker}
        brokerConsumeStats -b {broker} -o true
        getConsumerConfig -g ga
        getConsumerConfig -g nope
        """
    ),
    Step("producer -b {broker}", compared=SORTED),
    *steps(
        """
        getBrokerConfig -b {broker}
        getBrokerConfig -c DefaultCluster
        getNamesrvConfig
        """,
        compared=WORKS,
    ),
    *steps(
        """
        topicStatus -t Alpha -c DefaultCluster
        consumerProgress -g ga -t Alpha
        haStatus -b {broker}
        haStatus -c DefaultCluster
        getBrokerEpoch -b broker-a
        getBrokerEpoch -c DefaultCluster
        """,
        (NEW,),
    ),
]
SEARCHED = [
    *steps(
        """
        queryMsgById -t Alpha -i {offset}
        queryMsgById -t Alpha -i {offset} -g ga -d {client}
        queryMsgById -t Alpha -i {offset} -s true
        queryMsgByUniqueKey -t Alpha -i {unique}
        queryMsgByUniqueKey -t Alpha -i {unique} -g ga -d {client}
        """,
        (NEW,),
    ),
    *steps(
        """
        queryMsgById -i {offset}
        queryMsgById -i {offset} -g ga -d {client}
        queryMsgById -i {offset} -s true
        queryMsgByUniqueKey -t Alpha -i {unique}
        """,
        (OLD,),
    ),
    *steps(
        """
        queryMsgByKey -t Alpha -k sync-1
        queryMsgByKey -t Alpha -k nokey
        queryMsgByOffset -t Alpha -b broker-a -i 0 -o 1
        queryMsgByOffset -t Alpha -b broker-a -i 0 -o 100
        queryMsgTraceById -i {traced}
        printMsg -t Alpha -d true
        printMsg -t Alpha -s TagA
        printMsg -t Alpha -b 2020-01-01#00:00:00:000 -e 2020-01-02#00:00:00:000
        printMsgByQueue -t Alpha -a broker-a -i 0 -p true -d true
        printMsgByQueue -t Alpha -a broker-a -i 0 -f true
        consumeMessage -t Alpha
        consumeMessage -t Alpha -b broker-a -i 0 -o 1 -c 1
        queryCq -t Alpha -q 0 -i 0 -c 2
        queryCq -t Alpha -q 0 -i 0 -c 2 -b {broker}
        queryCq -t Alpha -q 0 -i 0 -c 2 -b {broker} -g ga
        checkMsgSendRT -t Alpha -a 3 -s 16
        sendMessage -t Alpha -p hello -k key1 -c TagB
        sendMessage -t Nope2 -p hello -b broker-b
        sendMsgStatus -b broker-a -s 16 -c 3
        """
    ),
]
CHANGED = [
    *steps(
        """
        updateOrderConf -t Ordered -m put -v broker-a:1
        updateOrderConf -t Ordered -m get
        updateOrderConf -t Ordered -m delete
        updateOrderConf -t Ordered -m get
        updateKvConfig -s ns -k key -v value
        deleteKvConfig -s ns -k key
        updateNamesrvConfig -k waitSecondsForService -v 40
        updateBrokerConfig -b {broker} -k fileReservedTime -v 70
        updateBrokerConfig -c DefaultCluster -k fileReservedTime -v 71
        exportMetadata -b {broker} -t -f {folder}/topics
        exportMetadata -b {broker} -g -f {folder}/groups
        exportMetadata -c DefaultCluster -f {folder}/all
        exportConfigs -c DefaultCluster -f {folder}/configs
        exportMetrics -c DefaultCluster -f {folder}/metrics
        cleanExpiredCQ -b {broker}
        cleanExpiredCQ -c DefaultCluster
        cleanUnusedTopic -b {broker}
        cleanUnusedTopic -c DefaultCluster
        deleteExpiredCommitLog -b {broker}
        deleteExpiredCommitLog -c DefaultCluster
        """
    ),
    *steps(
        """
        wipeWritePerm -b broker-a
        addWritePerm -b broker-a
        """,
        (NEW,),
    ),
    *(
        differs(f"{verb} -b broker-a", r"OK, \d+", "topics of 5.5.0 are more than those of 4.9.7", (OLD,))
        for verb in ("wipeWritePerm", "addWritePerm")
    ),
    Step("wipeWritePerm -b broker-z"),
    differs(
        "updateBrokerConfig -b {broker} -k nosuchkey -v 71",
        "nosuchkey is not a setting of this broker; nothing was changed",
        "Java ignores it and says success",
        BOTH,
    ),
    Step("updateBrokerConfig -b {broker} -k brokerConfigPath -v /x", (NEW,)),
    differs(
        "updateBrokerConfig -b {broker} -k brokerConfigPath -v /x",
        "Can not update config in black list",
        "4.9.7 has no black list",
        (OLD,),
    ),
    *steps(
        """
        resetMasterFlushOffset -b {broker} -o 0
        resetOffsetByTime -g ga -t Alpha -s 0
        resetOffsetByTime -g ga -t Alpha -s now
        resetOffsetByTime -g ga -t Alpha -s 0 -b {broker} -q 0 -o 1
        """,
        (NEW,),
    ),
    *steps(
        """
        resetOffsetByTime -g ga -t Alpha -s 0
        resetOffsetByTime -g ga -t Alpha -s now
        """,
        (OLD,),
    ),
]
WITHOUT_CONSUMER = [
    *steps(
        """
        resetOffsetByTime -g ga -t Alpha -s 0
        resetOffsetByTime -g ga -t Alpha -s -1 -b {broker} -q 0 -o 1
        resetOffsetByTime -g nope -t Alpha -s 0
        skipAccumulatedMessage -g ga -t Alpha
        skipAccumulatedMessage -g nope -t Alpha
        """,
        (NEW,),
    ),
    *(
        differs(
            f"{words} -g ga -t Alpha{more}", r"broker-a +0 +\d", "the broker of 5.5.0 does it, not the tool", (OLD,)
        )
        for words, more in (("resetOffsetByTime", " -s 0"), ("skipAccumulatedMessage", ""))
    ),
    *(
        differs(f"{words} -g nope -t Alpha{more}", "Group nope does not exist", "5.5.0's words", (OLD,))
        for words, more in (("resetOffsetByTime", " -s 0"), ("skipAccumulatedMessage", ""))
    ),
    Step("cloneGroupOffset -s ga -d gb -t Alpha -o true"),
    Step("consumerProgress -g gb"),
]
ONLY_NEW = [
    differs("setConsumeMode -b {broker} -t Alpha -g ga -m POP -q 1", "the mode POP is not served", NONE_HERE),
    Step("setConsumeMode -c DefaultCluster -t Alpha -g ga -m PULL", (NEW,)),
    differs("getColdDataFlowCtrInfo -b {broker}", COLD, NONE_HERE),
    differs("updateColdDataFlowCtrGroupConfig -b {broker} -g ga -v 1000", COLD, NONE_HERE),
    differs("removeColdDataFlowCtrGroupConfig -b {broker} -g ga", COLD, NONE_HERE),
    differs("setCommitLogReadAheadMode -b {broker} -m 1", "the kernel controls the read-ahead", NONE_HERE),
    Step("setCommitLogReadAheadMode -c DefaultCluster -m 7", (NEW,)),
    differs("switchTimerEngine -b {broker} -e R", "there is no timer engine on RocksDB here", NONE_HERE),
    Step("switchTimerEngine -b {broker} -e F", (NEW,)),
    Step("rocksDBConfigToJson -n {namesrv} -c DefaultCluster -t topics", (NEW,)),
    differs(
        "checkRocksdbCqWriteProgress -c DefaultCluster -n {namesrv}",
        "consume queues are files, not RocksDB",
        "Java says that it checks, and has nothing to check either",
    ),
    differs("updateStaticTopic -t Static -qn 4 -c DefaultCluster", "there are no static topics", NONE_HERE),
    differs("remappingStaticTopic -t Static -b broker-a", "No topic route to do the remapping", NONE_HERE),
    differs("exportPopRecord -b {broker} -d true", POP, NONE_HERE),
    differs("getBrokerLiteInfo -b {broker}", LITE, NONE_HERE),
    *steps(
        """
        getParentTopicInfo -p Alpha
        getLiteTopicInfo -p Alpha -l one
        getLiteGroupInfo -p Alpha -g ga
        getLiteClientInfo -p Alpha -g ga -c someclient
        triggerLiteDispatch -p Alpha -g ga
        """,
        (NEW,),
    ),
    *(
        differs(f"{words}", "not supported: each broker is a separate process", "Java's plain broker gives no reason")
        for words in ("addBroker -c {broker} -b /nowhere", "removeBroker -c {broker} -b DefaultCluster:broker-a:0")
    ),
    *(
        differs(words, OFF, "Java: An system error occurred")
        for words in (
            "createUser -b {broker} -u ann -p annpw12",
            "getUser -b {broker} -u ann",
            "listUser -b {broker}",
            "updateUser -b {broker} -u ann -s disable",
            "copyUser -f {broker} -t {broker} -u ann",
            "deleteUser -b {broker} -u ann",
            "createAcl -b {broker} -s User:ann -r Topic:T -a Pub -d Allow",
            "getAcl -b {broker} -s User:ann",
            "listAcl -b {broker}",
            "updateAcl -b {broker} -s User:ann -r Topic:T -a Pub -d Deny",
            "copyAcl -f {broker} -t {broker} -s User:ann",
            "deleteAcl -b {broker} -s User:ann",
        )
    ),
    Step("getControllerMetaData -a {controller}", (NEW,), WORKS),
    Step("getControllerConfig -a {controller}", (NEW,), WORKS),
    Step("updateControllerConfig -a {controller} -k enableElectUncleanMaster -v true", (NEW,)),
    Step("getSyncStateSet -a {controller} -b broker-a", (NEW,)),
    Step("electMaster -a {controller} -b 1 -bn broker-a -c DefaultCluster", (NEW,)),
    Step("cleanBrokerMetadata -a {controller} -bn broker-a -c DefaultCluster -b 1", (NEW,)),
    Step("exportMetadataInRocksDB -p {folder}/none -t topics", (NEW,)),
    Step("dumpCompactionLog -f {folder}/none", (NEW,)),
]
ONLY_OLD = [
    *(
        differs(words, IN_FILES, "Java's fails where access control is off", (OLD,))
        for words in (
            "clusterAclConfigVersion -b {broker}",
            "getAclConfig -b {broker}",
            "updateAclConfig -b {broker} -a accessKey1 -s secretKey1 -i DENY -u DENY",
            "deleteAclConfig -b {broker} -a accessKey1",
            "updateGlobalWhiteAddr -b {broker} -g 10.0.0.1",
        )
    ),
]
REMOVED = steps(
    """
    deleteSubGroup -b {broker} -g gb
    deleteSubGroup -c DefaultCluster -g gb -r true
    deleteTopic -t Beta -c DefaultCluster
    deleteTopic -t Nope -c DefaultCluster
    """
)
STEPS = [
    *MADE,
    SEND,
    CONSUME,
    *SHOWN,
    *SEARCHED,
    *CHANGED,
    STOP,
    *WITHOUT_CONSUMER,
    *ONLY_NEW,
    *ONLY_OLD,
    *REMOVED,
]
ENDLESS = {
    "clusterRT": "it sends until it is ended: seen by itself",
    "startMonitoring": "it asks what consumerProgress, consumerConnection and consumerStatus ask, until it is ended",
}
"""Verbs that do not return."""

_BLANKED = [
    (r"^\s+at .*\n|^\s*\.\.\. \d+ more\n", ""),
    (r"^(See|For more information, please visit the url,) https?://rocketmq.apache.org\S*.*\n", ""),
    (r"\d+(\.\d+){3}:\d+", "ADDRESS"),
    (r"\d+(\.\d+){3}@\d+", "CLIENT"),
    (r"\d{4}-\d\d-\d\d[ T#]\d\d:\d\d:\d\d[,.:]?\d*\S*", "TIME"),
    (r"\b1[6-9]\d{11}\b", "MS"),
    (r"\b20\d{12}(\d{3})?\b", "TIME"),
    (r"\b(commitLogOffset=|MasterCommitLogMaxOffset\s+)\d+", r"\1AT"),  # a trace tells how long it took
    (r"[0-9A-F]{20,}", "ID"),
    (r"(\$\$Lambda\S*)?@[0-9a-f]{5,8}\b", "@OBJECT"),
    (r"\brt=\d+ms|\b\d+ms\b|\bspentTimeMills=\d+", "TOOK"),
    (r"(broker-a +\d +true +)\d+", r"\1TOOK"),
    (r"\b\d+\.\d+\b", "RATE"),
    (r"<\S+> timeout, \d+", "TIMEOUT"),
]


_OF_RECORDS = (
    r"\b(storeSize|physicOffset|physicSize|CommitLog Offset|Storage Size)([=: ]+)\d+",
    r"\1\2SIZE",
)
_ADDED = ("MSG_REGION=DefaultRegion", "TRACE_ON=true", "WAIT=true")
"""What a broker of 5.5.0 adds to the properties of a message of 4.9, whose record is longer by that."""


def told(printed: str, folder: str, compared: str, version: str) -> list[str]:
    """What is compared of what mqadmin printed."""
    text = (printed + "\n").replace(folder, "FOLDER")
    for pattern, instead in [*_BLANKED, _OF_RECORDS] if version == OLD else _BLANKED:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    text = re.sub(r"\{([^{}\n]*)\}", lambda found: _in_order(found[1], version), text)
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    if compared == NAMES:
        return sorted({re.split(r" ?[:=] | RATE", line)[0].rstrip(": ") for line in lines})
    return sorted(lines) if compared == SORTED else lines


def _in_order(properties: str, version: str) -> str:
    """A hash table that Java prints, by its keys."""
    given = [each for each in properties.split(", ") if version == NEW or each not in _ADDED]
    return "{" + ", ".join(sorted(given)) + "}"
