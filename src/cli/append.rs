//! `turnkeep append`

use std::io::{self, Read};

use turnkeep::{AppendOptions, Error, NewSession, Session, SessionKey, Store};

use super::fail::Failure;
use super::out::{Out, count};
use super::place::session;
use super::{Call, Done, Outcome};

/// Append entries to a session: JSONL on stdin, one record a line
///
/// All of them are stored in one transaction, or none. An entry whose uuid is known is not stored
/// again.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session's id
    id: String,

    /// Its project key
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    project: Option<String>,

    /// A sub-agent's transcript
    #[arg(long, value_name = "P", default_value = "", hide_default_value = true)]
    subpath: String,

    /// Make the session if it is not there
    #[arg(long, requires = "project")]
    create: bool,

    /// Only if the head is this message; otherwise nothing is stored (exit code 4)
    #[arg(long, value_name = "UUID")]
    expect_head: Option<String>,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let entries = read_entries()?;
    let store = call.open(args.create)?;
    let session = find(&store, args)?;
    let mut options = AppendOptions::new().to_subpath(&args.subpath);
    if let Some(head) = &args.expect_head {
        options = options.expect_head(head);
    }
    let appended = session.messages().append_entries(&entries, &options)?;
    let mut out = Out::new();
    if call.json {
        let json = serde_json::to_string(&appended).map_err(io::Error::other)?;
        out.line(&json)?;
    } else {
        let mut line = format!("{} stored", count(appended.stored, "entry"));
        for (number, what) in [
            (appended.duplicates, "known"),
            (appended.differing, "with the uuid of another: not stored"),
        ] {
            if number > 0 {
                line.push_str(&format!(", {number} {what}"));
            }
        }
        out.line(&line)?;
        if let Some(head) = appended.head {
            out.line(&format!("head {head}"))?;
        }
    }
    Ok(Done::All)
}

fn find(store: &Store, args: &Args) -> Result<Session, Failure> {
    let Some(project) = &args.project else {
        return session(store, &args.id, None);
    };
    let key = SessionKey::new(project, &args.id)?;
    if args.create {
        return Ok(store.sessions().get_or_create(NewSession::with_key(key))?);
    }
    match store.sessions().find(&key)? {
        Some(session) => Ok(session),
        // A directory, a title or the beginning of an id will do as well.
        None => session(store, &args.id, Some(project)).map_err(|failure| match failure {
            Failure::Store(Error::NotFound { .. }) => Failure::Store(Error::NotFound {
                what: "session",
                id: key.to_string(),
            }),
            other => other,
        }),
    }
}

/// Reads the entries; the first line that is not a record is named, and nothing is stored.
fn read_entries() -> Result<Vec<String>, Failure> {
    let mut bytes = Vec::new();
    io::stdin().lock().read_to_end(&mut bytes)?;
    let mut entries = Vec::new();
    for (number, line) in (1_u64..).zip(bytes.split(|byte| *byte == b'\n')) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let entry = std::str::from_utf8(line)
            .ok()
            .map(|text| text.trim_matches(['\r', ' ', '\t']));
        match entry.filter(|entry| turnkeep::is_entry(entry)) {
            Some(entry) => entries.push(entry.to_owned()),
            None => {
                return Err(Failure::wrong_use(format!(
                    "line {number} is not one JSON object; nothing was stored"
                ))
                .hint("give one JSON object a line, in UTF-8"));
            }
        }
    }
    Ok(entries)
}
