//! What is not understood is asked about.
//!
//! A rule knows a harm. Here is what no rule knows: programs that nobody knows,
//! known ones that are used in another way than usual, files and texts that are
//! run without having been looked at.

use super::Severity;
use super::expand::{Argument, is_open};
use super::invocation::Invocation;
use super::prefix::base_name;
use super::uses::{self, Known};
use super::walk::Walk;
use crate::approvals::paths;

pub(super) const UNKNOWN_PROGRAM: (&str, &str) =
    ("unknown-program", "runs a program that Vestal does not know");
pub(super) const OTHER_USE: (&str, &str) =
    ("unknown-use", "uses a program in a way that is not known to be harmless");
pub(super) const RUN_FILE: (&str, &str) =
    ("run-file", "runs a file whose contents nobody has looked at");
pub(super) const INDIRECT: (&str, &str) =
    ("indirect", "runs text as commands that is only known when it runs");
pub(super) const INLINE_CODE: (&str, &str) =
    ("inline-code", "runs code whose effects are not known");
pub(super) const ENVIRONMENT: (&str, &str) =
    ("environment", "sets a variable that decides what other programs run");
pub(super) const SUPERUSER: (&str, &str) = ("superuser", "runs with the superuser's rights");
pub(super) const REDEFINES: (&str, &str) =
    ("redefines", "gives the name of a program another meaning");

/// Names of these rules.
pub(super) const RULES: [&str; 8] = [
    UNKNOWN_PROGRAM.0,
    OTHER_USE.0,
    RUN_FILE.0,
    INDIRECT.0,
    INLINE_CODE.0,
    ENVIRONMENT.0,
    SUPERUSER.0,
    REDEFINES.0,
];

impl Walk<'_> {
    /// Asks about a program unless it is known and used in a way that is known.
    pub(super) fn understand(&mut self, program: &Argument, it: &Invocation<'_>) {
        if it.sudo.is_some() {
            self.find(SUPERUSER, Severity::Dangerous, it.form(), it.is_definite());
            return;
        }
        let path = program.text.as_str();
        let is_own = path.contains('/')
            && !uses::is_system_program(&it.path(path))
            && !matches!(path, "./gradlew" | "./mvnw");
        if is_own {
            self.runs_file(program, it);
        } else if !self.functions.contains(it.program) {
            match uses::look(it) {
                Known::Harmless(_) if self.may_be_options(it) => self.asks(OTHER_USE, it),
                Known::Harmless(written) => self.writes(&written, it),
                Known::OtherUse => self.asks(OTHER_USE, it),
                Known::Unknown => {
                    let subject = Some(it.program.to_owned());
                    self.find_about(UNKNOWN_PROGRAM, it.form(), subject, true);
                }
            }
        }
    }

    /// Asks about this very command.
    pub(super) fn asks(&mut self, rule: (&'static str, &'static str), it: &Invocation<'_>) {
        self.find(rule, Severity::Dangerous, it.form(), it.is_definite());
    }

    /// Asks about a file that is run. An approval holds for the file, whatever
    /// its arguments.
    pub(super) fn runs_file(&mut self, file: &Argument, it: &Invocation<'_>) {
        let known = !file.is_unknown() && !file.printed && !file.glob;
        let path = paths::canonical(&file.text, it.cwd, self.ground);
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
            self.find(ENVIRONMENT, Severity::Dangerous, format!("{name}={value}"), definite);
        }
    }

    /// Forgets a variable that gets a value nobody can know.
    pub(super) fn assigns_unknown(&mut self, name: &str) {
        if uses::decides_what_runs(name, "\u{fffc}") {
            self.find(ENVIRONMENT, Severity::Dangerous, format!("{name}=…"), false);
        }
        self.suspects.insert(name.to_owned());
        self.variables.forget(name);
    }

    /// A function is defined: what it does follows, and its name means that from now on.
    pub(super) fn defines(&mut self, name: &str) {
        if uses::is_known(name) {
            self.find(REDEFINES, Severity::Dangerous, format!("{name}()"), false);
        }
        self.functions.insert(name.to_owned());
    }

    /// Asks about text that is read as commands and is not known to its end.
    pub(super) fn reads_text(&mut self, text: &str, it: &Invocation<'_>) {
        if is_open(text) {
            self.find(INDIRECT, Severity::Dangerous, it.form(), false);
        }
    }

    /// `source` runs a file in this very shell.
    pub(super) fn sources(&mut self, it: &Invocation<'_>) {
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
