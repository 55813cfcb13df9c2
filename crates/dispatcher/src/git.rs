//! Running git.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use vestal_config::Environment;
use vestal_process::{EndTimeouts, ProcessId, ProcessSession};

use crate::workspace::WorkspaceError;

/// How long one git command may take.
pub(crate) const GIT_TIMEOUT: Duration = Duration::from_mins(1);
/// The most output of git that is kept, in bytes.
const MAX_OUTPUT: u64 = 64 << 10;
/// Settings that a repository cannot override.
const FIXED: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", "false"),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    ("credential.helper", ""),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("advice.detachedHead", "false"),
];
/// The part of a merge driver that names a program.
const DRIVER_PROGRAM: &str = "driver";
/// The parts of a filter that name a program.
const FILTER_PROGRAMS: &[&str] = &["smudge", "clean", "process"];

/// How git is run.
#[derive(Debug, Clone)]
pub(crate) struct Git {
    environment: Vec<(&'static str, OsString)>,
    timeout: Duration,
}

impl Git {
    /// Runs git as found by the dispatcher, with little else of its environment.
    pub(crate) fn new(dispatcher: &Environment, timeout: Duration) -> Self {
        let kept = ["PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR"];
        let mut environment: Vec<_> = kept
            .into_iter()
            .filter_map(|name| Some((name, dispatcher.get(name)?.to_owned())))
            .collect();
        environment.extend(
            [
                ("LC_ALL", "C"),
                ("GIT_TERMINAL_PROMPT", "0"),
                ("GIT_ASKPASS", "false"),
                ("SSH_ASKPASS", "false"),
                ("GIT_SSH_COMMAND", "false"),
                ("GIT_NO_LAZY_FETCH", "1"),
                ("GIT_PAGER", "cat"),
                ("GIT_EDITOR", "false"),
                ("GIT_OPTIONAL_LOCKS", "0"),
            ]
            .map(|(name, value)| (name, value.into())),
        );
        Self { environment, timeout }
    }

    /// Returns git as it may be run in a directory: filters and merge drivers that the repository
    /// itself names are taken out, those of the user's own settings stay.
    pub(crate) async fn at(&self, dir: &Path) -> Result<GitAt<'_>, WorkspaceError> {
        let mut git = GitAt {
            git: self,
            dir: dir.to_owned(),
            settings: FIXED.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            variables: Vec::new(),
            most: MAX_OUTPUT * 16,
        };
        let listed = git.run(["config", "--list", "--name-only", "--show-scope", "-z"]).await?;
        let mut parts = listed.split(|byte| *byte == 0);
        while let (Some(scope), Some(name)) = (parts.next(), parts.next()) {
            let name = String::from_utf8_lossy(name).into_owned();
            let own = matches!(scope, b"local" | b"worktree");
            if let Some((filter, key)) = name.rsplit_once('.')
                && own
                && filter.starts_with("filter.")
                && (FILTER_PROGRAMS.contains(&key) || key == "required")
            {
                for program in FILTER_PROGRAMS {
                    git.settings.push((format!("{filter}.{program}"), String::new()));
                }
                git.settings.push((format!("{filter}.required"), "false".to_owned()));
            }
            if let Some((driver, DRIVER_PROGRAM)) = name.rsplit_once('.')
                && own
                && driver.starts_with("merge.")
            {
                // What it would have merged is a conflict.
                git.settings.push((name.clone(), "false".to_owned()));
            }
        }
        Ok(git)
    }
}

/// Git in one directory.
#[derive(Debug, Clone)]
pub(crate) struct GitAt<'a> {
    git: &'a Git,
    dir: PathBuf,
    settings: Vec<(String, String)>,
    variables: Vec<(&'static str, OsString)>,
    /// The most bytes that it may print.
    most: u64,
}

impl GitAt<'_> {
    /// Sets a variable of its environment.
    pub(crate) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Sets a setting, on top of those that a repository cannot override.
    pub(crate) fn setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets it print more, or less, than usual.
    pub(crate) fn printing_at_most(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// Runs git and returns its standard output; if it fails, its standard error is the error.
    pub(crate) async fn run<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let (code, printed, stderr) = self.ask(arguments).await?;
        match code {
            Some(0) => Ok(printed),
            code => Err(self.failed(stderr.trim(), code)),
        }
    }

    /// Runs git and reports whether it ended well.
    pub(crate) async fn test<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<bool, WorkspaceError> {
        Ok(self.ask(arguments).await?.0 == Some(0))
    }

    pub(crate) fn failed(&self, stderr: &str, code: Option<i32>) -> WorkspaceError {
        let stderr = match (stderr, code) {
            ("", Some(code)) => format!("it ended with code {code}"),
            ("", None) => "it was killed".to_owned(),
            (stderr, _) => stderr.to_owned(),
        };
        WorkspaceError::Git { command: format!("in {}", self.dir.display()), stderr }
    }

    /// Runs git and returns its exit code, standard output and standard error.
    pub(crate) async fn ask<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<(Option<i32>, Vec<u8>, String), WorkspaceError> {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(&self.dir)
            .args(arguments)
            .env_clear()
            .envs(self.git.environment.iter().map(|(name, value)| (name, value)))
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("GIT_CONFIG_COUNT", self.settings.len().to_string())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        for (number, (name, value)) in self.settings.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{number}"), name);
            command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        let mut child = command.spawn().map_err(|error| self.failed(&error.to_string(), None))?;
        let process = child.id().and_then(|pid| ProcessId::of_child(pid).ok().flatten());
        let answer = answer(&mut child, self.most);
        if let Ok(answer) = tokio::time::timeout(self.git.timeout, answer).await {
            let (code, printed, stderr) =
                answer.map_err(|error| self.failed(&error.to_string(), None))?;
            // Half of an answer may be the wrong one.
            if printed.len() as u64 > self.most {
                return Err(WorkspaceError::TooMuch { dir: self.dir.clone(), most: self.most });
            }
            return Ok((code, printed, stderr));
        }
        if let Some(leader) = process {
            let session = ProcessSession { leader, marks: Vec::new() };
            let timeouts = EndTimeouts { grace: Duration::ZERO, kill: Duration::from_secs(5) };
            if let Err(error) = session.end(timeouts).await {
                tracing::warn!(%error, "cannot end a git that takes too long");
            }
        }
        let seconds = self.git.timeout.as_secs();
        Err(self.failed(&format!("it was not done after {seconds} s"), None))
    }
}

async fn answer(child: &mut Child, most: u64) -> std::io::Result<(Option<i32>, Vec<u8>, String)> {
    // One byte more, so that it shows.
    let stdout = read(child.stdout.take(), most + 1);
    let stderr = read(child.stderr.take(), MAX_OUTPUT);
    let (printed, stderr, status) = tokio::join!(stdout, stderr, child.wait());
    Ok((status?.code(), printed?, String::from_utf8_lossy(&stderr?).into_owned()))
}

async fn read<P>(pipe: Option<P>, most: u64) -> std::io::Result<Vec<u8>>
where
    P: tokio::io::AsyncRead + Unpin,
{
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        (&mut pipe).take(most).read_to_end(&mut bytes).await?;
        // What is more than that is read and forgotten, so that git ends.
        tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}

/// Returns a path that git printed.
pub(crate) fn printed_path(printed: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(printed.strip_suffix(b"\n").unwrap_or(printed)))
}
