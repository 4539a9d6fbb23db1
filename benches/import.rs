//! Importing a folder of real transcripts, copied with other ids until it has the size wanted.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use divan::Bencher;
use divan::counter::BytesCount;
use serde::Deserialize;
use turnkeep::Store;
use turnkeep::claude_code::{self, ImportOptions, ImportReport};

use crate::entries::Entry;
use crate::kit::{bare_append, bare_with_session, new_folder, new_store, print_beside, time};

/// How much JSONL is imported.
const BYTES: u64 = 200_000_000;

/// How much the bare side stores in one transaction, as the import does.
const BARE_BATCH: usize = 4 << 20;

/// A config folder, its transcripts, and their bytes.
struct Source {
    folder: PathBuf,
    files: Vec<PathBuf>,
    bytes: u64,
}

static SOURCE: LazyLock<Source> = LazyLock::new(|| {
    let runs = files_below(&fixtures(), &["jsonl", "json"]);
    let mut source = Source {
        folder: new_folder(),
        files: Vec::new(),
        bytes: 0,
    };
    for copy in 1.. {
        for path in &runs {
            if source.bytes >= BYTES {
                return source;
            }
            let to = vary(&below_projects(path), copy);
            let (project, rest) = to.split_once('/').unwrap();
            let to = source
                .folder
                .join(format!("projects/{project}-{copy}/{rest}"));
            let text = vary(&std::fs::read_to_string(path).unwrap(), copy);
            std::fs::create_dir_all(to.parent().unwrap()).unwrap();
            std::fs::write(&to, &text).unwrap();
            if to.extension().is_some_and(|extension| extension == "jsonl") {
                source.bytes += text.len() as u64;
                source.files.push(to);
            }
        }
    }
    source
});

/// The real transcripts that the tests use.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/fixtures/transcripts")
}

/// The files below a folder that have one of these extensions, sorted.
pub fn files_below(folder: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path, extensions));
        } else if path
            .extension()
            .is_some_and(|extension| extensions.iter().any(|one| extension == *one))
        {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A path from the project's folder on.
fn below_projects(path: &Path) -> String {
    let path = path.to_str().unwrap();
    path.split_once("/projects/").unwrap().1.to_owned()
}

/// Gives every uuid in a text another beginning.
fn vary(text: &str, copy: u32) -> String {
    const GROUPS: [usize; 4] = [8, 13, 18, 23];
    let is_uuid = |bytes: &[u8]| {
        bytes
            .iter()
            .enumerate()
            .all(|(at, byte)| match GROUPS.contains(&at) {
                true => *byte == b'-',
                false => byte.is_ascii_hexdigit(),
            })
    };
    let mut out = String::with_capacity(text.len());
    let mut kept = 0;
    let mut at = 0;
    while let Some(dash) = text[at..].find('-') {
        let start = (at + dash).checked_sub(8).filter(|start| *start >= kept);
        at += dash + 1;
        let uuid = start.and_then(|start| Some((start, text.get(start..start + 36)?)));
        if let Some((start, uuid)) = uuid.filter(|(_, uuid)| is_uuid(uuid.as_bytes())) {
            let number = u32::from_str_radix(&uuid[..8], 16).unwrap();
            let number = number.wrapping_add(copy.wrapping_mul(0x9e37_79b1));
            out.push_str(&text[kept..start]);
            out.push_str(&format!("{number:08x}{}", &uuid[8..]));
            kept = start + 36;
            at = kept;
        }
    }
    out.push_str(&text[kept..]);
    out
}

/// Imports a folder whole.
pub fn import(store: &Store, folder: &Path) -> ImportReport {
    let report = claude_code::import(store, folder, &ImportOptions::new(), &mut |_| {
        ControlFlow::Continue(())
    })
    .unwrap();
    assert!(!report.partial, "{:?}", report.problems);
    report
}

/// About 200 MB into a new store, beside the inserts alone: the lines are in memory, their uuids
/// known.
pub fn of_200_mb() {
    let megabytes = SOURCE.bytes as f64 / 1e6;
    let batches = batches();
    let ours = || {
        let store = new_store();
        time(|| {
            let report = import(&store, &SOURCE.folder);
            assert_eq!(report.new_entries, report.entries);
        })
    };
    let bare = || {
        let conn = bare_with_session();
        time(|| {
            let mut seq = 1;
            for entries in &batches {
                bare_append(&conn, seq, entries);
                seq += entries.len() as i64;
            }
        })
    };
    print_beside("import::of_200_mb", 5, (megabytes, "MB"), ours, bare);
}

/// The same folder again, unchanged.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn again(bencher: Bencher) {
    let store = new_store();
    import(&store, &SOURCE.folder);
    bencher
        .counter(BytesCount::new(SOURCE.bytes))
        .bench_local(|| {
            let report = import(&store, &SOURCE.folder);
            assert_eq!(report.new_entries, 0);
        });
}

/// The lines of the source, as the bare side stores them. Without a uuid where the fixtures repeat
/// one in several sessions: the bare side has one session.
fn batches() -> Vec<Vec<Entry>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Ids {
        uuid: Option<String>,
        parent_uuid: Option<String>,
        r#type: String,
    }
    let mut seen = std::collections::HashSet::new();
    let (mut batches, mut batch, mut bytes) = (Vec::new(), Vec::new(), 0);
    for path in &SOURCE.files {
        let text = std::fs::read_to_string(path).unwrap();
        for line in text.lines() {
            let Ok(ids) = serde_json::from_str::<Ids>(line) else {
                continue;
            };
            bytes += line.len();
            batch.push(Entry {
                uuid: ids.uuid.filter(|uuid| seen.insert(uuid.clone())),
                parent: ids.parent_uuid,
                kind: ids.r#type,
                text: line.to_owned(),
            });
            if bytes >= BARE_BATCH {
                bytes = 0;
                batches.push(std::mem::take(&mut batch));
            }
        }
    }
    batches.push(batch);
    batches
}
