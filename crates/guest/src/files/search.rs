//! Finds files by name and lines by content.

use std::fs::File;
use std::ops::ControlFlow::{self, Break, Continue};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;
use vestal_wire::{Fault, FaultCode, FileKind, FileReply, SearchQuery};

use super::fault::{OrFault, Stop, refused};
use super::glob::Glob;
use super::lines::{Content, Searcher};
use super::metadata::{kind, kind_name};
use super::path::{resolve, split};
use super::pattern::Pattern;
use super::perform::Places;
use super::read::{READING, open_regular};
use super::results::Results;
use super::walk::{Scope, Seen, walk};

/// Searches as `query` says.
pub(super) fn search(
    query: &SearchQuery,
    places: &Places,
    cancelled: &AtomicBool,
) -> Result<FileReply, Fault> {
    let root = resolve(&query.root, places)?;
    let mut search = Search::new(query, cancelled)?;
    let found = stat(&root).or_fault("search", &root)?;
    match kind(&found) {
        FileKind::Directory => search.below(&root)?,
        FileKind::File => search.one(&root)?,
        other => {
            return Err(refused(FaultCode::WrongKind, "search", &root, kind_name(other)));
        }
    }
    Ok(FileReply::Found(search.results.found))
}

struct Search<'a> {
    glob: Option<Glob>,
    searcher: Option<Searcher>,
    results: Results,
    scope: Scope,
    cancelled: &'a AtomicBool,
}

impl<'a> Search<'a> {
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
            searcher: pattern.transpose()?.map(Searcher::new),
            results: Results::new(query),
            scope: Scope { hidden: query.hidden, ignored: query.ignored },
            cancelled,
        })
    }

    fn below(&mut self, root: &Path) -> Result<(), Fault> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(CWD, root, flags, Mode::empty()).or_fault("search", root)?;
        let (scope, cancelled) = (self.scope, self.cancelled);
        let unreadable = walk(directory, root, scope, cancelled, &mut |seen| self.visit(seen))
            .map_err(|stop| stop.into_fault("search", root))?;
        self.results.found.unreadable += unreadable;
        Ok(())
    }

    /// Searches a file that was named itself: no rule leaves it out.
    fn one(&mut self, path: &Path) -> Result<(), Fault> {
        let (_, name) = split(path, "search")?;
        let name = name.as_bytes();
        if self.is_wanted(name, name) {
            let file = match self.searcher {
                Some(_) => Some(open_regular(path)?.0),
                None => None,
            };
            // There is no further file that could be left out.
            let _last = self
                .look_at(name, file.as_ref())
                .map_err(|stop| stop.into_fault("search", path))?;
        }
        Ok(())
    }

    fn is_wanted(&self, path: &[u8], name: &[u8]) -> bool {
        self.glob.as_ref().is_none_or(|glob| glob.matches(path, name))
    }

    fn visit(&mut self, seen: &Seen<'_>) -> Result<ControlFlow<()>, Fault> {
        if !self.is_wanted(seen.path, seen.name.to_bytes()) {
            return Ok(ControlFlow::Continue(()));
        }
        let looked = match (seen.file_type, self.searcher.is_some()) {
            (FileType::RegularFile | FileType::Symlink, false) => self.look_at(seen.path, None),
            (FileType::RegularFile, true) => match open(seen) {
                Ok(file) => self.look_at(seen.path, Some(&file)),
                // It vanished, or something else took its place.
                Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(Continue(())),
                Err(errno) => Err(errno.into()),
            },
            _ => return Ok(Continue(())),
        };
        match looked {
            Ok(flow) => Ok(flow),
            Err(Stop::Fault(fault)) => Err(fault),
            Err(Stop::System(_)) => {
                self.results.found.unreadable += 1;
                Ok(Continue(()))
            }
        }
    }

    /// Looks at the lines of a file, or takes its name.
    fn look_at(&mut self, path: &[u8], file: Option<&File>) -> Result<ControlFlow<()>, Stop> {
        self.results.start(path);
        let (Some(searcher), Some(file)) = (&mut self.searcher, file) else {
            self.results.found.files += 1;
            return Ok(self.results.take(0, &[]));
        };
        let content = searcher.search(file, &mut self.results, self.cancelled)?;
        self.results.found.files += 1;
        if content == Content::Binary {
            self.results.found.binary += 1;
        }
        Ok(if self.results.found.more { Break(()) } else { Continue(()) })
    }
}

/// Opens a file for searching, if it still is a regular one.
fn open(seen: &Seen<'_>) -> Result<File, Errno> {
    let flags = READING | OFlags::NOFOLLOW;
    let file = openat(seen.directory, seen.name, flags, Mode::empty())?;
    match FileType::from_raw_mode(fstat(&file)?.st_mode) {
        FileType::RegularFile => Ok(file.into()),
        _ => Err(Errno::NXIO),
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
