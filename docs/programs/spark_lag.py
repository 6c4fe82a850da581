from prometheus_client import CollectorRegistry, start_http_server
from pyspark.sql import SparkSession

import bolide.spark


def main(namesrv: str = "127.0.0.1:9876", checkpoint: str = "checkpoint", port: int = 9200) -> None:
    spark = SparkSession.builder.getOrCreate()
    listener = bolide.spark.LagListener(namesrv=namesrv)
    spark.streams.addListener(listener)
    registry = CollectorRegistry()
    registry.register(listener)
    server, thread = start_http_server(port, registry=registry)

    orders = spark.readStream.format("rocketmq").options(namesrv=namesrv, subscribe="Orders").load()
    query = orders.writeStream.format("noop").queryName("orders").option("checkpointLocation", checkpoint).start()
    try:
        query.awaitTermination()
    finally:
        spark.streams.removeListener(listener)
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    main()
