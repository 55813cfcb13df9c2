//! Turns a launch into a program with its arguments, environment and files, and
//! finds the shell.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

use rustix::fs::Access;

use super::child::{ExecProgram, ProgramRole};
use super::protocol::{self, Launch, LaunchCommand};
use crate::session::{
    self, Dump, DumpToken, Prologue, SavedSession, Saving, SessionEnvironment, ShellKind,
    is_decided,
};

/// Maximum length of a text passed as an argument. The kernel refuses arguments
/// over 128 KiB; longer text becomes a script.
const MAX_ARGUMENT: usize = 100 << 10;

/// Value of `PATH` if it is not set.
pub(crate) const DEFAULT_PATH: &[u8] =
    b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A shell of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shell {
    pub(super) kind: ShellKind,
    pub(super) path: Vec<u8>,
}

/// A program and the files that must stay open while it runs.
#[derive(Debug)]
pub(super) struct ProgramInvocation {
    /// What to execute.
    pub(super) program: ExecProgram<'static>,
    /// Files the shell opens by their path.
    pub(super) files: Vec<OwnedFd>,
    /// Where the shell saves its state.
    pub(super) dump: Option<Dump>,
}

/// Prepares the program for a launch, with the chosen shell or the one found.
pub(super) fn prepare_invocation(
    launch: &Launch,
    chosen: Option<&Shell>,
) -> io::Result<ProgramInvocation> {
    let given = SessionEnvironment::from_caller(&launch.env, &launch.job_env);
    match &launch.session {
        Some(saved) => {
            // The shell does not depend on changes of PATH in the session.
            let shell = shell(chosen, given.get(b"PATH"));
            match &launch.command {
                // No shell can save the session, and a program does not need one.
                LaunchCommand::Argv(_) if !shell.is_there() => without_shell(launch, saved),
                LaunchCommand::Argv(_) | LaunchCommand::Shell(_) => {
                    in_session(launch, saved, &shell)
                }
            }
        }
        None => stateless(launch, given, chosen),
    }
}

fn stateless<'a>(
    launch: &'a Launch,
    mut env: SessionEnvironment<'a>,
    chosen: Option<&Shell>,
) -> io::Result<ProgramInvocation> {
    env.set(&b"PWD"[..], &launch.cwd);
    let path = env.get(b"PATH");
    match &launch.command {
        LaunchCommand::Argv(arguments) => {
            let name = arguments.first().ok_or(io::ErrorKind::InvalidInput)?;
            let files = candidates(path, name);
            let argv = arguments.iter().map(|argument| argument.to_vec()).collect();
            Ok(ProgramInvocation {
                program: program(launch, files, argv, &env)?,
                files: vec![],
                dump: None,
            })
        }
        LaunchCommand::Shell(text) => {
            let shell = shell(chosen, path);
            let mut plan = ShellInvocation::new(launch, &shell, env);
            if text.len() <= MAX_ARGUMENT {
                plan.arguments.extend([b"-c".to_vec(), text.clone()]);
            } else {
                let script = plan.add("vestal-text", text)?;
                plan.arguments.push(script.into_bytes());
            }
            plan.finish()
        }
    }
}

/// Runs a program in a session on a system without a shell. The program gets the
/// session's directory and environment, and changes neither.
fn without_shell(launch: &Launch, saved: &SavedSession) -> io::Result<ProgramInvocation> {
    let env = SessionEnvironment::of_session(saved, &launch.env, &launch.job_env);
    stateless(launch, env, None)
}

fn in_session(
    launch: &Launch,
    saved: &SavedSession,
    shell: &Shell,
) -> io::Result<ProgramInvocation> {
    let mut env = SessionEnvironment::of_session(saved, &launch.env, &launch.job_env);
    env.set(&b"PWD"[..], &launch.cwd);
    if let Some(previous) = saved.previous_cwd() {
        env.set(&b"OLDPWD"[..], previous);
    }
    let mut plan = ShellInvocation::new(launch, shell, env);
    match shell.kind {
        ShellKind::Bash => plan.bash(saved)?,
        ShellKind::Posix => plan.posix(saved)?,
    }
    plan.finish()
}

/// An invocation of a shell that is being built.
struct ShellInvocation<'a> {
    launch: &'a Launch,
    shell: &'a Shell,
    env: SessionEnvironment<'a>,
    arguments: Vec<Vec<u8>>,
    files: Vec<OwnedFd>,
    dump: Option<Dump>,
}

impl<'a> ShellInvocation<'a> {
    fn new(launch: &'a Launch, shell: &'a Shell, mut env: SessionEnvironment<'a>) -> Self {
        // As a shell sets it for the shells it starts.
        env.set(&b"_"[..], &shell.path);
        let arguments = vec![shell.name().to_vec()];
        Self { launch, shell, env, arguments, files: vec![], dump: None }
    }

    /// Adds a file and returns its path for the shell.
    fn add(&mut self, name: &str, content: &[u8]) -> io::Result<String> {
        let file = protocol::memory_file(name, content)?;
        let path = path_of(&file);
        self.files.push(file);
        Ok(path)
    }

    fn prepare_saving(&mut self) -> io::Result<Saving> {
        let token = DumpToken::random()?;
        let epilogue = session::epilogue(self.shell.kind, &token);
        let epilogue = self.add("vestal-epilogue", &epilogue)?;
        let file = protocol::memory_file("vestal-dump", b"")?;
        let dump = path_of(&file);
        let trap = match self.shell.kind {
            ShellKind::Bash => {
                self.add("vestal-trap", &session::trap_function(&epilogue, &dump))?
            }
            ShellKind::Posix => String::new(),
        };
        self.dump = Some(Dump { file, token, shell: self.shell.kind });
        Ok(Saving { epilogue, dump, trap })
    }

    fn saving(&mut self) -> io::Result<Option<Saving>> {
        if self.launch.save { self.prepare_saving().map(Some) } else { Ok(None) }
    }

    fn bash(&mut self, saved: &'a SavedSession) -> io::Result<()> {
        let saving = self.saving()?;
        // Variables that change how bash reads or runs the prologue are removed
        // until its end.
        let bash_env = self.env.take(b"BASH_ENV");
        let posixly_correct = self.env.take(b"POSIXLY_CORRECT");
        for name in [&b"SHELLOPTS"[..], b"BASHOPTS"] {
            self.env.take(name);
        }
        let (imported, defined) = self.env.add_functions(saved);
        let prologue = Prologue {
            shell: ShellKind::Bash,
            session: saved,
            decided: &|name| is_decided(&self.launch.job_env, name),
            bash_env: bash_env.as_deref(),
            posixly_correct: posixly_correct.as_deref(),
            imported: &imported,
            defined: &defined,
            shell_path: &self.shell.path,
            saving: saving.as_ref(),
        };
        let text = prologue.text();
        let path = self.add("vestal-prologue", &text)?;
        self.env.set(&b"BASH_ENV"[..], path.into_bytes());
        self.bash_arguments(&self.launch.command)
    }

    fn posix(&mut self, saved: &SavedSession) -> io::Result<()> {
        let saving = self.saving()?;
        let prologue = Prologue {
            shell: ShellKind::Posix,
            session: saved,
            decided: &|name| is_decided(&self.launch.job_env, name),
            bash_env: None,
            posixly_correct: None,
            imported: &[],
            defined: &[],
            shell_path: &self.shell.path,
            saving: saving.as_ref(),
        };
        let text = prologue.text();
        let path = self.add("vestal-prologue", &text)?;
        self.posix_arguments(&self.launch.command, saved, &path)
    }

    fn bash_arguments(&mut self, command: &LaunchCommand) -> io::Result<()> {
        match command {
            LaunchCommand::Shell(text) if text.len() <= MAX_ARGUMENT => {
                self.arguments.extend([b"-c".to_vec(), text.clone()]);
            }
            LaunchCommand::Shell(text) => {
                let script = self.add("vestal-text", text)?;
                self.arguments.push(script.into_bytes());
            }
            LaunchCommand::Argv(arguments) => {
                self.arguments.extend([b"-c".to_vec(), b"\"$@\"".to_vec(), b"bash".to_vec()]);
                self.arguments.extend(arguments.iter().map(|argument| argument.to_vec()));
            }
        }
        Ok(())
    }

    fn posix_arguments(
        &mut self,
        command: &LaunchCommand,
        saved: &SavedSession,
        prologue: &str,
    ) -> io::Result<()> {
        // A line is parsed before it runs, so aliases apply from the next line
        // on. Without aliases the text keeps its line numbers.
        let separator = if saved.has_aliases_for(ShellKind::Posix) { '\n' } else { ';' };
        let mut text = format!(". {prologue}{separator} ").into_bytes();
        let mut rest = Vec::new();
        match command {
            LaunchCommand::Shell(shell) if shell.len() <= MAX_ARGUMENT => {
                text.extend_from_slice(shell);
            }
            LaunchCommand::Shell(shell) => {
                let script = self.add("vestal-text", shell)?;
                text.extend_from_slice(format!(". {script}").as_bytes());
            }
            LaunchCommand::Argv(arguments) => {
                text.extend_from_slice(b"\"$@\"");
                rest.push(b"sh".to_vec());
                rest.extend(arguments.iter().map(|argument| argument.to_vec()));
            }
        }
        self.arguments.extend([b"-c".to_vec(), text]);
        self.arguments.extend(rest);
        Ok(())
    }

    fn finish(self) -> io::Result<ProgramInvocation> {
        let files = vec![self.shell.path.clone()];
        let program = program(self.launch, files, self.arguments, &self.env)?;
        Ok(ProgramInvocation { program, files: self.files, dump: self.dump })
    }
}

fn program(
    launch: &Launch,
    candidates: Vec<Vec<u8>>,
    argv: Vec<Vec<u8>>,
    env: &SessionEnvironment<'_>,
) -> io::Result<ExecProgram<'static>> {
    let strings = |strings: Vec<Vec<u8>>| {
        strings.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>()
    };
    Ok(ExecProgram {
        candidates: strings(candidates)?,
        argv: strings(argv)?,
        env: Some(strings(env.to_strings())?),
        role: ProgramRole::Job { cwd: CString::new(launch.cwd.clone())?, pty: launch.pty },
    })
}

fn path_of(file: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

impl Shell {
    /// Returns a shell by its file. Any name except `bash` means a POSIX shell.
    pub(super) fn at(path: OsString) -> Self {
        let is_bash = Path::new(&path).file_name() == Some(OsStr::new("bash"));
        let kind = if is_bash { ShellKind::Bash } else { ShellKind::Posix };
        Self { kind, path: path.into_vec() }
    }

    /// Returns whether its file can be executed.
    fn is_there(&self) -> bool {
        is_program(&self.path)
    }

    /// Returns its name for `argv[0]`.
    pub(super) fn name(&self) -> &'static [u8] {
        match self.kind {
            ShellKind::Bash => b"bash",
            ShellKind::Posix => b"sh",
        }
    }
}

/// Returns the chosen shell, or the one found.
pub(super) fn shell(chosen: Option<&Shell>, path: Option<&[u8]>) -> Shell {
    chosen.cloned().unwrap_or_else(|| find_shell(path))
}

/// Finds bash, or else sh: in `PATH`, then in the usual directories. This takes a
/// few system calls, fewer than keeping a cache correct.
fn find_shell(path: Option<&[u8]>) -> Shell {
    let directories = || {
        let along = path.unwrap_or_default().split(|byte| *byte == b':');
        let usual = DEFAULT_PATH.split(|byte| *byte == b':');
        // A relative entry depends on the directory of the command.
        along.chain(usual).filter(|directory| directory.first() == Some(&b'/'))
    };
    for (kind, name) in [(ShellKind::Bash, &b"bash"[..]), (ShellKind::Posix, b"sh")] {
        let mut files = directories().map(|directory| join(directory, name));
        if let Some(path) = files.find(|file| is_program(file)) {
            return Shell { kind, path };
        }
    }
    // If it is missing, executing it fails with a clear error.
    Shell { kind: ShellKind::Posix, path: b"/bin/sh".to_vec() }
}

/// Returns the files to try for a program's name, in order.
pub(super) fn candidates(path: Option<&[u8]>, name: &[u8]) -> Vec<Vec<u8>> {
    if name.contains(&b'/') || name.is_empty() {
        return vec![name.to_vec()];
    }
    let directories = path.unwrap_or(DEFAULT_PATH).split(|byte| *byte == b':');
    let directories = directories.map(|entry| if entry.is_empty() { &b"."[..] } else { entry });
    directories.map(|directory| join(directory, name)).collect()
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    [directory, name].join(&b'/')
}

fn is_program(path: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    rustix::fs::access(path, Access::EXEC_OK).is_ok() && path.is_file()
}

#[cfg(test)]
#[path = "invocation_tests.rs"]
mod tests;
