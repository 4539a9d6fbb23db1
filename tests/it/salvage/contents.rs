//! Contents that are made of parts, in a damaged file.

use super::*;
use turnkeep::claude_code::export_config_folder;

const NAME: &str = "toolu_x.txt";

/// A store with one large output of a tool, and that output.
fn with_a_large_output() -> (Victim, Vec<u8>) {
    let large: Vec<u8> = (0..60_000u32)
        .flat_map(|number| {
            format!("order {} is noted\n", number.wrapping_mul(2_654_435_761)).into_bytes()
        })
        .collect();
    let victim = Victim::with(|store| {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in crate::kit::tree(&fixture_path("cases/B65")) {
            let path = folder.path().join(&name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let bytes = if name.ends_with(NAME) { &large } else { &bytes };
            fs::write(path, bytes).unwrap();
        }
        import(store, folder.path());
    });
    (victim, large)
}

/// What is exported of the output.
fn output(store: &Path) -> Option<Vec<u8>> {
    let store = Store::open(store).unwrap();
    let folder = tempfile::tempdir().unwrap();
    export_config_folder(folder.path(), &all_sessions(&store)).unwrap();
    let files = crate::kit::tree(folder.path());
    let mut found = files.into_iter().filter(|(name, _)| name.ends_with(NAME));
    found.next().map(|(_, bytes)| bytes)
}

#[test]
fn a_large_content_is_saved_with_all_its_parts() {
    let (victim, large) = with_a_large_output();
    assert!(output(&victim.path()).unwrap() == large);
    let damaged = victim.damaged(|_| {});
    let (salvaged, _) = damaged.salvage();
    assert_eq!(salvaged.lost, Vec::<String>::new());
    assert_eq!(
        rows(&victim.path())["blob_parts"],
        rows(&damaged.to())["blob_parts"]
    );
    assert!(output(&damaged.to()).unwrap() == large);
}

#[test]
fn a_large_content_that_lost_a_part_is_lost_and_never_shown_shortened() {
    for damage in [
        "UPDATE blobs SET content = zeroblob(length(content)) WHERE id = (SELECT max(part) FROM blob_parts)",
        "DELETE FROM blobs WHERE id = (SELECT max(part) FROM blob_parts)",
        "DELETE FROM blob_parts WHERE id = (SELECT max(id) FROM blob_parts)",
        "UPDATE blob_parts SET part = 1 WHERE id = (SELECT max(id) FROM blob_parts)",
    ] {
        let (victim, _) = with_a_large_output();
        let damaged = victim.damaged(|_| {});
        let conn = Connection::open(damaged.from()).unwrap();
        conn.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        assert_eq!(conn.execute(damage, []).unwrap(), 1);
        drop(conn);
        let (salvaged, _) = damaged.salvage();
        let lost = salvaged.lost.join("\n");
        assert!(lost.contains("blobs: row") && lost.contains(NAME), "{lost}");
        assert_eq!(output(&damaged.to()), None);
    }
}
