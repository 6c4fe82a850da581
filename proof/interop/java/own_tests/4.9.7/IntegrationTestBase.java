package org.apache.rocketmq.test.base;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.test.util.MQAdmin;

/** Stands in for the class of RocketMQ 4.9.7's tests that starts servers: these run already, see Elsewhere. */
public class IntegrationTestBase {
    private static final int CREATION_SECONDS = 30;
    private static final int QUEUES = 8;

    public static NamesrvController createAndStartNamesrv() {
        return Elsewhere.namesrv();
    }

    public static BrokerController createAndStartBroker(String namesrv) {
        return Elsewhere.broker(namesrv);
    }

    public static boolean initTopic(String topic, String namesrv, String cluster) {
        return MQAdmin.createTopic(namesrv, cluster, topic, QUEUES, CREATION_SECONDS);
    }
}
