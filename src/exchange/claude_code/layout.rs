//! What lies where in a client's folder.
//!
//! ```text
//! <config>/projects/<project key>/<session id>.jsonl
//! <config>/projects/<project key>/<session id>/subagents/…/agent-<id>.jsonl, .meta.json
//! <config>/projects/<project key>/<session id>/tool-results/…
//! <config>/projects/<project key>/agent-<id>.jsonl          (older clients)
//! <config>/file-history/<session id>/<hash>@v<n>
//! ```
//!
//! Only finds files; reads none.

use std::fs;
use std::path::{Path, PathBuf};

use super::report::ImportReport;
use crate::error::{Error, Result};

/// A session's files in one project.
#[derive(Debug, Default)]
pub(super) struct FoundSession {
    pub(super) project_key: String,
    /// The id that the file is named by; `None` if the entries must tell.
    pub(super) session_id: Option<String>,
    /// Its transcripts, the main one first.
    pub(super) transcripts: Vec<FoundTranscript>,
    /// Files kept beside them: path below the session, path on disk.
    pub(super) files: Vec<(String, PathBuf)>,
}

/// One transcript file.
#[derive(Debug)]
pub(super) struct FoundTranscript {
    pub(super) path: PathBuf,
    pub(super) subpath: String,
    /// The `.meta.json` beside it.
    pub(super) meta: Option<PathBuf>,
    pub(super) bytes: u64,
}

/// Finds the sessions at `path`: a config folder, a folder of projects, a project's folder, or one
/// transcript. Odd things are reported and left out.
pub(super) fn find(path: &Path, report: &mut ImportReport) -> Result<Vec<FoundSession>> {
    let path = fs::canonicalize(path).map_err(|error| Error::io("reading", path, error))?;
    if path.is_file() {
        return one_file(&path, report);
    }
    let config = if path.join("projects").is_dir() {
        Some(path.clone())
    } else {
        path.parent()
            .filter(|_| name(&path) == "projects")
            .map(Path::to_owned)
    };
    let mut sessions = Vec::new();
    if let Some(config) = &config {
        for project in folders(&config.join("projects"), report) {
            sessions.extend(project_sessions(&project, report));
        }
    } else if holds_transcripts(&path) {
        sessions.extend(project_sessions(&path, report));
    } else {
        let inner: Vec<PathBuf> = folders(&path, report)
            .into_iter()
            .filter(|inner| holds_transcripts(inner))
            .collect();
        if inner.is_empty() {
            let why = "there are no Claude Code transcripts in it; give a config folder (it holds `projects/`), \
                       a project's folder, or one .jsonl file";
            return Err(Error::invalid(path.display().to_string(), why));
        }
        for project in inner {
            sessions.extend(project_sessions(&project, report));
        }
    }
    if let Some(config) = &config {
        add_backups(&config.join("file-history"), &mut sessions, report);
    }
    Ok(sessions)
}

fn one_file(path: &Path, report: &mut ImportReport) -> Result<Vec<FoundSession>> {
    if path
        .extension()
        .is_none_or(|extension| extension != "jsonl")
    {
        return Err(Error::invalid(
            path.display().to_string(),
            "it is not a .jsonl file",
        ));
    }
    let folder = path.parent().unwrap_or(Path::new("/"));
    let stem = stem(path);
    // A sub-agent's transcript, by itself: …/<project>/<session>/subagents/agent-x.jsonl
    let above: Vec<&Path> = path.ancestors().skip(1).collect();
    if let Some(at) = above.iter().position(|folder| name(folder) == "subagents")
        && let (Some(session), Some(project)) = (above.get(at + 1), above.get(at + 2))
        && is_uuid(&name(session))
    {
        return Ok(vec![FoundSession {
            project_key: name(project),
            session_id: Some(name(session)),
            transcripts: transcript(path, subpath(session, path), report)
                .into_iter()
                .collect(),
            files: Vec::new(),
        }]);
    }
    let mut session = FoundSession {
        project_key: name(folder),
        session_id: is_uuid(&stem).then(|| stem.clone()),
        ..FoundSession::default()
    };
    session
        .transcripts
        .extend(transcript(path, String::new(), report));
    let own = folder.join(&stem);
    if is_uuid(&stem) && own.is_dir() {
        add_session_folder(&own, &mut session, report);
    }
    let mut sessions = vec![session];
    if let Some(config) = folder
        .parent()
        .filter(|projects| name(projects) == "projects")
        .and_then(Path::parent)
    {
        add_backups(&config.join("file-history"), &mut sessions, report);
    }
    Ok(sessions)
}

/// Whether a folder looks like a project's: it holds a transcript or a session's folder.
fn holds_transcripts(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else {
        return false;
    };
    entries.filter_map(std::result::Result::ok).any(|entry| {
        let path = entry.path();
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
            || (is_uuid(&name(&path)) && path.join("subagents").is_dir())
    })
}

fn project_sessions(project: &Path, report: &mut ImportReport) -> Vec<FoundSession> {
    let mut sessions: Vec<FoundSession> = Vec::new();
    let mut old_agents = Vec::new();
    let mut extra_folders = Vec::new();
    for path in sorted(project, report) {
        let stem = stem(&path);
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            if path.is_dir() && is_uuid(&name(&path)) {
                extra_folders.push(path);
            }
            continue;
        }
        if path.is_dir() {
            report.problem(
                &path,
                None,
                "is a folder with the name of a transcript; nothing was read of it",
            );
        } else if is_uuid(&stem) {
            let mut session = FoundSession {
                project_key: name(project),
                session_id: Some(stem.clone()),
                ..FoundSession::default()
            };
            session
                .transcripts
                .extend(transcript(&path, String::new(), report));
            sessions.push(session);
        } else if stem.starts_with("agent-") {
            old_agents.push(path);
        } else {
            let what = "its name is not a session id, so the client does not read it either; \
                        import this file by itself to keep it";
            report.problem(&path, None, what);
        }
    }
    for folder in extra_folders {
        let id = name(&folder);
        let at = sessions
            .iter()
            .position(|session| session.session_id.as_deref() == Some(&id));
        let mut session = at
            .map(|at| sessions.swap_remove(at))
            .unwrap_or_else(|| FoundSession {
                project_key: name(project),
                session_id: Some(id),
                ..FoundSession::default()
            });
        add_session_folder(&folder, &mut session, report);
        if !session.transcripts.is_empty() || !session.files.is_empty() {
            sessions.push(session);
        }
    }
    for path in old_agents {
        let subpath = format!("subagents/{}", stem(&path));
        sessions.push(FoundSession {
            project_key: name(project),
            session_id: None,
            transcripts: transcript(&path, subpath, report).into_iter().collect(),
            files: Vec::new(),
        });
    }
    sessions.sort_by(|one, other| one.session_id.cmp(&other.session_id));
    sessions
}

/// Adds what lies in a session's own folder.
fn add_session_folder(folder: &Path, session: &mut FoundSession, report: &mut ImportReport) {
    for path in files_below(folder, report) {
        let Some(below) = below(folder, &path, report) else {
            continue;
        };
        let is_agent = below.starts_with("subagents/");
        if is_agent && below.ends_with(".jsonl") {
            session
                .transcripts
                .extend(transcript(&path, subpath(folder, &path), report));
        } else if is_agent && below.ends_with(".meta.json") && has_transcript(&path) {
            // Goes with its transcript.
        } else if is_plain_file(&path, report) {
            session.files.push((below, path));
        }
    }
}

fn has_transcript(meta: &Path) -> bool {
    let name = name(meta);
    meta.with_file_name(format!("{}.jsonl", name.trim_end_matches(".meta.json")))
        .is_file()
}

/// Adds the client's checkpoint backups to the sessions they belong to.
fn add_backups(history: &Path, sessions: &mut [FoundSession], report: &mut ImportReport) {
    if !history.is_dir() {
        return;
    }
    for session in sessions {
        let Some(id) = session.session_id.clone() else {
            continue;
        };
        let folder = history.join(&id);
        if !folder.is_dir() {
            continue;
        }
        for path in files_below(&folder, report) {
            let Some(below) = below(&folder, &path, report) else {
                continue;
            };
            if is_plain_file(&path, report) {
                session.files.push((format!("file-history/{below}"), path));
            }
        }
    }
}

fn transcript(path: &Path, subpath: String, report: &mut ImportReport) -> Option<FoundTranscript> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => {
            let meta = path.with_file_name(format!("{}.meta.json", stem(path)));
            let meta = Some(meta).filter(|meta| !subpath.is_empty() && meta.is_file());
            Some(FoundTranscript {
                path: path.to_owned(),
                subpath,
                meta,
                bytes: metadata.len(),
            })
        }
        Ok(_) => {
            report.problem(path, None, "is not a plain file; nothing was read of it");
            None
        }
        Err(error) => {
            report.problem(path, None, format!("cannot be read: {error}"));
            None
        }
    }
}

/// Whether `path` is a plain file itself: a link could lead anywhere.
fn is_plain_file(path: &Path, report: &mut ImportReport) -> bool {
    let plain = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    if !plain {
        report.problem(
            path,
            None,
            "is a link or no plain file; it was not followed",
        );
    }
    plain
}

fn files_below(folder: &Path, report: &mut ImportReport) -> Vec<PathBuf> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for path in sorted(&folder, report) {
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir());
            if is_folder {
                open.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn folders(path: &Path, report: &mut ImportReport) -> Vec<PathBuf> {
    sorted(path, report)
        .into_iter()
        .filter(|path| path.is_dir())
        .collect()
}

fn sorted(folder: &Path, report: &mut ImportReport) -> Vec<PathBuf> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            report.problem(folder, None, format!("cannot be read: {error}"));
            return Vec::new();
        }
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort();
    paths
}

/// The path of `path` below `folder`, with `/`; `None` (reported) if it is not UTF-8.
fn below(folder: &Path, path: &Path, report: &mut ImportReport) -> Option<String> {
    let parts: Option<Vec<&str>> = path
        .strip_prefix(folder)
        .ok()?
        .components()
        .map(|part| part.as_os_str().to_str())
        .collect();
    if parts.is_none() {
        report.problem(path, None, "its name is not UTF-8; it was not kept");
    }
    Some(parts?.join("/"))
}

fn subpath(session: &Path, path: &Path) -> String {
    let below = path
        .strip_prefix(session)
        .unwrap_or(path)
        .with_extension("");
    below
        .components()
        .map(|part| part.as_os_str().to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

fn name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}
