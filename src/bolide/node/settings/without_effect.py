"""Settings of RocketMQ without effect in Bolide, each with the reason. Startup warns if one is given.

They tune features that Bolide lacks or implements differently. A setting that an operator relies on is not listed here:
it stops the start (`node/settings/unkept.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from bolide.broker.options.composed import BrokerOptions
from bolide.controller.options import ControllerOptions
from bolide.namesrv.options import NamesrvOptions

UNREAD: Final = "RocketMQ declares the key and reads it nowhere"
"""Verified for 4.9.7 and 5.5.0, if they have the key: `tests/interop/test_setting_keys.py` searches their classes."""

_NETTY_SERVER: Final = {
    "connections are served by one event loop, not by Netty": """
        serverAsyncSemaphoreValue serverCallbackExecutorThreads serverNettyWorkerGroupEnable
        serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable serverSelectorThreads serverWorkerThreads
        useEpollNativeSelector""",
    "a stop closes connections without a notice to the clients": "enableShutdownGracefully shutdownWaitTimeSeconds",
    "the system sizes the buffers of sockets, and 1024 connections may wait to be accepted": """
        serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize""",
    "clientWriteBufferHigh and clientWriteBufferLimit bound the data that a peer leaves unread": """
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
    "clientWriteBufferTotal bound the pending requests and responses": """
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
    "the log is always dispatched in the event loop, after it is confirmed": """
        batchDispatchRequestThreadPoolNums enableBuildConsumeQueueConcurrently""",
    "queues are written every interval and synced together at the thorough one": "flushConsumeQueueLeastPages",
    "a slave stores only the log of its master": "duplicationEnable",
    "recovery checks log and queues in one way": """
        enableAcceleratedRecovery enableLogConsumeQueueRepeatedlyBuildWhenRecover recheckReputOffsetFromCq
        recoverConcurrently recoverThreadPoolNums""",
    "a record that is not at the offset it contains is always treated as damaged": "checkCommitLogOffsetOnRecover",
    "files are deleted without pauses, in batches of deleteFileBatchMax": """
        deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval""",
    "a queue's first offset is corrected when log files are deleted": """
        correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval""",
    "the key is mappedFileSizeConsumeQueueExt": "mapedFileSizeConsumeQueueExt",
    "expectConsumerNumUseFilter and maxErrorRateOfBloomFilter determine the length of bitmaps": """
        bitMapLengthConsumeQueueExt""",
    "the version of a record follows from the length of its topic": "autoMessageVersionOnTopicLen",
    "topics have at most 127 characters, %RETRY% and %DLQ% topics 255": "maxTopicLength",
    "there are no batch queues": "mapperFileSizeBatchConsumeQueue searchBcqByCacheEnable",
    "topics are not compacted": """
        compactionCqMappedFileSize compactionMappedFileSize compactionScheduleInternal compactionThreadNum
        enableCompaction maxOffsetMapSize""",
    "reads from the disk run in a thread pool and do not delay other requests": """
        accessMessageInMemoryHotRatio cgColdReadThreshold coldCtrStrategyEnable coldDataFlowControlEnable
        coldDataScanEnable consumerFallbehindThreshold disableConsumeIfConsumerReadSlowly
        globalColdReadThreshold sampleSteps timerColdDataCheckIntervalMs usePIDColdCtrStrategy""",
    "Bolide does not use RocksDB": """
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
    "the event loop delivers delayed messages in order and retries until they are stored": """
        enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit
        scheduleAsyncDeliverMaxResendNum2Blocked timerEnableRetryUntilSuccess timerSkipUnknownError""",
    "the timer runs in the loop, and its files are flushed every timerFlushIntervalMs": """
        timerGetMessageThreadNum timerPutMessageThreadNum timerWheelSnapshotFlush timerWheelSnapshotIntervalMs""",
    "op messages of transactions are written immediately": "transactionOpBatchInterval transactionOpMsgMaxSize",
    "system topics are never changed by clients": "validateSystemTopicWhenUpdateTopic",
    "the version of delay offsets grows with each write of their file": "delayOffsetUpdateVersionStep",
    "members of a group are notified of changes immediately": "realTimeNotifyConsumerChange",
    "subscriptions come from heartbeats and expire with their client": "subscriptionExpiredTimeout",
    "queues are locked on this broker only": "lockInStrictMode",
    "broadcast consumers store their offsets themselves": """
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
    "with metricsExporterType = PROM, Prometheus can read all metrics, with fixed labels": """
        enableConnectionMetrics enableLagAndDlqMetrics enableMessageStoreMetrics enableRemotingMetrics
        enableRequestMetrics enableStatsMetrics enableTransactionMetrics metricGrpcExporterIntervalInMills
        metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills metricsExportBatchMaxDataPoints
        metricsGrpcExporterHeader metricsGrpcExporterTarget metricsInDelta metricsLabel
        metricsOtelCardinalityLimit""",
    "there are no statistics for billing": """
        accountStatsEnable accountStatsPrintZeroValues commercialBaseCount commercialSizePerMsg""",
    "Bolide does not read RocketMQ's installation": "rocketmqHome",
    "name servers come from namesrvAddr only": """
        fetchNamesrvAddrByAddressServer fetchNameSrvAddrByDnsLookup fetchNamesrvAddrInterval
        updateNameServerAddrPeriod""",
    "all topics are registered every registerNameServerPeriod, and changed topics immediately": """
        enableSingleTopicRegister enableSplitRegistration forceRegister splitRegistrationSize""",
    "it is the name in 4.9 of haMaxGapNotInSync: set that": "haSlaveFallbehindMax",
    "there is no DLedger, and controllerAddr lists the controllers": """
        dLegerGroup dLegerPeers dLegerSelfId enableBatchPush fetchControllerAddrByDnsLookup preferredLeaderId
        storePathDLedgerCommitLog""",
    "users and policies are in memory, and each request is checked separately": """
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authenticationStrategy
        authorizationStrategy statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
        statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum userCacheExpiredSecond
        userCacheMaxNum userCacheRefreshSecond""",
    "access control uses the broker's settings file and store folder": "authConfigPath clusterName configName",
    "the records of a pull are copied into the process's memory, as with the default": "transferMsgByHeap",
    "the groups of a closed connection are found without a search of all groups": "enableFastChannelEventProcess",
    "readers of a file do not delay its deletion": "destroyMapedFileIntervalForcibly redeleteHangedFileInterval",
    "the kernel decides on the read-ahead of log files": "dataReadAheadEnable",
    "with ASYNC_FLUSH the log is synced every flushIntervalCommitLog; messages do not trigger a flush": """
        wakeFlushWhenPutMessage""",
    "checksums of log ranges are not computed": "maxChecksumRange",
    "the lag of a group's pulls is computed for each request 315": "diskFallRecorded",
    "appended records are flushed even if the store is not writable": "enableRunningFlagsInFlush",
    "the disk limits apply to the whole disk, including other data on it": """
        logicalDiskSpaceCleanForciblyThreshold replicasPerDiskPartition""",
    "lag includes all messages after the committed offsets, even if a filter skips them": """
        estimateAccumulation maxConsumeQueueScan sampleCountThreshold useStaticSubscription""",
    "a pull reads one queue file at most, as with the default": "travelCqFileNumWhenGetMessage",
    "a delayed message is counted when it is stored, and again when it is delivered": "enableScheduleMessageStats",
    "the timer counts its messages when they are added and removed, and does not recount them": """
        timerEnableCheckMetrics timerMetricSmallThreshold""",
    "the progress of the timer is a metric, not a log line": "timerProgressLogIntervalMs",
    "counts of transactions are not written to a file": "transactionMetricFlushInterval",
    "the version of consumer offsets grows once in 500 commits, as with the default": """
        consumerOffsetUpdateVersionStep""",
    "system groups are always created when they are used": "enableCreateSysGroup",
    "producers are always registered": "enableRegisterProducer",
    "closed connections are not logged": "printChannelGroups printChannelGroupsMinNum",
    "consumers that only pull are always served": "rejectPullConsumerEnable",
    "the broker assigns each consumer that requests it a share of the queues, as with the default": """
        serverLoadBalancerEnable""",
    "routes for assignments are fetched again when they are older than 30 s": "loadBalancePollNameServerInterval",
    "GROUP_GET_LATENCY is by queue, as with the default, and other statistics by topic and group": "enableDetailStat",
    "light queues are counted together, as with the default": "enableLmqStats",
    "statistics of a deleted topic or group are always dropped": "autoDeleteUnusedStats",
    "statistics that have not moved for a day are dropped": "maxStatsIdleTimeInMinutes",
    "a process has one broker": "inBrokerContainer",
    "a daemon has one log: standard error, or logFile": "isolateLogEnable",
    "changes at run time are written to the file of -c, or to config/broker.conf of the store": "brokerConfigPath",
    "clientWriteBufferHigh and clientWriteBufferLimit always bound the responses that a client leaves unread": """
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
    "Bolide does not read RocketMQ's installation": "rocketmqHome",
}


_CONTROLLER: Final = {
    **_NETTY_SERVER,
    **_NETTY_CLIENT,
    "requests run on one event loop, not in thread pools": """
        controllerRequestThreadPoolQueueCapacity controllerThreadPoolNums""",
    "controllerStore selects the engine that stores decisions, which has different settings": """
        controllerStorePath controllerType jraftConfig mappedFileSize""",
    "a controller that may have lost its leadership rejects reads": "processReadEvent",
    "Bolide does not read RocketMQ's installation": "rocketmqHome",
    "a controller exports all metrics, only to Prometheus and with fixed labels": """
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
