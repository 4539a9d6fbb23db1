-- Changes are listed by when they were made, which for imported ones is not when they were stored, and looked up by
-- their turn.
CREATE INDEX file_changes_time ON file_changes (before_ms);
CREATE INDEX file_changes_turn ON file_changes (turn) WHERE turn IS NOT NULL;
