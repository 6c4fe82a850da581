"""Message bodies as columns: JSON, Avro and plain bytes."""
