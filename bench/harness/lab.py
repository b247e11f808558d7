"""The test environment: cores, folders, servers and links, created on first use."""

import functools
import os
import random
import shutil
import sys

from harness import links, peer
from harness.clients import Clients
from harness.servers import Failure, alone, start_nginx, start_terse


class Lab:
    """The test environment. `close` stops all its servers."""

    def __init__(self, chosen, binary, client, folder):
        self.chosen, self.binary, self.folder = chosen, binary, folder
        self.servers = []
        self.load_before = chosen.load_before
        self.maximum = {}  # hot redirects per second, by server, once measured
        self.charts = {}  # a title and an SVG, by name
        cores = sorted(os.sched_getaffinity(0))
        half = len(cores) // 2
        pin = half > 0 and not chosen.no_pin
        self.server_cores = chosen.server_cores or (",".join(map(str, cores[:half])) if pin else None)
        self.client_cores = chosen.client_cores or (",".join(map(str, cores[half:])) if pin else None)
        self.threads = len(expand(self.server_cores)) if self.server_cores else len(cores)
        client_threads = len(expand(self.client_cores)) if self.client_cores else len(cores)
        self.clients = Clients(binary, client, self.client_cores, client_threads, chosen.seconds)
        if self.server_cores:
            where = f"servers on core {self.server_cores}, clients on core {self.client_cores}"
        else:
            where = "servers and clients on any core"
        self.placing = f"{where}; terse with {self.threads} serving thread(s), nginx with {self.threads} worker(s)"

    def progress(self, text):
        if sys.stderr.isatty():
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def close(self):
        self.progress("")
        for server in self.servers:
            server.stop()
        self.servers.clear()

    def stop(self, server):
        server.stop()
        self.servers.remove(server)

    def terse(self, folder, settings=None, pin=True, ready=True, binary=None):
        cores = self.server_cores if pin else None
        server = start_terse(binary or self.binary, folder, self.threads, cores, settings)
        self.servers.append(server)
        if ready:
            server.wait_for("/readyz", 200)
        return server

    def load(self, server, count, file):
        """Creates links, writes their paths to a file and returns the file."""
        self.progress(f"creating {count:,} links")
        with alone(server, self.servers):
            report, sample = self.clients.bench("load", server, "--links", count, "--paths", file, "--callers", 8, pin=False)
        if sample.errors:
            raise Failure(f"could not create the links: {report['errors']}")
        self.progress(f"{report['links_per_second']:,.0f} links/s")
        return file

    def filled(self, folder, count, settings=None, binary=None):
        """A server with `count` links, and the file of their paths. Loads on all cores, then restarts on its own cores."""
        file = os.path.join(folder, "paths")
        if not os.path.exists(file):
            server = self.terse(folder, settings, pin=False, binary=binary)
            # Renamed at the end, so that an interrupted run leaves no incomplete file under this name.
            self.load(server, count, file + ".part")
            self.stop(server)
            os.rename(file + ".part", file)
        return self.terse(folder, settings, binary=binary), file

    @functools.cached_property
    def hot(self):
        """terse with the hot links, each visited once, and the file of their paths."""
        server, file = self.filled(os.path.join(self.folder, "hot"), self.chosen.hot_links)
        self.numbered = links.read(file)
        links.write(file, self.numbered)
        self.clients.visit_each(server, file)
        return server, file

    @functools.cached_property
    def uncounted(self):
        """terse with the same links, without click counting."""
        terse, file = self.hot
        folder = os.path.join(self.folder, "uncounted")
        data = os.path.join(folder, "data")
        with alone(terse, self.servers):
            terse.backup(data, self.binary)
        server = self.terse(folder, {"TERSE_CLICKS__ENABLED": "false"})
        self.clients.visit_each(server, file)
        return server

    def copies(self, name, threads, cores):
        """terse and two nginx with the hot links and so many serving threads, each link visited once."""
        hot, file = self.hot
        folder = os.path.join(self.folder, name)
        with alone(hot, self.servers):
            hot.backup(os.path.join(folder, "data"), self.binary)
        terse = start_terse(self.binary, folder, threads, cores)
        self.servers.append(terse)
        terse.wait_for("/readyz", 200)
        found = [terse]
        for name in ("nginx", "nginx again"):
            of_nginx = os.path.join(folder, name.replace(" ", "-"))
            config = functools.partial(links.nginx_config, self.numbered, of_nginx, workers=threads)
            nginx = start_nginx(config, of_nginx, cores)
            nginx.name = name
            self.servers.append(nginx)
            nginx.wait_for(self.numbered[0][1], 302)
            found.append(nginx)
        for server in found:
            self.clients.visit_each(server, file)
        return found

    def cores_of_servers(self):
        """The numbers of the cores that servers run on."""
        return expand(self.server_cores) if self.server_cores else sorted(os.sched_getaffinity(0))

    @functools.cached_property
    def peer(self):
        """The other shortener with the same links, each visited once."""
        _, file = self.hot
        server = peer.start(self, self.numbered)
        self.clients.visit(server, "each", file, status=peer.STATUS, seconds=2)
        return server

    @functools.cached_property
    def baseline(self):
        """The terse binary of --against with its own links, and the file of their paths."""
        # Old versions do not know this setting.
        settings = {"TERSE_LIMITS__GUESSES_PER_IP": None}
        server, file = self.filled(os.path.join(self.folder, "baseline"), self.chosen.hot_links, settings, self.chosen.against)
        links.write(file, links.read(file))
        self.clients.visit_each(server, file)
        return server, file

    @functools.cached_property
    def nginx(self):
        """nginx with the same links, checked to give the same answers as terse."""
        return self.start_nginx("nginx")

    @functools.cached_property
    def second_nginx(self):
        """Another nginx like the first: where the two differ, no comparison is valid."""
        return self.start_nginx("nginx again")

    def start_nginx(self, name):
        terse, file = self.hot
        folder = os.path.join(self.folder, name.replace(" ", "-"))

        def config(port, port_h2):
            return links.nginx_config(self.numbered, folder, port, port_h2, self.threads)

        server = start_nginx(config, folder, self.server_cores)
        server.name = name
        self.servers.append(server)
        server.wait_for(self.numbered[0][1], 302)
        self.clients.visit_each(server, file)
        for number, path in random.sample(self.numbered, min(200, len(self.numbered))):
            answers = terse.get(path), server.get(path)
            if answers != ((302, links.target(number)),) * 2:
                raise Failure(f"terse and nginx give different answers for {path}: {answers}")
        return server

    def stored_folder(self, count):
        name = f"links-{count}"
        return os.path.join(self.chosen.work, name) if self.chosen.keep else os.path.join(self.folder, name)

    @functools.cached_property
    def cold_folder(self):
        return self.stored_folder(self.chosen.links)

    def stored(self, count):
        """terse with so many links, none of them cached, and the file of their paths."""
        need = count * 1024
        folder = self.stored_folder(count)
        os.makedirs(folder, exist_ok=True)
        if shutil.disk_usage(folder).free < need:
            raise Failure(f"{count:,} links need {need >> 30} GiB of free disk space; choose fewer with --links")
        settings = {"TERSE_CACHE__SIZE": self.chosen.cold_cache} if self.chosen.cold_cache else {}
        return self.filled(folder, count, settings)

    @functools.cached_property
    def cold(self):
        """terse with many links, none of them cached, and the file of their paths."""
        return self.stored(self.chosen.links)


def expand(cores):
    """The cores of a list such as `0-3,6`."""
    found = []
    for part in cores.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found
