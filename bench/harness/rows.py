"""The measured rows and their thresholds."""

import os
import statistics
import time

from harness import charts, data, links, peer, sustained
from harness.clients import Quiet, balance, doubts_of, median, rounds, verdict
from harness.servers import Failure, alone, sync_latency
from harness.table import Threshold, evaluate, markdown, micros, number

MIB = 1 << 20
NAMES = ["hot", "browser", "before", "peer", "clicks", "single", "unknown", "cold", "connections", "http2",
         "counting", "sustained", "quota", "p99", "create", "import", "search", "memory", "start"]


def measure(lab):
    """Measures all chosen rows; returns the tables as markdown."""
    needs = {"before": lab.chosen.against, "peer": lab.chosen.peer}
    wanted = lab.chosen.only or [name for name in NAMES if needs.get(name, True)]
    comparisons = {"hot": hot, "browser": browser, "before": before, "peer": against_peer, "clicks": clicks, "single": single, "unknown": unknown, "cold": cold,
                   "connections": connections, "http2": http2}
    rates = [comparisons[name](lab) for name in NAMES if name in wanted and name in comparisons]
    figures = []
    for name, function in (("counting", counting), ("sustained", sustained.sustained), ("quota", sustained.quota), ("p99", p99), ("create", create), ("import", data.import_csv),
                           ("search", data.search), ("memory", memory), ("start", start)):
        if name in wanted:
            figures += function(lab)
    head = ["redirects", "terse/s", "against", "its/s", "ratio", "CPU µs, serving", "its CPU µs", "CPU ratio", "CPU µs, process, per counted click", "its ratio", "busy: server, client",
            "clicks counted, dropped, lost"]
    against_nginx = [row for row in rates if row[2] in ("nginx", "chhoto-url")]
    if against_nginx:
        title = "Redirects per second: terse ÷ the other server in the same run"
        drawn = [(f"{row[0].split(',')[0]}, ÷ {row[2]}", float(row[4]), f"{row[4]} ×", True) for row in against_nginx]
        lab.charts["rates"] = title, charts.bars(title, drawn, (1, "as fast"))
    return [
        rates and markdown([*head, "threshold", "result"], rates),
        figures and markdown(["other figures", "terse", "against", "threshold", "result"], figures),
    ]


def compare(lab, what, subject, baseline, threshold=None, cpu_threshold=None, all_threshold=None, counts=True):
    """Measures one row: a subject and a baseline, each a name, a server and a function that makes a sample. `counts`: every answer is a click."""
    contenders = [subject, baseline]
    if baseline[1].name == "nginx":
        contenders.append(("nginx again", lab.second_nginx, baseline[2]))
    participants = []
    for name, server, sample in contenders:
        if prepare := getattr(sample, "prepare", None):
            with alone(server, lab.servers):
                prepare(server)

        def once(server=server, sample=sample):
            with alone(server, lab.servers):
                return sample(server)

        participants.append((name, once))
    server = subject[1]
    before, spent = clicks_of(lab, server)
    samples = rounds(lab.chosen.rounds, participants, lambda text: lab.progress(f"{what}: {text}"))
    after, spent_after = clicks_of(lab, server)
    counted, dropped, lost = (now - then for now, then in zip(after, before))
    mine, theirs = samples[subject[0]], samples[baseline[0]]
    ratio = median(mine, "rate") / max(median(theirs, "rate"), 1e-9)
    cpu = max(median(mine, "serving_per_request"), 1e-9) / max(median(theirs, "serving_per_request"), 1e-9)
    # With all that terse did until the last click was counted.
    process = (spent_after - spent) / counted if counted else None
    of_process = process / max(median(theirs, "cpu_per_request"), 1e-9) if process else float("inf")
    on_server = [sample for name, other, _ in contenders if other is server for sample in samples[name]]
    missing, surplus = balance(on_server, (counted, dropped, lost)) if server.counts_clicks and counts else (dropped + lost, 0)
    thresholds, result = evaluate([(threshold, ratio), (cpu_threshold, cpu), (all_threshold, of_process)])
    result = verdict(result, mine + theirs, missing, surplus, doubts_of(lab, samples))
    busy, client = median(mine, "busy") / lab.threads, median(mine, "client_busy")
    row = [
        what, number(median(mine, "rate")), baseline[0], number(median(theirs, "rate")), f"{ratio:.2f}",
        micros(median(mine, "serving_per_request")), micros(median(theirs, "serving_per_request")), f"{cpu:.2f}",
        micros(process) if process else "–", f"{of_process:.2f}" if process else "–", f"{busy:.0%}, {client:.0%}",
        f"{counted:,.0f}, {dropped:,.0f}, {missing - dropped:,.0f}" if server.counts_clicks else "–", thresholds, result,
    ]
    return row, mine, theirs


def clicks_of(lab, server):
    """Once all clicks are counted: the counted, dropped and lost ones, and the CPU seconds of the whole process."""
    if not server.counts_clicks:
        return [0, 0, 0], 0
    with alone(server, lab.servers):
        return server.drain(), server.cpu()


def visits(lab, pick, file, each=True, **settings):
    """Visits of links that the server has answered once, just before the first round and before clicks are compared."""
    def sample(server):
        return lab.clients.visit(server, pick, file, **settings)

    if each and pick in ("zipf", "single"):
        sample.prepare = lambda server: lab.clients.visit_each(server, file)
    return sample


def hot(lab):
    (terse, file), nginx = lab.hot, lab.nginx
    visit = visits(lab, "zipf", file)
    thresholds = Threshold("≥ 1.40 ×", floor=1.40), Threshold("CPU ≤ 0.68 ×", ceiling=0.68), Threshold("process ≤ 1.00 ×", ceiling=1.0)
    what = f"hot, {lab.chosen.hot_links:,} links, zipf"
    row, mine, theirs = compare(lab, what, ("terse", terse, visit), ("nginx", nginx, visit), *thresholds)
    lab.maximum = {"terse": median(mine, "rate"), "nginx": median(theirs, "rate")}
    return row


def browser(lab):
    (terse, file), nginx = lab.hot, lab.nginx
    visit = visits(lab, "zipf", file, browser=True)
    thresholds = Threshold("≥ 1.55 ×", floor=1.55), Threshold("CPU ≤ 0.62 ×", ceiling=0.62), Threshold("process ≤ 1.00 ×", ceiling=1.0)
    return compare(lab, "hot, browsers' requests", ("terse", terse, visit), ("nginx", nginx, visit), *thresholds)[0]


def before(lab):
    """The cost of a change: the same visits to this binary and to the one of --against."""
    (terse, file), (baseline_server, paths) = lab.hot, lab.baseline
    subject, baseline = ("terse", terse, visits(lab, "zipf", file)), ("before", baseline_server, visits(lab, "zipf", paths))
    return compare(lab, "the same links, before and after", subject, baseline, Threshold("≥ 0.97 ×", floor=0.97))[0]


def against_peer(lab):
    """Another shortener that counts visits, with the same links."""
    terse, file = lab.hot
    theirs = visits(lab, "zipf", file, status=peer.STATUS, each=False)
    subject, baseline = ("terse", terse, visits(lab, "zipf", file)), ("chhoto-url", lab.peer, theirs)
    return compare(lab, "hot, against another shortener", subject, baseline, Threshold("≥ 6.00 ×", floor=6.0))[0]


def clicks(lab):
    """The cost of click counting: browser-like visits with and without it."""
    terse, file = lab.hot
    visit = visits(lab, "zipf", file, browser=True)
    what = "clicks counted, browsers' requests"
    return compare(lab, what, ("terse", terse, visit), ("uncounted", lab.uncounted, visit), Threshold("≥ 0.97 ×", floor=0.97))[0]


def counting(lab):
    """The rate of click counting: builds a backlog, then times it without visits."""
    terse, file = lab.hot
    counted, waiting = 'terse_clicks_total{what="counted"}', "terse_journal_waiting_bytes"
    with alone(terse, lab.servers):
        before = terse.drain()
        sample = lab.clients.visit(terse, "zipf", file, browser=True, seconds=max(4, lab.chosen.seconds))
        time.sleep(0.2)
        began, first, behind, cpu = time.monotonic(), terse.metric(counted), terse.metric(waiting), terse.cpu()
        while terse.metric(waiting) > 0:
            if time.monotonic() - began > 600:
                raise Failure("the click backlog was not counted within 600 s")
            time.sleep(0.05)
        took, clicks, cpu = time.monotonic() - began, terse.metric(counted) - first, terse.cpu() - cpu
        counts = [now - then for now, then in zip(terse.drain(), before)]
    doubts = doubts_of(lab, {"terse": [sample]})
    if cpu < 0.95 * took:
        doubts.append(f"terse was only {cpu / took:.0%} busy while it caught up")
    beside = f"{cpu / max(clicks, 1) * 1e6:.1f} µs CPU each; {clicks:,.0f} clicks, {behind / MIB:,.0f} MiB of journal"
    return [["clicks counted while catching up", f"{clicks / took:,.0f}/s", beside, "", verdict("", [sample], *balance([sample], counts), doubts)]]


def single(lab):
    (terse, file), nginx = lab.hot, lab.nginx
    visit = visits(lab, "single", file)
    return compare(lab, "one hot link", ("terse", terse, visit), ("nginx", nginx, visit))[0]


def unknown(lab):
    terse, file = lab.hot
    subject = ("terse", terse, visits(lab, "unknown", file))
    baseline = ("terse, hot", terse, visits(lab, "zipf", file))
    return compare(lab, "unknown codes", subject, baseline, None, Threshold("CPU ≤ 0.90 ×", ceiling=0.9), counts=False)[0]


def cold(lab):
    (terse, file), (other, paths) = lab.hot, lab.cold
    subject = ("terse", other, visits(lab, "uniform", paths))
    baseline = ("terse, hot", terse, visits(lab, "zipf", file))
    # Visiting every link would take minutes and warm the cache, so only a sample is checked.
    with alone(other, lab.servers):
        report, sample = lab.clients.bench("redirect", other, "--pick", "uniform", "--paths", paths, "--seconds", 1)
    if sample.errors:
        raise Failure(f"the cold links do not all answer: {report['errors']}, {report['sample']}")
    return compare(lab, f"cold, {lab.chosen.links:,} links, uniform", subject, baseline, Threshold("≥ 0.60 ×", floor=0.6))[0]


def connections(lab):
    (terse, file), nginx = lab.hot, lab.nginx
    visit = visits(lab, "zipf", file, close=True)
    return compare(lab, "a connection each", ("terse", terse, visit), ("nginx", nginx, visit), None, Threshold("CPU ≤ 0.85 ×", ceiling=0.85))[0]


def http2(lab):
    (terse, _), nginx = lab.hot, lab.nginx

    def visit(server):
        urls = os.path.join(lab.folder, f"urls-{server.name}")
        if not os.path.exists(urls):
            with open(urls, "w", encoding="ascii") as out:
                out.write(links.zipf_urls(lab.numbered, server.url_h2, 10_000))
        return lab.clients.h2load(server, urls)

    what = "HTTP/2, 16 connections × 16 streams"
    return compare(lab, what, ("terse", terse, visit), ("nginx", nginx, visit), Threshold("≥ 3.00 ×", floor=3.0))[0]


def p99(lab):
    """Latency at 70 % load: evenly spaced visits, each timed from when it was due."""
    if not lab.maximum:
        hot(lab)
    found, kept_up, doubts = {"terse": [], "nginx": []}, True, []
    for turn in range(lab.chosen.rounds):
        for server in (lab.hot[0], lab.nginx):
            lab.progress(f"p99 at 70 %: round {turn + 1} of {lab.chosen.rounds}, {server.name}")
            rate = int(0.7 * lab.maximum[server.name])
            paced = ["--rate", rate, "--paths", lab.hot[1], "--seconds", lab.chosen.seconds, "--warm-up", 0.5]
            with alone(server, lab.servers), Quiet(server) as quiet:
                _, sample = lab.clients.bench("redirect", server, *paced)
            doubts += quiet.doubts()
            found[server.name].append(sample)
            kept_up &= not sample.errors and sample.rate > 0.97 * rate
    mine, theirs = median(found["terse"], "p99"), median(found["nginx"], "p99")
    thresholds, result = evaluate([(Threshold("< 1 ms", ceiling=0.001), mine)])
    what = f"p99 at 70 % of the maximum ({0.7 * lab.maximum['terse']:,.0f}/s)"
    return [[what, f"{mine * 1e3:.2f} ms", f"nginx {theirs * 1e3:.2f} ms", thresholds, verdict(result if kept_up else "did not keep up", found["terse"] + found["nginx"], 0, 0, sorted(set(doubts))[-1:])]]


def create(lab):
    """Durable creates. Server and client share all cores, because the disk is the bottleneck."""
    server = lab.terse(os.path.join(lab.folder, "create"), pin=False)
    found, errors = {1: [], 16: [], 64: []}, 0
    with alone(server, lab.servers):
        # Measured now, because the speed of the disk changes over time.
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
        thresholds = []
        if callers == 64:
            beside += f", {rates[64] / max(rates[1], 1e-9):.1f} × one caller"
            thresholds = [(Threshold("≥ 10,000/s where a sync takes ≤ 1 ms", floor=10_000, applies=sync <= 0.001), rates[64])]
            thresholds += [(Threshold("≥ 20 × one caller", floor=20), rates[64] / max(rates[1], 1e-9))]
        text, result = evaluate(thresholds)
        rows.append([f"durable creates, {callers} caller(s)", f"{rates[callers]:,.0f}/s", beside, text,
                     f"{errors} errors" if errors else result])
    rows.append(["the disk: 4 KiB appended and synced", f"{sync * 1e3:.2f} ms", f"{1 / sync:,.0f} a second", "", ""])
    return rows


def memory(lab):
    server = lab.terse(os.path.join(lab.folder, "idle"))
    time.sleep(2)
    resident = server.memory()
    lab.stop(server)
    thresholds, result = evaluate([(Threshold("≤ 20 MiB", ceiling=20 * MIB), resident)])
    return [["memory, idle", f"{resident / MIB:.1f} MiB", "", thresholds, result], memory_after_clicks(lab)]


def memory_after_clicks(lab):
    """Resident memory of a server with all hot links in memory, half a minute after about a million clicks were counted."""
    count = lab.chosen.hot_links
    server, file = lab.filled(os.path.join(lab.folder, "memory"), count)
    with alone(server, lab.servers):
        lab.clients.visit_each(server, file)
        before, samples, clicks, highest = server.drain(), [], count, 0
        while clicks < (1_000_000 if count >= 100_000 else 10 * count):
            samples.append(lab.clients.visit(server, "uniform", file, seconds=2))
            clicks += samples[-1].answered
            highest = max(highest, server.memory())
        counts = [now - then for now, then in zip(server.drain(), before)]
        time.sleep(30)
        resident = server.memory()
    lab.stop(server)
    thresholds, result = evaluate([(Threshold("≤ 90 MiB", ceiling=90 * MIB), resident)])
    what = f"memory with {count:,} links, after {clicks:,} clicks (during them)"
    return [what, f"{resident / MIB:.1f} MiB ({highest / MIB:.1f} MiB)", "", thresholds, verdict(result, samples, *balance(samples, counts), [])]


def start(lab):
    """From process start to the first redirect, with a warm file system cache."""
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
    thresholds, result = evaluate([(Threshold("≤ 1 s", ceiling=1), seconds)])
    return [[f"start to first redirect, {lab.chosen.links:,} links", f"{seconds * 1e3:.0f} ms", "", thresholds, result]]


def instructions(found):
    """The table of `bench/run instructions`."""
    rows = []
    for browser, threshold in ((False, Threshold("≤ 2,800", ceiling=2800)), (True, Threshold("≤ 4,500", ceiling=4500))):
        total_all, serving, requests = found["terse", browser]
        what = "browsers' requests" if browser else "plain requests"
        text, result = evaluate([(threshold, serving)])
        rows.append([f"terse, serving threads, click journaled, {what}", number(serving), number(requests), text, result])
        rows.append([f"terse, the whole process, {what}", number(total_all), number(requests), "", ""])
        rows.append([f"nginx, {what}", number(found["nginx", browser][0]), number(found["nginx", browser][2]), "", ""])
    return markdown(["user-mode instructions", "per redirect", "over redirects", "threshold", "result"], rows)
