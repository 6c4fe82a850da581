package org.apache.rocketmq.test.base;

import java.nio.file.Files;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicAttributes;
import org.apache.rocketmq.common.attribute.CQType;
import org.apache.rocketmq.common.attribute.TopicMessageType;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.test.util.MQAdminTestUtils;

/**
 * Stands in for the class of RocketMQ 5.5.0's tests that starts servers: these run already, in other processes.
 *
 * The controllers it hands out serve nothing. They say where the servers listen: "bolide.namesrv" is the port of the
 * name server, "bolide.brokers" the names and ports of the brokers, as name:port and separated by commas.
 */
public class IntegrationTestBase {
    private static final Iterator<String> BROKERS = Arrays.asList(System.getProperty("bolide.brokers").split(",")).iterator();
    private static final int CREATION_SECONDS = 30;

    public static NamesrvController createAndStartNamesrv() {
        return new NamesrvController(new NamesrvConfig(), listening(Integer.getInteger("bolide.namesrv")));
    }

    public static BrokerController createAndStartBroker(String namesrv) {
        String[] broker = BROKERS.next().split(":");
        int port = Integer.parseInt(broker[1]);
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName(broker[0]);
        config.setBrokerIP1("127.0.0.1");
        config.setListenPort(port);
        config.setNamesrvAddr(namesrv);
        MessageStoreConfig store = new MessageStoreConfig();
        try {
            store.setStorePathRootDir(Files.createTempDirectory("unused-store").toString());
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        BrokerController controller = new BrokerController(config, listening(port), new NettyClientConfig(), store);
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

    private static NettyServerConfig listening(int port) {
        NettyServerConfig config = new NettyServerConfig();
        config.setListenPort(port);
        return config;
    }
}
