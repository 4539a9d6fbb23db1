//! Parts of a test that run in a process of their own: this test binary, run again.
//!
//! A part is an ignored test. It gets its arguments in an environment variable, does nothing
//! without them, and speaks with the test that started it in lines.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

const ARGUMENTS: &str = "TURNKEEP_TEST_PART";

/// What begins a line that is meant for the other side; the test harness prints lines too.
const MARK: &str = "@ ";

/// A running part.
pub struct Child {
    process: process::Child,
    lines: BufReader<ChildStdout>,
    stdin: Option<ChildStdin>,
}

/// Starts the part named `entry`: its path in this binary.
pub fn start(entry: &str, arguments: &Value) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    Child::spawn(command.args(words(entry)), arguments)
}

/// Starts a part behind some words of the shell: `umask 000`, `ulimit …`.
pub fn start_under(shell: &str, entry: &str, arguments: &Value) -> Child {
    let mut command = Command::new("bash");
    command
        .args(["-c", &format!("{shell}; exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(words(entry));
    Child::spawn(&mut command, arguments)
}

/// Starts a part as a user who is not root; `folder` becomes that user's own.
pub fn start_unprivileged(folder: &Path, entry: &str, arguments: &Value) -> Child {
    use std::os::unix::fs::chown;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return start(entry, arguments);
    }
    // The binary may lie where only root may go.
    let binary = folder.join("part");
    std::fs::copy(std::env::current_exe().unwrap(), &binary).unwrap();
    chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut command = Command::new(binary);
    command.current_dir(folder).uid(NOBODY).gid(NOBODY);
    Child::spawn(command.args(words(entry)), arguments)
}

fn words(entry: &str) -> [&str; 4] {
    [entry, "--exact", "--ignored", "--nocapture"]
}

impl Child {
    fn spawn(command: &mut Command, arguments: &Value) -> Self {
        let mut process = command
            .env(ARGUMENTS, arguments.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            lines: BufReader::new(process.stdout.take().unwrap()),
            stdin: process.stdin.take(),
            process,
        }
    }

    /// The next line it says; `None` once it is over.
    pub fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // A line without its end was cut by a kill.
            if let Some(said) = line.strip_prefix(MARK).and_then(|at| at.strip_suffix('\n')) {
                return Some(said.to_owned());
            }
        }
    }

    /// Says a line to it.
    pub fn tell(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// Ends it as nothing else can, and answers what it had said and was not heard yet.
    pub fn kill(mut self) -> Vec<String> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.rest()
    }

    /// Lets it come to its end, and answers the rest of what it says. It must end well.
    pub fn finish(mut self) -> Vec<String> {
        drop(self.stdin.take());
        let said = self.rest();
        let status = self.process.wait().unwrap();
        assert!(status.success(), "{status}, after {said:?}");
        said
    }

    fn rest(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.hear()).collect()
    }
}

impl Drop for Child {
    /// A test that fails leaves no process behind.
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// In a part: its arguments; `None` if nobody started it as one.
pub fn arguments() -> Option<Value> {
    let text = std::env::var(ARGUMENTS).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

/// In a part: says a line to the test.
pub fn say(line: &str) {
    // The harness may have begun a line of its own.
    let mut out = io::stdout().lock();
    out.write_all(format!("\n{MARK}{line}\n").as_bytes())
        .unwrap();
    out.flush().unwrap();
}

/// In a part: the next line the test says; `None` once it says no more.
pub fn listen() -> Option<String> {
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    line.strip_suffix('\n').map(str::to_owned)
}
