"""What is measured, row by row, and the bar beside each."""

import os
import statistics
import time

from harness import links
from harness.clients import median, rounds
from harness.servers import Failure, alone, sync_latency
from harness.table import Bar, judged, markdown, micros, number

MIB = 1 << 20
NAMES = ["hot", "before", "clicks", "single", "unknown", "cold", "connections", "http2", "counting", "p99", "create", "memory", "start"]


def measure(lab):
    """The tables with all chosen rows, as markdown."""
    wanted = lab.chosen.only or [name for name in NAMES if name != "before" or lab.chosen.against]
    contests = {"hot": hot, "before": before, "clicks": clicks, "single": single, "unknown": unknown, "cold": cold, "connections": connections, "http2": http2}
    rates = [contests[name](lab) for name in NAMES if name in wanted and name in contests]
    figures = []
    for name, function in (("counting", counting), ("p99", p99), ("create", create), ("memory", memory), ("start", start)):
        if name in wanted:
            figures += function(lab)
    head = ["redirects", "terse/s", "against", "its/s", "ratio", "CPU µs", "its CPU µs", "CPU ratio", "busy: server, client"]
    return [
        rates and markdown([*head, "bar", "verdict"], rates),
        figures and markdown(["other figures", "terse", "against", "bar", "verdict"], figures),
    ]


def contest(lab, what, subject, rival, bar=None, cpu_bar=None):
    """One row: a subject and a rival, each a name, a server and a function making a sample. Their samples are kept."""
    contenders = []
    for name, server, sample in (subject, rival):
        def once(server=server, sample=sample):
            with alone(server, lab.servers):
                return sample(server)

        contenders.append((name, once))
    samples = rounds(lab.chosen.rounds, contenders, lambda text: lab.progress(f"{what}: {text}"))
    mine, theirs = samples[subject[0]], samples[rival[0]]
    ratio = median(mine, "rate") / max(median(theirs, "rate"), 1e-9)
    cpu = max(median(mine, "cpu_per_request"), 1e-9) / max(median(theirs, "cpu_per_request"), 1e-9)
    # A client at its limit hides how much more a server could do: then what counts is what a full core would have answered.
    busy, client = median(mine, "busy") / lab.threads, median(mine, "client_busy") / lab.clients.threads
    limited = busy < 0.95 and client > 0.9
    bars, verdict = judged([(bar, 1 / cpu if limited else ratio), (cpu_bar, cpu)])
    if limited and bar:
        verdict += " (by CPU: the client was the limit)"
    errors = sum(sample.errors for sample in mine + theirs)
    if errors:
        verdict = f"{errors} errors"
    row = [
        what, number(median(mine, "rate")), rival[0], number(median(theirs, "rate")), f"{ratio:.2f}",
        micros(median(mine, "cpu_per_request")), micros(median(theirs, "cpu_per_request")), f"{cpu:.2f}",
        f"{busy:.0%}, {client:.0%}", bars, verdict,
    ]
    return row, mine, theirs


def wrk(lab, pick, file, **settings):
    return lambda server: lab.clients.wrk(server, pick, file, **settings)


def hot(lab):
    (terse, file), nginx = lab.hot, lab.nginx
    visit = wrk(lab, "zipf", file)
    bars = Bar("≥ 1.10 ×", floor=1.10), Bar("CPU ≤ 0.85 ×", ceiling=0.85)
    what = f"hot, {lab.chosen.hot_links:,} links, zipf"
    row, mine, theirs = contest(lab, what, ("terse", terse, visit), ("nginx", nginx, visit), *bars)
    lab.maximum = {"terse": median(mine, "rate"), "nginx": median(theirs, "rate")}
    return row


def before(lab):
    """What a change costs: the same visits to this terse and to the one given with --against."""
    (terse, file), (earlier, paths) = lab.hot, lab.earlier
    subject, rival = ("terse", terse, wrk(lab, "zipf", file)), ("before", earlier, wrk(lab, "zipf", paths))
    return contest(lab, "the same links, before and after", subject, rival, Bar("≥ 0.97 ×", floor=0.97))[0]


def clicks(lab):
    """What counting costs: the same links, visited as browsers do, with and without."""
    terse, file = lab.hot
    visit = wrk(lab, "zipf", file, browser=True)
    what = "clicks counted, browsers' requests"
    return contest(lab, what, ("terse", terse, visit), ("uncounted", lab.uncounted, visit), Bar("≥ 0.95 ×", floor=0.95))[0]


def counting(lab):
    """How fast clicks are counted, once there is time: a backlog is made, then timed while nobody visits."""
    terse, file = lab.hot
    counted, waiting = 'terse_clicks_total{what="counted"}', "terse_journal_waiting_bytes"
    with alone(terse, lab.servers):
        lab.clients.wrk(terse, "zipf", file, browser=True, seconds=max(4, lab.chosen.seconds))
        time.sleep(0.2)
        began, first, behind, cpu = time.monotonic(), terse.metric(counted), terse.metric(waiting), terse.cpu()
        while terse.metric(waiting) > 0:
            if time.monotonic() - began > 600:
                raise Failure("clicks are not counted")
            time.sleep(0.05)
        took, clicks, cpu = time.monotonic() - began, terse.metric(counted) - first, terse.cpu() - cpu
    row = ["clicks counted while catching up", f"{clicks / took:,.0f}/s", f"{cpu / max(clicks, 1) * 1e6:.1f} µs CPU each"]
    return [[*row, "", f"{clicks:,.0f} clicks, {behind / MIB:,.0f} MiB of journal"]]


def single(lab):
    (terse, file), nginx = lab.hot, lab.nginx
    visit = wrk(lab, "single", file)
    return contest(lab, "one hot link", ("terse", terse, visit), ("nginx", nginx, visit))[0]


def unknown(lab):
    terse, file = lab.hot
    subject = ("terse", terse, wrk(lab, "unknown", file))
    rival = ("terse, hot", terse, wrk(lab, "zipf", file))
    return contest(lab, "unknown codes", subject, rival, Bar("≥ 1.00 ×", floor=1.0))[0]


def cold(lab):
    (terse, file), (other, paths) = lab.hot, lab.cold
    subject = ("terse", other, wrk(lab, "uniform", paths))
    rival = ("terse, hot", terse, wrk(lab, "zipf", file))
    # Visiting each would take minutes and warm what should be cold; some are proven to lead somewhere.
    with alone(other, lab.servers):
        report, sample = lab.clients.bench("redirect", other, "--pick", "uniform", "--paths", paths, "--seconds", 1)
    if sample.errors:
        raise Failure(f"the cold links do not all answer: {report['errors']}, {report['sample']}")
    return contest(lab, f"cold, {lab.chosen.links:,} links, uniform", subject, rival, Bar("≥ 0.50 ×", floor=0.5))[0]


def connections(lab):
    (terse, file), nginx = lab.hot, lab.nginx
    visit = wrk(lab, "zipf", file, close=True)
    return contest(lab, "a connection each", ("terse", terse, visit), ("nginx", nginx, visit))[0]


def http2(lab):
    (terse, _), nginx = lab.hot, lab.nginx

    def visit(server):
        urls = os.path.join(lab.folder, f"urls-{server.name}")
        if not os.path.exists(urls):
            with open(urls, "w", encoding="ascii") as out:
                out.write(links.zipf_urls(lab.numbered, server.url_h2, 10_000))
        return lab.clients.h2load(server, urls)

    what = "HTTP/2, 16 connections × 16 streams"
    return contest(lab, what, ("terse", terse, visit), ("nginx", nginx, visit), Bar("≥ 3.00 ×", floor=3.0))[0]


def p99(lab):
    """Latency while there is room: evenly spaced visits, each counted from the moment it was due."""
    if not lab.maximum:
        hot(lab)
    found, kept_up = {"terse": [], "nginx": []}, True
    for turn in range(lab.chosen.rounds):
        for server in (lab.hot[0], lab.nginx):
            lab.progress(f"p99 at 70 %: round {turn + 1} of {lab.chosen.rounds}, {server.name}")
            rate = int(0.7 * lab.maximum[server.name])
            paced = ["--rate", rate, "--paths", lab.hot[1], "--seconds", lab.chosen.seconds, "--warm-up", 0.5]
            with alone(server, lab.servers):
                _, sample = lab.clients.bench("redirect", server, *paced)
            found[server.name].append(sample)
            kept_up &= not sample.errors and sample.rate > 0.97 * rate
    mine, theirs = median(found["terse"], "p99"), median(found["nginx"], "p99")
    bars, verdict = judged([(Bar("< 1 ms", ceiling=0.001), mine)])
    what = f"p99 at 70 % of the maximum ({0.7 * lab.maximum['terse']:,.0f}/s)"
    return [[what, f"{mine * 1e3:.2f} ms", f"nginx {theirs * 1e3:.2f} ms", bars, verdict if kept_up else "did not keep up"]]


def create(lab):
    """Durable creates. Server and client share all cores: the disk is the point here, not the CPU."""
    server = lab.terse(os.path.join(lab.folder, "create"), pin=False)
    found, errors = {1: [], 16: [], 64: []}, 0
    with alone(server, lab.servers):
        # At the disk's pace of now, not of an hour ago.
        sync, _ = sync_latency(lab.folder)
        for turn in range(lab.chosen.rounds):
            for callers, samples in found.items():
                lab.progress(f"create: round {turn + 1} of {lab.chosen.rounds}, {callers} callers")
                settings = ["--callers", callers, "--seconds", lab.chosen.seconds]
                _, sample = lab.clients.bench("create", server, *settings, pin=False)
                samples.append(sample)
                errors += sample.errors
    lab.stop(server)
    rates = {callers: median(samples, "rate") for callers, samples in found.items()}
    rows = []
    for callers, samples in found.items():
        beside = f"p99 {median(samples, 'p99') * 1e3:.1f} ms"
        bars = []
        if callers == 64:
            beside += f", {rates[64] / max(rates[1], 1e-9):.1f} × one caller"
            bars = [(Bar("≥ 10,000/s where a sync takes ≤ 1 ms", floor=10_000, applies=sync <= 0.001), rates[64])]
            bars += [(Bar("≥ 20 × one caller", floor=20), rates[64] / max(rates[1], 1e-9))]
        text, verdict = judged(bars)
        rows.append([f"durable creates, {callers} caller(s)", f"{rates[callers]:,.0f}/s", beside, text,
                     f"{errors} errors" if errors else verdict])
    rows.append(["the disk: 4 KiB appended and synced", f"{sync * 1e3:.2f} ms", f"{1 / sync:,.0f} a second", "", ""])
    return rows


def memory(lab):
    server = lab.terse(os.path.join(lab.folder, "idle"))
    time.sleep(2)
    resident = server.memory()
    lab.stop(server)
    bars, verdict = judged([(Bar("≤ 30 MiB", ceiling=30 * MIB), resident)])
    return [["memory, idle", f"{resident / MIB:.1f} MiB", "", bars, verdict]]


def start(lab):
    """From the start of the process to the first redirect, the file system's cache warm."""
    server, file = lab.cold
    with open(file, encoding="ascii") as lines:
        path = next(lines).strip()
    lab.stop(server)
    taken = []
    for _ in range(max(3, lab.chosen.rounds)):
        server = lab.terse(lab.cold_folder, ready=False)
        taken.append(server.wait_for(path, 302))
        lab.stop(server)
    del lab.cold
    seconds = statistics.median(taken)
    bars, verdict = judged([(Bar("≤ 1 s", ceiling=1), seconds)])
    return [[f"start to first redirect, {lab.chosen.links:,} links", f"{seconds * 1e3:.0f} ms", "", bars, verdict]]


def instructions(found):
    """The table of `bench/run instructions`."""
    everyone, serving, requests = found["terse"]
    bar = Bar("≤ 4,000", ceiling=4000)
    text, verdict = judged([(bar, serving or everyone)])
    rows = []
    if serving:
        rows.append(["terse, serving threads, click journaled", number(serving), number(requests), text, verdict])
        text = verdict = ""
    rows.append(["terse, the whole process", number(everyone), number(requests), text, verdict])
    rows.append(["nginx", number(found["nginx"][0]), number(found["nginx"][2]), "", ""])
    return markdown(["user-mode instructions", "per redirect", "over redirects", "bar", "verdict"], rows)
