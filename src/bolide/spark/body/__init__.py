"""Message bodies as columns: JSON, Avro and Protobuf."""
