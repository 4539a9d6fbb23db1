//! Parts of this room's tests that run in a process of their own: this test binary, run again.

use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDER: &str = "TURNKEEP_TEST_FOLDER";

/// Runs an ignored test in a process of its own, on a folder.
pub(super) fn run(folder: &Path, entry: &str) {
    let command = Command::new(std::env::current_exe().unwrap());
    finish(command, folder, entry);
}

/// The same as a user who is not root; the folder becomes that user's own.
pub(super) fn run_unprivileged(folder: &Path, entry: &str) {
    use std::os::unix::fs::chown;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return run(folder, entry);
    }
    // The binary may lie where only root may go.
    let binary = folder.join("part");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(binary);
    command.current_dir(folder).uid(NOBODY).gid(NOBODY);
    finish(command, folder, entry);
}

fn finish(mut command: Command, folder: &Path, entry: &str) {
    let ended = command
        .args([entry, "--exact", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    // A name that matches no test would run none, and end well.
    assert!(
        ended.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&ended.stderr)
    );
}

/// In a part: its folder; `None` if nobody started it as one.
pub(super) fn folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}
