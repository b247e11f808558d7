"""Size and server time of every page of an account that owns many links.

Server time is the CPU time of the whole process per request (user and system, from schedstat), so that other load on the machine does
not change it. A page that waits for anything else than the CPU does not show in it, therefore the fastest answer counts as well, unless
the machine was busy before the run.
"""

import concurrent.futures
import contextlib
import gzip
import http.client
import json
import os
import subprocess
import time
import urllib.parse

from harness import table
from harness.servers import Failure

LINKS = 1_000_000
BATCH = 1000
CLICKS = 20_000
# How many links of the list are clicked, beside the busy one.
CLICKED = 5_000
ROUNDS = 20
PASSWORD = "correct horse battery"
MAX_BYTES, MAX_MS = 50 * 1024, 50
# With more processes running before the run, the fastest answer says nothing of a page.
MAX_LOAD = 1.0
TAGS = ["newsletter", "print", "shop", "talks", "team", "content", "partners", "q4"]
AGENTS = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
    "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
]
# One network for each of many countries.
NETWORKS = "91.10 73.10 81.130 90.10 85.240 106.200 126.10 177.20 1.124 99.230 80.30 79.10 84.26 83.10 78.70 85.2 62.46 187.130 181.10".split()

# The pages, with whether they are for visitors.
PAGES = [
    ("Overview", "/dashboard"),
    ("Links, newest first", "/links"),
    ("Links, by clicks", "/links?sort=clicks"),
    ("Links, by clicks, one tag", "/links?sort=clicks&tag=print"),
    ("Links, by clicks, expired", "/links?sort=clicks&show=expired"),
    ("Links, search", "/links?q=winter-999"),
    ("Links, search, many matches", "/links?q=example"),
    ("Links, one tag", "/links?tag=print"),
    ("Links, expired", "/links?show=expired"),
    ("Links, all accounts", "/links?owner=all"),
    ("A link", "/links/busy"),
    ("A link, 12 months", "/links/busy?period=12m"),
    ("A link, all countries", "/links/busy/values?of=countries"),
    ("A link, live", "/links/busy/live"),
    ("A link, rules", "/links/busy/rules?try=1&country=AT"),
    ("A link, QR code", "/links/busy/qr"),
    ("A link, history", "/links/busy/history"),
    ("New link", "/links/new"),
    ("Edit a link", "/links/busy/edit"),
    ("Tags", "/tags"),
    ("Domains", "/domains"),
    ("Import", "/import"),
    ("Webhooks", "/webhooks"),
    ("A webhook", "/webhooks/1"),
    ("Account", "/account"),
    ("Two-factor sign-in", "/account/two-factor"),
    ("Moderation", "/moderation"),
    ("Moderation, links to a host", "/moderation?search=www.example.com"),
    ("Accounts", "/accounts"),
    ("Branding", "/branding"),
    ("System", "/system"),
]
# The pages that depend on how many links were clicked, while one link has all clicks.
FEW_CLICKED = [(f"{name}, one link clicked", path) for name, path in PAGES if "sort=clicks" in path or path == "/dashboard"]
FOR_VISITORS = [
    ("Home page", "/"),
    ("Sign in", "/login"),
    ("Preview", "/busy+"),
    ("Report", "/busy?report"),
    ("Password", "/secret"),
    ("Warning", "/lure"),
    ("Not found", "/nosuch-9"),
]


def command(lab, server, *arguments):
    done = subprocess.run([lab.binary, "--data-dir", server.data, *arguments], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise Failure(f"terse {arguments[0]} failed: {done.stderr[-500:]}")
    return done.stdout.strip()


def call(server, method, path, headers, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def cpu(server):
    """Seconds of CPU of all threads so far, to the nanosecond."""
    total = 0
    for pid in server.tree():
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/schedstat") as stat:
                total += int(stat.read().split()[0])
    return total / 1e9


def fill(lab, server, key, count):
    """Creates the links of one account through the bulk API. Returns the codes of some of them, spread over the list."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def batch(begin):
        links = [
            {
                "long_url": f"https://www.example.com/catalogue/{number % 977}/winter-{number}?utm_source=newsletter",
                "title": f"Winter catalogue, page {number}",
                "tags": [TAGS[number % 8]],
                **({"ttl": 86_400 * 300} if number % 50 == 0 else {}),
            }
            for number in range(begin, min(begin + BATCH, count))
        ]
        status, _, body = call(server, "POST", "/api/v1/urls/bulk", headers, json.dumps({"urls": links}))
        if status >= 300:
            raise Failure(f"bulk answers {status}: {body[:300]}")
        lab.progress(f"{begin + len(links):,} of {count:,} links")
        step = max(1, count // CLICKED)
        made = [one["link"]["short_code"] for one in json.loads(body)["results"]]
        return made[-begin % step :: step]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        codes = [code for some in pool.map(batch, range(0, count, BATCH)) for code in some]
    rules = [{"country": "AT", "to": "https://example.com/at"}, {"device": "mobile", "to": "https://example.com/m"}]
    for link in (
        {"alias": "busy", "long_url": "https://example.com/busy", "title": "The busy one", "tags": ["shop"], "rules": rules},
        {"alias": "secret", "long_url": "https://example.com/secret", "password": "sesame!"},
        # A Cyrillic letter in the name of the host.
        {"alias": "lure", "long_url": "https://p\u0430ypal.com/login"},
    ):
        status, _, body = call(server, "POST", "/api/v1/urls", headers, json.dumps(link))
        if status != 201:
            raise Failure(f"create answers {status}: {body[:300]}")
    return codes


def add_webhook(server, key, deliveries=20):
    """Makes a webhook with deliveries. Nothing listens there; the links are created before, so that they make no events."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    calls = [("/api/v1/webhooks", json.dumps({"url": "http://127.0.0.1:8/hook"}))] + [("/api/v1/webhooks/1/test", None)] * deliveries
    for path, sent in calls:
        status, _, body = call(server, "POST", path, headers, sent)
        if status >= 300:
            raise Failure(f"{path} answers {status}: {body[:300]}")


def click(server, codes):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    for number, code in enumerate(codes):
        network = NETWORKS[number * number % len(NETWORKS)]
        connection.request("GET", f"/{code}?utm_campaign=c{number % 5}", headers={
            "User-Agent": AGENTS[number % len(AGENTS)],
            "Referer": f"https://site-{number % 40}.example/",
            "Accept-Language": ["de-AT,de", "en", "fr", "ja"][number % 4],
            "X-Forwarded-For": f"{network}.{number // 250 % 250}.{number % 250 + 1}",
        })
        connection.getresponse().read()
    connection.close()
    server.drain()


def sign_in(server):
    form = urllib.parse.urlencode({"name": "ann", "password": PASSWORD, "next": "/links"})
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": server.url}
    status, answer, body = call(server, "POST", "/login", headers, form)
    if status != 303:
        raise Failure(f"signing in answers {status}: {body[:300]}")
    return answer["Set-Cookie"].split(";")[0]


def verdict(size, spent, fastest, load):
    """Whether a page is within the limits, by its bytes, the milliseconds of CPU and those of the fastest answer."""
    if size >= MAX_BYTES or spent >= MAX_MS:
        return "above"
    if fastest <= MAX_MS:
        return "ok"
    return "not valid" if load > MAX_LOAD else "above"


def visit(server, pages, lab):
    """Opens these pages: a row of the table for each."""
    cookie = sign_in(server)
    rows = []
    for name, path in pages:
        headers = {"Accept": "text/html"} if (name, path) in FOR_VISITORS else {"Accept": "text/html", "Cookie": cookie}
        status, _, body = call(server, "GET", path, headers)
        if status != (404 if name == "Not found" else 200):
            raise Failure(f"{path} answers {status}")
        lab.progress(path)
        taken, begin = [], cpu(server)
        for _ in range(ROUNDS):
            started = time.perf_counter()
            call(server, "GET", path, headers)
            taken.append(time.perf_counter() - started)
        spent, fastest = (cpu(server) - begin) / ROUNDS * 1e3, min(taken) * 1e3
        result = verdict(len(body), spent, fastest, lab.load_before)
        rows.append((name, f"{len(body) / 1024:.1f}", f"{len(gzip.compress(body, 6)) / 1024:.1f}", f"{spent:.1f}", f"{fastest:.1f}", result))
    return rows


def report(rows, count):
    head = [f"page, with {count:,} links", "KiB", "KiB with gzip", "CPU ms", "fastest ms", "< 50 KiB, < 50 ms"]
    return table.markdown(head, rows)


def measure(lab, count=LINKS):
    """Fills a server, and opens all its pages."""
    folder = os.path.join(lab.folder, "pages")
    off = {f"TERSE_LIMITS__{name}": "0" for name in ("CREATE_PER_KEY", "CREATE_PER_ACCOUNT", "CREATE_PER_IP_WITH_KEY")}
    hooks = {"TERSE_OUTGOING__WEBHOOKS": "true", "TERSE_OUTGOING__ALLOW_PRIVATE": "true"}
    server = lab.terse(folder, {**off, **hooks, "TERSE_TRUSTED_PROXIES": "127.0.0.1"}, pin=False)
    password = os.path.join(folder, "password")
    with open(password, "w", encoding="ascii") as file:
        file.write(PASSWORD + "\n")
    command(lab, server, "user", "add", "ann", "--role", "admin", "--password-file", password)
    key = command(lab, server, "key", "add", "bench", "--user", "ann")
    codes = fill(lab, server, key, count)
    click(server, ["busy"] * CLICKS)
    # The search index follows behind the writes.
    before = -1.0
    while cpu(server) - before > 0.2:
        before = cpu(server)
        time.sleep(2)
    few = visit(server, FEW_CLICKED, lab)
    click(server, codes)
    add_webhook(server, key)
    rows = visit(server, PAGES + FOR_VISITORS, lab)
    lab.stop(server)
    return report(rows + few, count)
