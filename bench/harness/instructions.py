"""Instructions per redirect, counted by callgrind: the one figure that noise cannot touch.

The same server is run twice, once with short redirects and once with long. Starting, warming and stopping cost the same both
times, so the difference of the instructions over the difference of the redirects is the price of one.
"""

import glob
import os
import re

from harness import links
from harness.servers import Failure, start_nginx, start_terse

# Valgrind is slow, so servers get more time to start and stop.
TIMEOUT = 300
SERVING = re.compile(rb"terse_redirect::(connection|fast_path)")


def counted(folder, start, clients, file, seconds, progress):
    """Runs once; returns the redirects and the instructions of all threads and of the serving threads."""
    os.makedirs(folder, exist_ok=True)
    out = os.path.join(folder, "callgrind.out")
    before = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--fair-sched=yes", f"--callgrind-out-file={out}.%p"]
    server = start(folder, before)
    try:
        server.wait_for(links.read(file)[0][1], 302)
        clients.visit_each(server, file, connections=4)
        progress(f"{server.name} under callgrind, {seconds} s")
        requests = clients.wrk(server, "zipf", file, seconds=seconds, timeout=60).requests
    finally:
        server.stop()
    total_all = serving = 0
    for name in glob.glob(f"{out}.*-*"):
        with open(name, "rb") as dump:
            text = dump.read()
        total = sum(int(line.split()[1]) for line in re.findall(rb"^totals: \d+", text, re.M))
        total_all += total
        serving += total if SERVING.search(text) else 0
    if not total_all:
        raise Failure(f"callgrind counted no instructions:\n{server.tail()}")
    return requests, total_all, serving


def slope(folder, start, clients, file, seconds, progress):
    """Instructions per redirect of all threads and of the serving threads: the difference of two runs."""
    short = counted(os.path.join(folder, "short"), start, clients, file, max(1, seconds // 8), progress)
    long = counted(os.path.join(folder, "long"), start, clients, file, seconds, progress)
    more = long[0] - short[0]
    return (long[1] - short[1]) / more, (long[2] - short[2]) / more, more


def measure(lab, seconds, count):
    """Instructions per redirect for terse and nginx, with `count` links."""
    folder = os.path.join(lab.folder, "callgrind")
    data = os.path.join(folder, "links")
    server = lab.terse(data)
    file = lab.load(server, count, os.path.join(folder, "paths"))
    lab.stop(server)
    numbered = links.read(file)
    links.write(file, numbered)

    def terse(run, before):
        # Both runs use the same data folder, one after the other.
        settings = {"TERSE_DATA_DIR": os.path.join(data, "data")}
        return start_terse(lab.binary, run, 1, lab.server_cores, settings, before, TIMEOUT)

    def nginx(run, before):
        def config(port, port_h2):
            return links.nginx_config(numbered, run, port, port_h2, 1, single_process=True)

        return start_nginx(config, run, lab.server_cores, before, TIMEOUT)

    found = {}
    for name, start in (("terse", terse), ("nginx", nginx)):
        found[name] = slope(os.path.join(folder, name), start, lab.clients, file, seconds, lab.progress)
    return found
