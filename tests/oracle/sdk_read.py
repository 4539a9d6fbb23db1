"""What the SDK lists and reads in a config folder: the answer an import must agree with.

usage: sdk_read.py CONFIG_DIR

Prints {"sessions": [SDKSessionInfo ...] as list_sessions() gives them,
        "messages": {"PROJECT_KEY/SESSION_ID": [{"type", "uuid", "message"} ...]},
        "unreadable": {"PROJECT_KEY/SESSION_ID": "the SDK's exception"}}

"messages" is what get_session_messages() gives, for every <uuid>.jsonl under projects/*/: also for those that
list_sessions() leaves out, and, as it is read file by file, for one session id in two projects.
"""

import dataclasses
import sys

from claude_agent_sdk import list_sessions
from claude_agent_sdk._internal.sessions import (
    _entries_to_session_messages,
    _parse_transcript_entries,
    _try_read_session_file,
    _validate_uuid,
)

from common import print_json, use_config_dir


def transcripts(config_dir):
    """Every main transcript of the folder."""
    for path in sorted(config_dir.glob("projects/*/*.jsonl")):
        if _validate_uuid(path.stem) and path.is_file():
            yield path


def read_messages(path):
    """The body of get_session_messages(), on exactly this file."""
    content = _try_read_session_file(path.parent, path.name)
    entries = _parse_transcript_entries(content or "")
    return [
        {"type": message.type, "uuid": message.uuid, "message": message.message}
        for message in _entries_to_session_messages(entries, None, 0)
    ]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: sdk_read.py CONFIG_DIR")
    config_dir = use_config_dir(sys.argv[1])
    messages, unreadable = {}, {}
    for path in transcripts(config_dir):
        key = f"{path.parent.name}/{path.stem}"
        try:
            messages[key] = read_messages(path)
        except Exception as error:  # the SDK dies of some files (invalid UTF-8, deep nesting): an answer too
            unreadable[key] = f"{type(error).__name__}: {error}"
    sessions = [dataclasses.asdict(session) for session in list_sessions()]
    print_json({"sessions": sessions, "messages": messages, "unreadable": unreadable})


if __name__ == "__main__":
    main()
