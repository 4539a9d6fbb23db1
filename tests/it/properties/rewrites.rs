//! A client that goes on writing, rewrites its tail and is caught in the middle, while an app writes
//! to the same session: nothing is lost, and nothing is taken twice.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use turnkeep::NewMessage;

use super::{Case, cases};
use crate::kit::uuids;

/// What happens next.
#[derive(Clone, Debug)]
enum Act {
    /// The client writes a message, hanging from its last one.
    Say,
    /// The client writes a line without a uuid; there are few, so they repeat.
    Note(u8),
    /// The client takes the notes out of its last lines and writes them again at the end.
    Rewrite(usize),
    /// The file is imported while its last line is half written, or all but its line feed.
    ImportTorn(Option<Index>),
    /// The file is imported.
    Import,
    /// An app appends to the session in the store.
    App,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => Just(Act::Say),
        3 => (0..2_u8).prop_map(Act::Note),
        2 => (1..8_usize).prop_map(Act::Rewrite),
        1 => any::<Option<Index>>().prop_map(Act::ImportTorn),
        3 => Just(Act::Import),
        1 => Just(Act::App),
    ]
}

/// The client's file.
#[derive(Default)]
struct Client {
    lines: Vec<String>,
    said: usize,
}

impl Client {
    fn say(&mut self) {
        let kind = ["user", "assistant"][self.said % 2];
        let parent = match self.said {
            0 => "null".to_owned(),
            said => format!(r#""u{}""#, said - 1),
        };
        self.lines.push(format!(
            r#"{{"type":"{kind}","uuid":"u{}","parentUuid":{parent},"message":{{"role":"{kind}","content":"text {}"}}}}"#,
            self.said, self.said
        ));
        self.said += 1;
    }

    fn note(&mut self, number: u8) {
        self.lines
            .push(format!(r#"{{"type":"mode","mode":"mode {number}"}}"#));
    }

    fn rewrite(&mut self, window: usize) {
        let from = self.lines.len().saturating_sub(window);
        let tail = self.lines.split_off(from);
        let (notes, said) = tail
            .into_iter()
            .partition(|line| line.contains(r#""mode""#));
        self.lines.extend::<Vec<String>>(said);
        self.lines.extend::<Vec<String>>(notes);
    }

    fn bytes(&self) -> Vec<u8> {
        let lines = self.lines.iter().map(|line| format!("{line}\n"));
        lines.collect::<String>().into_bytes()
    }
}

/// How often each line occurs.
fn count<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> HashMap<Vec<u8>, usize> {
    let mut counts = HashMap::new();
    for line in lines {
        *counts.entry(line.to_vec()).or_default() += 1;
    }
    counts
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn nothing_is_lost_or_doubled_while_client_and_app_write(acts in vec(act(), 1..25)) {
        let case = Case::new();
        let mut client = Client::default();
        client.say();
        case.import(&client.bytes());
        // How often each line was in the file at most, when it was imported.
        let mut most: HashMap<Vec<u8>, usize> = HashMap::new();
        let mut app = 0;
        let mut see = |client: &Client| {
            for (line, seen) in count(client.lines.iter().map(String::as_bytes)) {
                let most = most.entry(line).or_default();
                *most = (*most).max(seen);
            }
        };
        for act in &acts {
            match act {
                Act::Say => client.say(),
                Act::Note(number) => client.note(*number),
                Act::Rewrite(window) => client.rewrite(*window),
                Act::Import => {
                    case.import(&client.bytes());
                    see(&client);
                }
                Act::ImportTorn(at) => {
                    let whole = client.bytes();
                    let last = client.lines.last().map_or(0, String::len);
                    let torn = whole.len() - 1 - at.map_or(0, |at| at.index(last));
                    case.import(&whole[..torn]);
                    let last = client.lines.pop().unwrap();
                    see(&client);
                    client.lines.push(last);
                }
                Act::App => {
                    app += 1;
                    let message = NewMessage::user(format!("from the app {app}"));
                    case.session().messages().append(message).unwrap();
                }
            }
        }
        case.import(&client.bytes());
        see(&client);
        let again = case.import(&client.bytes());
        prop_assert_eq!((again.new_entries, again.differing_entries), (0, 0));

        case.shown();
        let session = case.session();
        let transcript = session.transcript("").unwrap();
        let stored = count(transcript.iter().map(|line| line.bytes()));
        for (line, most) in &most {
            let line_stored = stored.get(line).copied().unwrap_or(0);
            prop_assert_eq!(line_stored, *most, "{}", super::readable(line));
        }
        let entries = transcript.iter().filter(|line| line.entry.is_some()).count();
        prop_assert_eq!(entries, most.values().sum::<usize>() + app);
        if app == 0 {
            let once = Case::new();
            once.import(&client.bytes());
            prop_assert_eq!(uuids(&session), uuids(&once.session()));
        }
    }
}
