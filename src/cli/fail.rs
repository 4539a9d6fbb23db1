//! How commands go wrong: one exit code a kind, a message that names the thing, a next step.

use std::io::{self, ErrorKind as IoKind};
use std::process::ExitCode;

use serde_json::json;
use turnkeep::{Error, ErrorKind};

use super::out::harmless;

const OTHER: u8 = 1;
const WRONG_USE: u8 = 2;
const NOT_FOUND: u8 = 3;
/// Exit code of a command that did nothing, as something stood in the way.
pub(super) const CONFLICT: u8 = 4;
const BUSY: u8 = 5;
/// Exit code of a command that left something out.
pub(super) const PART: u8 = 6;

/// Why a command ends without having done its work.
#[derive(Debug)]
pub(super) enum Failure {
    /// The library's word.
    Store(Error),
    /// The library's word, with a next step that the program knows better.
    Advised(Error, String),
    /// Wrong use, told by the program itself.
    Use {
        message: String,
        hint: Option<String>,
    },
    /// What was asked for is not there, told by the program itself.
    Missing {
        message: String,
        hint: Option<String>,
    },
    /// Nobody reads what is printed any more: not an error of ours.
    ClosedPipe,
    /// The terminal or a pipe failed.
    Print(io::Error),
}

impl Failure {
    pub(super) fn wrong_use(message: impl Into<String>) -> Self {
        Self::Use {
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self::Missing {
            message: message.into(),
            hint: None,
        }
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        match self {
            Self::Use { message, .. } => Self::Use {
                message,
                hint: Some(hint.into()),
            },
            Self::Missing { message, .. } => Self::Missing {
                message,
                hint: Some(hint.into()),
            },
            Self::Store(error) | Self::Advised(error, _) => Self::Advised(error, hint.into()),
            other => other,
        }
    }

    /// Says what went wrong on stderr, and how the program ends.
    pub(super) fn report(self, as_json: bool) -> ExitCode {
        let (code, kind, message, hint) = match &self {
            Self::ClosedPipe => return ExitCode::SUCCESS,
            Self::Store(error) => (
                code_of(error.kind()),
                error.kind().as_str(),
                error.to_string(),
                error.hint().map(String::from),
            ),
            Self::Advised(error, hint) => (
                code_of(error.kind()),
                error.kind().as_str(),
                error.to_string(),
                Some(hint.clone()),
            ),
            Self::Use { message, hint } => (WRONG_USE, "invalid", message.clone(), hint.clone()),
            Self::Missing { message, hint } => {
                (NOT_FOUND, "not_found", message.clone(), hint.clone())
            }
            Self::Print(error) => (OTHER, "io", format!("printing: {error}"), None),
        };
        if as_json {
            eprintln!(
                "{}",
                json!({"error": {"kind": kind, "message": message, "hint": hint}})
            );
        } else {
            eprintln!("error: {}", harmless(&message));
            if let Some(hint) = hint {
                eprintln!("hint: {}", harmless(&hint));
            }
        }
        ExitCode::from(code)
    }
}

fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::Invalid => WRONG_USE,
        ErrorKind::NotFound => NOT_FOUND,
        ErrorKind::Conflict => CONFLICT,
        ErrorKind::Busy => BUSY,
        _ => OTHER,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == IoKind::BrokenPipe {
            Self::ClosedPipe
        } else {
            Self::Print(error)
        }
    }
}
