package org.apache.rocketmq.test.base;

import java.nio.file.Files;
import java.util.Arrays;
import java.util.Iterator;
import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.namesrv.NamesrvController;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyServerConfig;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.test.util.MQAdmin;

/**
 * Stands in for the class of RocketMQ 4.9.7's tests that starts servers: these run already, in other processes.
 *
 * The controllers it hands out serve nothing. They say where the servers listen: "bolide.namesrv" is the port of the
 * name server, "bolide.brokers" the names and ports of the brokers, as name:port and separated by commas.
 */
public class IntegrationTestBase {
    private static final Iterator<String> BROKERS = Arrays.asList(System.getProperty("bolide.brokers").split(",")).iterator();
    private static final int CREATION_SECONDS = 30;
    private static final int QUEUES = 8;

    public static NamesrvController createAndStartNamesrv() {
        return new NamesrvController(new NamesrvConfig(), listening(Integer.getInteger("bolide.namesrv")));
    }

    public static BrokerController createAndStartBroker(String namesrv) {
        String[] broker = BROKERS.next().split(":");
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName(broker[0]);
        config.setBrokerIP1("127.0.0.1");
        config.setNamesrvAddr(namesrv);
        MessageStoreConfig store = new MessageStoreConfig();
        try {
            store.setStorePathRootDir(Files.createTempDirectory("unused-store").toString());
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
        return new BrokerController(config, listening(Integer.parseInt(broker[1])), new NettyClientConfig(), store);
    }

    public static boolean initTopic(String topic, String namesrv, String cluster) {
        return MQAdmin.createTopic(namesrv, cluster, topic, QUEUES, CREATION_SECONDS);
    }

    private static NettyServerConfig listening(int port) {
        NettyServerConfig config = new NettyServerConfig();
        config.setListenPort(port);
        return config;
    }
}
