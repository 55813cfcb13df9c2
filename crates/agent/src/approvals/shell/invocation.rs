//! A program with its arguments, as rules look at it.

use std::rc::Rc;

use super::expand::{Argument, UNKNOWN};
use super::places::PossiblePlaces;
use super::prefix::Sudo;
use crate::approvals::path_context::PathContext;
use crate::approvals::paths;

/// What a command finds on its standard input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) enum Feed {
    /// What everybody finds there.
    #[default]
    Nothing,
    /// This text, which is handed on without being copied.
    Text(Rc<str>),
    /// What came from another machine.
    Fetched,
    /// What was unpacked from a form that nobody can read.
    Decoded,
    /// What some other command printed.
    Other,
    /// The contents of a file.
    File,
    /// A number, a date or the like.
    Plain,
    /// The names of everything in these directories.
    Everything(Rc<[String]>),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct ProgramRun<'a> {
    /// Its name, without the directory.
    pub(super) program: &'a str,
    pub(super) arguments: &'a [Argument],
    /// How it becomes another user, if it does.
    pub(super) sudo: Option<Sudo>,
    /// Whether it gets more arguments from its input.
    pub(super) xargs: bool,
    /// Whether its operands stand for everything below them.
    pub(super) sweeps: bool,
    /// The directory it runs in, if the command says so.
    pub(super) cwd: Option<&'a str>,
    /// What it finds on its standard input.
    pub(super) feed: &'a Feed,
    /// What paths mean.
    pub(super) path_context: &'a PathContext,
}

impl<'a> ProgramRun<'a> {
    /// Returns the arguments' texts.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.arguments.iter().map(|argument| argument.text.as_str())
    }

    /// Reports whether an option is given: by its letter, alone or among
    /// others, or by its long name or what still stands for it alone.
    pub(super) fn has(&self, letters: &str, long: &str) -> bool {
        self.options().any(|option| match option.strip_prefix("--") {
            Some(given) => {
                let given = given.split('=').next().unwrap_or_default();
                !given.is_empty() && !long.is_empty() && long.starts_with(given)
            }
            None => option[1..].contains(|letter| letters.contains(letter)),
        })
    }

    fn options(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.texts()
            .take_while(|text| *text != "--")
            .filter(|text| text.len() > 1 && text.starts_with('-'))
    }

    /// Returns what is not an option.
    pub(super) fn operands(&self) -> impl Iterator<Item = &'a Argument> + use<'a> {
        let mut only_operands = false;
        self.arguments.iter().filter(move |argument| {
            if !only_operands && argument.text == "--" {
                only_operands = true;
                return false;
            }
            only_operands || argument.text == "-" || !argument.text.starts_with('-')
        })
    }

    /// Returns the operands' texts.
    pub(super) fn words(&self) -> Vec<&'a str> {
        self.operands().map(|argument| argument.text.as_str()).collect()
    }

    /// Returns the path that a text names, in its one form.
    pub(super) fn path(&self, text: &str) -> String {
        paths::canonical(text, self.cwd, self.path_context)
    }

    /// Reports whether there is a file of this name, as far as this process can see.
    pub(super) fn has_file(&self, text: &str) -> bool {
        self.on_disk(text).is_some_and(|path| std::fs::symlink_metadata(path).is_ok())
    }

    /// Returns the names of what lies in the directory it runs in, and whether they are
    /// directories, as far as this process can see.
    pub(super) fn files_here(&self) -> Vec<(String, bool)> {
        let found = self.on_disk(".").and_then(|dir| std::fs::read_dir(dir).ok());
        let named = |entry: std::fs::DirEntry| {
            let is_dir = entry.path().is_dir();
            (entry.file_name().to_string_lossy().into_owned(), is_dir)
        };
        found.into_iter().flatten().flatten().map(named).collect()
    }

    fn on_disk(&self, text: &str) -> Option<String> {
        let dir = self.path_context.dir.as_deref().filter(|_| self.path_context.sees_files)?;
        let cwd = paths::canonical(self.cwd.unwrap_or("."), Some(dir), self.path_context);
        let path = paths::canonical(text, Some(&cwd), self.path_context);
        let home = self.path_context.user_home.as_deref().unwrap_or("~");
        Some(path.strip_prefix('~').map_or(path.clone(), |rest| format!("{home}{rest}")))
    }

    /// Returns the command in the form that approvals are kept for.
    pub(super) fn form(&self) -> String {
        let mut form = String::new();
        if let Some(cwd) = self.cwd {
            form.push_str("cd ");
            form.push_str(cwd);
            form.push_str(" && ");
        }
        if self.sudo.is_some() && self.program != "sudo" {
            form.push_str("sudo ");
        }
        if self.xargs {
            form.push_str("xargs ");
        }
        form.push_str(self.program);
        for text in self.texts() {
            form.push(' ');
            form.push_str(text);
        }
        form
    }

    /// Reports whether the form says all there is to know, so that an approval
    /// of it means the same the next time.
    pub(super) fn is_definite(&self) -> bool {
        !self.xargs && !self.arguments.iter().any(|a| a.is_unknown() || a.printed)
    }
}

/// Where a walk through one script is.
#[derive(Default)]
pub(super) struct Position {
    /// What the next command reads.
    pub(super) feed: Feed,
    /// What the last one prints.
    pub(super) printed: Feed,
    /// Programs of the pipeline so far.
    pub(super) pipeline: Vec<String>,
    /// The function whose body is about to begin.
    pub(super) named: Option<String>,
    /// Functions whose bodies are open, and groups without a name.
    pub(super) inside: Vec<Option<String>>,
    /// Directories to come back to after subshells.
    pub(super) dirs: Vec<(Option<String>, PossiblePlaces)>,
    /// Where the list of commands began, and the pipeline.
    pub(super) list_began: Option<String>,
    pub(super) pipe_began: Option<String>,
    /// Whether a pipe came before.
    pub(super) piped: bool,
    /// Whether `&&` or `||` came before.
    pub(super) depends: bool,
}

impl Position {
    pub(super) fn end(&mut self) {
        self.feed = Feed::Nothing;
        self.pipeline.clear();
    }

    /// What a group prints is what all of its commands do.
    pub(super) fn end_group(&mut self, fetched: bool) {
        self.printed = if fetched { Feed::Fetched } else { Feed::Other };
    }
}

/// Longest text that `xargs` is thought to make arguments of.
const LONGEST_INPUT: usize = 256;

/// Returns the arguments that `xargs` makes of what it reads.
pub(super) fn read_by_xargs(feed: &Feed) -> Vec<Argument> {
    match feed {
        // It takes quotes off, too.
        Feed::Text(text) if text.len() <= LONGEST_INPUT && !text.contains(['\'', '"', '\\']) => {
            text.split_whitespace().map(Argument::known).collect()
        }
        Feed::Everything(dirs) => {
            let dirs = dirs.iter().map(Argument::known);
            dirs.chain([Argument::unknown()]).collect()
        }
        _ => vec![Argument::unknown()],
    }
}

/// Puts arguments in the place of a mark, or behind all others where there is none.
pub(super) fn filled(words: Vec<Argument>, mark: Option<&str>, more: &[Argument]) -> Vec<Argument> {
    let Some(mark) = mark.filter(|mark| !mark.is_empty()) else {
        return words.into_iter().chain(more.iter().cloned()).collect();
    };
    let fill = |(at, word): (usize, Argument)| {
        if at == 0 && word.text.contains(mark) {
            // The program itself is what is read.
            vec![Argument::unknown()]
        } else if word.text == mark {
            more.to_vec()
        } else if word.text.contains(mark) {
            let known = more.first().filter(|_| more.len() == 1).map(|only| only.text.clone());
            let value = known.unwrap_or_else(|| UNKNOWN.to_string());
            vec![Argument { text: word.text.replace(mark, &value), ..word }]
        } else {
            vec![word]
        }
    };
    words.into_iter().enumerate().flat_map(fill).collect()
}

/// Returns the starting points of a `find` that nothing narrows: what it finds
/// is everything below them.
pub(super) fn found_by_find(it: &ProgramRun<'_>) -> Option<Vec<String>> {
    let is_start = |text: &str| !text.starts_with('-') && !matches!(text, "(" | ")" | "!");
    let mut words =
        it.texts().skip_while(|text| matches!(*text, "-L" | "-H" | "-P") || text.starts_with("-O"));
    let mut starts = Vec::new();
    let mut next = words.next();
    while let Some(text) = next.filter(|text| is_start(text)) {
        starts.push(it.path(text));
        next = words.next();
    }
    if starts.is_empty() {
        starts.push(it.path("."));
    }
    while let Some(text) = next {
        match text {
            "-delete"
            | "-depth"
            | "-d"
            | "-xdev"
            | "-mount"
            | "-print"
            | "-print0"
            | "-ls"
            | "-follow"
            | "-noleaf"
            | "-ignore_readdir_race"
            | "-true"
            | "-a"
            | "-and"
            | "-o"
            | "-or"
            | "("
            | ")" => {}
            "-type" | "-xtype" | "-mindepth" | "-maxdepth" | "-printf" => {
                words.next();
            }
            "-name" | "-iname" | "-path" | "-wholename" => {
                let pattern = words.next()?;
                if !pattern.chars().all(|c| "*?./".contains(c)) {
                    return None;
                }
            }
            // What leaves something out leaves the rest.
            "!" | "-not" => {
                words.next();
                words.next();
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => {
                words.by_ref().find(|word| matches!(*word, ";" | "+"));
            }
            _ => return None,
        }
        next = words.next();
    }
    Some(starts)
}

/// Returns what a command prints if that is the names of everything in a directory.
pub(super) fn printed(it: &ProgramRun<'_>) -> Option<Feed> {
    let everything = |dirs: Vec<String>| Some(Feed::Everything(dirs.into()));
    match it.program {
        "find" => everything(found_by_find(it)?),
        "ls" | "dir" => {
            let mut dirs: Vec<String> =
                it.operands().map(|operand| it.path(&operand.text)).collect();
            if dirs.is_empty() {
                dirs.push(it.path("."));
            }
            everything(dirs)
        }
        // These hand on what they read, or all but some of it.
        "sort" | "uniq" | "tac" | "tr" | "shuf" => Some(it.feed.clone()),
        "grep" | "egrep" | "fgrep" if it.has("v", "invert-match") => Some(it.feed.clone()),
        _ => None,
    }
    .filter(|feed| matches!(feed, Feed::Everything(_)))
}
