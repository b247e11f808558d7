"""Instructions per redirect, counted by callgrind: the one figure that noise cannot touch.

The same server is run twice, once with few redirects and once with many. Starting, warming and stopping cost the same both
times, so the difference of the instructions over the difference of the redirects is the price of one.
"""

import glob
import os
import re

from harness import links
from harness.servers import Failure, start_nginx, start_terse

# Valgrind is slow: a store that seems stuck is only being counted.
PATIENCE = 300
SERVING = re.compile(rb"terse_redirect::(connection|fast_path)")


def counted(folder, start, clients, file, seconds, progress):
    """Redirects answered by one run, and its instructions: of all threads, and of those that serve redirects."""
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
    everyone = serving = 0
    for name in glob.glob(f"{out}.*-*"):
        with open(name, "rb") as dump:
            text = dump.read()
        total = sum(int(line.split()[1]) for line in re.findall(rb"^totals: \d+", text, re.M))
        everyone += total
        serving += total if SERVING.search(text) else 0
    if not everyone:
        raise Failure(f"callgrind has counted nothing:\n{server.tail()}")
    return requests, everyone, serving


def slope(folder, start, clients, file, seconds, progress):
    """Instructions per redirect, of all threads and of the serving ones."""
    few = counted(os.path.join(folder, "few"), start, clients, file, max(1, seconds // 8), progress)
    many = counted(os.path.join(folder, "many"), start, clients, file, seconds, progress)
    more = many[0] - few[0]
    return (many[1] - few[1]) / more, (many[2] - few[2]) / more, more


def measure(lab, seconds, count):
    """Rows for terse and nginx, over so many links."""
    folder = os.path.join(lab.folder, "callgrind")
    data = os.path.join(folder, "links")
    server = lab.terse(data)
    file = lab.load(server, count, os.path.join(folder, "paths"))
    lab.stop(server)
    numbered = links.read(file)
    links.write(file, numbered)

    def terse(run, before):
        # Both runs get the same links: the folder's data are shared, one run after the other.
        settings = {"TERSE_DATA_DIR": os.path.join(data, "data")}
        return start_terse(lab.binary, run, 1, lab.server_cores, settings, before, PATIENCE)

    def nginx(run, before):
        def config(port, port_h2):
            return links.nginx_config(numbered, run, port, port_h2, 1, single_process=True)

        return start_nginx(config, run, lab.server_cores, before, PATIENCE)

    found = {}
    for name, start in (("terse", terse), ("nginx", nginx)):
        found[name] = slope(os.path.join(folder, name), start, lab.clients, file, seconds, lab.progress)
    return found
