//! Where a command writes, and whether that is within its own directories.
//!
//! A write is unasked only if its target is known, lies below the working
//! directory or a directory for temporary files, and is nothing that programs
//! run or read when they start. Links are followed as far as the files can be
//! looked at; what the same script may have linked is not known.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Risk;
use super::expand::{Argument, NAME, SOME, UNKNOWN};
use super::invocation::ProgramRun;
use super::understand::FOREIGN_CODE;
use super::uses::{Brought, HERE, PathTarget, ProjectCode, is_system_program, runs_of_project};
use super::walk::{ScriptWalk, WRITE_SENSITIVE};
use crate::approvals::path_context::PathContext;
use crate::approvals::paths;

pub(super) const WRITE_OUTSIDE: (&str, &str) = (
    "write-outside",
    "changes files outside the working directory, or files that are only known when it runs",
);

/// Most links on the way to a file, as in the kernel.
const MOST_LINKS: usize = 40;

/// Most names of a directory that are looked at.
const MOST_NAMES: usize = 10_000;

/// Most directories that a command may be in after those that may have failed to change it.
const MOST_PLACES: usize = 8;

/// Where a script may be besides where it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PossiblePlaces {
    /// Nobody knows where it is.
    pub(super) lost: bool,
    /// Directories it is in if it could not leave them.
    others: Vec<Option<String>>,
    /// Those that count once the commands that depend on the change have ended.
    pending: Vec<Option<String>>,
}

/// What is known of a place that is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum WriteTarget {
    Within,
    Outside,
    Unknown,
    Sensitive,
}

impl PossiblePlaces {
    /// Reports whether the script is where it says, and nowhere else.
    pub(super) fn is_settled(&self) -> bool {
        !self.lost && self.others.is_empty()
    }

    /// The commands that ran only after the last change of the directory have ended.
    pub(super) fn end_chain(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.others.extend(pending);
        self.others.dedup();
        self.lost |= self.others.len() > MOST_PLACES;
    }
}

impl ScriptWalk<'_> {
    /// Changes the directory, as `cd` and `pushd` do.
    pub(super) fn change_dir(&mut self, it: &ProgramRun<'_>, is_prefixed: bool) {
        let mut words =
            it.arguments.iter().filter(|word| !matches!(word.text.as_str(), "--" | "-L"));
        let (target, more) = (words.next(), words.next());
        let text = match target {
            None if it.program == "cd" => "~",
            Some(dir) if !dir.text.starts_with(['-', '+']) => dir.text.as_str(),
            _ => "",
        };
        let is_open = target.is_some_and(|dir| dir.is_unknown() || dir.glob || dir.parameters);
        if text.is_empty() || more.is_some() || is_open || is_prefixed {
            self.doubt.lost = true;
            self.cwd = None;
            return;
        }
        let before = self.cwd.clone();
        let leaves = text.split('/').any(|part| part == "..");
        let moved = |from: &Option<String>| {
            Some(paths::canonical(text, from.as_deref(), self.path_context))
                .filter(|dir| dir != ".")
        };
        let others: Vec<_> = self.doubt.others.iter().map(moved).collect();
        let now = moved(&before);
        self.doubt.lost |= leaves && self.compound;
        if self.compound || !self.is_there(now.as_deref()) {
            if self.chained && !self.compound {
                self.doubt.pending.push(before);
            } else {
                self.doubt.others.push(before);
            }
        }
        self.doubt.others.extend(others);
        self.doubt.others.sort_unstable();
        self.doubt.others.dedup();
        self.cwd = now;
    }

    /// Reports whether a directory is there, so that going there cannot fail.
    fn is_there(&self, dir: Option<&str>) -> bool {
        let Some(base) = &self.path_context.dir else { return false };
        let path = paths::canonical(dir.unwrap_or("."), Some(base), self.path_context);
        self.path_context.sees_files
            && on_disk(&path, self.path_context).is_some_and(|dir| dir.is_dir())
    }

    /// Asks about what a program writes outside its own directories.
    pub(super) fn writes(&mut self, targets: &[PathTarget<'_>], it: &ProgramRun<'_>) {
        for target in targets {
            if target.code {
                self.takes_code(target, it);
                continue;
            }
            let path = paths::canonical(target.text, self.cwd.as_deref(), self.path_context);
            self.made.push(path);
            if it.sweeps || it.xargs && target.argument.is_unknown() {
                self.find(WRITE_OUTSIDE, Risk::Dangerous, it.form(), false);
            } else {
                self.write_to(target);
            }
        }
    }

    /// Asks about a file that is written, unless it is within the command's own directories.
    pub(super) fn write_to(&mut self, target: &PathTarget<'_>) {
        let place = self.place(target);
        let path = match &self.path_context.dir {
            Some(dir) if !self.doubt.lost => {
                let cwd = paths::canonical(
                    self.cwd.as_deref().unwrap_or("."),
                    Some(dir),
                    self.path_context,
                );
                paths::canonical(target.text, Some(&cwd), self.path_context)
            }
            _ => paths::canonical(target.text, self.cwd.as_deref(), self.path_context),
        };
        let (rule, definite) = match place {
            WriteTarget::Within => return,
            WriteTarget::Outside => (WRITE_OUTSIDE, true),
            WriteTarget::Unknown => (WRITE_OUTSIDE, false),
            // In a sandbox with a system of its own other names count.
            WriteTarget::Sensitive if self.path_context.mounts.is_some() => (WRITE_OUTSIDE, true),
            WriteTarget::Sensitive => (WRITE_SENSITIVE, true),
        };
        let definite = definite && !target.argument.is_unknown() && !target.argument.glob;
        self.find(rule, Risk::Dangerous, format!("> {path}"), definite);
    }

    fn place(&self, target: &PathTarget<'_>) -> WriteTarget {
        let PathTarget { text, argument, replaced, code } = *target;
        let path_context = self.path_context;
        // As it is written: what is above a descriptor is wherever that leads.
        if paths::is_harmless_device(text) && !code {
            return WriteTarget::Within;
        }
        let Some(dir) = &path_context.dir else { return WriteTarget::Unknown };
        let relative = !text.starts_with(['/', '~']);
        if text.contains(UNKNOWN)
            || text.is_empty()
            || argument.parameters
            || argument.splits
            || self.relinked && !(code && text == "." && self.cwd.is_none())
            || relative && self.doubt.lost
            || argument.glob && !replaced && !self.path_context.sees_files
            || !plain_globs(text, argument)
        {
            return WriteTarget::Unknown;
        }
        let bases = std::iter::once(&self.cwd).chain(&self.doubt.others);
        let places = bases.map(|base| {
            let base = paths::canonical(base.as_deref().unwrap_or("."), Some(dir), path_context);
            let path = paths::canonical(text, Some(&base), path_context);
            let judge = |path: &str| {
                if code { self.judge_code_place(path) } else { self.judge_place(path) }
            };
            let named = judge(&path);
            if !path_context.sees_files {
                return named;
            }
            let whole = if relative { format!("{base}/{text}") } else { text.to_owned() };
            match self.real(&whole, argument, replaced) {
                None => WriteTarget::Unknown,
                Some(real) => named.max(judge(&real)),
            }
        });
        places.max().unwrap_or(WriteTarget::Unknown)
    }

    /// Reports whether a canonical path lies in the directory that the conversation was opened in.
    fn is_own(&self, path: &str) -> bool {
        let dir = self.path_context.own_dir();
        let own = dir.filter(|dir| *dir == "~" || paths::irreplaceable(dir).is_none());
        own.is_some_and(|dir| paths::is_below(path, dir))
    }

    /// Judges a canonical path of code: anybody may have put it into a directory for
    /// temporary files.
    fn judge_code_place(&self, path: &str) -> WriteTarget {
        let own = self.is_own(path) || is_system_program(path);
        if own { WriteTarget::Within } else { WriteTarget::Outside }
    }

    /// Asks about code that is run unless it is the project's own.
    fn takes_code(&mut self, target: &PathTarget<'_>, it: &ProgramRun<'_>) {
        // One value may name several, and one behind a name of another kind.
        let whole = target.text;
        let pieces = whole.split(['=', ':', ',', ';']).filter(|piece| !piece.is_empty());
        // Another program may print it, or name it at that place.
        let strange = whole.starts_with(['-', '@']) || whole.contains("://");
        let own = |text: &str| self.place(&PathTarget { text, ..*target }) == WriteTarget::Within;
        let fetched = self.brought >= Brought::Commits
            && runs_of_project(it.program) != Some(ProjectCode::Settings);
        if strange || fetched || !own(whole) || !pieces.clone().all(own) {
            let definite = it.is_definite() && !strange && !fetched;
            self.find(FOREIGN_CODE, Risk::Dangerous, it.form(), definite);
        }
    }

    /// Asks about a tool that runs what the project says, in a directory that is not the
    /// conversation's own or after the same command has brought something from elsewhere.
    pub(super) fn works_on_project(&mut self, tool: &str, it: &ProgramRun<'_>) {
        let Some(runs) = runs_of_project(tool) else { return };
        let brought = match runs {
            ProjectCode::Code => self.brought >= Brought::Commits,
            ProjectCode::Settings => self.brought == Brought::Files,
        };
        if brought || self.place(&PathTarget::code(&HERE)) != WriteTarget::Within {
            let definite = it.is_definite() && !brought;
            self.find(FOREIGN_CODE, Risk::Dangerous, it.form(), definite);
        }
    }

    /// Judges a canonical path by where it is.
    fn judge_place(&self, path: &str) -> WriteTarget {
        let dir = self.path_context.own_dir().unwrap_or_default();
        if path == "~"
            || paths::sensitive(path, self.path_context).is_some()
            || paths::is_sensitive_by_name(path)
            || paths::is_hidden_in_home(path, dir)
        {
            WriteTarget::Sensitive
        } else if paths::is_harmless_device(path) {
            WriteTarget::Outside
        } else if self.is_own(path) || paths::is_temporary(path) {
            WriteTarget::Within
        } else {
            WriteTarget::Outside
        }
    }

    /// Returns the canonical path of the file behind all links; nothing if that
    /// is not known.
    pub(super) fn real(&self, path: &str, argument: &Argument, replaced: bool) -> Option<String> {
        let start = on_disk(path, self.path_context)?;
        let mut ahead: VecDeque<String> = parts(&start.to_string_lossy());
        let mut real = PathBuf::from("/");
        let mut links = 0;
        while let Some(name) = ahead.pop_front() {
            if name == ".." {
                real.pop();
                continue;
            }
            let is_pattern =
                name.contains([SOME, NAME]) || argument.glob && name.contains(['*', '?', '[']);
            if is_pattern && !(replaced && ahead.is_empty()) && has_links(&real) {
                return None;
            }
            let path = real.join(&name);
            let Ok(found) = fs::symlink_metadata(&path) else {
                real = path;
                continue;
            };
            let last = ahead.is_empty();
            if found.is_symlink() && !(last && replaced) {
                links += 1;
                let target = fs::read_link(&path).ok().filter(|_| links <= MOST_LINKS)?;
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                let mut behind = parts(&target.to_string_lossy());
                behind.append(&mut ahead);
                ahead = behind;
                continue;
            }
            // Another name of it may be anywhere.
            if last && !replaced && found.is_file() && found.nlink() > 1 {
                return None;
            }
            real = path;
        }
        Some(paths::canonical(&real.to_string_lossy(), None, self.path_context))
    }

    /// Notes that names may lead elsewhere from now on.
    pub(super) fn relinks(&mut self, it: &ProgramRun<'_>) {
        if self.path_context.sees_files && it.program == "mv" {
            // A file that is moved leads nowhere else.
            let plain = |operand: &Argument| {
                let cwd = self.cwd.as_deref().or(self.path_context.dir.as_deref());
                let path = paths::canonical(&operand.text, cwd, self.path_context);
                let found = on_disk(&path, self.path_context)
                    .and_then(|path| fs::symlink_metadata(path).ok());
                !operand.glob && found.is_none_or(|found| found.is_file())
            };
            let mut operands: Vec<&Argument> = it.operands().collect();
            operands.pop();
            if !operands.into_iter().all(plain) {
                self.relinked = true;
            }
            return;
        }
        self.relinked |= super::uses::relinks(it);
    }

    /// Reports whether a wildcard may stand for a name that looks like an option.
    pub(super) fn may_be_options(&self, it: &ProgramRun<'_>) -> bool {
        let leads = |word: &Argument| {
            word.glob && word.text.starts_with(['*', '?', '[']) || word.text.starts_with(NAME)
        };
        if !it.arguments.iter().take_while(|word| word.text != "--").any(leads) {
            return false;
        }
        let made =
            |path: &String| path.rsplit('/').next().is_some_and(|name| name.starts_with('-'));
        if self.made.iter().any(made) {
            return true;
        }
        let cwd = paths::canonical(
            it.cwd.unwrap_or("."),
            self.path_context.dir.as_deref(),
            self.path_context,
        );
        let dir = on_disk(&cwd, self.path_context).filter(|_| self.path_context.sees_files);
        let dashed = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with('-');
        dir.and_then(|dir| fs::read_dir(dir).ok())
            .is_some_and(|names| names.take(MOST_NAMES).flatten().any(dashed))
    }
}

/// Reports whether wildcards stand for names in a directory, and for none above it.
fn plain_globs(text: &str, argument: &Argument) -> bool {
    !argument.glob
        || text.split('/').all(|part| {
            let wild = part.contains(['*', '?', '[']);
            !(wild && part.starts_with(['.', '[', '?']))
        }) && {
            let first = text.split('/').position(|part| part.contains(['*', '?', '[']));
            !text.split('/').skip(first.unwrap_or(0)).any(|part| part == "..")
        }
}

/// Reports whether there is a link in a directory; what cannot be read has some.
fn has_links(dir: &Path) -> bool {
    match fs::read_dir(dir) {
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        Ok(names) => names.take(MOST_NAMES).any(|entry| {
            entry.and_then(|entry| entry.file_type()).is_ok_and(|kind| kind.is_symlink())
        }),
    }
}

/// Returns where a path with `~` is on the disk.
fn on_disk(path: &str, path_context: &PathContext) -> Option<PathBuf> {
    let path = match path.strip_prefix('~') {
        Some(rest) => {
            let home = path_context
                .user_home
                .as_deref()
                .filter(|_| rest.is_empty() || rest.starts_with('/'))?;
            format!("{}{rest}", home.trim_end_matches('/'))
        }
        None => path.to_owned(),
    };
    path.starts_with('/').then(|| PathBuf::from(path))
}

fn parts(path: &str) -> VecDeque<String> {
    path.split('/').filter(|part| !matches!(*part, "" | ".")).map(str::to_owned).collect()
}
