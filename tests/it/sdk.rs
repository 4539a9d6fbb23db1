//! Asking the Claude Agent SDK, and the real client in its wheel, through `tests/oracle/*.py`.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs one of the scripts and returns the JSON document that it prints.
pub fn ask(script: &str, arguments: &[&OsStr], input: &[u8]) -> Value {
    let python = python();
    let mut running = Command::new(&python)
        .arg(root().join("tests/oracle").join(script))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Every script reads its input to the end before it prints.
    running.stdin.take().unwrap().write_all(input).unwrap();
    let output = running.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What the SDK lists and reads in a config folder.
pub fn read_folder(config: &Path) -> Value {
    ask("sdk_read.py", &[config.as_os_str()], b"")
}

/// The strings under `name` in each element of an array.
pub fn names(array: &Value, name: &str) -> Vec<String> {
    array
        .as_array()
        .unwrap()
        .iter()
        .map(|element| element[name].as_str().unwrap().to_owned())
        .collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn python() -> PathBuf {
    let python = root().join("target/oracle/bin/python");
    assert!(
        python.exists(),
        "{} is missing, so nothing can be compared with the SDK; run scripts/check, which makes it",
        python.display()
    );
    python
}
