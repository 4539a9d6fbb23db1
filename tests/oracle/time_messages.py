"""How long the SDK takes to read the messages of one session.

usage: time_messages.py CONFIG_DIR SESSION_ID

Prints {"messages": how many get_session_messages() gives, "median_ms": of five calls in this process}.
"""

import statistics
import sys
import time

from claude_agent_sdk import get_session_messages

from common import print_json, use_config_dir

RUNS = 5


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: time_messages.py CONFIG_DIR SESSION_ID")
    use_config_dir(sys.argv[1])
    times, messages = [], []
    for _ in range(RUNS):
        begun = time.perf_counter()
        messages = get_session_messages(sys.argv[2])
        times.append(1000 * (time.perf_counter() - begun))
    print_json({"messages": len(messages), "median_ms": statistics.median(times)})


if __name__ == "__main__":
    main()
