"""Runs libchdb.so, which is ClickHouse as a library, as a server with its HTTP interface."""
import ctypes
import sys

library, path, port = sys.argv[1:4]
chdb = ctypes.CDLL(library)
chdb.chdb_query_cmdline.restype = ctypes.c_void_p
forever = (
    "SYSTEM START LISTEN HTTP; SELECT sleepEachRow(1) FROM numbers(1000000000) "
    "SETTINGS function_sleep_max_microseconds_per_block = 0, max_block_size = 1 FORMAT Null"
)
arguments = [
    "clickhouse",
    "--path=" + path,
    "--http_port=" + port,
    "--listen_host=127.0.0.1",
    "--query=" + forever,
]
encoded = (ctypes.c_char_p * len(arguments))(*[argument.encode() for argument in arguments])
chdb.chdb_query_cmdline(len(arguments), encoded)
