"""The links of both servers: paths from terse, targets as `terse bench load` creates them."""

import random


def target(number):
    """The target of the link with this number, as in the load generator of `terse bench`."""
    return f"https://example.com/articles/{number}?from=bench"


def read(file):
    """Numbers and paths. nginx's map ignores case: of paths that differ only by case, the first is kept."""
    with open(file, encoding="ascii") as lines:
        found = {}
        for number, path in enumerate(lines.read().split()):
            found.setdefault(path.lower(), (number, path))
    return list(found.values())


def write(file, numbered):
    with open(file, "w", encoding="ascii") as lines:
        lines.writelines(f"{path}\n" for _, path in numbered)


def nginx_config(numbered, folder, port, port_h2, workers, single_process=False):
    """An nginx configuration that answers the same links from a map, with every costly feature off."""
    lines = "\n".join(f'    {path} "{target(number)}";' for number, path in numbered)
    temporary = "\n".join(
        f"  {kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    processes = "master_process off;" if single_process else f"worker_processes {workers};"
    return f"""daemon off;
{processes}
pid {folder}/pid;
error_log stderr crit;
events {{ worker_connections 16384; }}
http {{
  access_log off;
  server_tokens off;
  keepalive_requests 1000000000;
{temporary}
  # Four buckets per link, so that nginx finds a link with one probe.
  map_hash_max_size {4 * len(numbered)};
  map_hash_bucket_size 256;
  map $uri $target {{
    default "";
{lines}
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    listen 127.0.0.1:{port_h2} http2 backlog=4096;
    location / {{
      if ($target = "") {{ return 404; }}
      return 302 $target;
    }}
  }}
}}
"""


def zipf_urls(numbered, base, count, seed=1):
    """URLs by Zipf's law, for h2load, which reads a list."""
    weights = [1 / rank for rank in range(1, len(numbered) + 1)]
    drawn = random.Random(seed).choices(numbered, weights, k=count)
    return "".join(f"{base}{path}\n" for _, path in drawn)
