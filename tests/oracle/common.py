"""What the oracle scripts share: JSON in, JSON out, and the SDK pointed at one config folder.

The scripts let the Rust tests ask the Claude Agent SDK, and the client in its wheel, what they make of a
folder or a transcript. Each prints one JSON document on stdout and ends non-zero with a message otherwise.
"""

import json
import math
import os
import re
import sys
from pathlib import Path

LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def use_config_dir(path):
    """Points the SDK at the config folder ``path`` and returns it."""
    config_dir = Path(path).resolve()
    if not config_dir.is_dir():
        sys.exit(f"{path} is not a folder")
    os.environ["CLAUDE_CONFIG_DIR"] = str(config_dir)
    return config_dir


def read_json_lines():
    """The values on stdin, one a line."""
    for number, line in enumerate(sys.stdin.buffer, start=1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except ValueError as error:
            sys.exit(f"stdin, line {number}: {error}")


def strict(value):
    """``value`` as every JSON reader takes it.

    Python lets two things through that others refuse: a lone surrogate becomes U+FFFD, a number too large
    for a float becomes null.
    """
    if isinstance(value, str):
        return LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [strict(item) for item in value]
    if isinstance(value, dict):
        return {strict(key): strict(item) for key, item in value.items()}
    return value


def print_json(document):
    """Prints the one document of this script."""
    json.dump(strict(document), sys.stdout, allow_nan=False)
    print()
