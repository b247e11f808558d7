"""Figures of a fleet: PostgreSQL and Redis as stores, against the embedded store in one run.

Real servers of Debian's packages, with fsync on, on the same disk and the same cores as terse. Rates on one machine say how the stores
compare, not what a fleet of machines reaches: CPU per redirect does.
"""

import glob
import os
import pwd
import shutil
import subprocess
import time

from harness import clients, instructions, links, table
from harness.servers import Failure, free_port, start_terse

CALLERS = (1, 16, 64, 256)


class Process:
    """A database that runs until the end. Looks like a server to `Lab.close`."""

    def __init__(self, command, folder, user=None):
        self.log = os.path.join(folder, "log")
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, user=user)

    def pause(self):
        pass

    def resume(self):
        pass

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def wait(what, is_ready, seconds=60):
    until = time.monotonic() + seconds
    while not is_ready():
        if time.monotonic() > until:
            raise Failure(f"{what} does not start")
        time.sleep(0.05)


def program(name):
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"))
    if not found:
        raise Failure("PostgreSQL is missing; as root: apt-get install postgresql redis-server")
    return found[-1]


def postgres(lab):
    """A new PostgreSQL server; returns a function that makes the URL of a new database."""
    folder, port = os.path.join(lab.folder, "postgres"), free_port()
    os.makedirs(folder)
    # PostgreSQL refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    data = os.path.join(folder, "data")
    init = [program("initdb"), "-D", data, "-U", "terse", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8"]
    done = subprocess.run(init, capture_output=True, text=True, user=user, cwd=folder, check=False)
    if done.returncode:
        raise Failure(f"initdb failed: {done.stderr[-500:]}")
    options = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "shared_buffers=128MB"]
    command = [program("postgres"), "-D", data, *(part for option in options for part in ("-c", option))]
    lab.servers.append(Process(command, folder, user))

    def sql(text):
        command = [program("psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-c", text, f"postgres://terse@127.0.0.1:{port}/postgres"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    wait("PostgreSQL", lambda: sql("SELECT 1"))

    def database(name):
        if not sql(f"CREATE DATABASE {name}"):
            raise Failure(f"the database {name} could not be made")
        return f"postgres://terse@127.0.0.1:{port}/{name}"

    return database


def redis(lab):
    """The URL of a new Redis server."""
    folder, port = os.path.join(lab.folder, "redis"), free_port()
    os.makedirs(folder)
    if not shutil.which("redis-server"):
        raise Failure("Redis is missing; as root: apt-get install redis-server")
    lab.servers.append(Process(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], folder))
    ping = ["redis-cli", "-p", str(port), "ping"]
    wait("Redis", lambda: b"PONG" in subprocess.run(ping, capture_output=True, check=False).stdout)
    return f"redis://127.0.0.1:{port}"


def creates(lab, database):
    """Durable creates per second, by the number of callers."""
    found = []
    stores = {"embedded": {}, "PostgreSQL": {"TERSE_STORE": database("creates")}}
    servers = {
        name: lab.terse(os.path.join(lab.folder, f"creates-{name}"), {**settings, "TERSE_LIMITS__CREATE_PER_KEY": "0"})
        for name, settings in stores.items()
    }
    for callers in CALLERS:
        def contender(name):
            def measure():
                options = ("--callers", callers, "--seconds", lab.chosen.seconds)
                return lab.clients.bench("create", servers[name], *options, seconds=lab.chosen.seconds)[1]

            return name, measure

        samples = clients.rounds(lab.chosen.rounds, [contender(name) for name in servers], lab.progress)
        rate = {name: clients.median(of, "rate") for name, of in samples.items()}
        failed = sum(sample.errors for of in samples.values() for sample in of)
        row = [f"durable creates, {callers} caller(s)", f"{rate['PostgreSQL']:,.0f}/s", f"{rate['embedded']:,.0f}/s"]
        found.append((*row, f"{rate['PostgreSQL'] / rate['embedded']:.2f}", f"{failed} failed" if failed else ""))
    for server in servers.values():
        lab.stop(server)
    return found


def redirects(lab, database, cache):
    """CPU per redirect from memory, from Redis and from PostgreSQL."""
    store = {"TERSE_STORE": database("redirects")}
    # Memory for one link in a hundred, so that nearly all visits miss it.
    small = {"TERSE_CACHE__SIZE": "1MiB"}
    count = lab.chosen.fleet_links
    server, file = lab.filled(os.path.join(lab.folder, "redirects"), count, store)
    lab.stop(server)
    contenders = {
        "from memory, without Redis": (store, "zipf"),
        "from memory, with Redis": ({**store, "TERSE_CACHE__URL": cache}, "zipf"),
        "from Redis, not in memory": ({**store, **small, "TERSE_CACHE__URL": cache}, "uniform"),
        "from PostgreSQL, not in memory": ({**store, **small}, "uniform"),
    }
    hot = file + ".hot"
    links.write(hot, links.read(file)[:10_000])
    servers, picks = {}, {}
    for name, (settings, pick) in contenders.items():
        servers[name] = lab.terse(os.path.join(lab.folder, name.replace(" ", "-").replace(",", "")), settings)
        picks[name] = pick, hot if pick == "zipf" else file
        # Each link is in memory, or in Redis.
        lab.clients.visit_each(servers[name], picks[name][1])

    def contender(name):
        pick, paths = picks[name]
        return name, lambda: lab.clients.visit(servers[name], pick, paths)

    samples = clients.rounds(lab.chosen.rounds, [contender(name) for name in servers], lab.progress)
    found = []
    for name, of in samples.items():
        cpu = 1e6 * sum(sample.cpu for sample in of) / max(1, sum(sample.requests for sample in of))
        errors = sum(sample.errors for sample in of)
        found.append((name, f"{clients.median(of, 'rate'):,.0f}", f"{cpu:.1f}", f"{clients.median(of, 'p99') * 1e3:.1f}", str(errors)))
    for server in servers.values():
        lab.stop(server)
    return found


def counted(lab, database, cache):
    """Instructions per redirect from memory, without and with Redis: other load does not change them."""
    store = {"TERSE_STORE": database("instructions")}
    folder = os.path.join(lab.folder, "instructions")
    server, file = lab.filled(folder, 1000, store)
    lab.stop(server)
    found = []
    for name, settings in (("without Redis", store), ("with Redis", {**store, "TERSE_CACHE__URL": cache})):
        def start(run, before, settings=settings):
            return start_terse(lab.binary, run, 1, lab.server_cores, settings, before, instructions.TIMEOUT)

        run = os.path.join(folder, name.replace(" ", "-"))
        everything, serving, count = instructions.per_redirect(run, start, lab.clients, file, lab.chosen.seconds, lab.progress)
        found.append((f"from memory, {name}", f"{serving:,.0f}", f"{everything:,.0f}", f"{count:,}"))
    return found


def measure(lab):
    """All tables as markdown."""
    database, cache = postgres(lab), redis(lab)
    parts = []
    if lab.chosen.what == "instructions":
        head = ["user-mode instructions per redirect", "serving threads", "whole process", "over redirects"]
        return [table.markdown(head, counted(lab, database, cache))]
    head = ["one PostgreSQL on the same machine, fsync on", "PostgreSQL", "embedded", "ratio", ""]
    parts.append(table.markdown(head, creates(lab, database)))
    head = [f"redirects, {lab.chosen.fleet_links:,} links", "a second", "CPU µs of terse", "p99 ms", "errors"]
    parts.append(table.markdown(head, redirects(lab, database, cache)))
    return parts
