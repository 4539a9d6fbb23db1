//! `turnkeep cat`

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::json;
use turnkeep::FileState;

use super::fail::Failure;
use super::out::{Out, harmless_line};
use super::place::{Within, file, session};
use super::{Call, Done, Outcome};

/// Print a file as it was at a restore point, byte for byte
///
/// Of a symbolic link, the target is printed. Where no file was: exit code 3. Nothing on the disk is
/// touched.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// The file
    file: PathBuf,

    /// The restore point: an id, the beginning of one, a label, @last, @last~2 or @start
    #[arg(long, value_name = "POINT")]
    at: String,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.look()?;
    let session = session(&store, &args.id, args.within.project())?;
    let path = file(&session, &args.file)?;
    let state = session.files().at(&args.at, path)?;
    let missing = {
        let (file, at) = (args.file.to_string_lossy(), &args.at);
        match &state {
            FileState::Absent => Some(format!("there was no file `{file}` at `{at}`")),
            FileState::Directory => Some(format!("`{file}` was a folder at `{at}`")),
            FileState::NotKept { reason } => Some(format!(
                "the content of `{file}` at `{at}` is not kept: {reason}"
            )),
            FileState::File { .. } | FileState::Symlink { .. } => None,
        }
    };
    let mut out = Out::new();
    if call.json {
        out.line(&json(args, &state).to_string())?;
    } else {
        match &state {
            FileState::File { content, .. } => out.bytes(content)?,
            FileState::Symlink { target } => out.bytes(target.as_os_str().as_encoded_bytes())?,
            _ => {}
        }
    }
    out.flush()?;
    match missing {
        Some(message) => Err(Failure::missing(harmless_line(&message))),
        None => Ok(Done::All),
    }
}

/// The state as JSON: content in base64, mode in octal as `chmod` takes it.
fn json(args: &Args, state: &FileState) -> serde_json::Value {
    let mut shown = json!({
        "path": args.file.to_string_lossy(),
        "at": args.at,
        "state": "absent",
        "mode": null,
        "content": null,
        "target": null,
        "reason": null,
    });
    match state {
        FileState::Absent => {}
        FileState::File { content, mode } => {
            shown["state"] = json!("file");
            shown["mode"] = json!(format!("{mode:04o}"));
            shown["content"] = json!(BASE64.encode(content));
        }
        FileState::Symlink { target } => {
            shown["state"] = json!("symlink");
            shown["target"] = json!(target.to_string_lossy());
        }
        FileState::Directory => shown["state"] = json!("directory"),
        FileState::NotKept { reason } => {
            shown["state"] = json!("not_kept");
            shown["reason"] = json!(reason);
        }
    }
    shown
}
