//! The house's rule: a room imports only from rooms below it.

use crate::kit::source_files;

/// Each room with the rooms it may import from.
const MAY_IMPORT: [(&str, &[&str]); 9] = [
    ("error", &[]),
    ("model", &["error"]),
    ("transcript", &["error"]),
    ("db", &["error"]),
    ("workspace", &["error"]),
    ("tables", &["error", "model", "transcript", "db"]),
    (
        "store",
        &["error", "model", "transcript", "db", "workspace", "tables"],
    ),
    (
        "exchange",
        &[
            "error",
            "model",
            "transcript",
            "db",
            "workspace",
            "tables",
            "store",
        ],
    ),
    ("cli", &[]),
];

#[test]
fn rooms_import_only_from_rooms_below() {
    let mut checked = 0;
    for (path, text) in source_files() {
        let room = path.split('/').next().unwrap().trim_end_matches(".rs");
        let Some((_, allowed)) = MAY_IMPORT.iter().find(|(name, _)| *name == room) else {
            continue;
        };
        let code = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            for part in line.split("crate::").skip(1) {
                let from = part
                    .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                    .next()
                    .unwrap();
                checked += 1;
                let through_the_face = room == "cli" && line.contains("turnkeep::");
                assert!(
                    from == room || allowed.contains(&from) || through_the_face,
                    "{path} is in `{room}` and imports from `{from}`: {line}"
                );
            }
        }
    }
    assert!(
        checked > 50,
        "the rule was checked on {checked} imports only"
    );
}

#[test]
fn statements_stand_in_the_tables_alone() {
    for (path, text) in source_files() {
        let code = text.split("#[cfg(test)]").next().unwrap();
        let sql = ["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM "];
        let allowed = path.starts_with("tables/") || path.starts_with("db/");
        let found = code.lines().find(|line| {
            sql.iter()
                .any(|word| line.trim_start().trim_start_matches('"').starts_with(word))
        });
        assert!(allowed || found.is_none(), "{path} holds SQL: {found:?}");
    }
}

/// How a line touches the disk.
const TOUCHES: [&str; 13] = [
    "std::fs",
    "fs::",
    "File::open",
    "cap_std",
    "rustix",
    ".canonicalize()",
    ".symlink_metadata()",
    ".metadata()",
    ".read_dir()",
    ".read_link()",
    ".exists()",
    ".is_dir()",
    ".is_file()",
];

/// How a line changes what lies on the disk.
const CHANGES: [&str; 13] = [
    "OpenOptions",
    "File::create",
    "File::options",
    "fs::write",
    "fs::copy",
    "fs::rename",
    "fs::create_dir",
    "fs::remove",
    "fs::hard_link",
    "fs::set_permissions",
    "symlink(",
    ".set_len(",
    ".set_permissions(",
];

/// The store's own files are opened in `db`, the user's in `workspace`; what `exchange` imports it reads
/// itself, and what it writes goes through `workspace`. The program does as it likes.
#[test]
fn the_disk_is_touched_in_three_rooms() {
    for (path, text) in source_files() {
        let room = path.split('/').next().unwrap();
        let forbidden: &[&str] = match room {
            "db" | "workspace" | "cli" | "main.rs" => continue,
            "exchange" => &CHANGES,
            _ => &TOUCHES,
        };
        let code = text.split("#[cfg(test)]").next().unwrap();
        let found = code
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .find(|line| forbidden.iter().any(|word| line.contains(word)));
        assert!(found.is_none(), "{path} touches the disk: {found:?}");
    }
}

#[test]
fn files_stay_short() {
    for (path, text) in source_files() {
        let lines = text.lines().count();
        assert!(
            lines <= 450,
            "{path} has {lines} lines; it holds more than one idea"
        );
    }
}
