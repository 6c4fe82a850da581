"""Settings of RocketMQ that have no effect here, each with its reason: the start says so where one is given.

They tune what Bolide does not have, or does in one way only. A setting whose promise would be broken is not here: it
refuses the start (`node/settings/unkept.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from bolide.broker.core.options import BrokerOptions
from bolide.controller.options import ControllerOptions
from bolide.namesrv.options import NamesrvOptions

_NETTY_SERVER: Final = {
    "connections are served by one event loop, not by Netty": """
        enableShutdownGracefully serverAsyncSemaphoreValue serverCallbackExecutorThreads
        serverNettyWorkerGroupEnable serverOnewaySemaphoreValue serverPooledByteBufAllocatorEnable
        serverSelectorThreads serverWorkerThreads shutdownWaitTimeSeconds useEpollNativeSelector""",
    "the system sizes the buffers of sockets, and 1024 connections may wait to be accepted": """
        serverSocketBacklog serverSocketRcvBufSize serverSocketSndBufSize""",
    "clientWriteBufferHigh and clientWriteBufferLimit bound what a peer leaves unread": """
        writeBufferHighWaterMark writeBufferLowWaterMark""",
}

_NETTY_CLIENT: Final = {
    "connections to name servers have fixed limits": """
        channelNotActiveInterval clientAsyncSemaphoreValue clientCallbackExecutorThreads
        clientChannelMaxIdleTimeSeconds clientCloseSocketIfTimeout clientOnewaySemaphoreValue
        clientPooledByteBufAllocatorEnable clientSocketRcvBufSize clientSocketSndBufSize clientWorkerThreads
        connectTimeoutMillis disableCallbackExecutor disableNettyWorkerGroup enableReconnectForGoAway
        maxReconnectIntervalTimeSeconds scanAvailableNameSrv""",
    "connections to name servers are direct": "socksProxyConfig",
}

_BROKER: Final = {
    **_NETTY_SERVER,
    **_NETTY_CLIENT,
    "requests run on one event loop, not in thread pools": """
        ackMessageThreadPoolNums adminBrokerThreadPoolNums asyncSendEnable clientManageThreadPoolNums
        consumerManageThreadPoolNums enableFastChannelEventProcess endTransactionThreadPoolNums
        heartbeatThreadPoolNums litePullMessageThreadPoolNums loadBalanceProcessorThreadPoolNums
        processReplyMessageThreadPoolNums pullMessageThreadPoolNums putMessageFutureThreadPoolNums
        queryMessageThreadPoolNums sendMessageThreadPoolNums transferMsgByHeap""",
    "requests do not wait in queues of thread pools; maxParkedSendBytes, maxHeldRequests and clientWriteBufferTotal "
    "bound what waits": """
        ackThreadPoolQueueCapacity adminBrokerThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity
        consumerManagerThreadPoolQueueCapacity endTransactionPoolQueueCapacity heartbeatThreadPoolQueueCapacity
        litePullThreadPoolQueueCapacity loadBalanceThreadPoolQueueCapacity maxAsyncPutMessageRequests
        pullThreadPoolQueueCapacity putThreadPoolQueueCapacity queryThreadPoolQueueCapacity
        replyThreadPoolQueueCapacity waitTimeMillsInAckQueue waitTimeMillsInAdminBrokerQueue
        waitTimeMillsInHeartbeatQueue waitTimeMillsInLitePullQueue waitTimeMillsInPullQueue
        waitTimeMillsInTransactionQueue""",
    "files are written and read by system calls, not through mapped memory": """
        cleanSwapedMapInterval commitLogForceSwapMapInterval commitLogSwapMapInterval commitLogSwapMapReserveFileNum
        dataReadAheadEnable destroyMapedFileIntervalForcibly flushLeastPagesWhenWarmMapedFile
        logicQueueForceSwapMapInterval logicQueueSwapMapInterval logicQueueSwapMapReserveFileNum
        mappedFileSwapEnable putConsumeQueueDataByFileChannel redeleteHangedFileInterval warmMapedFileEnable
        writeWithoutMmap""",
    "writes go to the page cache at the end of each turn": """
        commitCommitLogLeastPages commitCommitLogThoroughInterval commitIntervalCommitLog
        fastFailIfNoBufferInStorePool transientStorePoolEnable transientStorePoolSize wakeCommitWhenPutMessage
        wakeFlushWhenPutMessage""",
    "one thread appends, so no locks are taken": """
        debugLockEnable putMessageTimeout spinLockCollisionRetreatOptimalDegree topicQueueLockNum useABSLock
        useReentrantLockWhenPutMessage""",
    "the log is dispatched in one way, in the loop and after it is confirmed": """
        batchDispatchRequestThreadPoolNums dispatchCqCacheNum dispatchCqThreads dispatchFromSenderThread
        enableAsyncReput enableBatchPush enableBuildConsumeQueueConcurrently maxChecksumRange putMsgIndexHightWater
        recheckReputOffsetFromCq""",
    "queues are written every interval and synced together at the thorough one": "flushConsumeQueueLeastPages",
    "the log is never appended to from elsewhere": "duplicationEnable",
    "recovery reads the log in one way": """
        enableAcceleratedRecovery enableLogConsumeQueueRepeatedlyBuildWhenRecover maxRecoveryCommitlogFiles
        recoverConcurrently recoverThreadPoolNums""",
    "a record whose own offset is not where it lies is always damage": "checkCommitLogOffsetOnRecover",
    "a full disk always counts": "diskFallRecorded enableRunningFlagsInFlush logicalDiskSpaceCleanForciblyThreshold",
    "files are deleted without pauses, deleteFileBatchMax at a time": """
        deleteCommitLogFilesInterval deleteConsumeQueueFilesInterval maxBatchDeleteFilesNum""",
    "a queue's first offset follows when log files are deleted": """
        correctLogicMinOffsetForceInterval correctLogicMinOffsetSleepInterval""",
    "offsets of queues that are gone are kept until their topic or group is deleted": "enableCleanExpiredOffset",
    "the key is mappedFileSizeConsumeQueueExt": "mapedFileSizeConsumeQueueExt",
    "expectConsumerNumUseFilter and maxErrorRateOfBloomFilter give the length of bitmaps": """
        bitMapLengthConsumeQueueExt""",
    "versions of records follow the length of their topic": "autoMessageVersionOnTopicLen",
    "topics have at most 127 characters": "maxTopicLength",
    "there are no batch queues": """
        mapperFileSizeBatchConsumeQueue maxConsumeQueueScan pullBatchMaxMessageCount sampleCountThreshold
        sampleSteps searchBcqByCacheEnable travelCqFileNumWhenGetMessage""",
    "topics are not compacted": """
        compactionCqMappedFileSize compactionMappedFileSize compactionScheduleInternal compactionThreadNum
        enableCompaction maxOffsetMapSize""",
    "what is in memory follows from accessMessageInMemoryMaxRatio": "accessMessageInMemoryHotRatio",
    "reads from the disk run in a pool and slow nobody else down": """
        cgColdReadThreshold coldCtrStrategyEnable coldDataFlowControlEnable coldDataScanEnable
        consumerFallbehindThreshold disableConsumeIfConsumerReadSlowly globalColdReadThreshold
        timerColdDataCheckIntervalMs usePIDColdCtrStrategy""",
    "nothing is kept in RocksDB": """
        bottomMostCompressionTypeForConsumeQueueStore cleanRocksDBDirtyCQIntervalMin combineAssignOffsetCQType
        combineCQEnableCheckSelf combineCQLoadingCQTypes combineCQMaxExtraSearchCommitLogFiles combineCQPreferCQType
        combineCQUseRocksdbForLmq configManagerVersion enableRocksDBLog indexRocksDBEnable
        iteratorWhenUseRocksdbConsumeQueue maxRocksDBIndexQueryDays memTableFlushIntervalMs
        persistConsumerOffsetIncrementally realTimePersistRocksDBConfig rocksdbCompressionType
        rocksdbFlushWalFrequency rocksdbWalFileRollingThreshold statRocksDBCQIntervalSec timerRecallToTimelineEnable
        timerRecallToTimeWheelEnable timerReputServiceCorePoolSize timerReputServiceMaxPoolSize
        timerReputServiceQueueCapacity timerRocksDBPrecisionMs timerRocksDBRollIntervalHours timerRocksDBRollMaxTps
        timerRocksDBRollRangeHours timerRocksDBStopScan timerRocksDBTimeExpiredMaxTps
        transactionCheckRocksdbCoreThreads transactionCheckRocksdbMaxThreads transactionCheckRocksdbQueueCapacity
        transWriteOriginTransHalfEnable useSeparateStorePathForRocksdbCQ useSingleRocksDBForAllConfigs""",
    "delayed messages are delivered in order by the loop, and tried until the store takes them": """
        enableScheduleAsyncDeliver enableScheduleMessageStats scheduleAsyncDeliverMaxPendingLimit
        scheduleAsyncDeliverMaxResendNum2Blocked timerEnableRetryUntilSuccess timerSkipUnknownError""",
    "timerMaxDelaySec bounds delays": "maxDelayTime",
    "delay levels and timers are two ways, and each message takes its own": "timerInterceptDelayLevel",
    "the timer runs in the loop, and its files are flushed every timerFlushIntervalMs": """
        timerEnableCheckMetrics timerGetMessageThreadNum timerMetricSmallThreshold timerProgressLogIntervalMs
        timerPutMessageThreadNum timerWheelSnapshotFlush timerWheelSnapshotIntervalMs""",
    "op records of transactions are written at once": """
        transactionMetricFlushInterval transactionOpBatchInterval transactionOpMsgMaxSize""",
    "system topics are never changed by clients": "validateSystemTopicWhenUpdateTopic",
    "the priority of a message picks its queue, the highest one the last": "priorityOrderAsc",
    "the version of the offset tables grows with each write": """
        consumerOffsetUpdateVersionStep delayOffsetUpdateVersionStep""",
    "no history of offsets is kept": "flushConsumerOffsetHistoryInterval",
    "members of groups are told of a change at once": "realTimeNotifyConsumerChange",
    "subscriptions come from heartbeats and expire with their client": """
        enableCreateSysGroup enableRegisterProducer printChannelGroups printChannelGroupsMinNum
        subscriptionExpiredTimeout useStaticSubscription""",
    "queues are locked on this broker only": "lockInStrictMode",
    "consumers pull, and assign queues themselves": """
        loadBalancePollNameServerInterval rejectPullConsumerEnable serverLoadBalancerEnable""",
    "offsets of broadcast consumers are kept by the consumers": """
        broadcastOffsetExpireMaxSecond broadcastOffsetExpireSecond enableBroadcastOffsetStore""",
    "POP consumption is not built yet": """
        appendAckAsync appendCkAsync clearRetryTopicWhenDeleteTopic defaultPopShareQueueNum
        enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag enablePopBatchAck
        enablePopBufferMerge enablePopLog enablePopMessageThreshold enablePopMetrics enableRetryTopicV2
        enableSkipLongAwaitingAck initPopOffsetByCheckMsgInMem maxMessageFilterNumForNotification maxPopPollingSize
        popCkMaxBufferSize popCkOffsetMaxQueueSize popCkStayBufferTime popCkStayBufferTimeOut
        popConsumerFSServiceInit popConsumerKVServiceEnable popConsumerKVServiceInit popConsumerKVServiceLog
        popFromRetryProbability popFromRetryProbabilityForPriority popInflightMessageThreshold
        popLongPollingForceNotifyInterval popPollingMapExpireTimeSeconds popPollingMapSize popPollingSize
        popResponseReturnActualRetryTopic popReviveConcurrency popReviveMaxAttemptTimes
        popReviveMaxReturnSizePerRead popReviveSkipIfGroupAbsent retrieveMessageFromPopRetryTopicV1 reviveAckWaitMs
        reviveInterval reviveMaxSlow reviveQueueNum reviveScanTime skipWhenCKRePutReachMaxTimes
        useMessageFilterForNotification useSeparateRetryQueue""",
    "lite topics are not built yet": """
        enableLiteEventMode enableLitePopLog liteEventCheckInterval liteEventFullDispatchDelayTime
        liteEventFullDispatchDelayTimeForWildcardGroup liteLagCountMetricsEnable liteLagLatencyCollectEnable
        liteLagLatencyMetricsEnable liteLagLatencyTopK liteSubscriptionCheckInterval
        liteSubscriptionCheckTimeoutMills liteTtlCheckInterval maxClientEventCount maxLiteSubscriptionCount
        minLiteTTl""",
    "metrics are served to Prometheus, all of them and with these labels, where metricsExporterType = PROM": """
        enableConnectionMetrics enableLagAndDlqMetrics enableMessageStoreMetrics enableRemotingMetrics
        enableRequestMetrics enableStatsMetrics enableTransactionMetrics estimateAccumulation
        metricGrpcExporterIntervalInMills metricGrpcExporterTimeOutInMills metricLoggingExporterIntervalInMills
        metricsExportBatchMaxDataPoints metricsGrpcExporterHeader metricsGrpcExporterTarget
        metricsInDelta metricsLabel metricsOtelCardinalityLimit""",
    "statistics are kept in one way": """
        accountStatsEnable accountStatsPrintZeroValues autoDeleteUnusedStats commercialBaseCount commercialBigCount
        commercialEnable commercialSizePerMsg commercialTimerCount commercialTransCount enableDetailStat
        enableLmqStats maxStatsIdleTimeInMinutes""",
    "nothing of RocketMQ's installation is read, and a broker logs to standard error": """
        brokerConfigPath highSpeedMode inBrokerContainer isolateLogEnable rocketmqHome""",
    "name servers come from namesrvAddr only": """
        fetchNamesrvAddrByAddressServer fetchNameSrvAddrByDnsLookup fetchNamesrvAddrInterval
        updateNameServerAddrPeriod""",
    "a broker registers whole, every registerNameServerPeriod and at each change": """
        enableSingleTopicRegister enableSplitRegistration forceRegister splitRegistrationSize""",
    "the limits of load are those of docs/operate.md": "enableNetWorkFlowControl",
    "replication is in plain mode or under a controller": """
        cleanOfflineBrokerInterval disappearTimeAfterStart forwardTimeout maxSlaveResendLength readUnCommitted
        replicasPerDiskPartition sendHeartbeatTimeoutMillis sharedByteBufferNum syncMasterFlushOffsetWhenStartup""",
    "it is the name in 4.9 of haMaxGapNotInSync: set that": "haSlaveFallbehindMax",
    "there is no DLedger, and controllers are named by controllerAddr": """
        dLegerGroup dLegerPeers dLegerSelfId fetchControllerAddrByDnsLookup preferredLeaderId
        storePathDLedgerCommitLog""",
    "users and policies are in memory, and every request is checked by itself": """
        aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authenticationStrategy authorizationStrategy
        statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
        statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum userCacheExpiredSecond
        userCacheMaxNum userCacheRefreshSecond""",
    "access control has its settings and files where the broker has its own": "authConfigPath clusterName configName",
}

_NAMESRV: Final = {
    **_NETTY_SERVER,
    **_NETTY_CLIENT,
    "requests run on one event loop, not in thread pools": """
        clientRequestThreadPoolNums clientRequestThreadPoolQueueCapacity defaultThreadPoolNums
        defaultThreadPoolQueueCapacity unRegisterBrokerQueueCapacity""",
    "routes come from the brokers that register here": "clusterTest productEnvName",
    "nothing of RocketMQ's installation is read, and a name server logs to standard error": "rocketmqHome",
}


_CONTROLLER: Final = {
    **_NETTY_SERVER,
    **_NETTY_CLIENT,
    "requests run on one event loop, not in thread pools": """
        controllerRequestThreadPoolQueueCapacity controllerThreadPoolNums""",
    "controllerStore names the engine that keeps decisions, and has settings of its own": """
        controllerStorePath controllerType jraftConfig mappedFileSize""",
    "a controller whose lead is in doubt answers no reads": "processReadEvent",
    "nothing of RocketMQ's installation is read, and a controller logs to standard error": "rocketmqHome",
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
    """The keys that have no effect for this kind of daemon, with the reason of each."""
    return _TABLES.get(kind, {})


def warnings_of(given: Mapping[str, str], kind: type[Struct]) -> list[str]:
    """One sentence for each reason for which some of these keys, with their origins, have no effect."""
    reasons = without_effect(kind)
    grouped: dict[tuple[str, str], list[str]] = {}
    for key, origin in given.items():
        grouped.setdefault((origin, reasons[key]), []).append(key)
    return [
        f"{origin}: {', '.join(keys)} {'has' if len(keys) == 1 else 'have'} no effect here: {reason}"
        for (origin, reason), keys in grouped.items()
    ]
