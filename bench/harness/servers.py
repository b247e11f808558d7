"""The servers under test: each has its own process group and loopback port, and stops with the run."""

import contextlib
import http.client
import os
import signal
import socket
import statistics
import subprocess
import time

TICK = os.sysconf("SC_CLK_TCK")
KEY = "bench-only-key-0123456789abcdef0123456789abcdef"


class Failure(Exception):
    """An error that ends the run, with a one-line message."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def pinned(cores, command):
    return ["taskset", "-c", cores, *command] if cores else list(command)


class Server:
    """A running server. `port` speaks HTTP/1.1, `port_h2` HTTP/2."""

    def __init__(self, name, command, port, port_h2, log, env=None, timeout=60):
        self.name, self.port, self.port_h2, self.log, self.timeout = name, port, port_h2, log, timeout
        self.counts_clicks = False
        self.started = time.monotonic()
        with open(log, "wb") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env, start_new_session=True
            )

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def url_h2(self):
        return f"http://127.0.0.1:{self.port_h2}"

    def get(self, path, timeout=5):
        """Status and Location; raises OSError while the server does not listen."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request("GET", path, headers={"Accept": "*/*"})
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Location")
        finally:
            connection.close()

    def wait_for(self, path, status):
        """Polls until the path answers with this status; returns the seconds since the start."""
        while time.monotonic() - self.started < self.timeout:
            if self.process.poll() is not None:
                raise Failure(f"{self.name} exited with code {self.process.returncode}:\n{self.tail()}")
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.get(path)[0] == status:
                    return time.monotonic() - self.started
            time.sleep(0.001)
        raise Failure(f"{self.name} did not answer {path} with {status} in {self.timeout} s:\n{self.tail()}")

    def metric(self, name):
        """One value of /metrics, by name and labels."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        for line in text.splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        raise Failure(f"{self.name} has no metric {name}")

    def backup(self, data, binary):
        """Copies the links into another data folder."""
        command = [binary, "--data-dir", self.data, "backup", data + ".backup"]
        again = [binary, "--data-dir", data, "restore", data + ".backup"]
        for step in (command, again):
            done = subprocess.run(step, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
            if done.returncode:
                raise Failure(f"{' '.join(step[3:4])} failed with exit code {done.returncode}: {done.stderr[-500:]}")

    def tail(self):
        with open(self.log, "rb") as log:
            return log.read()[-2000:].decode(errors="replace")

    def tree(self):
        """This process and its descendants."""
        found, queue = [], [self.process.pid]
        while queue:
            pid = queue.pop()
            found.append(pid)
            with contextlib.suppress(OSError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    with open(f"/proc/{pid}/task/{task}/children") as children:
                        queue.extend(int(child) for child in children.read().split())
        return found

    def cpu(self):
        """Seconds of CPU, user and system, spent by all its processes so far."""
        ticks = 0
        for pid in self.tree():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
                ticks += int(fields[11]) + int(fields[12])
        return ticks / TICK

    def serving_cpu(self):
        """Seconds of CPU of the threads that answer requests: terse names them, and nginx has no others."""
        ticks = 0
        for pid in self.tree():
            with contextlib.suppress(OSError):
                for task in os.listdir(f"/proc/{pid}/task"):
                    with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/stat") as stat:
                        name, fields = stat.read().split("(", 1)[1].rsplit(")", 1)
                    if name.startswith(("redirect-", "nginx")):
                        ticks += int(fields.split()[11]) + int(fields.split()[12])
        return ticks / TICK

    def drain(self, timeout=600):
        """Waits until terse has counted all clicks; returns how many were counted, dropped and lost since its start."""
        until = time.monotonic() + timeout
        while self.metric("terse_journal_waiting_bytes") > 0:
            if time.monotonic() > until:
                raise Failure(f"the clicks were not counted within {timeout} s")
            time.sleep(0.05)
        return [self.metric(f'terse_clicks_total{{what="{what}"}}') for what in ("counted", "dropped", "lost")]

    def written(self):
        """Bytes that all its processes had written to disks, without those of files that were deleted before they were written."""
        total = 0
        for pid in self.tree():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/io") as io:
                values = {name: int(value) for name, value in (line.split(": ") for line in io)}
                total += values["write_bytes"] - values["cancelled_write_bytes"]
        return total

    def memory(self):
        """Resident bytes of all its processes."""
        total = 0
        for pid in self.tree():
            with contextlib.suppress(OSError), open(f"/proc/{pid}/status") as status:
                total += sum(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))
        return total

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def stop(self):
        """Sends SIGTERM, so that terse can drain, and SIGKILL after a timeout."""
        if self.process.poll() is None:
            self.resume()
            self.process.terminate()
            try:
                self.process.wait(self.timeout)
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGKILL)
                self.process.wait()
        # Workers that outlived their master.
        self.signal(signal.SIGKILL)


def start_terse(binary, folder, threads, cores=None, settings=None, before=(), timeout=60):
    """Starts terse. `before` is a command to run it under."""
    os.makedirs(folder, exist_ok=True)
    port = free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith("TERSE_")}
    env |= {
        "TERSE_LISTEN": f"127.0.0.1:{port}",
        "TERSE_BASE_URL": f"http://127.0.0.1:{port}",
        "TERSE_DATA_DIR": os.path.join(folder, "data"),
        "TERSE_ADMIN_KEY": KEY,
        "TERSE_REDIRECT__THREADS": str(threads),
        # One address requests more unknown codes than the limit allows: measure the 404, not the 429.
        "TERSE_LIMITS__GUESSES_PER_IP": "0",
    }
    env |= settings or {}
    env = {name: value for name, value in env.items() if value is not None}
    command = pinned(cores, [*before, binary, "serve"])
    server = Server("terse", command, port, port, os.path.join(folder, "terse.log"), env, timeout)
    server.data = env["TERSE_DATA_DIR"]
    server.counts_clicks = env.get("TERSE_CLICKS__ENABLED") != "false"
    return server


def start_nginx(config, folder, cores=None, before=(), timeout=60):
    """Starts nginx. `config` returns the configuration for two ports."""
    os.makedirs(folder, exist_ok=True)
    port = free_port()
    # Both calls can return the same port.
    while (port_h2 := free_port()) == port:
        pass
    file = os.path.join(folder, "nginx.conf")
    with open(file, "w", encoding="ascii") as text:
        text.write(config(port, port_h2))
    command = pinned(cores, [*before, "nginx", "-p", folder, "-c", file, "-e", os.path.join(folder, "error.log")])
    return Server("nginx", command, port, port_h2, os.path.join(folder, "nginx.log"), None, timeout)


@contextlib.contextmanager
def alone(server, servers):
    """Pauses the other servers, so that their background work does not affect this one."""
    others = [other for other in servers if other is not server]
    for other in others:
        other.pause()
    try:
        yield
    finally:
        for other in others:
            other.resume()


def sync_latency(folder, count=200):
    """Seconds to append 4 KiB to a file and see it on stable storage: the median and the 99th percentile."""
    file = os.path.join(folder, "sync")
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    taken = []
    try:
        for _ in range(count):
            os.write(handle, b"x" * 4096)
            begin = time.perf_counter()
            os.fdatasync(handle)
            taken.append(time.perf_counter() - begin)
    finally:
        os.close(handle)
        os.unlink(file)
    return statistics.median(taken), sorted(taken)[int(count * 0.99)]
