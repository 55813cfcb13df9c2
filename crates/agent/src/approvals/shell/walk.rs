//! Walks through a script, command by command.

use std::collections::HashSet;

use super::expand::{Argument, ShellVariables};
use super::invocation::{Feed, Position, ProgramRun};
use super::places::{PossiblePlaces, WRITE_OUTSIDE};
use super::script::{self, ScriptItem, ShellScript};
use super::uses::Brought;
use super::{Examined, Risk, ShellFinding, rules};
use crate::approvals::path_context::PathContext;
use crate::approvals::paths;

/// Bytes of shell text that are looked at, all that is nested counted again.
const MOST_BYTES: usize = 4 << 20;

/// Words that are looked at.
const MOST_WORDS: usize = 400_000;

/// How deep scripts may be nested in scripts.
const DEEPEST: usize = 12;

/// Findings after which nobody needs more.
const MOST_FINDINGS: usize = 64;

/// Names of the rules that are kept here and in `run.rs`.
pub(super) const RULES: [&str; 11] = [
    super::SCRIPT.0,
    super::OUTSIDE.0,
    UNREADABLE.0,
    HIDDEN.0,
    super::run::PIPE_TO_SHELL.0,
    super::run::DOWNLOAD_AND_RUN.0,
    super::code::EFFECTS.0,
    super::run::SUDO_PASSWORD.0,
    WRITE_SENSITIVE.0,
    WRITE_OUTSIDE.0,
    super::secrets::READ_SECRET.0,
];

pub(super) const UNREADABLE: (&str, &str) =
    ("unreadable", "cannot be read completely, so its effects are unknown");
pub(super) const HIDDEN: (&str, &str) =
    ("hidden-command", "runs a program whose name is only worked out when it runs");
pub(super) const WRITE_SENSITIVE: (&str, &str) =
    ("write-sensitive", "changes the system's configuration, credentials or start-up files");

pub(super) const OVERWRITE_DISK: (&str, &str) = ("overwrite-disk", "writes over a disk");

/// The result of a script, for commands that use what it prints.
#[derive(Debug, Default)]
pub(super) struct Printed {
    /// What it prints, if that is known.
    pub(super) text: Option<String>,
    /// Whether it prints what came from another machine.
    pub(super) fetched: bool,
    /// Whether it prints a number, a date or the like.
    pub(super) plain: bool,
    /// Directories that nobody can replace and everything in which it names.
    pub(super) everything_in: Vec<String>,
}

/// A walk through one command.
#[expect(clippy::struct_excessive_bools, reason = "each is true of a command by itself")]
pub(super) struct ScriptWalk<'a> {
    pub(super) path_context: &'a PathContext,
    pub(super) examined: Examined,
    pub(super) variables: ShellVariables,
    /// Where commands run, once the script has said so.
    pub(super) cwd: Option<String>,
    /// How many times over commands run on another machine.
    pub(super) remote: usize,
    /// Files that were downloaded.
    pub(super) downloads: Vec<String>,
    /// Whether anything was fetched so far.
    pub(super) fetched: bool,
    /// Functions that were defined.
    pub(super) functions: HashSet<String>,
    /// Files that were written.
    pub(super) made: Vec<String>,
    /// How many times over commands run that have parameters.
    pub(super) parameters: usize,
    /// Where commands may run besides `cwd`.
    pub(super) doubt: PossiblePlaces,
    /// Whether commands may run more than once, or not at all.
    pub(super) compound: bool,
    /// Whether what follows the command runs only if it did well.
    pub(super) chained: bool,
    /// Whether names may lead elsewhere than they did before the script.
    pub(super) relinked: bool,
    /// Variables whose values may run something where they are taken for numbers.
    pub(super) suspects: HashSet<String>,
    /// Whether the command that is looked at runs whatever happened before.
    pub(super) certain: bool,
    /// What was brought from elsewhere so far.
    pub(super) brought: Brought,
    /// Whether the script that comes next runs for certain, so that its functions are defined.
    sure: bool,
    /// Whether the command that is looked at writes to a file by redirection.
    pub(super) redirected: bool,
    bytes: usize,
    pub(super) words: usize,
}

impl<'a> ScriptWalk<'a> {
    pub(super) fn new(path_context: &'a PathContext) -> Self {
        Self {
            path_context,
            examined: Examined::default(),
            variables: ShellVariables::default(),
            cwd: None,
            remote: 0,
            downloads: Vec::new(),
            fetched: false,
            functions: HashSet::new(),
            made: Vec::new(),
            parameters: 0,
            doubt: PossiblePlaces::default(),
            compound: false,
            chained: false,
            relinked: false,
            suspects: HashSet::new(),
            certain: true,
            brought: Brought::Nothing,
            sure: true,
            redirected: false,
            bytes: 0,
            words: 0,
        }
    }

    /// Walks through a whole command and returns what was found.
    pub(super) fn whole(mut self, command: &str) -> Examined {
        // The shell does not see them.
        let command = command.replace('\0', "");
        self.script(&command, 0);
        self.done()
    }

    /// Walks through a Python script and returns what was found.
    pub(super) fn whole_code(mut self, code: &str) -> Examined {
        let it = ProgramRun {
            program: "python",
            arguments: &[],
            sudo: None,
            xargs: false,
            sweeps: false,
            cwd: None,
            feed: &Feed::Nothing,
            path_context: self.path_context,
        };
        self.judge_code(code, &it, 0);
        self.done()
    }

    /// Judges the write of one file by another tool than the shell.
    pub(super) fn whole_file(mut self, path: &str) -> Examined {
        let target = Argument::known(path);
        let path = paths::canonical(path, None, self.path_context);
        let form = format!("> {path}");
        self.file_written(&target, &path, form);
        self.done()
    }

    fn done(mut self) -> Examined {
        let findings = &mut self.examined.findings;
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let mut seen = HashSet::new();
        findings.retain(|finding| seen.insert((finding.rule, finding.form.clone())));
        self.examined.suspects = self.suspects;
        self.examined
    }

    pub(super) fn find(
        &mut self,
        (rule, reason): (&'static str, &'static str),
        severity: Risk,
        form: String,
        definite: bool,
    ) {
        // What a person does to another machine is theirs to judge.
        let severity = if self.remote > 0 { Risk::Dangerous } else { severity };
        let full = self.examined.findings.len() >= MOST_FINDINGS;
        if !full || severity > Risk::Dangerous {
            let subject = None;
            self.examined.findings.push(ShellFinding {
                rule,
                reason,
                severity,
                form,
                subject,
                definite,
            });
        }
    }

    /// Finds something that an approval is kept for by more than this one command.
    pub(super) fn find_about(
        &mut self,
        rule: (&'static str, &'static str),
        form: String,
        subject: Option<String>,
        definite: bool,
    ) {
        let count = self.examined.findings.len();
        self.find(rule, Risk::Dangerous, form, definite);
        if let Some(found) = self.examined.findings.get_mut(count) {
            found.subject = subject;
        }
    }

    fn unreadable(&mut self, text: &str) {
        let form: String = text.chars().take(200).collect();
        self.find(UNREADABLE, Risk::Dangerous, form, false);
    }

    /// Reports whether there is still room to look at a text; asks about it if not.
    pub(super) fn spend(&mut self, text: &str, depth: usize) -> bool {
        self.bytes = self.bytes.saturating_add(text.len());
        let room = self.bytes <= MOST_BYTES && depth <= DEEPEST;
        if !room {
            self.unreadable(text);
        }
        room
    }

    /// Walks through a script.
    pub(super) fn script(&mut self, text: &str, depth: usize) -> Printed {
        if !self.spend(text, depth) {
            return Printed::default();
        }
        let script = script::parse(text);
        let fetched_before = std::mem::take(&mut self.fetched);
        let sure = std::mem::take(&mut self.sure);
        let outer = (self.compound, self.chained, self.certain);
        self.compound |= script.compound;
        let mut position = Position {
            list_began: self.cwd.clone(),
            pipe_began: self.cwd.clone(),
            ..Position::default()
        };
        let mut commands = 0;
        let in_background = script.in_background();
        for (at, item) in script.items.iter().enumerate() {
            if self.words > MOST_WORDS {
                self.unreadable(text);
                break;
            }
            commands += usize::from(matches!(item, ScriptItem::Command(_)));
            let next = script.items.get(at + 1);
            self.chained = next == Some(&ScriptItem::And);
            let alone = next != Some(&ScriptItem::Pipe) && !in_background[at];
            let own = position.dirs.is_empty() && !position.piped && !position.depends;
            self.certain = outer.2 && alone && own && !self.compound;
            if let ScriptItem::Function(name) = item {
                let own = !position.piped && !position.depends;
                self.defines(name, sure && own && script.defines_here(at, &in_background));
            }
            self.item(item, &script, &mut position, depth);
        }
        (self.compound, self.chained, self.certain) = outer;
        if script.unfinished {
            self.unreadable(text);
        }
        let fetched = self.fetched;
        self.fetched |= fetched_before;
        let plain = position.printed == Feed::Plain && script.is_one_pipeline();
        let (text, everything_in) = match position.printed {
            Feed::Text(text) if commands == 1 => (Some(text.to_string()), Vec::new()),
            Feed::Everything(dirs) => {
                let lost = |dir: &&String| paths::irreplaceable(dir).is_some();
                (None, dirs.iter().filter(lost).cloned().collect())
            }
            _ => (None, Vec::new()),
        };
        Printed { text, fetched, plain, everything_in }
    }

    /// Walks through a script that runs in a process of its own: what it does to
    /// its directory and its variables ends with it.
    pub(super) fn aside(&mut self, text: &str, inherits: bool, depth: usize) -> Printed {
        let here = (self.cwd.clone(), self.doubt.clone(), self.compound, self.certain);
        let scope = self.variables.enter(inherits);
        (self.compound, self.certain, self.sure) = (false, true, true);
        let functions = self.functions.clone();
        if !inherits {
            self.functions.clear();
        }
        let printed = self.script(text, depth + 1);
        self.variables.leave(scope);
        self.functions = functions;
        (self.cwd, self.doubt, self.compound, self.certain) = here;
        printed
    }

    fn item(
        &mut self,
        item: &ScriptItem,
        script: &ShellScript,
        position: &mut Position,
        depth: usize,
    ) {
        // A function's body is a group; whatever else it may be is not followed.
        if !matches!(item, ScriptItem::Group | ScriptItem::Subshell | ScriptItem::End)
            && let Some(name) = position.named.take()
        {
            self.unreadable(&name);
        }
        match item {
            ScriptItem::Command(simple) => {
                let (printed, program) = self.simple(simple, script, &position.feed, depth);
                position.printed = printed;
                self.watch_for_bomb(position, &program);
                position.pipeline.push(program);
            }
            ScriptItem::Pipe => {
                position.feed = std::mem::take(&mut position.printed);
                position.piped = true;
                self.left_behind(position.pipe_began.as_deref());
            }
            ScriptItem::Background => {
                self.left_behind(position.list_began.as_deref());
                let last = position.pipeline.last().cloned().unwrap_or_default();
                if position.inside.iter().flatten().any(|name| *name == last) {
                    self.find(rules::FORK_BOMB, Risk::Hardline, last, true);
                }
                self.end_list(position);
            }
            ScriptItem::And | ScriptItem::Or => {
                self.end_pipeline(position);
                position.depends = true;
                if *item == ScriptItem::Or {
                    self.doubt.end_chain();
                }
                position.end();
            }
            ScriptItem::End => self.end_list(position),
            ScriptItem::Subshell => {
                self.enter(position);
                position.dirs.push((self.cwd.clone(), self.doubt.clone()));
            }
            ScriptItem::SubshellEnd => {
                self.leave(position);
                if let Some(dir) = position.dirs.pop() {
                    (self.cwd, self.doubt) = dir;
                }
                position.end_group(self.fetched);
            }
            ScriptItem::Group => self.enter(position),
            ScriptItem::GroupEnd => {
                self.leave(position);
                position.end_group(self.fetched);
            }
            ScriptItem::CompoundEnd => {
                // A loop that never ran has set nothing.
                self.variables.doubt_all();
                position.end_group(self.fetched);
            }
            ScriptItem::Function(name) => {
                position.named = Some(name.clone());
            }
            ScriptItem::Loop(name, values) => self.loop_over(name, values, depth),
            ScriptItem::Words(words) => {
                for word in words {
                    self.expand(word, depth);
                }
            }
            ScriptItem::Test(words) => self.test(words, depth),
        }
    }

    /// A part of a pipeline, or what runs in the background, changes no directory
    /// but its own.
    fn left_behind(&mut self, began: Option<&str>) {
        self.doubt.lost |= self.cwd.as_deref() != began;
    }

    fn end_pipeline(&mut self, position: &mut Position) {
        if std::mem::take(&mut position.piped) {
            self.left_behind(position.pipe_began.as_deref());
        }
        position.pipe_began.clone_from(&self.cwd);
    }

    fn end_list(&mut self, position: &mut Position) {
        self.end_pipeline(position);
        position.list_began.clone_from(&self.cwd);
        position.depends = false;
        self.doubt.end_chain();
        position.end();
    }

    fn enter(&mut self, position: &mut Position) {
        let function = position.named.take();
        self.parameters += usize::from(function.is_some());
        position.inside.push(function);
    }

    fn leave(&mut self, position: &mut Position) {
        if position.inside.pop().flatten().is_some() {
            self.parameters = self.parameters.saturating_sub(1);
        }
    }

    /// A function that calls itself on both sides of a pipe, or in the
    /// background, doubles without end.
    fn watch_for_bomb(&mut self, position: &Position, program: &str) {
        let own = position.inside.iter().flatten().any(|name| name == program);
        if own && position.pipeline.iter().any(|before| before == program) {
            self.find(rules::FORK_BOMB, Risk::Hardline, program.to_owned(), true);
        }
    }
}
