//! `turnkeep label`

use serde_json::json;

use super::out::{Out, harmless_line};
use super::place::{Within, session};
use super::{Call, Done, Outcome};

/// Give a restore point a name of its own
///
/// The point can be rewound to by this name. A name that is in use goes to the new point.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The session
    id: String,

    /// The restore point: an id, the beginning of one, a label, @last, @last~2 or @start
    point: String,

    /// The name
    name: String,

    #[command(flatten)]
    within: Within,
}

pub(super) fn run(call: &Call, args: &Args) -> Outcome {
    let store = call.open(false)?;
    let session = session(&store, &args.id, args.within.project())?;
    session.files().label(&args.point, &args.name)?;
    let name = args.name.trim();
    let mut out = Out::new();
    if call.json {
        let shown = json!({"session_id": session.id(), "point": args.point, "label": name});
        out.line(&shown.to_string())?;
    } else {
        let (point, name) = (harmless_line(&args.point), harmless_line(name));
        out.line(&format!("{point} is called {name} too"))?;
    }
    Ok(Done::All)
}
