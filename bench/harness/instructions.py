"""Instructions per redirect, counted by callgrind: the one figure that other load does not change.

Callgrind counts from the moment when all links are in memory until the load has ended, so starting, warming and stopping cost
nothing. Of terse it waits until all clicks are counted: the whole process's figure includes that work.
"""

import glob
import os
import re
import subprocess
import time

from harness import links
from harness.servers import Failure, start_nginx, start_terse

# Valgrind is slow, so servers get more time to start and stop.
TIMEOUT = 300
SERVING = re.compile(rb"terse_redirect::(connection|fast_path)")


def control(server, option):
    """Tells callgrind to zero its counters (-z) or to write them to a file (-d)."""
    command = ["callgrind_control", option, str(server.process.pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode or "Error" in done.stdout + done.stderr:
        raise Failure(f"{' '.join(command)} failed: {(done.stdout + done.stderr)[-500:]}")


def wait_for_clicks(server):
    deadline = time.monotonic() + TIMEOUT
    while server.metric("terse_journal_waiting_bytes") > 0:
        if time.monotonic() > deadline:
            raise Failure(f"terse did not count all clicks in {TIMEOUT} s")
        time.sleep(0.2)


def per_redirect(folder, start, clients, file, seconds, progress, browser=False):
    """Instructions per redirect of all threads and of the serving threads, and the number of redirects."""
    os.makedirs(folder, exist_ok=True)
    out = os.path.join(folder, "callgrind.out")
    before = ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--fair-sched=yes", f"--callgrind-out-file={out}"]
    server = start(folder, before)
    try:
        server.wait_for(links.read(file)[0][1], 302)
        clients.visit_each(server, file, connections=4)
        is_terse = server.name == "terse"
        if is_terse:
            wait_for_clicks(server)
        control(server, "-z")
        progress(f"{server.name} under callgrind, {seconds} s")
        requests = clients.visit(server, "zipf", file, seconds=seconds, warm_up=0, browser=browser).answered
        if is_terse:
            wait_for_clicks(server)
        control(server, "-d")
    finally:
        server.stop()
    everything = serving = 0
    # The first dump; the end of the process writes another.
    for name in glob.glob(f"{out}.1*"):
        with open(name, "rb") as dump:
            text = dump.read()
        total = sum(int(line.split()[1]) for line in re.findall(rb"^totals: \d+", text, re.M))
        everything += total
        serving += total if SERVING.search(text) else 0
    if not everything:
        raise Failure(f"callgrind counted no instructions:\n{server.tail()}")
    if is_terse and not serving:
        raise Failure("the binary has no function names: build it with --profile profiling")
    return everything / requests, serving / requests, requests


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
        settings = {"TERSE_DATA_DIR": os.path.join(data, "data")}
        return start_terse(lab.binary, run, 1, lab.server_cores, settings, before, TIMEOUT)

    def nginx(run, before):
        def config(port, port_h2):
            return links.nginx_config(numbered, run, port, port_h2, 1, single_process=True)

        return start_nginx(config, run, lab.server_cores, before, TIMEOUT)

    found = {}
    for name, start in (("terse", terse), ("nginx", nginx)):
        for browser in (False, True):
            run = os.path.join(folder, f"{name}-browser" if browser else name)
            found[name, browser] = per_redirect(run, start, lab.clients, file, seconds, lab.progress, browser)
    return found
