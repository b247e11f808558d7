#!/usr/bin/env python3
"""Makes the data files of this folder from the packages named in README.md, unpacked side by side.

    python3 renew.py FOLDER

FOLDER holds `uap-core/`, `crawler-user-agents/` and `iptoasn-country-mmdb/`. Needs PyYAML and zstd.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import yaml

source = pathlib.Path(sys.argv[1])
here = pathlib.Path(__file__).parent


def write(name, value):
    # A line an entry, so that a renewal can be read as a diff.
    lines = ",\n".join(json.dumps(entry, ensure_ascii=False, separators=(",", ":")) for entry in value)
    (here / name).write_text(f"[\n{lines}\n]\n", encoding="utf-8")


# Only families are counted: neither versions nor the models of devices, which are by far the most expressions.
regexes = yaml.safe_load((source / "uap-core" / "regexes.yaml").read_text(encoding="utf-8"))
for kind, family in (("user_agent_parsers", "family_replacement"), ("os_parsers", "os_replacement")):
    name = {"user_agent_parsers": "browsers.json", "os_parsers": "systems.json"}[kind]
    write(name, [{key: entry[key] for key in ("regex", family) if key in entry} for entry in regexes[kind]])
shutil.copy(source / "uap-core" / "LICENSE", here / "LICENSE-uap-core")

crawlers = json.loads((source / "crawler-user-agents" / "crawler-user-agents.json").read_text(encoding="utf-8"))
write("crawlers.json", [[entry["pattern"], *entry.get("tags", [])] for entry in crawlers])
shutil.copy(source / "crawler-user-agents" / "LICENSE", here / "LICENSE-crawler-user-agents")

countries = source / "iptoasn-country-mmdb" / "iptoasn-country.mmdb"
subprocess.run(["zstd", "-19", "-q", "-f", countries, "-o", here / "countries.mmdb.zst"], check=True)
