"""The compression codecs of Parquet: their ids in footers, and the names that Iceberg and Arrow have for them."""

# By the names of Iceberg's `write.parquet.compression-codec`.
CODEC_IDS = {"uncompressed": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}
HADOOP_LZ4 = 5  # a framing of its own, which old writers call LZ4


def writer_option(codec: str) -> str:
    """Returns the value of the option `compression` of Arrow's Parquet writer."""
    return "NONE" if codec == "uncompressed" else codec.upper()


def arrow_name(codec: str) -> str:
    """Returns Arrow's name of a codec of `CODEC_IDS`."""
    return "lz4_raw" if codec == "lz4" else codec


ARROW_NAMES = {number: arrow_name(codec) for codec, number in CODEC_IDS.items() if number}
