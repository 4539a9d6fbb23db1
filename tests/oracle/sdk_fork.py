"""The SDK's own fork of a session, to compare ours with.

usage: sdk_fork.py CONFIG_DIR SESSION_ID [UP_TO]

Writes the fork into CONFIG_DIR, beside its source, and prints {"session_id": ..., "path": ...}.
"""

import sys

from claude_agent_sdk import fork_session

from common import print_json, use_config_dir


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: sdk_fork.py CONFIG_DIR SESSION_ID [UP_TO]")
    config_dir = use_config_dir(sys.argv[1])
    up_to = sys.argv[3] if len(sys.argv) == 4 else None
    try:
        fork = fork_session(sys.argv[2], up_to_message_id=up_to)
    except (OSError, ValueError) as error:
        sys.exit(f"the SDK does not fork: {error}")
    (path,) = config_dir.glob(f"projects/*/{fork.session_id}.jsonl")
    print_json({"session_id": fork.session_id, "path": str(path)})


if __name__ == "__main__":
    main()
