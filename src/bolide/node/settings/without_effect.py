"""Settings of RocketMQ without effect in Bolide, each with the reason. Startup warns if one is given.

They tune features that Bolide lacks or implements differently. A setting that an operator relies on is not listed here:
it stops the start (`node/settings/unkept.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from bolide.broker.core.options import BrokerOptions
from bolide.controller.options import ControllerOptions
from bolide.namesrv.options import NamesrvOptions

UNREAD: Final = "RocketMQ declares the key and reads it nowhere"
"""For 4.9.7 and 5.5.0, if they have the key: `tests/interop/test_setting_keys.py` searches the classes."""

_NETTY_SERVER: Final = {
    "connections are served by one event loop, not by Netty": """
        serverAsyncSemaphoreValue serverCallbackExecutorThreads serverNettyWorkerGroupEnable
        serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads serverWorkerThreads
        useEpollNativeSelector""",
    "a stop closes connections without a notice to the clients": "enableShutdownGracefully shutdownWaitTimeSeconds",
    "the system sizes the buffers of sockets, and 1024 connections may wait to be accepted": """
        serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize""",
    "clientWriteBufferHigh and clientWriteBufferLimit bound what a peer leaves unread": """
        writeBufferHighWaterMark writeBufferLowWaterMark""",
}

_NETTY_CLIENT: Final = {
    "connections to name servers, controllers and other brokers have fixed limits": """
        channelNotActiveInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads
        clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout clientOnewaySemaphoreValue
        clientPooledByteBufAllocatorEnable clientSocketRcvBufSize clientSocketSndBufSize clientWorkerThreads
        connectTimeoutMillis disableCallbackExecutor disableNettyWorkerGroup enableReconnectForGoAway
        maxReconnectIntervalTimeSeconds scanAvailableNameSrv""",
    "connections to name servers, controllers and other brokers are direct": "socksProxyConfig",
}

_BROKER: Final = {
    **_NETTY_SERVER,
    **_NETTY_CLIENT,
    "requests run on one event loop, not in thread pools": """
        ackMessageThreadPoolNums adminBrokerThreadPoolNums asyncSendEnable clientManageThreadPoolNums
        consumerManageThreadPoolNums endTransactionThreadPoolNums heartbeatThreadPoolNums
        litePullMessageThreadPoolNums loadBalanceProcessorThreadPoolNums processReplyMessageThreadPoolNums
        pullMessageThreadPoolNums putMessageFutureThreadPoolNums queryMessageThreadPoolNums
        sendMessageThreadPoolNums""",
    "requests do not wait in queues of thread pools; maxParkedSendBytes, maxHeldRequests and "
    "clientWriteBufferTotal bound what waits": """
        ackThreadPoolQueueCapacity adminBrokerThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity
        consumerManagerThreadPoolQueueCapacity endTransactionPoolQueueCapacity
        heartbeatThreadPoolQueueCapacity litePullThreadPoolQueueCapacity loadBalanceThreadPoolQueueCapacity
        maxAsyncPutMessageRequests pullThreadPoolQueueCapacity putThreadPoolQueueCapacity
        queryThreadPoolQueueCapacity replyThreadPoolQueueCapacity waitTimeMillsInAckQueue
        waitTimeMillsInAdminBrokerQueue waitTimeMillsInHeartbeatQueue waitTimeMillsInLitePullQueue
        waitTimeMillsInPullQueue waitTimeMillsInTransactionQueue""",
    "files are written by system calls, never through mapped memory": """
        flushLeastPagesWhenWarmMapedFile putConsumeQueueDataByFileChannel sharedByteBufferNum
        warmMapedFileEnable writeWithoutMmap""",
    "writes go to the page cache at the end of each turn": """
        commitCommitLogLeastPages commitCommitLogThoroughInterval commitIntervalCommitLog
        fastFailIfNoBufferInStorePool transientStorePoolEnable transientStorePoolSize wakeCommitWhenPutMessage""",
    "one thread appends, so no locks are taken": """
        debugLockEnable spinLockCollisionRetreatOptimalDegree topicQueueLockNum useABSLock
        useReentrantLockWhenPutMessage""",
    "the log is dispatched in one way, in the loop and after it is confirmed": """
        batchDispatchRequestThreadPoolNums enableBuildConsumeQueueConcurrently""",
    "queues are written every interval and synced together at the thorough one": "flushConsumeQueueLeastPages",
    "a slave stores nothing but its master's log": "duplicationEnable",
    "recovery checks log and queues in one way": """
        enableAcceleratedRecovery enableLogConsumeQueueRepeatedlyBuildWhenRecover recheckReputOffsetFromCq
        recoverConcurrently recoverThreadPoolNums""",
    "a record whose own offset is not where it lies is always damage": "checkCommitLogOffsetOnRecover",
    "files are deleted without pauses, deleteFileBatchMax at a time": """
        deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval""",
    "a queue's first offset follows when log files are deleted": """
        correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval""",
    "the key is mappedFileSizeConsumeQueueExt": "mapedFileSizeConsumeQueueExt",
    "expectConsumerNumUseFilter and maxErrorRateOfBloomFilter give the length of bitmaps": """
        bitMapLengthConsumeQueueExt""",
    "versions of records follow the length of their topic": "autoMessageVersionOnTopicLen",
    "topics have at most 127 characters": "maxTopicLength",
    "there are no batch queues": "mapperFileSizeBatchConsumeQueue searchBcqByCacheEnable",
    "topics are not compacted": """
        compactionCqMappedFileSize compactionMappedFileSize compactionScheduleInternal compactionThreadNum
        enableCompaction maxOffsetMapSize""",
    "reads from the disk run in a pool and slow nobody else down": """
        accessMessageInMemoryHotRatio cgColdReadThreshold coldCtrStrategyEnable coldDataFlowControlEnable
        coldDataScanEnable consumerFallbehindThreshold disableConsumeIfConsumerReadSlowly
        globalColdReadThreshold sampleSteps timerColdDataCheckIntervalMs usePIDColdCtrStrategy""",
    "nothing is kept in RocksDB": """
        bottomMostCompressionTypeForConsumeQueueStore cleanRocksDBDirtyCQIntervalMin combineAssignOffsetCQType
        combineCQEnableCheckSelf combineCQLoadingCQTypes combineCQMaxExtraSearchCommitLogFiles
        combineCQPreferCQType combineCQUseRocksdbForLmq configManagerVersion enableRocksDBLog
        indexRocksDBEnable iteratorWhenUseRocksdbConsumeQueue maxRocksDBIndexQueryDays memTableFlushIntervalMs
        persistConsumerOffsetIncrementally realTimePersistRocksDBConfig rocksdbCompressionType
        rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold statRocksDBCQIntervalSec
        timerRecallToTimelineEnable timerRecallToTimeWheelEnable timerReputServiceCorePoolSize
        timerReputServiceMaxPoolSize timerReputServiceQueueCapacity timerRocksDBPrecisionMs
        timerRocksDBRollIntervalHours timerRocksDBRollMaxTps timerRocksDBRollRangeHours timerRocksDBStopScan
        timerRocksDBTimeExpiredMaxTps transactionCheckRocksdbCoreThreads transactionCheckRocksdbMaxThreads
        transactionCheckRocksdbQueueCapacity transWriteOriginTransHalfEnable useSeparateStorePathForRocksdbCQ
        useSingleRocksDBForAllConfigs""",
    "delayed messages are delivered in order by the loop, and tried until the store takes them": """
        enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit
        scheduleAsyncDeliverMaxResendNum2Blocked timerEnableRetryUntilSuccess timerSkipUnknownError""",
    "the timer runs in the loop, and its files are flushed every timerFlushIntervalMs": """
        timerGetMessageThreadNum timerPutMessageThreadNum timerWheelSnapshotFlush timerWheelSnapshotIntervalMs""",
    "op records of transactions are written at once": "transactionOpBatchInterval transactionOpMsgMaxSize",
    "system topics are never changed by clients": "validateSystemTopicWhenUpdateTopic",
    "the version of delay offsets grows with each write of their file": "delayOffsetUpdateVersionStep",
    "members of groups are told of a change at once": "realTimeNotifyConsumerChange",
    "subscriptions come from heartbeats and expire with their client": "subscriptionExpiredTimeout",
    "queues are locked on this broker only": "lockInStrictMode",
    "offsets of broadcast consumers are kept by the consumers": """
        broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond enableBroadcastOffsetStore""",
    "POP consumption is not built yet": """
        appendAckAsync appendCkAsync clearRetryTopicWhenDeleteTopic defaultPopShareQueueNum
        enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag enablePopBatchAck
        enablePopBufferMerge enablePopLog enablePopMessageThreshold enablePopMetrics enableRetryTopicV2
        enableSkipLongAwaitingAck initPopOffsetByCheckMsgInMem maxMessageFilterNumForNotification
        maxPopPollingSize popCkMaxBufferSize popCkOffsetMaxQueueSize popCkStayBufferTime
        popCkStayBufferTimeOut popConsumerFSServiceInit popConsumerKVServiceEnable popConsumerKVServiceInit
        popConsumerKVServiceLog popFromRetryProbability popFromRetryProbabilityForPriority
        popInflightMessageThreshold popLongPollingForceNotifyInterval popPollingMapExpireTimeSeconds
        popPollingMapSize popPollingSize popResponseReturnActualRetryTopic popReviveConcurrency
        popReviveMaxAttemptTimes popReviveMaxReturnSizePerRead popReviveSkipIfGroupAbsent priorityOrderAsc
        retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs reviveInterval reviveMaxSlow reviveQueueNum
        reviveScanTime skipWhenCKRePutReachMaxTimes useMessageFilterForNotification useSeparateRetryQueue""",
    "lite topics are not built yet": """
        enableLiteEventMode enableLitePopLog liteEventCheckInterval liteEventFullDispatchDelayTime
        liteEventFullDispatchDelayTimeForWildcardGroup liteLagCountMetricsEnable liteLagLatencyCollectEnable
        liteLagLatencyMetricsEnable liteLagLatencyTopK liteSubscriptionCheckInterval
        liteSubscriptionCheckTimeoutMills liteTtlCheckInterval maxClientEventCount maxLiteSubscriptionCount
        minLiteTTl""",
    "metrics are served to Prometheus, all of them and with these labels, where metricsExporterType = PROM": """
        enableConnectionMetrics enableLagAndDlqMetrics enableMessageStoreMetrics enableRemotingMetrics
        enableRequestMetrics enableStatsMetrics enableTransactionMetrics metricGrpcExporterIntervalInMills
        metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills metricsExportBatchMaxDataPoints
        metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta metricsLabel
        metricsOtelCardinalityLimit""",
    "there are no statistics for billing": """
        accountStatsEnable accountStatsPrintZeroValues commercialBaseCount commercialSizePerMsg""",
    "nothing of RocketMQ's installation is read": "rocketmqHome",
    "name servers come from namesrvAddr only": """
        fetchNamesrvAddrByAddressServer fetchNameSrvAddrByDnsLookup fetchNamesrvAddrInterval
        updateNameServerAddrPeriod""",
    "all topics are registered every registerNameServerPeriod, and those that change at once": """
        enableSingleTopicRegister enableSplitRegistration forceRegister splitRegistrationSize""",
    "it is the name in 4.9 of haMaxGapNotInSync: set that": "haSlaveFallbehindMax",
    "there is no DLedger, and controllers are named by controllerAddr": """
        dLegerGroup dLegerPeers dLegerSelfId enableBatchPush fetchControllerAddrByDnsLookup preferredLeaderId
        storePathDLedgerCommitLog""",
    "users and policies are in memory, and every request is checked by itself": """
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authenticationStrategy
        authorizationStrategy statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
        statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum userCacheExpiredSecond
        userCacheMaxNum userCacheRefreshSecond""",
    "access control has its settings and files where the broker has its own": "authConfigPath clusterName configName",
    "the records of a pull are copied into the process's memory, as with the default": "transferMsgByHeap",
    "a closed connection is looked up by itself, not in every group": "enableFastChannelEventProcess",
    "nothing that reads a file holds up its deletion": "destroyMapedFileIntervalForcibly redeleteHangedFileInterval",
    "the read-ahead of log files is the kernel's": "dataReadAheadEnable",
    "with ASYNC_FLUSH the log is synced every flushIntervalCommitLog, and no message wakes the flush": """
        wakeFlushWhenPutMessage""",
    "no checksum of a part of the log is computed": "maxChecksumRange",
    "how far the pulls of a group are behind is computed when request 315 asks for it": "diskFallRecorded",
    "what was appended is flushed, even if the store takes no messages": "enableRunningFlagsInFlush",
    "the limits of the disk are those of the whole disk, whatever shares it": """
        logicalDiskSpaceCleanForciblyThreshold replicasPerDiskPartition""",
    "lag counts all messages beyond the committed offsets, also those that a filter leaves out": """
        estimateAccumulation maxConsumeQueueScan sampleCountThreshold useStaticSubscription""",
    "a pull reads one queue file at most, as with the default": "travelCqFileNumWhenGetMessage",
    "a delayed message is counted when it is stored, and again when it is delivered": "enableScheduleMessageStats",
    "the timer counts its messages as they come and go, and nothing recounts them": """
        timerEnableCheckMetrics timerMetricSmallThreshold""",
    "the progress of the timer is a figure, not a line of the log": "timerProgressLogIntervalMs",
    "counts of transactions are not written to a file": "transactionMetricFlushInterval",
    "the version of consumer offsets grows once in 500 commits, as with the default": """
        consumerOffsetUpdateVersionStep""",
    "groups of the system are always created when they are used": "enableCreateSysGroup",
    "producers are always registered": "enableRegisterProducer",
    "closed connections are not logged": "printChannelGroups printChannelGroupsMinNum",
    "consumers that only pull are always served": "rejectPullConsumerEnable",
    "the broker assigns each consumer that requests it a share of the queues, as with the default": """
        serverLoadBalancerEnable""",
    "routes for assignments are fetched again when they are older than 30 s": "loadBalancePollNameServerInterval",
    "statistics are by topic and group, not by queue": "enableDetailStat",
    "light queues are counted together, as with the default": "enableLmqStats",
    "statistics of a deleted topic or group are always dropped": "autoDeleteUnusedStats",
    "statistics that have not moved for a day are dropped": "maxStatsIdleTimeInMinutes",
    "a process has one broker": "inBrokerContainer",
    "a daemon has one log: standard error, or logFile": "isolateLogEnable",
    "changes at run time go into the file of -c, or into config/broker.conf of the store": "brokerConfigPath",
    "clientWriteBufferHigh and clientWriteBufferLimit always bound the answers that a client leaves unread": """
        enableNetWorkFlowControl""",
    "there are no static topics, so no request is forwarded to another broker": "forwardTimeout",
    "messages can be read once they are confirmed": "readUnCommitted",
    "a broker registers as soon as it is ready": "disappearTimeAfterStart",
    "a slave compares its log with its master's and does not use its flush offset": """
        syncMasterFlushOffsetWhenStartup""",
    "heartbeats to name servers and controllers have a fixed time limit": "sendHeartbeatTimeoutMillis",
    UNREAD: """
        cleanOfflineBrokerInterval cleanSwapedMapInterval commercialBigCount commercialEnable
        commercialTimerCount commercialTransCount commitLogForceSwapMapInterval commitLogSwapMapInterval
        commitLogSwapMapReserveFileNum dispatchCqCacheNum dispatchCqThreads dispatchFromSenderThread
        enableAsyncReput enableCleanExpiredOffset flushConsumerOffsetHistoryInterval highSpeedMode
        logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum
        mappedFileSwapEnable maxBatchDeleteFilesNum maxDelayTime maxRecoveryCommitlogFiles
        maxSlaveResendLength pullBatchMaxMessageCount putMessageTimeout putMsgIndexHightWater
        timerInterceptDelayLevel""",
}

_NAMESRV: Final = {
    **_NETTY_SERVER,
    **_NETTY_CLIENT,
    "requests run on one event loop, not in thread pools": """
        clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity defaultThreadPoolNums
        defaultThreadPoolQueueCapacity unRegisterBrokerQueueCapacity""",
    "routes come from the brokers that register here": "clusterTest productEnvName",
    "nothing of RocketMQ's installation is read": "rocketmqHome",
}


_CONTROLLER: Final = {
    **_NETTY_SERVER,
    **_NETTY_CLIENT,
    "requests run on one event loop, not in thread pools": """
        controllerRequestThreadPoolQueueCapacity controllerThreadPoolNums""",
    "controllerStore names the engine that keeps decisions, and has settings of its own": """
        controllerStorePath controllerType jraftConfig mappedFileSize""",
    "a controller whose lead is in doubt answers no reads": "processReadEvent",
    "nothing of RocketMQ's installation is read": "rocketmqHome",
    "a controller serves its metrics to Prometheus only, all of them and with these labels": """
        metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills
        metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta metricsLabel""",
}


def _by_key(reasons: Mapping[str, str]) -> dict[str, str]:
    return {key: reason for reason, keys in reasons.items() for key in keys.split()}


_TABLES: Final[dict[type[Struct], dict[str, str]]] = {
    BrokerOptions: _by_key(_BROKER),
    NamesrvOptions: _by_key(_NAMESRV),
    ControllerOptions: _by_key(_CONTROLLER),
}


def without_effect(kind: type[Struct]) -> Mapping[str, str]:
    """Return the keys without effect for this kind of server, with their reasons."""
    return _TABLES.get(kind, {})


def warnings_of(given: Mapping[str, str], kind: type[Struct]) -> list[str]:
    """Return one sentence per reason why some of these keys (with their origins) have no effect."""
    reasons = without_effect(kind)
    grouped: dict[tuple[str, str], list[str]] = {}
    for key, origin in given.items():
        grouped.setdefault((origin, reasons[key]), []).append(key)
    return [
        f"{origin}: {', '.join(keys)} {'has' if len(keys) == 1 else 'have'} no effect here: {reason}"
        for (origin, reason), keys in grouped.items()
    ]
