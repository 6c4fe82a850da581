package org.apache.rocketmq.test.base;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.TopicAttributes;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.attribute.TopicMessageType;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.test.util.MQAdminTestUtils;

/** Stands in for the class of RocketMQ 5.5.0's tests that starts servers: these run already, see Elsewhere. */
public class IntegrationTestBase {
    private static final int CREATION_SECONDS = 30;

    public static NamesrvController createAndStartNamesrv() {
        return Elsewhere.namesrv();
    }

    /** The tests ask it for what the name server knows. */
    public static BrokerController createAndStartBroker(String namesrv) {
        BrokerController controller = Elsewhere.broker(namesrv);
        controller.getBrokerOuterAPI().updateNameServerAddressList(namesrv);
        controller.getBrokerOuterAPI().start();
        return controller;
    }

    public static boolean initTopic(String topic, String namesrv, String cluster, CQType queues) {
        return create(topic, namesrv, cluster, queues, TopicMessageType.NORMAL);
    }

    public static boolean initTopic(String topic, String namesrv, String cluster, TopicMessageType messages) {
        return create(topic, namesrv, cluster, CQType.SimpleCQ, messages);
    }

    public static void initMQAdmin(String namesrv) {
        try {
            MQAdminTestUtils.startAdmin(namesrv);
        } catch (org.apache.rocketmq.client.exception.MQClientException error) {
            throw new IllegalStateException(error);
        }
    }

    private static boolean create(String topic, String namesrv, String cluster, CQType queues, TopicMessageType messages) {
        Map<String, String> attributes = new HashMap<>();
        if (queues != CQType.SimpleCQ) {
            attributes.put("+" + TopicAttributes.QUEUE_TYPE_ATTRIBUTE.getName(), queues.toString());
        }
        if (messages != TopicMessageType.NORMAL) {
            attributes.put("+" + TopicAttributes.TOPIC_MESSAGE_TYPE_ATTRIBUTE.getName(), messages.toString());
        }
        return MQAdminTestUtils.createTopic(namesrv, cluster, topic, BaseConf.QUEUE_NUMBERS, attributes, CREATION_SECONDS);
    }
}
