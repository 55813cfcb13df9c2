//! Values of options: times, workspaces, texts.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::civil::{DateTime, Time as ClockTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};
use vestal_board::{TaskWorkspace, Time};
use vestal_config::ProfileName;

use crate::error::CommandFailure;
use crate::values::parse_duration;

/// The word for "from standard input".
pub(super) const STDIN: &str = "-";

/// More than any text of a task may have; the board's own limits are smaller.
const MOST: u64 = 4 << 20;

/// The time of something that happens later.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct TimeArgs {
    /// Time: `2026-11-20 09:30` or `09:30` in the local time zone, or `2026-11-20T09:30:00Z`.
    #[arg(long, value_name = "TIME", value_parser = parse_moment, conflicts_with = "delay")]
    at: Option<Time>,

    /// Delay from now: `90s`, `30m`, `2h`, `1d`.
    #[arg(long = "in", value_name = "TIME", value_parser = parse_duration)]
    delay: Option<Duration>,
}

impl TimeArgs {
    /// Returns the moment, if one was given.
    pub(super) fn moment(&self) -> Option<Time> {
        self.at.or_else(|| self.delay.map(|delay| Time::now().after(delay)))
    }
}

/// Reads a time.
pub(super) fn parse_moment(text: &str) -> Result<Time, String> {
    moment(text, &Zoned::now())
}

/// Reads a time relative to `now`.
fn moment(text: &str, now: &Zoned) -> Result<Time, String> {
    let text = text.trim();
    let millis = |at: Timestamp| Time::from_millis(at.as_millisecond());
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(millis(at));
    }
    let local = |at: DateTime, zone: &TimeZone| {
        let zoned = at.to_zoned(zone.clone()).map_err(|error| error.to_string())?;
        Ok(millis(zoned.timestamp()))
    };
    // A clock time alone would read as one of today, however long ago.
    if text.len() <= 8
        && let Ok(clock) = text.parse::<ClockTime>()
    {
        let today = now.date().to_datetime(clock);
        let day = i32::from(today <= now.datetime());
        return local(today.saturating_add(day.days()), now.time_zone());
    }
    match text.parse::<DateTime>() {
        Ok(at) => local(at, now.time_zone()),
        Err(_) => Err(
            "write a time as 2026-11-20 09:30, 09:30 or 2026-11-20T09:30:00Z; for a delay: --in 2h"
                .to_owned(),
        ),
    }
}

/// Where a task is to be worked on, as the command line says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorkspaceChoice {
    Scratch,
    Dir(Option<PathBuf>),
    Worktree(Option<PathBuf>),
}

/// Reads a workspace: `scratch`, `dir:PATH`, `worktree` or `worktree:PATH`.
pub(super) fn parse_workspace(text: &str) -> Result<WorkspaceChoice, String> {
    let (kind, path) = match text.split_once(':') {
        Some((kind, path)) => (kind, Some(path).filter(|path| !path.is_empty())),
        None => (text, None),
    };
    let path = path.map(PathBuf::from);
    match (kind, path) {
        ("scratch", None) if !text.contains(':') => Ok(WorkspaceChoice::Scratch),
        ("dir", path) => Ok(WorkspaceChoice::Dir(path)),
        ("worktree", path) => Ok(WorkspaceChoice::Worktree(path)),
        _ => Err("write scratch, dir:PATH, worktree or worktree:PATH".to_owned()),
    }
}

impl WorkspaceChoice {
    /// Reports whether the board has to say where.
    pub(super) fn uses_board_default(&self) -> bool {
        matches!(self, Self::Dir(None) | Self::Worktree(None))
    }

    /// Returns the workspace. What names no path gets the board's own; a
    /// relative path is meant from here. Vestal's own home is refused.
    pub(super) fn resolve(
        self,
        home: &Path,
        default: Option<&Path>,
        branch: Option<String>,
    ) -> Result<TaskWorkspace, CommandFailure> {
        let kind = match &self {
            Self::Scratch => "scratch",
            Self::Dir(_) => "dir",
            Self::Worktree(_) => "worktree",
        };
        if branch.is_some() && !matches!(self, Self::Worktree(_)) {
            return Err(CommandFailure::usage(format!(
                "--branch does not apply to a {kind} workspace"
            ))
            .advise("to work on a branch: --workspace worktree:REPOSITORY"));
        }
        let path = match self {
            Self::Scratch => return Ok(TaskWorkspace::Scratch),
            Self::Dir(path) | Self::Worktree(path) => match path.as_deref().or(default) {
                Some(path) => absolute(path)?,
                None => {
                    let message =
                        format!("a {kind} workspace needs a path, and the board has no default");
                    return Err(CommandFailure::usage(message)
                        .advise(format!("name it: --workspace {kind}:PATH"))
                        .advise("or give the board one: vestal kanban boards set-default-workdir SLUG PATH"));
                }
            },
        };
        if vestal_config::is_within(&path, home) {
            let message = format!("{} is in Vestal's own home, {}", path.display(), home.display());
            return Err(CommandFailure::usage(message)
                .advise("a worker there could change settings, secrets and boards; choose another directory"));
        }
        if kind == "dir" {
            Ok(TaskWorkspace::Dir { path })
        } else {
            Ok(TaskWorkspace::Worktree { path, branch })
        }
    }
}

/// Returns a path from the root, whatever it was relative to.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, CommandFailure> {
    let failed = |error| CommandFailure::io("find the current directory", &error);
    let path = std::path::absolute(path).map_err(failed)?;
    // `..` is removed by name: a worker must later end up where
    // the name says, not where a link led at the moment of asking.
    Ok(path.components().fold(PathBuf::new(), |mut clean, part| {
        match part {
            std::path::Component::ParentDir => {
                clean.pop();
            }
            part => clean.push(part),
        }
        clean
    }))
}

/// Returns a text, or what standard input has where it is `-`.
pub(super) async fn text_or_stdin(text: String) -> Result<String, CommandFailure> {
    if text == STDIN { stdin("standard input").await } else { Ok(text) }
}

/// Reads standard input to its end.
pub(super) async fn stdin(what: &str) -> Result<String, CommandFailure> {
    stdin_up_to(MOST, what).await
}

/// As [`stdin`], with another bound.
pub(super) async fn stdin_up_to(most: u64, what: &str) -> Result<String, CommandFailure> {
    let read = tokio::task::spawn_blocking(move || read_text(io::stdin().lock(), most));
    let read = read.await.map_err(io::Error::other).and_then(|read| read);
    read.map_err(|error| CommandFailure::io("read standard input", &error))?
        .map_err(|reason| CommandFailure::usage(format!("{what} {reason}")))
}

/// Reads a file as text, up to a bound.
pub(super) async fn file_up_to(path: &Path, most: u64) -> Result<String, CommandFailure> {
    let file = path.to_owned();
    let read =
        tokio::task::spawn_blocking(move || read_text(std::fs::File::open(file)?, most)).await;
    let read = read.map_err(io::Error::other).and_then(|read| read);
    read.map_err(|error| CommandFailure::io(&format!("read {}", path.display()), &error))?
        .map_err(|reason| CommandFailure::usage(format!("{} {reason}", path.display())))
}

fn read_text(from: impl io::Read, most: u64) -> io::Result<Result<String, String>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Ok(Err(format!("has more than {} MiB", most >> 20)));
    }
    Ok(String::from_utf8(bytes).map_err(|_| "is not text".to_owned()))
}

/// Returns the words of a reason as one text; none where there is none.
pub(super) fn joined(words: &[String]) -> Option<String> {
    let text = words.join(" ");
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// Reads the name of a profile, or `none`.
pub(super) fn parse_assignee(name: &str) -> Result<Option<ProfileName>, CommandFailure> {
    match name.trim() {
        "none" | "" => Ok(None),
        name => Ok(Some(ProfileName::new(name)?)),
    }
}

/// Reads an object of JSON.
pub(super) fn parse_object(text: &str) -> Result<serde_json::Value, String> {
    match serde_json::from_str(text) {
        Ok(value @ serde_json::Value::Object(_)) => Ok(value),
        Ok(_) => Err("write an object, as in {\"tests\": 12}".to_owned()),
        Err(error) => Err(format!("is not valid JSON: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Result<i64, String> {
        let now: Zoned = "2026-11-15T10:00:00+02:00[+02:00]".parse().unwrap();
        moment(text, &now).map(Time::seconds)
    }

    fn utc(text: &str) -> i64 {
        text.parse::<Timestamp>().unwrap().as_second()
    }

    #[test]
    fn a_moment_is_meant_where_the_person_is_unless_it_says_where() {
        assert_eq!(at("2026-11-20 09:30"), Ok(utc("2026-11-20T07:30:00Z")));
        assert_eq!(at("2026-11-20T09:30:15"), Ok(utc("2026-11-20T07:30:15Z")));
        assert_eq!(at("2026-11-20T09:30:00Z"), Ok(utc("2026-11-20T09:30:00Z")));
        assert_eq!(at("2026-11-20T09:30:00-05:00"), Ok(utc("2026-11-20T14:30:00Z")));
        assert_eq!(at("2026-11-20"), Ok(utc("2026-11-19T22:00:00Z")));
    }

    #[test]
    fn a_clock_time_is_the_next_one() {
        assert_eq!(at("10:30"), Ok(utc("2026-11-15T08:30:00Z")));
        assert_eq!(at("09:30"), Ok(utc("2026-11-16T07:30:00Z")));
    }

    #[test]
    fn an_invalid_moment_is_reported_with_valid_ones() {
        for wrong in ["", "soon", "25:00", "2026-13-01", "tomorrow"] {
            assert!(at(wrong).is_err_and(|error| error.contains("09:30")), "{wrong}");
        }
    }

    #[test]
    fn workspaces_have_a_kind_and_perhaps_a_path() {
        assert_eq!(parse_workspace("scratch"), Ok(WorkspaceChoice::Scratch));
        assert_eq!(parse_workspace("dir:/a:b"), Ok(WorkspaceChoice::Dir(Some("/a:b".into()))));
        assert_eq!(parse_workspace("worktree"), Ok(WorkspaceChoice::Worktree(None)));
        for wrong in ["", "scratch:/a", "scratch:", "tree", "/a"] {
            assert!(parse_workspace(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_path_is_the_one_named_else_the_boards() {
        let (board, home) = (Path::new("/board"), Path::new("/home/ada/.vestal"));
        let resolve = |text: &str, default, branch: Option<&str>| {
            parse_workspace(text).unwrap().resolve(home, default, branch.map(str::to_owned)).ok()
        };
        let dir = |path: &str| Some(TaskWorkspace::Dir { path: path.into() });
        assert_eq!(resolve("dir:/a/../b", Some(board), None), dir("/b"));
        assert_eq!(resolve("dir", Some(board), None), dir("/board"));
        assert_eq!(resolve("dir", None, None), None);
        assert_eq!(
            resolve("worktree", Some(board), Some("b")),
            Some(TaskWorkspace::Worktree { path: board.into(), branch: Some("b".to_owned()) })
        );
        assert_eq!(resolve("scratch", Some(board), Some("b")), None, "scratch has no branch");
        for own in [
            "dir:/home/ada/.vestal",
            "dir:/home/ada/.vestal/profiles/x",
            "worktree:/home/ada/.vestal",
        ] {
            assert_eq!(resolve(own, None, None), None, "{own} is Vestal's own");
        }
        assert_eq!(
            resolve("dir:/home/ada/.vestal-projects", None, None),
            dir("/home/ada/.vestal-projects")
        );
    }

    #[test]
    fn text_that_is_none_and_text_without_end_are_refused() {
        assert_eq!(read_text(&b"a\n"[..], 2).unwrap(), Ok("a\n".to_owned()));
        assert!(read_text(&b"\xff"[..], 2).unwrap().is_err());
        assert!(read_text(io::repeat(b'x'), MOST).unwrap().is_err());
    }

    #[test]
    fn metadata_is_an_object() {
        assert!(parse_object("{\"a\":1}").is_ok());
        for wrong in ["[]", "1", "{", ""] {
            assert!(parse_object(wrong).is_err(), "{wrong}");
        }
    }
}
