"""Rows about time and small machines: minutes at full rate, and a processor quota."""

import functools
import os
import threading
import time

from harness import charts, links
from harness.clients import balance, doubts_of, median, rounds, verdict
from harness.quota import Quota
from harness.servers import alone, start_nginx, start_terse
from harness.table import Threshold, evaluate

MIB = 1 << 20
PARTS = 10


def sustained(lab):
    """Minutes at full rate with browsers' requests: nothing is lost, and the last minute is as fast as the first."""
    terse, file = lab.hot
    total = 10 if lab.chosen.quick else lab.chosen.minutes * 60
    watch = Watch(terse)
    with alone(terse, lab.servers):
        lab.clients.visit_each(terse, file)
        first, written, kept = terse.drain(), terse.written(), size(terse)
        parts = []
        with watch:
            for part in range(PARTS):
                lab.progress(f"sustained: part {part + 1} of {PARTS}, each {total / PARTS:.0f} s")
                parts.append(lab.clients.visit(terse, "zipf", file, browser=True, seconds=total / PARTS, warm_up=0.1 if part else 0.5))
        began = time.monotonic()
        counts = [now - then for now, then in zip(terse.drain(), first)]
        drained = time.monotonic() - began
        written, kept = terse.written() - written, size(terse) - kept
    counted, answered = counts[0], sum(part.answered for part in parts)
    lost, surplus = balance(parts, counts)
    title = "Redirects per second in the course of the run"
    marks = [f"{(part + 1) * total / PARTS / 60:.1f}" for part in range(PARTS)]
    lab.charts["sustained"] = title, charts.lines(title, "redirects/s; below: minutes", marks, [("terse, every click counted", [part.rate for part in parts])])
    thresholds, result = evaluate([(Threshold("0 clicks lost", ceiling=0), lost), (Threshold("last tenth ≥ 0.9 × first", floor=0.9), parts[-1].rate / max(parts[0].rate, 1e-9))])
    result = verdict(result, parts, lost, surplus, doubts_of(lab, {"terse": parts}))
    rate = sum(part.requests for part in parts) / sum(part.seconds for part in parts)
    p99 = max(part.p99 for part in parts)
    return [
        [f"{total / 60:.1f} minutes at full rate, browsers' requests", f"{rate:,.0f}/s", f"{answered:,} answered, {counted:,.0f} counted, {lost:,.0f} lost", thresholds, result],
        ["  its slowest tenth by p99; most memory; most journal; time to count the rest", f"{p99 * 1e3:.2f} ms",
         f"{watch.memory / MIB:,.0f} MiB; {watch.journal / MIB:,.0f} MiB; {drained:.1f} s", "", ""],
        ["  octets a click: written to the disk, journal included; kept in clicks.db, sums included", f"{written / max(counted, 1):,.0f}; {kept / max(counted, 1):,.1f}", "",
         *evaluate([(Threshold("written ≤ 200", ceiling=200), written / max(counted, 1))])],
    ]


def size(server):
    """Octets of the file of clicks, with its log."""
    files = (os.path.join(server.data, name) for name in ("clicks.db", "clicks.db-wal"))
    return sum(os.path.getsize(file) for file in files if os.path.exists(file))


class Watch:
    """Looks at a server twice a second: its memory and the journal that waits."""

    def __init__(self, server):
        self.server, self.memory, self.journal = server, 0, 0
        self.over, self.thread = threading.Event(), threading.Thread(target=self.run, daemon=True)

    def run(self):
        while not self.over.wait(0.5):
            self.memory = max(self.memory, self.server.memory())
            try:
                self.journal = max(self.journal, self.server.metric("terse_journal_waiting_bytes"))
            except OSError:
                pass  # asked again in half a second

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def quota(lab):
    """terse and nginx, each with a part of one processor, as in a small container."""
    rows = []
    for cpus in (0.5,) if lab.chosen.quick else (0.25, 0.5):
        groups, servers = [Quota(cpus) for _ in range(3)], []
        try:
            folder = os.path.join(lab.folder, f"quota-{cpus}")
            with alone(lab.hot[0], lab.servers):
                lab.hot[0].backup(os.path.join(folder, "data"), lab.binary)
            servers.append(start_terse(lab.binary, folder, lab.threads, lab.server_cores, None, groups[0].command()))
            for name, group in zip(("nginx", "nginx again"), groups[1:]):
                of_nginx = os.path.join(folder, name.replace(" ", "-"))
                config = functools.partial(links.nginx_config, lab.numbered, of_nginx, workers=lab.threads)
                servers.append(start_nginx(config, of_nginx, lab.server_cores, group.command()))
                servers[-1].name = name
            lab.servers += servers
            servers[0].wait_for("/readyz", 200)
            for server in servers[1:]:
                server.wait_for(lab.numbered[0][1], 302)
            rows += compare_within(lab, cpus, servers)
        finally:
            for server in servers:
                if server in lab.servers:
                    lab.stop(server)
            for group in groups:
                group.close()
    return rows


def compare_within(lab, cpus, servers):
    participants = []
    for server in servers:
        lab.clients.visit_each(server, lab.hot[1])

        def once(server=server):
            with alone(server, lab.servers):
                return lab.clients.visit(server, "zipf", lab.hot[1], browser=True, warm_up=1)

        participants.append((server.name, once))
    before = servers[0].drain()
    samples = rounds(lab.chosen.rounds, participants, lambda text: lab.progress(f"quota {cpus}: {text}"))
    counts = [now - then for now, then in zip(servers[0].drain(), before)]
    mine, theirs = samples["terse"], samples["nginx"]
    lost, surplus = balance(mine, counts)
    ratio = median(mine, "rate") / max(median(theirs, "rate"), 1e-9)
    thresholds, result = evaluate([(Threshold("0 clicks lost", ceiling=0), lost), (Threshold("≥ 1.00 × nginx", floor=1.0), ratio)])
    # A group that used its share is stopped until its next period, so a few per cent are never used.
    result = verdict(result, mine + theirs, lost, surplus, doubts_of(lab, samples, cpus, least=0.9))
    beside = f"nginx {median(theirs, 'rate'):,.0f}/s; {ratio:.2f} ×; p99 {median(mine, 'p99') * 1e3:.0f} ms, nginx {median(theirs, 'p99') * 1e3:.0f} ms; {counts[0]:,.0f} clicks counted"
    return [[f"{cpus} of a processor, browsers' requests", f"{median(mine, 'rate'):,.0f}/s", beside, thresholds, result]]
