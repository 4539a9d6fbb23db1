"""Compares forks made by Turnkeep with those the SDK makes of the same file.

usage: compare_forks.py MANIFEST
MANIFEST holds JSON lines: {"source": PATH, "session_id": ID, "up_to": UUID or null, "fork": PATH}.
Prints {"compared": N, "differences": [TEXT, ...]}.

Both are compared up to the fresh uuids, the fork's id and its time: every uuid of an entry, in the
source or in either fork, is replaced by the entry's place. Fields that the SDK drops are dropped.
Where a link is broken the SDK begins a new conversation; here the message hangs from the one before.
"""

import json
import sys

from claude_agent_sdk._internal.session_mutations import _build_fork_lines, _parse_fork_transcript

MESSAGES = {"user", "assistant", "system", "attachment"}
DROPPED = {"slug", "sourceToolAssistantUUID", "teamName", "agentName"}
SAID = {"message", "toolUseResult"}


def entries(text):
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def named(value, places):
    """The value with every uuid of an entry replaced by the entry's place."""
    if isinstance(value, str):
        return places.get(value, value)
    if isinstance(value, list):
        return [named(item, places) for item in value]
    if isinstance(value, dict):
        return {key: named(item, places) for key, item in value.items()}
    return value


def normal(fork, sources):
    places = {uuid: f"#{at}" for at, uuid in enumerate(sources)}
    places.update({entry["uuid"]: f"#{at}" for at, entry in enumerate(fork)})
    shown = []
    for at, entry in enumerate(fork):
        kept = {key: value for key, value in entry.items() if key not in DROPPED}
        kept.setdefault("logicalParentUuid", None)
        kept.pop("sessionId")
        if at == len(fork) - 1:
            kept.pop("timestamp", None)
        shown.append({key: value if key in SAID else named(value, places) for key, value in kept.items()})
    return shown


def agree(mine, their):
    """Whether both say the same; an id outside the history is null here, and left as it is there."""
    if mine is None and isinstance(their, str):
        return not their.startswith("#")
    if isinstance(mine, list) and isinstance(their, list) and len(mine) == len(their):
        return all(agree(*pair) for pair in zip(mine, their))
    if isinstance(mine, dict) and isinstance(their, dict) and mine.keys() == their.keys():
        return all(agree(mine[key], their[key]) for key in mine)
    return mine == their


def old_ids(value, sources):
    if isinstance(value, str):
        return [value] if value in sources else []
    if isinstance(value, list):
        return [found for item in value for found in old_ids(item, sources)]
    if isinstance(value, dict):
        return [found for item in value.values() for found in old_ids(item, sources)]
    return []


def broken_links(content):
    """The uuids of the entries that name a parent which was never written."""
    lines = [line for line in content.split(b"\n") if line.strip()]
    known, named = set(), {}
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("uuid"):
            known.add(entry["uuid"])
            named[entry["uuid"]] = entry.get("parentUuid")
    return {uuid for uuid, parent in named.items() if parent and parent not in known}


def compare(case):
    content = open(case["source"], "rb").read()
    transcript, replacements = _parse_fork_transcript(content, case["session_id"])
    _, lines = _build_fork_lines(
        transcript, replacements, case["session_id"], case["up_to"], "title", lambda: None
    )
    theirs = [entry for entry in map(json.loads, lines) if entry["type"] in MESSAGES]
    ours = [
        entry
        for entry in entries(open(case["fork"], encoding="utf-8", newline="\n").read())
        if entry.get("type") in MESSAGES and entry.get("uuid") and not entry.get("isSidechain")
    ]
    sources = [entry["forkedFrom"]["messageUuid"] for entry in theirs]
    broken = broken_links(content)
    name = f"{case['session_id']} up to {case['up_to']}"
    if len(ours) != len(theirs):
        return [f"{name}: {len(ours)} messages here, {len(theirs)} there"]
    found = []
    for at, (mine, their) in enumerate(zip(normal(ours, sources), normal(theirs, sources))):
        for key in sorted(mine.keys() | their.keys()):
            same = mine.get(key) == their.get(key)
            if key == "parentUuid" and sources[at] in broken:
                same = mine.get(key) == f"#{at - 1}"
            if not same and not (key == "compactMetadata" and agree(mine.get(key), their.get(key))):
                found.append(f"{name}: message {at}: {key}: {mine.get(key)!r:.200} here, {their.get(key)!r:.200} there")
    for entry in ours:
        rest = {key: value for key, value in entry.items() if key not in SAID | {"forkedFrom"}}
        for uuid in old_ids(rest, set(sources)):
            found.append(f"{name}: the source's {uuid} is left in {entry['uuid']}")
    return found


def main():
    cases = entries(open(sys.argv[1], encoding="utf-8").read())
    differences = [text for case in cases for text in compare(case)]
    print(json.dumps({"compared": len(cases), "differences": differences}))


main()
