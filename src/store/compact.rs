//! Writing a compaction: an app's summary takes the place of what came before it.

use serde_json::json;
use uuid::Uuid;

use super::conversation::{self, Conversation, ConversationEntry};
use super::feed::head_uuid;
use super::history::History;
use super::session::Session;
use super::write::{SessionTx, iso_time};
use crate::error::{Error, Result};
use crate::model::AppendOptions;
use crate::tables::{operations, transcripts};
use crate::transcript::reading::Reading;

impl Session {
    /// Compacts the conversation: from now on it begins with this summary, behind which the newest
    /// `keep` entries of it stand as they are, and as many more as it takes to cut no call from its
    /// result and no response in two. Nothing is deleted: the transcript keeps all, and a fork can
    /// be taken before it. Written as the client writes its own. Returns the summary's uuid.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a blank summary, or if nothing was said yet.
    pub fn compact(&self, summary: &str, keep: usize) -> Result<String> {
        self.write(|tx| tx.compact(summary, keep))
    }
}

/// The uuids of the newest entries, from one on where a context may begin behind a summary.
fn newest(conversation: &Conversation, keep: usize) -> Vec<String> {
    let spoken: Vec<&ConversationEntry> = conversation.visible().collect();
    let may_begin = |at: &usize| match (spoken[*at].kind.as_str(), at.checked_sub(1)) {
        ("assistant", Some(before)) => spoken[before].kind != "assistant",
        ("assistant", None) => true,
        _ => Reading::of_entry(&spoken[*at].entry).is_none_or(|reading| reading.results.is_empty()),
    };
    let from = spoken.len().saturating_sub(keep);
    if from == spoken.len() {
        return Vec::new();
    }
    let from = (0..=from).rev().find(may_begin).unwrap_or(0);
    spoken[from..]
        .iter()
        .map(|entry| entry.uuid.clone())
        .collect()
}

impl SessionTx<'_, '_> {
    fn compact(&self, summary: &str, keep: usize) -> Result<String> {
        if summary.trim().is_empty() {
            return Err(Error::invalid("summary", "it is blank"));
        }
        let row = self.row()?;
        let history = History::of(self.tx(), &row, "")?;
        let head = transcripts::head(self.tx(), row.id, "")?;
        let kept = newest(&conversation::read_from(self.tx(), &history, head)?, keep);
        let head = head_uuid(self.tx(), &history, head)?;
        let head = head.ok_or_else(|| Error::invalid("compaction", "nothing was said yet"))?;
        let (boundary, uuid) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
        let time = iso_time(self.tx().now_ms());
        let mut metadata = json!({"trigger": "manual"});
        if let (Some(first), Some(last)) = (kept.first(), kept.last()) {
            metadata["preservedSegment"] =
                json!({"headUuid": first, "anchorUuid": uuid, "tailUuid": last});
            metadata["preservedMessages"] =
                json!({"anchorUuid": uuid, "uuids": kept, "allUuids": kept});
        }
        let entries = [
            json!({"parentUuid": null, "logicalParentUuid": head, "isSidechain": false, "type": "system",
                "subtype": "compact_boundary", "content": "Conversation compacted", "isMeta": false,
                "compactMetadata": metadata, "uuid": boundary, "timestamp": time, "sessionId": row.key.session_id}),
            json!({"parentUuid": boundary, "isSidechain": false, "type": "user", "isCompactSummary": true,
                "isVisibleInTranscriptOnly": true, "message": {"role": "user", "content": summary},
                "uuid": uuid, "timestamp": time, "sessionId": row.key.session_id}),
        ];
        self.append_entries(
            entries.iter().map(ToString::to_string),
            &AppendOptions::new(),
        )?;
        operations::insert(
            self.tx(),
            row.id,
            "compact",
            None,
            Some(&json!({"summary": uuid}).to_string()),
        )?;
        Ok(uuid)
    }
}
