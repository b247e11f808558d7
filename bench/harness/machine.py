"""Describes the machine and installs missing programs."""

import contextlib
import datetime
import os
import platform
import shutil
import subprocess

from harness.servers import Failure

PACKAGES = {"nginx": "nginx-light", "h2load": "nghttp2-client", "valgrind": "valgrind", "taskset": "util-linux"}


def install(programs, allowed):
    """Installs missing programs from the distribution."""
    os.environ["PATH"] += os.pathsep + "/usr/sbin"  # nginx is here, outside the PATH of ordinary users
    missing = sorted({PACKAGES[program] for program in programs if not shutil.which(program)})
    if not missing:
        return
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "--no-install-recommends", *missing]
    if not (allowed and os.geteuid() == 0 and shutil.which("apt-get")):
        raise Failure(f"missing programs; as root: {' '.join(command)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    print(f"installing {', '.join(missing)}", flush=True)
    if subprocess.run(command, stdout=subprocess.DEVNULL, env=environment, check=False).returncode:
        raise Failure(f"could not install {', '.join(missing)}")
    # The package starts a server on port 80: stop it.
    if "nginx-light" in missing and os.path.isdir("/run/systemd/system"):
        subprocess.run(["systemctl", "disable", "--now", "nginx"], capture_output=True, check=False)


def first_line(*command):
    with contextlib.suppress(OSError):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = (done.stdout + done.stderr).splitlines()
        return lines[0].strip() if lines else ""
    return "not found"


def describe(terse, folder, sync):
    """Name and value pairs for the table below the figures."""
    cpu = memory = "unknown"
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        cpu = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    with contextlib.suppress(OSError), open("/proc/meminfo") as lines:
        memory = f"{int(next(lines).split()[1]) / (1 << 20):.0f} GiB"
    system = "unknown"
    with contextlib.suppress(OSError):
        system = platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")
    return [
        ("date", datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")),
        ("CPU", f"{cpu}, {os.cpu_count()} cores"),
        ("memory", memory),
        ("system", f"{system}, Linux {platform.release()}"),
        ("disk", f"4 KiB appended and synced in {sync[0] * 1e3:.2f} ms (median), {sync[1] * 1e3:.2f} ms (p99)"),
        ("terse", f"{first_line(terse, '--version')}, {first_line('git', '-C', folder, 'describe', '--always', '--dirty')}"),
        ("other programs", ", ".join([
            first_line("nginx", "-v").replace("nginx version: ", ""),
            first_line("h2load", "--version"), first_line("rustc", "--version"),
        ])),
    ]
