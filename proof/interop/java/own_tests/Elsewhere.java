package org.apache.rocketmq.test.base;

import java.io.IOException;
import java.io.UncheckedIOException;
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

/**
 * Servers that run already, in other processes. The controllers serve nothing: they say where the servers listen.
 *
 * "bolide.namesrv" is the port of the name server, "bolide.brokers" the names and ports of the brokers, as name:port and
 * separated by commas. Compiles against the jars of 4.9 and of 5.x.
 */
final class Elsewhere {
    private static final Iterator<String> BROKERS = Arrays.asList(System.getProperty("bolide.brokers").split(",")).iterator();

    private Elsewhere() {
    }

    static NamesrvController namesrv() {
        return new NamesrvController(new NamesrvConfig(), listening(Integer.getInteger("bolide.namesrv")));
    }

    /** The next broker, which is registered with this name server. */
    static BrokerController broker(String namesrv) {
        String[] broker = BROKERS.next().split(":");
        BrokerConfig config = new BrokerConfig();
        config.setBrokerName(broker[0]);
        config.setBrokerIP1("127.0.0.1");
        config.setNamesrvAddr(namesrv);
        MessageStoreConfig store = new MessageStoreConfig();
        try {
            store.setStorePathRootDir(Files.createTempDirectory("unused-store").toString());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return new BrokerController(config, listening(Integer.parseInt(broker[1])), new NettyClientConfig(), store);
    }

    private static NettyServerConfig listening(int port) {
        NettyServerConfig config = new NettyServerConfig();
        config.setListenPort(port);
        return config;
    }
}
