"""The Avro format: containers, records, and a reader that decodes many blocks at once."""
