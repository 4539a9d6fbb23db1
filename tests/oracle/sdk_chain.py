"""The visible messages of many transcripts, as the SDK picks and orders them, in one process.

usage: sdk_chain.py < LINES     each line {"name": ..., "entries": [...]} is one transcript

Prints [{"name": ..., "uuids": [...]} ...], in the order of the lines. The uuids are those that
get_session_messages() would give for a file of these entries.
"""

import sys

from claude_agent_sdk._internal.sessions import (
    _entries_to_session_messages,
    _filter_transcript_entries,
)

from common import print_json, read_json_lines


def visible_uuids(transcript):
    entries = _filter_transcript_entries(transcript["entries"])
    try:
        return [message.uuid for message in _entries_to_session_messages(entries, None, 0)]
    except Exception as error:
        sys.exit(f"{transcript['name']}: the SDK fails with {type(error).__name__}: {error}")


def main():
    print_json(
        [
            {"name": transcript["name"], "uuids": visible_uuids(transcript)}
            for transcript in read_json_lines()
        ]
    )


if __name__ == "__main__":
    main()
