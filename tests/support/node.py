"""Modules of the page runtime in Node: those that need no page."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.support.needs import require

MODULES = Path(__file__).parents[2] / "web" / "sardonyx"


def run(script: str, given: Any = None) -> Any:
    """What a script gives, the body of an asynchronous function of `given` and `load(module)`, as JSON."""
    require("node")
    text = f"""
import {{ readFileSync }} from "node:fs";
const load = (module) => import({json.dumps(MODULES.as_uri())} + "/" + module);
const main = async (given, load) => {{ {script} }};
console.log(JSON.stringify(await main(JSON.parse(readFileSync(0, "utf8")), load)));
"""
    command = ["node", "--input-type=module", "--eval", text]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
