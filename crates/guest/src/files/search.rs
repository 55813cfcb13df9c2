//! Finds files by name and lines by content, and collects the results within the
//! limits of a reply.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::ControlFlow::{self, Break, Continue};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;
use vestal_wire::limits::MAX_MESSAGE;
use vestal_wire::{Fault, FaultCode, FileKind, FileReply, FoundMatches, Match, SearchQuery};

use super::lines::{LineSearcher, LineSink, SearchedContent};
use super::metadata::{kind, kind_name};
use super::paths::{resolve, split};
use super::pattern::Pattern;
use super::perform::{OpError, OrFault, PathRoots, refused};
use super::read::{READING, open_regular};
use super::walk::{WalkEntry, WalkScope, walk};
use vestal_tree::Glob;

/// Bytes available for matches in one reply.
const ROOM: usize = MAX_MESSAGE - 1024;

/// Maximum encoded size of a match without its path and text.
const MATCH_OVERHEAD: usize = 32;

/// Maximum lines of context before and after a match.
const MAX_CONTEXT: usize = 100;

/// Runs a search.
pub(super) fn search(
    query: &SearchQuery,
    roots: &PathRoots,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    let root = resolve(&query.root, roots)?;
    let mut search = SearchRun::new(query, cancelled)?;
    let found = stat(&root).or_fault("search", &root)?;
    match kind(&found) {
        FileKind::Directory => search.search_tree(&root)?,
        FileKind::File => search.search_named(&root)?,
        other => {
            return Err(refused(FaultCode::WrongKind, "search", &root, kind_name(other)));
        }
    }
    Ok(FileReply::Found(search.results.found))
}

struct SearchRun<'a> {
    glob: Option<Glob>,
    searcher: Option<LineSearcher>,
    results: SearchResults,
    scope: WalkScope,
    cancelled: &'a AtomicBool,
}

impl<'a> SearchRun<'a> {
    fn new(query: &SearchQuery, cancelled: &'a AtomicBool) -> Result<Self, Fault> {
        let invalid = |what: &str, text: &str, why: String| {
            Fault::new(FaultCode::Invalid, format!("the {what} {text:?} is not valid: {why}"))
        };
        let case = query.ignore_case.into();
        let glob = query.glob.as_ref().map(|glob| {
            Glob::new(glob, case).map_err(|error| invalid("glob", glob, error.to_string()))
        });
        let pattern = query.regex.as_ref().map(|regex| {
            Pattern::new(regex, case).map_err(|error| invalid("expression", regex, error))
        });
        Ok(Self {
            glob: glob.transpose()?,
            searcher: pattern.transpose()?.map(LineSearcher::new),
            results: SearchResults::new(query),
            scope: WalkScope { hidden: query.hidden, ignored: query.ignored },
            cancelled,
        })
    }

    fn search_tree(&mut self, root: &Path) -> Result<(), Fault> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, root, flags, Mode::empty()).or_fault("search", root)?;
        let (scope, cancelled) = (self.scope, self.cancelled);
        let unreadable = walk(directory, root, scope, cancelled, &mut |entry| self.visit(entry))
            .map_err(|error| error.into_fault("search", root))?;
        self.results.found.unreadable += unreadable;
        Ok(())
    }

    /// Searches a file that the query names. Ignore rules do not apply.
    fn search_named(&mut self, path: &Path) -> Result<(), Fault> {
        let (_, name) = split(path, "search")?;
        let name = name.as_bytes();
        if self.is_wanted(name, name) {
            let file = match self.searcher {
                Some(_) => Some(open_regular(path)?.0),
                None => None,
            };
            // There is no further file to stop at.
            let _last = self
                .search_file(name, file.as_ref())
                .map_err(|error| error.into_fault("search", path))?;
        }
        Ok(())
    }

    fn is_wanted(&self, path: &[u8], name: &[u8]) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.matches(path, name))
    }

    fn visit(&mut self, entry: &WalkEntry<'_>) -> Result<ControlFlow<()>, Fault> {
        if !self.is_wanted(entry.path, entry.name.to_bytes()) {
            return Ok(ControlFlow::Continue(()));
        }
        let looked = match (entry.file_type, self.searcher.is_some()) {
            (FileType::RegularFile | FileType::Symlink, false) => {
                self.search_file(entry.path, None)
            }
            (FileType::RegularFile, true) => match open(entry) {
                Ok(file) => self.search_file(entry.path, Some(&file)),
                // It vanished or was replaced.
                Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(Continue(())),
                Err(errno) => Err(errno.into()),
            },
            _ => return Ok(Continue(())),
        };
        match looked {
            Ok(flow) => Ok(flow),
            Err(OpError::Fault(fault)) => Err(fault),
            Err(OpError::System(_)) => {
                self.results.found.unreadable += 1;
                Ok(Continue(()))
            }
        }
    }

    /// Searches the lines of a file, or adds its name to the results.
    fn search_file(
        &mut self,
        path: &[u8],
        file: Option<&File>,
    ) -> Result<ControlFlow<()>, OpError> {
        self.results.start(path);
        let (Some(searcher), Some(file)) = (&mut self.searcher, file) else {
            self.results.found.files += 1;
            return Ok(self.results.take(0, &[]));
        };
        let content = searcher.search(file, &mut self.results, self.cancelled)?;
        self.results.found.files += 1;
        if content == SearchedContent::Binary {
            self.results.found.binary += 1;
        }
        Ok(if self.results.found.more { Break(()) } else { Continue(()) })
    }
}

/// Opens a file for searching, if it is still a regular file.
fn open(entry: &WalkEntry<'_>) -> Result<File, Errno> {
    let flags = READING | OFlags::NOFOLLOW;
    let file = openat(entry.directory, entry.name, flags, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        _ => Err(Errno::NXIO),
    }
}

/// The results so far.
#[derive(Debug)]
pub(super) struct SearchResults {
    pub(super) found: FoundMatches,
    skip: u64,
    limit: u64,
    context: usize,
    room: usize,
    /// The current file.
    path: Vec<u8>,
    /// Lines before the next match.
    before: VecDeque<(u64, Vec<u8>)>,
    /// Lines still to be added after the last match.
    after: usize,
}

impl SearchResults {
    pub(super) fn new(query: &SearchQuery) -> Self {
        let found =
            FoundMatches { matches: Vec::new(), more: false, files: 0, unreadable: 0, binary: 0 };
        Self {
            found,
            skip: query.skip.into(),
            limit: query.limit.into(),
            context: usize::try_from(query.context).unwrap_or(MAX_CONTEXT).min(MAX_CONTEXT),
            room: ROOM,
            path: Vec::new(),
            before: VecDeque::new(),
            after: 0,
        }
    }

    /// Starts with another file.
    pub(super) fn start(&mut self, path: &[u8]) {
        self.path.clear();
        self.path.extend_from_slice(path);
        self.before.clear();
        self.after = 0;
    }

    /// Adds a result. Stops the search if a result does not fit any more.
    pub(super) fn take(&mut self, line: u64, text: &[u8]) -> ControlFlow<()> {
        if self.skip > 0 {
            self.skip -= 1;
            self.after = 0;
            self.remember(line, text);
            return Continue(());
        }
        let Some(room) = self.room.checked_sub(self.cost(text)).filter(|_| self.limit > 0) else {
            self.found.more = true;
            return Break(());
        };
        self.limit -= 1;
        self.room = room;
        self.put_before();
        self.put(line, text, false);
        self.after = self.context;
        Continue(())
    }

    /// Adds the lines before a match, the nearest ones if there is not enough
    /// room.
    fn put_before(&mut self) {
        let mut before = std::mem::take(&mut self.before);
        let mut fits = 0;
        for (_, text) in before.iter().rev() {
            let Some(room) = self.room.checked_sub(self.cost(text)) else {
                break;
            };
            self.room = room;
            fits += 1;
        }
        before.drain(..before.len() - fits);
        for (line, text) in before {
            self.put(line, &text, true);
        }
    }

    fn put(&mut self, line: u64, text: &[u8], context: bool) {
        self.found.matches.push(Match {
            path: self.path.clone().into(),
            line,
            text: text.to_vec().into(),
            context,
        });
    }

    fn remember(&mut self, line: u64, text: &[u8]) {
        if self.context == 0 {
            return;
        }
        if self.before.len() == self.context {
            self.before.pop_front();
        }
        self.before.push_back((line, text.to_vec()));
    }

    fn cost(&self, text: &[u8]) -> usize {
        self.path.len() + text.len() + MATCH_OVERHEAD
    }
}

impl LineSink for SearchResults {
    fn matched(&mut self, number: u64, text: &[u8]) -> ControlFlow<()> {
        self.take(number, text)
    }

    fn passed(&mut self, number: u64, text: &[u8]) {
        if self.after == 0 {
            self.remember(number, text);
            return;
        }
        self.after -= 1;
        match self.room.checked_sub(self.cost(text)) {
            Some(room) => {
                self.room = room;
                self.put(number, text, true);
            }
            None => self.after = 0,
        }
    }

    fn wants_passed(&self) -> bool {
        self.context > 0
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
