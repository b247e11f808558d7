"""A share of the processors, as a small container has it: a control group of the kernel with a quota."""

import contextlib
import os
import tempfile
import time

from harness.servers import Failure

PERIOD_US = 100_000
V1, V2 = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"


class Quota:
    """A control group whose processes share `cpus` processors; needs root and control groups of version 1 or 2."""

    def __init__(self, cpus):
        self.cpus = cpus
        is_v1 = os.path.exists(os.path.join(V1, "cpu.cfs_quota_us"))
        try:
            if not is_v1:
                # Children of the root group get the controller only if it says so.
                with open(os.path.join(V2, "cgroup.subtree_control"), "w") as file:
                    file.write("+cpu")
            self.folder = tempfile.mkdtemp(prefix="terse-bench-", dir=V1 if is_v1 else V2)
            quota = int(cpus * PERIOD_US)
            for name, value in [("cpu.cfs_period_us", PERIOD_US), ("cpu.cfs_quota_us", quota)] if is_v1 else [("cpu.max", f"{quota} {PERIOD_US}")]:
                with open(os.path.join(self.folder, name), "w") as file:
                    file.write(str(value))
        except OSError as error:
            raise Failure(f"no control group with a processor quota can be made here: {error}") from error

    def command(self):
        """The beginning of a command that runs in the group."""
        return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', self.folder]

    def close(self):
        """Removes the group, once its processes have ended."""
        for _ in range(100):
            with contextlib.suppress(OSError):
                os.rmdir(self.folder)
                return
            time.sleep(0.05)
