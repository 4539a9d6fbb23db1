//! `turnkeep verify`

use serde_json::json;

use super::out::{Out, Style, count};
use super::{Call, Done, Outcome};

/// Check that the store is whole, and that what it keeps up agrees with its entries
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) fn run(call: &Call, _: &Args) -> Outcome {
    let store = call.look()?;
    let verified = store.verify()?;
    let mut out = Out::new();
    if call.json {
        let findings: Vec<_> = verified
            .findings
            .iter()
            .map(|finding| json!({"session": finding.session, "what": finding.what}))
            .collect();
        let shown = json!({"sessions": verified.sessions, "entries": verified.entries, "findings": findings,
            "search_damaged": verified.is_search_damaged, "unused_pages": verified.unused_pages});
        out.line(&shown.to_string())?;
    } else {
        for finding in &verified.findings {
            let place = finding.session.as_deref().unwrap_or("the file");
            out.line(&format!(
                "{} {place}: {}",
                out.styled(Style::Bad, "wrong:"),
                finding.what
            ))?;
        }
        if verified.unused_pages > 0 {
            let pages = count(verified.unused_pages, "page");
            out.line(&format!(
                "{pages} of the file unused, as a damaged search index leaves them: VACUUM gives them back"
            ))?;
        }
        let verdict = match verified.findings.len() {
            0 => "all is well",
            1 if verified.is_search_damaged => "all is well but the search index",
            _ => "not all is well",
        };
        let read = format!(
            "{}, {}",
            count(verified.sessions, "session"),
            count(verified.entries, "entry")
        );
        out.line(&format!("{read}: {verdict}"))?;
    }
    Ok(if verified.findings.is_empty() {
        Done::All
    } else {
        Done::Part
    })
}
