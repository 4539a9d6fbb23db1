-- How a command is watched, for whoever finishes the watch if its process dies.

-- JSON: what is left out, and the limits. NULL once the command is over, and where an earlier release began it.
ALTER TABLE watched_calls ADD COLUMN options TEXT;
-- The sub-agent that made the call, and the id of its turn's prompt, as they were named.
ALTER TABLE watched_calls ADD COLUMN agent TEXT;
ALTER TABLE watched_calls ADD COLUMN prompt_id TEXT;
-- The newest change of any file when it was looked at before the command (file_changes.id): what others recorded since is
-- theirs.
ALTER TABLE watched_calls ADD COLUMN since_change INTEGER;
