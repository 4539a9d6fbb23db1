//! Which journal a store runs on, and why.
//!
//! A write-ahead log lets readers and one writer work at once, but its index is memory shared between processes. On a
//! network file system that memory is not shared, and the file is damaged. There a rollback journal is used, and the
//! open says so.

use std::path::Path;

use rusqlite::Connection;

use super::faults::{is_busy, lacks_wal};
use super::patience::Patience;

/// The kind of journal that a store runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Journal {
    /// A write-ahead log: readers do not wait for the writer. For local file systems.
    Wal,
    /// A rollback journal: readers and the writer take turns. Works wherever file locks do.
    Rollback,
}

/// Decides which journal to use: what the caller forces, else what the file system can bear.
pub(super) fn choose(forced: Option<Journal>, network: Option<&str>) -> Journal {
    match (forced, network) {
        (Some(forced), _) => forced,
        (None, Some(_)) => Journal::Rollback,
        (None, None) => Journal::Wal,
    }
}

/// Answers what the caller should know about the choice.
pub(super) fn remark(
    used: Journal,
    forced: Option<Journal>,
    network: Option<&str>,
) -> Option<String> {
    match (used, forced, network) {
        (Journal::Rollback, None, Some(kind)) => Some(format!(
            "the store lies on a network or shared file system ({kind}), so it uses a rollback journal: readers and writers take turns"
        )),
        (Journal::Wal, _, Some(kind)) => Some(format!(
            "a write-ahead log was asked for on a network or shared file system ({kind}): use the store from one machine only"
        )),
        (Journal::Rollback, None | Some(Journal::Wal), None) => Some(
            "no write-ahead log can be had here, so the store uses a rollback journal: readers and writers take turns"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Names the network or shared file system that a path lies on; `None` for a local one, or where that cannot be told.
#[cfg(target_os = "linux")]
pub(super) fn network(path: &Path) -> Option<&'static str> {
    let stat = rustix::fs::statfs(path).ok()?;
    // The kernel's type for it differs between processors; the number has 32 bits.
    #[expect(
        clippy::cast_sign_loss,
        clippy::cast_possible_truncation,
        reason = "only the low 32 bits have a meaning"
    )]
    network_name(stat.f_type as u32)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn network(_path: &Path) -> Option<&'static str> {
    None
}

/// Names the file systems, by the kernel's numbers, on which memory is not shared between all who see a file.
fn network_name(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x0102_1997 => "9p",
        0x00c3_6400 => "Ceph",
        0x7375_7245 => "Coda",
        0x564c => "NCP",
        0x0bd0_0bd0 => "Lustre",
        0x786f_4256 => "VirtualBox shared folder",
        0xbacb_acbc => "VMware shared folder",
        // virtiofs, sshfs and the shared folders of most container desktops carry FUSE's number.
        0x6573_5546 => "FUSE",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x4750_4653 => "GPFS",
        0x1983_0326 => "BeeGFS",
        _ => return None,
    })
}

/// Reads which journal the file has now.
pub(super) fn current(conn: &Connection) -> rusqlite::Result<Journal> {
    let mode: String = conn.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    Ok(kind(&mode))
}

/// Brings the file to the wanted journal, and answers the one it has then.
///
/// SQLite refuses the switch at once while others are at the file, without asking its busy handler; so it is retried.
/// Where SQLite has no write-ahead log, the answer is a rollback journal.
///
/// # Errors
/// Busy when others keep the file for the whole budget; otherwise what the first use of the new journal met.
pub(super) fn settle(
    conn: &Connection,
    wanted: Journal,
    patience: &mut Patience,
) -> rusqlite::Result<Journal> {
    let mut set = |mode: &str| {
        patience.retry(is_busy, || {
            let got: String =
                conn.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |row| {
                    row.get(0)
                })?;
            // The log and its index are only opened by the next use.
            conn.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            Ok(kind(&got))
        })
    };
    if wanted == Journal::Wal && (current(conn)? == Journal::Wal || set("WAL")? == Journal::Wal) {
        return Ok(Journal::Wal);
    }
    // An emptied journal costs less than a deleted one, and its name need not be made durable again.
    set("TRUNCATE")
}

/// Whether an open failed because a write-ahead log cannot be had, so that a rollback journal is worth a try.
pub(super) fn worth_a_rollback(
    wanted: Journal,
    forced: Option<Journal>,
    error: &rusqlite::Error,
) -> bool {
    wanted == Journal::Wal && forced.is_none() && lacks_wal(error)
}

fn kind(mode: &str) -> Journal {
    if mode.eq_ignore_ascii_case("wal") {
        Journal::Wal
    } else {
        Journal::Rollback
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_file_system_means_a_rollback_journal_unless_forced() {
        assert_eq!(choose(None, None), Journal::Wal);
        assert_eq!(choose(None, Some("NFS")), Journal::Rollback);
        assert_eq!(choose(Some(Journal::Wal), Some("NFS")), Journal::Wal);
        assert_eq!(choose(Some(Journal::Rollback), None), Journal::Rollback);
    }

    #[test]
    fn the_caller_is_told_of_every_choice_that_may_surprise() {
        let remark = |used, forced, network| remark(used, forced, network).unwrap_or_default();
        assert_eq!(remark(Journal::Wal, None, None), "");
        assert_eq!(remark(Journal::Rollback, Some(Journal::Rollback), None), "");
        assert!(remark(Journal::Rollback, None, Some("NFS")).contains("NFS"));
        assert!(remark(Journal::Wal, Some(Journal::Wal), Some("NFS")).contains("one machine"));
        assert!(remark(Journal::Rollback, None, None).contains("rollback"));
    }

    #[test]
    fn network_file_systems_are_known_by_number() {
        for magic in [
            0x6969,
            0x517b,
            0xff53_4d42,
            0xfe53_4d42,
            0x5346_414f,
            0x0102_1997,
            0x00c3_6400,
        ] {
            assert!(network_name(magic).is_some(), "{magic:#x}");
        }
        for magic in [0x7375_7245, 0x564c, 0x0bd0_0bd0, 0x786f_4256, 0x6573_5546] {
            assert!(network_name(magic).is_some(), "{magic:#x}");
        }
        // ext4, btrfs, xfs, tmpfs, overlay, zfs
        for magic in [
            0xef53,
            0x9123_683e,
            0x5846_5342,
            0x0102_1994,
            0x794c_7630,
            0x2fc1_2fc1,
        ] {
            assert!(network_name(magic).is_none(), "{magic:#x}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_is_not_called_a_network() {
        assert_eq!(network(Path::new("/nowhere/at/all")), None);
    }
}
