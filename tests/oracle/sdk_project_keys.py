"""The SDK's project key of each path, without touching the disk.

usage: sdk_project_keys.py < PATHS      a JSON array of paths

Prints the array of their keys. It is project_key_for_directory() less its realpath: NFC, then _sanitize_path().
"""

import json
import sys
import unicodedata

from claude_agent_sdk._internal.sessions import _sanitize_path

from common import print_json


def main():
    paths = json.load(sys.stdin)
    print_json([_sanitize_path(unicodedata.normalize("NFC", path)) for path in paths])


if __name__ == "__main__":
    main()
