"""Rows about many links: importing them from a file, and searching in them."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import sqlite3
import statistics
import subprocess
import threading
import time

from harness.clients import Quiet, children_cpu, verdict
from harness.servers import KEY, Failure, alone
from harness.table import Threshold, evaluate

SEARCHES = [("one match", "articles/{last}?"), ("many matches", "articles/1"), ("all match", "from=bench"), ("no match", "nosuchtext")]
ROUNDS = 20


def import_csv(lab):
    """`terse import` of a table with codes, dates and titles into a running server, on all cores."""
    count = 50_000 if lab.chosen.quick else 1_000_000
    server = lab.terse(os.path.join(lab.folder, "import"), pin=False)
    rows = []
    with alone(server, lab.servers):
        for what, header, line in [
            ("codes, dates, titles", "long_url,short_code,title,created_at", "https://www.example.com/catalogue/{m}/winter-{n}?utm_source=mail,w{n},Winter {n},2024-03-{d:02}T10:20:30Z\n"),
            ("targets only", "long_url", "https://www.example.com/plain/{m}/winter-{n}?utm_source=mail\n"),
        ]:
            file = os.path.join(lab.folder, "import.csv")
            with open(file, "w", encoding="ascii") as out:
                out.write(header + "\n")
                out.writelines(line.format(n=n, m=n % 977, d=n % 28 + 1) for n in range(count))
            lab.progress(f"import: {count:,} rows, {what}")
            cpu, client, began = server.cpu(), children_cpu(), time.monotonic()
            with Quiet(server) as quiet:
                done = subprocess.run([lab.binary, "--data-dir", server.data, "import", file, "--json"], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
            took, cpu, client = time.monotonic() - began, server.cpu() - cpu, children_cpu() - client
            if done.returncode or json.loads(done.stdout)["created"] != count:
                raise Failure(f"the import failed: {done.stdout[-300:]}{done.stderr[-300:]}")
            thresholds, result = evaluate([(Threshold("≥ 100,000/s", floor=100_000), count / took)])
            rows.append([f"import of CSV, {count:,} rows, {what}", f"{count / took:,.0f}/s", f"{cpu / count * 1e6:.1f} µs CPU of the server and {client / count * 1e6:.1f} of the client a row", thresholds, verdict(result, [], 0, 0, quiet.doubts())])
    lab.stop(server)
    return rows


def search(lab):
    """The first page of a search, and of a list while three searches are under way."""
    server, _ = lab.cold
    with alone(server, lab.servers), contextlib.ExitStack() as stack:
        wait_for_index(lab, server)
        quiet = stack.enter_context(Quiet(server))
        last = str(lab.chosen.links - 7)
        found = {}
        for name, text in SEARCHES:
            lab.progress(f"search: {name}")
            found[name] = [page(server, f"?limit=50&q={text.format(last=last)}") for _ in range(ROUNDS)]
        alone_list = [page(server, "?limit=50") for _ in range(ROUNDS)]
        with searching(server):
            beside = [page(server, "?limit=50") for _ in range(ROUNDS)]
    rows = []
    for name, pages in found.items():
        times, empty = [took for took, _, _ in pages], [links == 0 and more for _, links, more in pages]
        links = statistics.median(links for _, links, _ in pages)
        thresholds, result = evaluate([(Threshold("< 20 ms", ceiling=0.02), statistics.median(times)), (Threshold("no empty page before the last", ceiling=0), sum(empty))])
        wrong = (name == "no match") != (links == 0)
        rows.append([f"search, {lab.chosen.links:,} links, {name}", f"{statistics.median(times) * 1e3:.1f} ms", f"slowest of {ROUNDS}: {max(times) * 1e3:.1f} ms; {links:.0f} links", thresholds,
                     "failed: wrong links" if wrong else verdict(result, [], 0, 0, quiet.doubts())])
    alone_time, busy = (statistics.median(took for took, _, _ in pages) for pages in (alone_list, beside))
    thresholds, result = evaluate([(Threshold("< 20 ms", ceiling=0.02), busy)])
    rows.append([f"list, {lab.chosen.links:,} links, beside three searches", f"{busy * 1e3:.1f} ms", f"{alone_time * 1e3:.1f} ms without them", thresholds, verdict(result, [], 0, 0, quiet.doubts())])
    return rows


def page(server, query):
    """Seconds for a page of the API, the number of its links, and whether there is another page."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        began = time.perf_counter()
        connection.request("GET", f"/api/v1/urls{query}", headers={"Authorization": f"Bearer {KEY}"})
        answer = connection.getresponse()
        body = answer.read()
        took = time.perf_counter() - began
    finally:
        connection.close()
    if answer.status != 200:
        raise Failure(f"{query} answers {answer.status}: {body[:200]}")
    body = json.loads(body)
    return took, len(body["links"]), body.get("next_cursor") is not None


@contextlib.contextmanager
def searching(server):
    """Three callers who search one after another."""
    over = threading.Event()

    def ask(text):
        while not over.is_set():
            page(server, f"?limit=50&q={text}")

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        callers = [pool.submit(ask, text) for text in ("articles/1", "from=bench", "nosuchtext")]
        try:
            yield
        finally:
            over.set()
            for caller in callers:
                caller.result()


def wait_for_index(lab, server, timeout=3600):
    """Waits until the search index holds all links."""
    until = time.monotonic() + timeout
    with contextlib.closing(sqlite3.connect(f"file:{server.data}/terse.db?mode=ro", uri=True)) as store:
        while left := store.execute("SELECT count(*) FROM unindexed").fetchone()[0]:
            lab.progress(f"search: {left:,} links wait for the index")
            if time.monotonic() > until:
                raise Failure(f"{left:,} links were not indexed within {timeout} s")
            time.sleep(1)
