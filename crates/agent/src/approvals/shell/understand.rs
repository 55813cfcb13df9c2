//! What is not understood is asked about.
//!
//! A rule knows a harm. Here is what no rule knows: programs that nobody knows,
//! known ones that are used in another way than usual, files and texts that are
//! run without having been looked at.

use super::Risk;
use super::expand::{Argument, UNKNOWN, is_open};
use super::invocation::{Feed, ProgramRun};
use super::prefix::base_name;
use super::run::is_fetcher;
use super::uses::{self, Brought, KnownProgram, PathTarget};
use super::walk::ScriptWalk;
use super::word::is_name;
use crate::approvals::paths;

pub(super) const UNKNOWN_PROGRAM: (&str, &str) =
    ("unknown-program", "runs a program that Vestal does not know");
pub(super) const OTHER_USE: (&str, &str) =
    ("unknown-use", "uses a program in a way that is not known to be harmless");
pub(super) const RUN_FILE: (&str, &str) =
    ("run-file", "runs a file whose contents were not checked");
pub(super) const INDIRECT: (&str, &str) =
    ("indirect", "runs text as commands that is only known when it runs");
pub(super) const INLINE_CODE: (&str, &str) =
    ("inline-code", "runs code whose effects are not known");
pub(super) const ENVIRONMENT: (&str, &str) =
    ("environment", "sets a variable that decides what other programs run");
pub(super) const FOREIGN_CODE: (&str, &str) =
    ("foreign-code", "runs code from outside the working directory, or what it has just fetched");
pub(super) const SUPERUSER: (&str, &str) = ("superuser", "runs with the superuser's rights");
pub(super) const REDEFINES: (&str, &str) =
    ("redefines", "gives the name of a program another meaning");

/// Names of these rules.
pub(super) const RULES: [&str; 9] = [
    UNKNOWN_PROGRAM.0,
    OTHER_USE.0,
    RUN_FILE.0,
    INDIRECT.0,
    INLINE_CODE.0,
    ENVIRONMENT.0,
    FOREIGN_CODE.0,
    SUPERUSER.0,
    REDEFINES.0,
];

impl ScriptWalk<'_> {
    /// Asks about a program unless it is known and used in a way that is known.
    /// The shell knows its functions, a program that runs another does not.
    pub(super) fn understand(&mut self, program: &Argument, it: &ProgramRun<'_>, by_shell: bool) {
        if it.sudo.is_some() {
            self.find(SUPERUSER, Risk::Dangerous, it.form(), it.is_definite());
            return;
        }
        let path = program.text.as_str();
        let is_own = path.contains('/')
            && !uses::is_system_program(&it.path(path))
            && !matches!(path, "./gradlew" | "./mvnw");
        if is_own {
            self.runs_file(program, it);
        } else if !(by_shell && self.functions.contains(it.program)) {
            match uses::look(it) {
                KnownProgram::Harmless(_) if self.may_be_options(it) => self.asks(OTHER_USE, it),
                KnownProgram::Harmless(written) => {
                    self.reads_secrets(it);
                    self.works_on_project(it.program, it);
                    self.writes(&written, it);
                    self.notes_brought(&written, it);
                }
                KnownProgram::OtherUse => self.asks(OTHER_USE, it),
                KnownProgram::Unknown => {
                    let subject = Some(it.program.to_owned());
                    self.find_about(UNKNOWN_PROGRAM, it.form(), subject, true);
                }
            }
        }
    }

    /// Asks about this very command.
    pub(super) fn asks(&mut self, rule: (&'static str, &'static str), it: &ProgramRun<'_>) {
        self.find(rule, Risk::Dangerous, it.form(), it.is_definite());
    }

    /// Asks about a file that is run. An approval holds for the file, whatever
    /// its arguments.
    pub(super) fn runs_file(&mut self, file: &Argument, it: &ProgramRun<'_>) {
        let known = !file.is_unknown() && !file.printed && !file.glob;
        let path = paths::canonical(&file.text, it.cwd, self.path_context);
        // What the same command has just made is never the same another time.
        let made = self.made.contains(&path);
        let subject = (known && !made).then_some(path);
        let definite = subject.is_some();
        self.find_about(RUN_FILE, it.form(), subject, definite);
    }

    /// Sets a variable.
    pub(super) fn assigns(&mut self, name: &str, value: &str) {
        self.judge_variable(name, value);
        self.suspect(name, value);
        let certain = self.certain;
        self.variables.set(name, value, certain);
    }

    /// Asks about a variable that decides what programs run.
    pub(super) fn judge_variable(&mut self, name: &str, value: &str) {
        if uses::decides_what_runs(name, value) {
            let definite = !is_open(value);
            self.find(ENVIRONMENT, Risk::Dangerous, format!("{name}={value}"), definite);
        }
    }

    /// Asks about a variable that a program is handed unless that is known to be harmless.
    pub(super) fn judge_assigned(&mut self, name: &str, value: &str) {
        if !uses::may_be_handed(name, value) {
            let definite = !is_open(value);
            self.find(ENVIRONMENT, Risk::Dangerous, format!("{name}={value}"), definite);
        }
    }

    /// Has programs be handed a variable from now on.
    pub(super) fn exports(&mut self, text: &str) {
        match text.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, value)) => {
                self.judge_assigned(name, value);
                self.assigns(name, value);
            }
            None if is_name(text) && self.variables.is_set(text) => {
                let value = self.variables.get(text).unwrap_or_else(|| UNKNOWN.to_string());
                self.judge_assigned(text, &value);
            }
            // What these were set to before was asked about.
            None if is_name(text) && !uses::decides_what_runs(text, "\u{fffc}") => {
                self.judge_assigned(text, "\u{fffc}");
            }
            None => {}
        }
    }

    /// Notes what a command has brought from elsewhere.
    fn notes_brought(&mut self, written: &[PathTarget<'_>], it: &ProgramRun<'_>) {
        let files =
            |target: &PathTarget<'_>| !target.code && !paths::is_harmless_device(target.text);
        let fetches = *it.feed == Feed::Fetched || is_fetcher(it.program);
        if fetches && written.iter().any(files) {
            self.brought = Brought::Files;
        }
        self.brought = self.brought.max(uses::brings(it));
    }

    /// Forgets a variable that gets a value nobody can know.
    pub(super) fn assigns_unknown(&mut self, name: &str) {
        if uses::decides_what_runs(name, "\u{fffc}") {
            self.find(ENVIRONMENT, Risk::Dangerous, format!("{name}=…"), false);
        }
        self.suspects.insert(name.to_owned());
        self.variables.forget(name);
    }

    /// A function is defined: what it does follows, and its name means that from now on.
    pub(super) fn defines(&mut self, name: &str, certain: bool) {
        if uses::is_known(name) {
            self.find(REDEFINES, Risk::Dangerous, format!("{name}()"), false);
        }
        if certain {
            self.functions.insert(name.to_owned());
        }
    }

    /// Takes the meaning of a function from its name, which others may have been read by.
    pub(super) fn undefines(&mut self, it: &ProgramRun<'_>) {
        for text in it.texts().filter(|text| is_name(text)) {
            self.variables.forget(text);
            if self.functions.remove(text) {
                self.asks(REDEFINES, it);
            }
        }
    }

    /// Asks about text that is read as commands and is not known to its end.
    pub(super) fn reads_text(&mut self, text: &str, it: &ProgramRun<'_>) {
        if is_open(text) {
            self.find(INDIRECT, Risk::Dangerous, it.form(), false);
        }
    }

    /// `source` runs a file in this very shell.
    pub(super) fn sources(&mut self, it: &ProgramRun<'_>) {
        let Some(file) = it.operands().next() else { return };
        // What `venv` makes.
        let activates = base_name(&file.text) == "activate"
            && file.text.ends_with("bin/activate")
            && !file.is_unknown()
            && !self.made.iter().any(|made| base_name(made) == "activate");
        if !activates {
            self.runs_file(file, it);
        }
    }
}
