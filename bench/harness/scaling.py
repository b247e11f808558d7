"""How the cost of a redirect changes with the number of links, of clicked links, of connections and of threads: `bench/run scaling`."""

import os

from harness import charts, links
from harness.clients import balance, doubts_of, median, rounds, verdict
from harness.servers import Failure, alone
from harness.table import Threshold, evaluate, markdown, micros, number

NAMES = ["links", "clicked", "connections", "threads"]


def measure(lab):
    """Measures all chosen rows; returns the tables as markdown."""
    functions = {"links": by_links, "clicked": by_clicked, "connections": by_connections, "threads": by_threads}
    return [functions[name](lab) for name in NAMES if name in (lab.chosen.only or NAMES)]


def by_links(lab):
    """Links that are not in memory, uniformly at random: the cost of a lookup in stores of different sizes."""
    steps = [20_000, 200_000] if lab.chosen.quick else [1_000_000, 10_000_000]
    steps += [lab.chosen.links] if lab.chosen.links > steps[-1] else []
    rows, costs = [], []
    for count in steps:
        server, file = lab.stored(count)
        with alone(server, lab.servers):
            before, spent = server.drain(), server.cpu()
            samples = [lab.clients.visit(server, "uniform", file) for _ in range(lab.chosen.rounds)]
            counts = [now - then for now, then in zip(server.drain(), before)]
            clicks, spent = counts[0], server.cpu() - spent
        costs.append(median(samples, "cpu_per_request"))
        rows.append([number(count), number(median(samples, "rate")), micros(costs[-1]), micros(spent / max(clicks, 1)), f"{os.path.getsize(os.path.join(server.data, 'terse.db')) / count:.0f}",
                     notes(lab, {"terse": samples}, counts=counts)])
        lab.stop(server)
    limit = Threshold(f"CPU of {steps[-1]:,} ≤ 1.5 × that of {steps[0]:,}", ceiling=1.5)
    text, result = evaluate([(limit, costs[-1] / max(costs[0], 1e-12))])
    draw(lab, "scaling-links", "CPU of a redirect that is not in memory", "µs", steps, [("terse", [cost * 1e6 for cost in costs])])
    head = ["stored links, none in memory", "redirects/s", "CPU µs, process", "CPU µs, process, per counted click", "bytes a link", "notes"]
    return markdown(head, rows) + f"\n\n{text}: {result}, {costs[-1] / max(costs[0], 1e-12):.2f} ×"


def by_clicked(lab):
    """Different links clicked, each as often as any other: the cost of counting."""
    steps = [1, 1_000, 20_000] if lab.chosen.quick else [1, 1_000, 100_000, 1_000_000]
    server, file = lab.stored(steps[-1])
    with open(file, encoding="ascii") as lines:
        paths = lines.readlines()
    rows, series = [], []
    for count in steps:
        some = os.path.join(lab.folder, f"clicked-{count}")
        with open(some, "w", encoding="ascii") as out:
            out.writelines(paths[:count])
        with alone(server, lab.servers):
            lab.clients.visit_each(server, some)
            before, spent = server.drain(), server.cpu()
            samples = [lab.clients.visit(server, "uniform", some, browser=True) for _ in range(lab.chosen.rounds)]
            rest = server.cpu()
            after = server.drain()
            spent, rest = server.cpu() - spent, server.cpu() - rest
        counts = [now - then for now, then in zip(after, before)]
        clicks, lost = counts[0], balance(samples, counts)[0]
        counting = spent / max(clicks, 1) - median(samples, "serving_per_request")
        series.append(counting * 1e6)
        rows.append([number(count), number(median(samples, "rate")), micros(median(samples, "serving_per_request")), micros(spent / max(clicks, 1)), micros(counting), number(clicks), number(lost),
                     notes(lab, {"terse": samples}, counts=counts)])
    lab.stop(server)
    draw(lab, "scaling-clicked", "CPU for counting one click", "µs", steps, [("the whole process without the serving threads", series)])
    head = ["different links clicked", "redirects/s", "CPU µs, serving", "CPU µs, process, per counted click", "of this, counting", "clicks counted", "lost", "notes"]
    return markdown(head, rows)


def by_connections(lab):
    (terse, file), nginx = lab.hot, lab.nginx
    steps = [1, 64] if lab.chosen.quick else [1, 16, 64, 256, 1_024, 4_096]
    rows, series = [], {"terse": [], "nginx": []}
    for count in steps:
        participants = []
        for server in (terse, nginx, lab.second_nginx):
            def once(server=server):
                with alone(server, lab.servers):
                    return lab.clients.visit(server, "zipf", file, connections=count)

            participants.append((server.name, once))
        before = drained(lab, terse)
        samples = rounds(lab.chosen.rounds, participants, lambda text: lab.progress(f"{count} connections: {text}"))
        counts = [now - then for now, then in zip(drained(lab, terse), before)]
        for name in series:
            series[name].append(median(samples[name], "rate"))
        mine, theirs = samples["terse"], samples["nginx"]
        rows.append([number(count), number(median(mine, "rate")), number(median(theirs, "rate")), f"{median(mine, 'rate') / max(median(theirs, 'rate'), 1e-9):.2f}",
                     f"{median(mine, 'p99') * 1e3:.2f}", f"{median(theirs, 'p99') * 1e3:.2f}", notes(lab, samples, counts=counts)])
    draw(lab, "scaling-connections", "Redirects per second, by open connections", "redirects/s", steps, list(series.items()))
    return markdown(["connections", "terse/s", "nginx/s", "ratio", "terse, p99 ms", "nginx, p99 ms", "notes"], rows)


def by_threads(lab):
    """terse and nginx with more and more serving threads, each on a core of its own."""
    cores = lab.cores_of_servers()
    if len(cores) < 2:
        return f"Threads: not measured. The servers have {len(cores)} core of this machine; `--server-cores 0-3 --client-cores 4-7` gives them more."
    steps = [count for count in (1, 2, 4, 8, 16, 32, 64) if count <= len(cores)]
    rows, series = [], {"terse": [], "nginx": []}
    for count in steps:
        terse, nginx, again = lab.copies(f"threads-{count}", count, ",".join(map(str, cores[:count])))
        participants = []
        for server in (terse, nginx, again):
            def once(server=server):
                with alone(server, lab.servers):
                    return lab.clients.visit(server, "zipf", lab.hot[1], connections=64 * count, clients=min(count, lab.clients.threads))

            participants.append((server.name, once))
        before = drained(lab, terse)
        samples = rounds(lab.chosen.rounds, participants, lambda text: lab.progress(f"{count} threads: {text}"))
        counts = [now - then for now, then in zip(drained(lab, terse), before)]
        for name in series:
            series[name].append(median(samples[name], "rate"))
        for server in (terse, nginx, again):
            lab.stop(server)
        rows.append([count, number(series["terse"][-1]), number(series["nginx"][-1]), f"{series['terse'][-1] / max(series['terse'][0], 1e-9):.2f}",
                     f"{series['nginx'][-1] / max(series['nginx'][0], 1e-9):.2f}", notes(lab, samples, count, counts=counts)])
    draw(lab, "scaling-threads", "Redirects per second, by serving threads", "redirects/s", steps, list(series.items()))
    return markdown(["serving threads", "terse/s", "nginx/s", "terse ÷ one thread", "nginx ÷ one", "notes"], rows)


def drained(lab, server):
    with alone(server, lab.servers):
        return server.drain()


def notes(lab, samples, threads=None, *, counts):
    everything = [sample for taken in samples.values() for sample in taken]
    missing, surplus = balance(samples["terse"], counts)
    return verdict("", everything, missing, surplus, doubts_of(lab, samples, threads))


def draw(lab, name, title, unit, steps, series):
    lab.charts[name] = title, charts.lines(title, unit, [charts.short(step) for step in steps], series)
