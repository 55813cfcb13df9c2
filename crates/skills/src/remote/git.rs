//! Git repositories, by the program `git`. Nothing is checked out: a tree is read as an archive, so
//! no hook, filter or link of a repository does anything here.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};
use vestal_config::Environment;

/// Time that one step may take.
const WITHIN: Duration = Duration::from_mins(5);

/// Bytes of a list of files, and of an error.
const MOST_OUTPUT: u64 = 16 << 20;
const MOST_ERROR: usize = 1000;

/// Blocks of 512 bytes that one file may have: 512 MiB.
const MOST_BLOCKS: u32 = 1 << 20;

/// Variables that git and what it starts get.
const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "XDG_CONFIG_HOME",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_CONFIG_GLOBAL",
    "GIT_SSL_CAINFO",
];

/// A bare repository with one commit.
pub(super) struct Repository<'a> {
    pub(super) dir: &'a Path,
    pub(super) environment: &'a Environment,
}

impl Repository<'_> {
    /// Fetches one commit and returns its name.
    pub(super) async fn fetch(&self, url: &str, reference: &str) -> Result<String, String> {
        self.run(&["init", "--quiet", "--bare", "."]).await?;
        let is_file = url.starts_with("file://");
        let file = if is_file { "protocol.file.allow=always" } else { "protocol.file.allow=never" };
        self.run(&[
            "-c",
            "protocol.allow=never",
            "-c",
            "protocol.https.allow=always",
            "-c",
            "protocol.ssh.allow=always",
            "-c",
            file,
            "-c",
            "fetch.fsckObjects=true",
            "-c",
            "http.followRedirects=initial",
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--no-recurse-submodules",
            "--",
            url,
            reference,
        ])
        .await?;
        let commit = self.run(&["rev-parse", "--verify", "FETCH_HEAD^{commit}"]).await?;
        let commit = String::from_utf8_lossy(&commit).trim().to_owned();
        let is_name =
            (40..=64).contains(&commit.len()) && commit.bytes().all(|b| b.is_ascii_hexdigit());
        if is_name { Ok(commit) } else { Err("git names no commit".to_owned()) }
    }

    /// Returns the paths of all files of a commit.
    pub(super) async fn files(&self, commit: &str) -> Result<Vec<String>, String> {
        let listed = self.run(&["ls-tree", "-r", "-z", "--name-only", commit]).await?;
        let names = listed.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        // What is not text cannot be a part of a skill.
        Ok(names.filter_map(|name| String::from_utf8(name.to_vec()).ok()).collect())
    }

    /// Writes a folder of a commit as an archive.
    pub(super) async fn archive(
        &self,
        commit: &str,
        folder: &str,
        to: &Path,
    ) -> Result<(), String> {
        let tree = format!("{commit}:{folder}");
        let mut output = OsString::from("--output=");
        output.push(to);
        let words = ["archive", "--format=tar"].map(OsStr::new);
        let words = words.into_iter().chain([output.as_os_str(), OsStr::new(&tree)]);
        self.run_words(words.collect()).await.map(drop)
    }

    async fn run(&self, words: &[&str]) -> Result<Vec<u8>, String> {
        self.run_words(words.iter().map(OsStr::new).collect()).await
    }

    /// Runs git to its end and returns what it prints.
    async fn run_words(&self, words: Vec<&OsStr>) -> Result<Vec<u8>, String> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", &format!("ulimit -f {MOST_BLOCKS}; exec git \"$@\""), "git"])
            .args(&words)
            .env_clear()
            .current_dir(self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        for name in VARIABLES {
            if let Some(value) = self.environment.get(name) {
                command.env(name, value);
            }
        }
        // Nobody is asked for anything: what git needs to know, agents and helpers tell it.
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_NOSYSTEM", "0");
        let has_ssh = ["GIT_SSH", "GIT_SSH_COMMAND"]
            .iter()
            .any(|name| self.environment.non_empty(name).is_some());
        if !has_ssh {
            command.env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        }
        let child = command.spawn().map_err(|error| format!("git cannot be started: {error}"))?;
        let mut running = RunningGit(child);
        match tokio::time::timeout(WITHIN, running.finish()).await {
            Ok(result) => result,
            Err(_) => Err(format!("git did not end within {} minutes", WITHIN.as_secs() / 60)),
        }
    }
}

/// Git with what it has started. All of it is killed when it is given up.
struct RunningGit(Child);

impl RunningGit {
    async fn finish(&mut self) -> Result<Vec<u8>, String> {
        let Self(child) = self;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let read_out = async {
            if let Some(stream) = stdout {
                drop(stream.take(MOST_OUTPUT + 1).read_to_end(&mut out).await);
            }
        };
        let read_err = async {
            if let Some(stream) = stderr {
                drop(stream.take(MOST_OUTPUT).read_to_end(&mut err).await);
            }
        };
        let ((), (), status) = tokio::join!(read_out, read_err, child.wait());
        let status = status.map_err(|error| format!("git cannot be waited for: {error}"))?;
        if out.len() as u64 > MOST_OUTPUT {
            return Err("the repository has too many files".to_owned());
        }
        if status.success() {
            return Ok(out);
        }
        let said = String::from_utf8_lossy(&err);
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let said: String = said.chars().filter(|c| !c.is_control()).take(MOST_ERROR).collect();
        if status.code() == Some(127) {
            return Err("there is no program git on this machine; install it".to_owned());
        }
        Err(if said.is_empty() { format!("git ended with {status}") } else { said })
    }
}

impl Drop for RunningGit {
    fn drop(&mut self) {
        // Until it was waited for, its number is nobody else's.
        if let Some(group) = self.0.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)) {
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}
