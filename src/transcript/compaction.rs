//! What a compaction boundary says of the messages it kept.

use super::json::{Object, array, string};

/// What a boundary names, by uuid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Boundary {
    /// The message that the compacted history ended with.
    pub(crate) logical_parent: Option<String>,
    /// The messages shown again behind the summary, oldest first.
    pub(crate) preserved: Preserved,
}

/// How a boundary names the messages it kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Preserved {
    /// None were kept.
    #[default]
    None,
    /// These.
    Uuids(Vec<String>),
    /// Those from `head` to `tail`, along the chain.
    Segment { head: String, tail: String },
}

impl Boundary {
    /// Reads a boundary entry.
    pub(crate) fn read(entry: &str) -> Self {
        let Some(entry) = Object::parse(entry) else {
            return Self::default();
        };
        let metadata = entry.object("compactMetadata").unwrap_or_default();
        Self {
            logical_parent: entry.string("logicalParentUuid").map(String::from),
            preserved: messages(&metadata)
                .or_else(|| segment(&metadata))
                .unwrap_or_default(),
        }
    }
}

fn messages(metadata: &Object<'_>) -> Option<Preserved> {
    let uuids = array(metadata.object("preservedMessages")?.get("uuids")?)?;
    let uuids: Vec<String> = uuids
        .into_iter()
        .filter_map(string)
        .map(String::from)
        .collect();
    (!uuids.is_empty()).then_some(Preserved::Uuids(uuids))
}

fn segment(metadata: &Object<'_>) -> Option<Preserved> {
    let segment = metadata.object("preservedSegment")?;
    Some(Preserved::Segment {
        head: segment.string("headUuid")?.into_owned(),
        tail: segment.string("tailUuid")?.into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        let listed = r#"{"compactMetadata":{"preservedSegment":{"headUuid":"a","anchorUuid":"s","tailUuid":"b"},"preservedMessages":{"uuids":["a","b"]}}}"#;
        let ranged = r#"{"logicalParentUuid":"b","compactMetadata":{"preservedSegment":{"headUuid":"a","anchorUuid":"s","tailUuid":"b"}}}"#;
        assert_eq!(
            Boundary::read(listed).preserved,
            Preserved::Uuids(vec!["a".to_owned(), "b".to_owned()])
        );
        let ranged = Boundary::read(ranged);
        assert_eq!(ranged.logical_parent.as_deref(), Some("b"));
        assert_eq!(
            ranged.preserved,
            Preserved::Segment {
                head: "a".to_owned(),
                tail: "b".to_owned()
            }
        );
    }
}
