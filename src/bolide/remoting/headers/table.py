"""Which header struct belongs to which request code; codes without one carry no fields we know of.

A test compares this table, and every field of its structs, with the facts read from the Java classes.
"""

from __future__ import annotations

from typing import Final

from bolide.remoting import codes
from bolide.remoting.headers.access import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from bolide.remoting.headers.admin import GetBrokerConfigResponseHeader, ViewBrokerStatsDataRequestHeader
from bolide.remoting.headers.base import Header
from bolide.remoting.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumerListByGroupRequestHeader,
    GetConsumerRunningInfoRequestHeader,
    GetProducerConnectionListRequestHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from bolide.remoting.headers.groups import (
    DeleteSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    GetSubscriptionGroupConfigRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    QuerySubscriptionByConsumerRequestHeader,
    QueryTopicConsumeByWhoRequestHeader,
    QueryTopicsByConsumerRequestHeader,
)
from bolide.remoting.headers.kv import (
    DeleteKVConfigRequestHeader,
    GetKVConfigRequestHeader,
    GetKVConfigResponseHeader,
    GetKVListByNamespaceRequestHeader,
    PutKVConfigRequestHeader,
)
from bolide.remoting.headers.namesrv import (
    AddWritePermOfBrokerRequestHeader,
    AddWritePermOfBrokerResponseHeader,
    BrokerHeartbeatRequestHeader,
    DeleteTopicFromNamesrvRequestHeader,
    GetBrokerMemberGroupRequestHeader,
    GetRouteInfoRequestHeader,
    GetTopicsByClusterRequestHeader,
    QueryDataVersionRequestHeader,
    QueryDataVersionResponseHeader,
    RegisterBrokerRequestHeader,
    RegisterBrokerResponseHeader,
    RegisterTopicRequestHeader,
    UnRegisterBrokerRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from bolide.remoting.headers.offsets import (
    CloneGroupOffsetRequestHeader,
    GetConsumerStatusRequestHeader,
    GetEarliestMsgStoretimeRequestHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    GetMaxOffsetResponseHeader,
    GetMinOffsetRequestHeader,
    GetMinOffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueryConsumerOffsetResponseHeader,
    QueryCorrectionOffsetHeader,
    ResetOffsetRequestHeader,
    SearchOffsetRequestHeader,
    SearchOffsetResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from bolide.remoting.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from bolide.remoting.headers.query import (
    QueryConsumeQueueRequestHeader,
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from bolide.remoting.headers.recall import RecallMessageRequestHeader, RecallMessageResponseHeader
from bolide.remoting.headers.reply import ReplyMessageRequestHeader
from bolide.remoting.headers.retries import ConsumerSendMsgBackRequestHeader
from bolide.remoting.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2, SendMessageResponseHeader
from bolide.remoting.headers.topics import (
    CreateTopicRequestHeader,
    DeleteTopicRequestHeader,
    GetAllTopicConfigRequestHeader,
    GetAllTopicConfigResponseHeader,
    GetTopicConfigRequestHeader,
    GetTopicStatsInfoRequestHeader,
)
from bolide.remoting.headers.transactions import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)

REQUEST_HEADERS: Final[dict[int, type[Header]]] = {
    codes.SEND_MESSAGE: SendMessageRequestHeader,
    codes.PULL_MESSAGE: PullMessageRequestHeader,
    codes.QUERY_MESSAGE: QueryMessageRequestHeader,
    codes.QUERY_CONSUMER_OFFSET: QueryConsumerOffsetRequestHeader,
    codes.UPDATE_CONSUMER_OFFSET: UpdateConsumerOffsetRequestHeader,
    codes.UPDATE_AND_CREATE_TOPIC: CreateTopicRequestHeader,
    codes.GET_ALL_TOPIC_CONFIG: GetAllTopicConfigRequestHeader,
    codes.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffsetRequestHeader,
    codes.GET_MAX_OFFSET: GetMaxOffsetRequestHeader,
    codes.GET_MIN_OFFSET: GetMinOffsetRequestHeader,
    codes.GET_EARLIEST_MSG_STORETIME: GetEarliestMsgStoretimeRequestHeader,
    codes.VIEW_MESSAGE_BY_ID: ViewMessageRequestHeader,
    codes.UNREGISTER_CLIENT: UnregisterClientRequestHeader,
    codes.CONSUMER_SEND_MSG_BACK: ConsumerSendMsgBackRequestHeader,
    codes.END_TRANSACTION: EndTransactionRequestHeader,
    codes.GET_CONSUMER_LIST_BY_GROUP: GetConsumerListByGroupRequestHeader,
    codes.CHECK_TRANSACTION_STATE: CheckTransactionStateRequestHeader,
    codes.NOTIFY_CONSUMER_IDS_CHANGED: NotifyConsumerIdsChangedRequestHeader,
    codes.UPDATE_AND_CREATE_ACL_CONFIG: CreateAccessConfigRequestHeader,
    codes.DELETE_ACL_CONFIG: DeleteAccessConfigRequestHeader,
    codes.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: UpdateGlobalWhiteAddrsConfigRequestHeader,
    codes.PUT_KV_CONFIG: PutKVConfigRequestHeader,
    codes.GET_KV_CONFIG: GetKVConfigRequestHeader,
    codes.DELETE_KV_CONFIG: DeleteKVConfigRequestHeader,
    codes.REGISTER_BROKER: RegisterBrokerRequestHeader,
    codes.UNREGISTER_BROKER: UnRegisterBrokerRequestHeader,
    codes.GET_ROUTEINFO_BY_TOPIC: GetRouteInfoRequestHeader,
    codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: GetAllSubscriptionGroupRequestHeader,
    codes.GET_TOPIC_STATS_INFO: GetTopicStatsInfoRequestHeader,
    codes.GET_CONSUMER_CONNECTION_LIST: GetConsumerConnectionListRequestHeader,
    codes.GET_PRODUCER_CONNECTION_LIST: GetProducerConnectionListRequestHeader,
    codes.WIPE_WRITE_PERM_OF_BROKER: WipeWritePermOfBrokerRequestHeader,
    codes.DELETE_SUBSCRIPTIONGROUP: DeleteSubscriptionGroupRequestHeader,
    codes.GET_CONSUME_STATS: GetConsumeStatsRequestHeader,
    codes.DELETE_TOPIC_IN_BROKER: DeleteTopicRequestHeader,
    codes.DELETE_TOPIC_IN_NAMESRV: DeleteTopicFromNamesrvRequestHeader,
    codes.REGISTER_TOPIC_IN_NAMESRV: RegisterTopicRequestHeader,
    codes.GET_KVLIST_BY_NAMESPACE: GetKVListByNamespaceRequestHeader,
    codes.RESET_CONSUMER_CLIENT_OFFSET: ResetOffsetRequestHeader,
    codes.GET_CONSUMER_STATUS_FROM_CLIENT: GetConsumerStatusRequestHeader,
    codes.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetRequestHeader,
    codes.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: GetConsumerStatusRequestHeader,
    codes.GET_TOPICS_BY_CLUSTER: GetTopicsByClusterRequestHeader,
    codes.QUERY_TOPIC_CONSUME_BY_WHO: QueryTopicConsumeByWhoRequestHeader,
    codes.QUERY_CONSUME_TIME_SPAN: QueryConsumeTimeSpanRequestHeader,
    codes.GET_CONSUMER_RUNNING_INFO: GetConsumerRunningInfoRequestHeader,
    codes.QUERY_CORRECTION_OFFSET: QueryCorrectionOffsetHeader,
    codes.CONSUME_MESSAGE_DIRECTLY: ConsumeMessageDirectlyResultRequestHeader,
    codes.SEND_MESSAGE_V2: SendMessageRequestHeaderV2,
    codes.CLONE_GROUP_OFFSET: CloneGroupOffsetRequestHeader,
    codes.VIEW_BROKER_STATS_DATA: ViewBrokerStatsDataRequestHeader,
    codes.GET_BROKER_CONSUME_STATS: GetConsumeStatsInBrokerHeader,
    codes.SEND_BATCH_MESSAGE: SendMessageRequestHeaderV2,
    codes.QUERY_CONSUME_QUEUE: QueryConsumeQueueRequestHeader,
    codes.QUERY_DATA_VERSION: QueryDataVersionRequestHeader,
    codes.RESUME_CHECK_HALF_MESSAGE: ResumeCheckHalfMessageRequestHeader,
    codes.SEND_REPLY_MESSAGE: SendMessageRequestHeader,
    codes.SEND_REPLY_MESSAGE_V2: SendMessageRequestHeaderV2,
    codes.PUSH_REPLY_MESSAGE_TO_CLIENT: ReplyMessageRequestHeader,
    codes.ADD_WRITE_PERM_OF_BROKER: AddWritePermOfBrokerRequestHeader,
    codes.QUERY_TOPICS_BY_CONSUMER: QueryTopicsByConsumerRequestHeader,
    codes.QUERY_SUBSCRIPTION_BY_CONSUMER: QuerySubscriptionByConsumerRequestHeader,
    codes.GET_TOPIC_CONFIG: GetTopicConfigRequestHeader,
    codes.GET_SUBSCRIPTIONGROUP_CONFIG: GetSubscriptionGroupConfigRequestHeader,
    codes.LITE_PULL_MESSAGE: PullMessageRequestHeader,
    codes.RECALL_MESSAGE: RecallMessageRequestHeader,
    codes.UPDATE_AND_CREATE_STATIC_TOPIC: CreateTopicRequestHeader,
    codes.GET_BROKER_MEMBER_GROUP: GetBrokerMemberGroupRequestHeader,
    codes.BROKER_HEARTBEAT: BrokerHeartbeatRequestHeader,
}

RESPONSE_HEADERS: Final[dict[int, type[Header]]] = {
    codes.SEND_MESSAGE: SendMessageResponseHeader,
    codes.PULL_MESSAGE: PullMessageResponseHeader,
    codes.QUERY_MESSAGE: QueryMessageResponseHeader,
    codes.QUERY_CONSUMER_OFFSET: QueryConsumerOffsetResponseHeader,
    codes.GET_ALL_TOPIC_CONFIG: GetAllTopicConfigResponseHeader,
    codes.GET_BROKER_CONFIG: GetBrokerConfigResponseHeader,
    codes.SEARCH_OFFSET_BY_TIMESTAMP: SearchOffsetResponseHeader,
    codes.GET_MAX_OFFSET: GetMaxOffsetResponseHeader,
    codes.GET_MIN_OFFSET: GetMinOffsetResponseHeader,
    codes.GET_EARLIEST_MSG_STORETIME: GetEarliestMsgStoretimeResponseHeader,
    codes.GET_BROKER_CLUSTER_ACL_INFO: GetBrokerAclConfigResponseHeader,
    codes.GET_KV_CONFIG: GetKVConfigResponseHeader,
    codes.REGISTER_BROKER: RegisterBrokerResponseHeader,
    codes.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: GetAllSubscriptionGroupResponseHeader,
    codes.WIPE_WRITE_PERM_OF_BROKER: WipeWritePermOfBrokerResponseHeader,
    codes.SEND_MESSAGE_V2: SendMessageResponseHeader,
    codes.SEND_BATCH_MESSAGE: SendMessageResponseHeader,
    codes.QUERY_DATA_VERSION: QueryDataVersionResponseHeader,
    codes.SEND_REPLY_MESSAGE: SendMessageResponseHeader,
    codes.SEND_REPLY_MESSAGE_V2: SendMessageResponseHeader,
    codes.ADD_WRITE_PERM_OF_BROKER: AddWritePermOfBrokerResponseHeader,
    codes.LITE_PULL_MESSAGE: PullMessageResponseHeader,
    codes.RECALL_MESSAGE: RecallMessageResponseHeader,
}
"""Headers of responses by the code of the request they answer."""
