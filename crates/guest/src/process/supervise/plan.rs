//! From a launch to a program with its files.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use super::super::child::{Program, Role};
use super::super::launch::{Launch, LaunchCommand};
use super::super::memfile;
use super::program::{Shell, candidates, shell};
use crate::session::{
    self, Dump, Environment, Prologue, SavedSession, Saving, ShellKind, Token, is_decided,
};

/// Longest text passed as an argument. The kernel refuses arguments over
/// 128 KiB; longer text is a script.
const MAX_ARGUMENT: usize = 100 << 10;

/// A program with what must stay open while it runs.
#[derive(Debug)]
pub(super) struct Plan {
    /// What to execute.
    pub(super) program: Program<'static>,
    /// Files the shell opens by their path.
    pub(super) files: Vec<OwnedFd>,
    /// Where the shell saves its state.
    pub(super) dump: Option<Dump>,
}

/// Works out what to execute for a launch, with a shell that was chosen or the
/// one there is.
pub(super) fn plan(launch: &Launch, chosen: Option<&Shell>) -> io::Result<Plan> {
    let brought = Environment::brought(&launch.env, &launch.job_env);
    match &launch.session {
        Some(saved) => {
            // Which shell it is does not depend on what the session did to PATH.
            let shell = shell(chosen, brought.get(b"PATH"));
            match &launch.command {
                // There is nobody to keep the session, and a program needs none.
                LaunchCommand::Argv(_) if !shell.is_there() => without_shell(launch, saved),
                LaunchCommand::Argv(_) | LaunchCommand::Shell(_) => {
                    in_session(launch, saved, &shell)
                }
            }
        }
        None => stateless(launch, brought, chosen),
    }
}

fn stateless<'a>(
    launch: &'a Launch,
    mut env: Environment<'a>,
    chosen: Option<&Shell>,
) -> io::Result<Plan> {
    env.set(&b"PWD"[..], &launch.cwd);
    let path = env.get(b"PATH");
    match &launch.command {
        LaunchCommand::Argv(arguments) => {
            let name = arguments.first().ok_or(io::ErrorKind::InvalidInput)?;
            let files = candidates(path, name);
            let argv = arguments.iter().map(|argument| argument.to_vec()).collect();
            Ok(Plan { program: program(launch, files, argv, &env)?, files: vec![], dump: None })
        }
        LaunchCommand::Shell(text) => {
            let shell = shell(chosen, path);
            let mut plan = ShellPlan::new(launch, &shell, env);
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

/// Runs a program in a session of a system that has no shell: it gets the
/// session's directory and environment and changes neither.
fn without_shell(launch: &Launch, saved: &SavedSession) -> io::Result<Plan> {
    let env = Environment::of_session(saved, &launch.env, &launch.job_env);
    stateless(launch, env, None)
}

fn in_session(launch: &Launch, saved: &SavedSession, shell: &Shell) -> io::Result<Plan> {
    let mut env = Environment::of_session(saved, &launch.env, &launch.job_env);
    env.set(&b"PWD"[..], &launch.cwd);
    if let Some(previous) = saved.previous_cwd() {
        env.set(&b"OLDPWD"[..], previous);
    }
    let mut plan = ShellPlan::new(launch, shell, env);
    match shell.kind {
        ShellKind::Bash => plan.bash(saved)?,
        ShellKind::Posix => plan.posix(saved)?,
    }
    plan.finish()
}

/// A shell's invocation in the making.
struct ShellPlan<'a> {
    launch: &'a Launch,
    shell: &'a Shell,
    env: Environment<'a>,
    arguments: Vec<Vec<u8>>,
    files: Vec<OwnedFd>,
    dump: Option<Dump>,
}

impl<'a> ShellPlan<'a> {
    fn new(launch: &'a Launch, shell: &'a Shell, mut env: Environment<'a>) -> Self {
        // As a shell would tell the shells it starts.
        env.set(&b"_"[..], &shell.path);
        let arguments = vec![shell.name().to_vec()];
        Self { launch, shell, env, arguments, files: vec![], dump: None }
    }

    /// Adds a file and returns the path the shell finds it by.
    fn add(&mut self, name: &str, content: &[u8]) -> io::Result<String> {
        let file = memfile::with_content(name, content)?;
        let path = path_of(&file);
        self.files.push(file);
        Ok(path)
    }

    fn prepare_saving(&mut self) -> io::Result<Saving> {
        let token = Token::random()?;
        let epilogue = session::epilogue(self.shell.kind, &token);
        let epilogue = self.add("vestal-epilogue", &epilogue)?;
        let file = memfile::with_content("vestal-dump", b"")?;
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
        // What would make bash read or run the prologue in another way is set
        // aside until its end.
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
        // A line is read as a whole before it is run: aliases are known from
        // the next line on. Without aliases the text keeps its line numbers.
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

    fn finish(self) -> io::Result<Plan> {
        let files = vec![self.shell.path.clone()];
        let program = program(self.launch, files, self.arguments, &self.env)?;
        Ok(Plan { program, files: self.files, dump: self.dump })
    }
}

fn program(
    launch: &Launch,
    candidates: Vec<Vec<u8>>,
    argv: Vec<Vec<u8>>,
    env: &Environment<'_>,
) -> io::Result<Program<'static>> {
    let strings = |strings: Vec<Vec<u8>>| {
        strings.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>()
    };
    Ok(Program {
        candidates: strings(candidates)?,
        argv: strings(argv)?,
        env: Some(strings(env.to_strings())?),
        role: Role::Job { cwd: CString::new(launch.cwd.clone())?, pty: launch.pty },
    })
}

fn path_of(file: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(command: LaunchCommand) -> Launch {
        Launch {
            command,
            session: Some(SavedSession::default()),
            save: true,
            env: Vec::new(),
            job_env: Vec::new(),
            cwd: b"/".to_vec(),
            pty: false,
        }
    }

    #[test]
    fn a_program_runs_in_a_session_of_a_system_without_a_shell() {
        let words = [&b"/bin/cat"[..], b"f"].map(|word| word.to_vec().into());
        let argv = launch(LaunchCommand::Argv(words.to_vec()));
        let missing = Shell::at("/nowhere/sh".into());
        let direct = plan(&argv, Some(&missing)).unwrap();
        assert_eq!(direct.program.argv, [c"/bin/cat".to_owned(), c"f".to_owned()]);
        assert!(direct.dump.is_none(), "there is no shell to save a state");
        // Text needs one, and its absence is told when it is started.
        let text = launch(LaunchCommand::Shell(b"true".to_vec()));
        let plan = plan(&text, Some(&missing)).unwrap();
        assert_eq!(plan.program.candidates, [c"/nowhere/sh".to_owned()]);
    }
}
