"""The table of mqadmin's verbs: all of them, with commands and calls that there are."""

from __future__ import annotations

import re
from pathlib import Path

import typer
from typer.core import TyperGroup

from bolide.admin import Admin
from bolide.cli.main import load

PAGE = Path(__file__).parent.parent.parent / "docs" / "cli.md"
VERBS = """
    addBroker addWritePerm allocateMQ brokerConsumeStats brokerStatus checkMsgSendRT checkRocksdbCqWriteProgress
    cleanBrokerMetadata cleanExpiredCQ cleanUnusedTopic cloneGroupOffset clusterAclConfigVersion clusterList
    clusterRT consumeMessage consumerConnection consumerProgress consumerStatus copyAcl copyUser createAcl
    createUser deleteAcl deleteAclConfig deleteExpiredCommitLog deleteKvConfig deleteSubGroup deleteTopic
    deleteUser dumpCompactionLog electMaster exportConfigs exportMetadata exportMetadataInRocksDB exportMetrics
    exportPopRecord getAcl getAclConfig getBrokerConfig getBrokerEpoch getBrokerLiteInfo getColdDataFlowCtrInfo
    getConsumerConfig getControllerConfig getControllerMetaData getLiteClientInfo getLiteGroupInfo
    getLiteTopicInfo getNamesrvConfig getParentTopicInfo getSyncStateSet getUser haStatus listAcl listUser
    printMsg printMsgByQueue producer producerConnection queryCq queryMsgById queryMsgByKey queryMsgByOffset
    queryMsgByUniqueKey queryMsgTraceById remappingStaticTopic removeBroker removeColdDataFlowCtrGroupConfig
    resetMasterFlushOffset resetOffsetByTime rocksDBConfigToJson sendMessage sendMsgStatus
    setCommitLogReadAheadMode setConsumeMode skipAccumulatedMessage startMonitoring statsAll switchTimerEngine
    topicClusterList topicList topicRoute topicStatus triggerLiteDispatch updateAcl updateAclConfig
    updateBrokerConfig updateColdDataFlowCtrGroupConfig updateControllerConfig updateGlobalWhiteAddr
    updateKvConfig updateNamesrvConfig updateOrderConf updateStaticTopic updateSubGroup updateSubGroupList
    updateTopic updateTopicList updateTopicPerm updateUser wipeWritePerm
""".split()
"""Of 5.5.0, and what only 4.9.7 has."""


def rows() -> list[list[str]]:
    """The cells of the table."""
    table = PAGE.read_text(encoding="utf-8").partition("## From mqadmin")[2]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("| `")]


def test_every_verb_is_in_the_table_once() -> None:
    assert [row[0].strip("`") for row in rows()] == VERBS


def test_commands_of_the_table_exist() -> None:
    text = "\n".join("|".join(row) for row in rows())
    named = re.findall(r"`bolide ([a-z ]+)`", text)
    assert len(named) > 50
    for words in named:
        command = typer.main.get_command(load())
        for word in words.split():
            if isinstance(command, TyperGroup):
                assert word in command.commands, f"there is no bolide {words}"
                command = command.commands[word]
        assert not isinstance(command, TyperGroup), words
    for call in re.findall(r"`Admin\.(\w+)`", text):
        assert callable(getattr(Admin, call))
