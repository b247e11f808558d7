"""Load generators: our own client for HTTP/1.1 throughput, h2load for HTTP/2, `terse bench` for the rest."""

import dataclasses
import json
import os
import random
import re
import resource
import statistics
import subprocess
import time

from harness.servers import KEY, Failure, pinned

BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclasses.dataclass
class Sample:
    """One round."""

    requests: int
    seconds: float
    errors: int
    cpu: float = 0.0  # CPU seconds of the server
    serving: float = 0.0  # of these, of its serving threads
    client: float = 0.0  # CPU seconds of the client
    p99: float = 0.0  # seconds
    answered: int = 0  # right answers from the first request to the last, warm-up included
    open: int = 0  # requests that the server may have answered without the client seeing it

    @property
    def rate(self):
        return self.requests / self.seconds if self.seconds else 0.0

    @property
    def busy(self):
        """Server CPU time as a fraction of one core."""
        return self.cpu / self.seconds if self.seconds else 0.0

    @property
    def client_busy(self):
        return self.client / self.seconds if self.seconds else 0.0

    @property
    def cpu_per_request(self):
        return self.cpu / self.requests if self.requests else float("inf")

    @property
    def serving_per_request(self):
        return (self.serving or self.cpu) / self.requests if self.requests else float("inf")


def median(samples, of):
    return statistics.median(getattr(sample, of) for sample in samples)


class Clients:
    """Runs clients on their cores."""

    def __init__(self, terse, client, cores, threads, seconds):
        self.terse, self.client, self.cores, self.threads, self.seconds = terse, client, cores, threads, seconds

    def run(self, command, seconds, server, pin=True, env=None):
        """Runs a client; returns its standard output and the CPU time of client and server."""
        cpu, serving, client = server.cpu(), server.serving_cpu(), children_cpu()
        try:
            done = subprocess.run(
                pinned(self.cores if pin else None, command),
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds + 120, check=False, env=env,
            )
        except subprocess.TimeoutExpired as error:
            raise Failure(f"{command[0]} timed out") from error
        if done.returncode != 0:
            raise Failure(f"{' '.join(command[:3])} … failed with exit code {done.returncode}:\n{done.stderr[-2000:]}{done.stdout[-500:]}")
        spent = {"cpu": server.cpu() - cpu, "serving": server.serving_cpu() - serving, "client": children_cpu() - client}
        return done.stdout, spent

    def visit(self, server, pick, file, connections=64, close=False, browser=False, seconds=None, warm_up=0.3, status=302, clients=1):
        """Requests links as fast as they are answered; `unknown` requests codes that do not exist. Several clients share the connections."""
        seconds = seconds or self.seconds
        if pick == "unknown":
            # Other codes in each round, because the server caches unknown ones.
            pick, status, file = "each", 404, file + ".unknown"
            with open(file, "w", encoding="ascii") as out:
                out.writelines("/" + "".join(random.choices(BASE62, k=7)) + "\n" for _ in range(500_000))
        command = [self.client, "--server", f"127.0.0.1:{server.port}", "--paths", file, "--pick", pick, "--status", status]
        command += ["--connections", max(1, connections // clients), "--seconds", seconds, "--warm-up", warm_up]
        command += [*(["--close"] if close else []), *(["--browser"] if browser else [])]
        if clients > 1:
            # A shell waits for all of them; each prints one line.
            command = ["sh", "-c", 'n=$0; while [ $n -gt 0 ]; do "$@" & n=$((n-1)); done; wait', clients, *command]
        output, spent = self.run(list(map(str, command)), seconds, server)
        found = [json.loads(line) for line in output.splitlines()]
        if len(found) != clients:
            raise Failure(f"{clients - len(found)} of {clients} clients failed")
        took = sum(one["seconds"] for one in found) / clients
        # The server also worked during the warm-up; the client's own figure leaves it out.
        share = took / (took + warm_up)
        spent = {"cpu": spent["cpu"] * share, "serving": spent["serving"] * share, "client": max(one["client_cpu"] for one in found)}
        requests, errors = (sum(one[name] for one in found) for name in ("requests", "errors"))
        answered, unseen = (sum(one[name] for one in found) for name in ("answered", "open"))
        return Sample(requests, took, errors, p99=max(one["p99_us"] for one in found) / 1e6, answered=answered, open=unseen, **spent)

    def h2load(self, server, urls, connections=16, streams=16):
        command = ["h2load", f"-t{min(self.threads, connections)}", f"-c{connections}", f"-m{streams}", f"-D{self.seconds}"]
        output, spent = self.run([*command, "-i", urls], self.seconds, server)
        done = int(re.search(r"(\d+) done", output)[1])
        redirects = int(re.search(r"(\d+) 3xx", output)[1])
        seconds = float(self.seconds)
        failed = [int(re.search(rf"(\d+) {kind}", output)[1]) for kind in ("2xx", "4xx", "5xx")]
        # It ends without waiting for the last answers.
        return Sample(redirects, seconds, sum(failed) + max(0, done - redirects - sum(failed)), answered=redirects, open=connections * streams, **spent)

    def bench(self, mode, server, *options, pin=True, seconds=None):
        """Runs `terse bench`; returns its report and a sample."""
        command = [self.terse, "bench", "--json", mode, "--url", server.url, *map(str, options)]
        env = {**os.environ, "TERSE_ADMIN_KEY": KEY}
        output, spent = self.run(command, seconds or 7200, server, pin, env)
        report = json.loads(output)
        errors = sum(report["errors"].values())
        p99 = report["latency"]["p99_us"] / 1e6
        return report, Sample(report["requests"], report["seconds"], errors, p99=p99, **spent)

    def visit_each(self, server, file, connections=64):
        """Follows every link once: proves that all answer 302 with a Location, and warms the server."""
        report, sample = self.bench("redirect", server, "--pick", "each", "--paths", file, "--connections", connections)
        if sample.errors:
            raise Failure(f"{server.name} does not answer all links: {report['errors']}, {report['sample']}")


def balance(samples, counts):
    """Compares the answers that clients got with what the server counted, dropped and lost: how many clicks are missing, and how many too many."""
    counted, dropped, lost = counts
    answered, unseen = sum(sample.answered for sample in samples), sum(sample.open for sample in samples)
    found = counted + dropped + lost
    return dropped + lost + max(0, answered - found), max(0, found - answered - unseen)


def verdict(result, samples, missing, surplus, doubts):
    """The result of a row: what failed, what makes it invalid, or what the thresholds say."""
    if missing:
        return f"failed: {missing:,.0f} clicks not counted"
    if surplus:
        return f"failed: {surplus:,.0f} clicks more than answers"
    if errors := sum(sample.errors for sample in samples):
        return f"failed: {errors} errors"
    return f"not valid: {', '.join(doubts)}" if doubts else result


def doubts_of(lab, samples, threads=None, least=0.95):
    """Why a comparison is not valid: a client that is the bottleneck, or a machine that is not the same from round to round."""
    doubts = []
    for name, taken in samples.items():
        busy, client = median(taken, "busy") / (threads or lab.threads), median(taken, "client_busy")
        if busy < least:
            doubts.append(f"{name} was only {busy:.0%} busy")
        if client > 0.9:
            doubts.append(f"the client of {name} was {client:.0%} busy")
    if "nginx again" in samples:
        same = median(samples["nginx again"], "rate") / max(median(samples["nginx"], "rate"), 1e-9)
        if not 0.97 <= same <= 1.03:
            doubts.append(f"a second nginx made {same:.2f} × the rate of the first")
    return doubts


class Quiet:
    """Whether anything but the measured processes used the machine meanwhile."""

    def __init__(self, *servers):
        self.servers = servers

    def __enter__(self):
        self.began, self.before = time.monotonic(), self.others()
        return self

    def __exit__(self, *_):
        self.took, self.spent = time.monotonic() - self.began, self.others() - self.before

    def others(self):
        """CPU seconds of everything but the servers, this process and its children."""
        with open("/proc/stat", encoding="ascii") as stat:
            user, nice, system, _idle, _wait, irq, soft, steal = map(int, stat.readline().split()[1:9])
        own = resource.getrusage(resource.RUSAGE_SELF)
        mine = own.ru_utime + own.ru_stime + children_cpu() + sum(server.cpu() for server in self.servers)
        return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK") - mine

    def doubts(self):
        part = self.spent / max(self.took, 1e-9)
        return [f"other processes used {part:.0%} of a processor"] if part > 0.1 else []


def children_cpu():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def rounds(count, contenders, progress):
    """A B A B …: each contender is a name and a function making one sample."""
    samples = {name: [] for name, _ in contenders}
    for number in range(count):
        for name, measure in contenders:
            progress(f"round {number + 1} of {count}, {name}")
            samples[name].append(measure())
    return samples
