//! A pager between the program and the terminal, as git has one.

use std::io::{self, StdoutLock, Write};
use std::process::{Child, Command, Stdio};

/// Where what is printed goes.
pub(super) enum Sink {
    Stdout(StdoutLock<'static>),
    Pager(Pager),
}

/// A pager that is shown what is written to it, and waited for.
pub(super) struct Pager(Child);

impl Pager {
    /// Starts what `TURNKEEP_PAGER` or `PAGER` names, else `less`; `None` if that is nothing, `cat`,
    /// or cannot be started: what is printed then goes to the terminal itself.
    pub(super) fn start() -> Option<Self> {
        let named = ["TURNKEEP_PAGER", "PAGER"].into_iter();
        let named = named.filter_map(|name| std::env::var(name).ok()).next();
        let pager = named.unwrap_or_else(|| "less".to_owned());
        if matches!(pager.trim(), "" | "cat") {
            return None;
        }
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {pager}")]);
        if std::env::var_os("LESS").is_none() {
            // Ends by itself if all fits on the screen; shows colours; leaves the text there.
            command.env("LESS", "FRX");
        }
        let is_there = Command::new("sh")
            .args(["-c", "command -v \"${0%% *}\"", &pager])
            .stdout(Stdio::null())
            .status();
        if !is_there.is_ok_and(|status| status.success()) {
            return None;
        }
        command.stdin(Stdio::piped()).spawn().ok().map(Self)
    }
}

impl Drop for Pager {
    fn drop(&mut self) {
        // It shows the end only once nothing more can come.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stdout(out) => out.write(bytes),
            Self::Pager(pager) => match &mut pager.0.stdin {
                Some(stdin) => stdin.write(bytes),
                None => Err(io::ErrorKind::BrokenPipe.into()),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Stdout(out) => out.flush(),
            Self::Pager(pager) => pager.0.stdin.as_mut().map_or(Ok(()), Write::flush),
        }
    }
}
