"""Install with apt what the tests need from the system; where that is not possible, say what is missing.

python -m tests.support.system node webgpu
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from .needs import NEEDS, lacks


def main(names: list[str]) -> None:
    missing = {name: reason for name in names if (reason := lacks(name))}
    packages = sorted({package for name in missing for package in NEEDS[name].packages})
    if packages and shutil.which("apt-get") and os.geteuid() == 0:
        print("Installing", *packages, flush=True)
        quiet = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        apt = ["apt-get", "-qq", "-o", "Dpkg::Use-Pty=0"]
        subprocess.run([*apt, "update"], env=quiet, check=True, timeout=3600)
        install = [*apt, "install", "--yes", "--no-install-recommends", *packages]
        subprocess.run(install, env=quiet, check=True, stdout=subprocess.DEVNULL, timeout=3600)
    else:
        for name, reason in missing.items():
            print(f"{name}: {reason}; its tests will be skipped")


if __name__ == "__main__":
    main(sys.argv[1:])
