//! Copying the files of a sandbox.
//!
//! They belong to users of the container. Where this user may not read them, or
//! may not give them to whom they belong, they are copied from inside.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::backend::Docker;
use super::errand::{ErrandError, Listener, Runner};
use super::facts::Request;
use crate::backend::{BackendError, CopyTotals};
use crate::backends::copying::{self, How, Said};
use crate::embedded::STAGE_PROGRAM;
use crate::{Progress, ProgressSink};

/// Where what is copied is found inside.
const FROM: &str = "/.vestal/from";

/// Where the directory that it is copied to is found inside.
const INTO: &str = "/.vestal/into";

impl Docker {
    /// Copies a tree of a sandbox's files to where nothing is yet.
    pub(super) async fn copy_tree(
        &self,
        from: &Path,
        to: &Path,
        progress: &ProgressSink,
    ) -> Result<CopyTotals, BackendError> {
        let program = STAGE_PROGRAM.install(&self.run_dir).map_err(BackendError::io(format!(
            "put the program that copies files into {}",
            self.run_dir.display()
        )))?;
        let tree = from.to_owned();
        let own = tokio::task::spawn_blocking(move || may_copy(&tree)).await.unwrap_or(false);
        let what = what(from);
        if own {
            copying::copy(&program, &How::AsSelf, from, to, &what, progress).await
        } else {
            let hearing = Hearing { what: &what, progress, end: Mutex::default() };
            self.copy_inside(&program, from, to, &hearing).await
        }
    }

    async fn copy_inside(
        &self,
        program: &Path,
        from: &Path,
        to: &Path,
        hearing: &Hearing<'_>,
    ) -> Result<CopyTotals, BackendError> {
        let client = self.client().await?;
        let image = self.any_image(&client).await?;
        let failed = |message: String| BackendError::Engine {
            action: format!("copy {} from inside a container", hearing.what),
            message,
        };
        let (Some(parent), Some(name)) = (to.parent(), to.file_name().and_then(|n| n.to_str()))
        else {
            return Err(failed(format!("{} is no place for a copy", to.display())));
        };
        let request = Request { home: &self.home, image: &image, user: None };
        let words = vec!["copy".to_owned(), FROM.to_owned(), format!("{INTO}/{name}")];
        let mounts = vec![(from, FROM), (parent, INTO)];
        let as_host = client.info().await?.maps_root_away();
        let runner = Runner::Copier { program, into: to, as_host, listener: hearing };
        let went = self.errand(&client, request, words, mounts, runner).await;
        match (went, hearing.end()) {
            (Ok(_), Some(Said::Done(copied))) => Ok(copied),
            (_, Some(Said::Refused(refusal))) => {
                let refusal = refusal.seen_as(FROM, from).seen_as(INTO, parent);
                Err(refusal.explain(hearing.what, to))
            }
            (Err(ErrandError::Backend(error)), _) => Err(error),
            (Err(error), _) => Err(failed(error.to_string())),
            (Ok(_), _) => Err(failed("it did not say that it is whole".to_owned())),
        }
    }
}

/// Returns what people know a tree as.
fn what(from: &Path) -> String {
    let name = from.file_name().map(|name| name.to_string_lossy().into_owned());
    format!("the sandbox's {}", name.as_deref().unwrap_or("files"))
}

/// Hears how far the copy inside is.
#[derive(Debug)]
struct Hearing<'a> {
    what: &'a str,
    progress: &'a ProgressSink,
    end: Mutex<Option<Said>>,
}

impl Hearing<'_> {
    /// Returns how it ended, if it said so.
    fn end(&self) -> Option<Said> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Listener for Hearing<'_> {
    fn hear(&self, line: &str) {
        match Said::parse(line) {
            Some(Said::Progress { files, bytes, total }) => {
                let what = self.what.to_owned();
                self.progress.tell(Progress::Copying { what, files, bytes, total });
            }
            // What nobody understands makes no copy whole.
            None => {}
            end => {
                if let Some(Said::Done(copied)) = &end {
                    self.progress.tell(copied.told(self.what));
                }
                *self.end.lock().unwrap_or_else(PoisonError::into_inner) = end;
            }
        }
    }
}

/// Returns whether this user may read all of a tree and give a copy to whom it
/// belongs. What cannot be told is left to somebody who may.
fn may_copy(top: &Path) -> bool {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return true;
    }
    let groups = rustix::process::getgroups().unwrap_or_default();
    let mut groups: Vec<u32> = groups.iter().map(|group| group.as_raw()).collect();
    groups.push(rustix::process::getegid().as_raw());
    let mut to_see = vec![top.to_owned()];
    while let Some(path) = to_see.pop() {
        let Ok(metadata) = path.symlink_metadata() else { return false };
        if metadata.uid() != user.as_raw() || !groups.contains(&metadata.gid()) {
            return false;
        }
        if metadata.is_dir() {
            let Ok(entries) = std::fs::read_dir(&path) else { return false };
            for entry in entries {
                let Ok(entry) = entry else { return false };
                to_see.push(entry.path());
            }
        } else if metadata.is_file() && metadata.mode() & 0o400 == 0 {
            // One's own file that one may not read.
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_copier_says_is_passed_on_and_only_its_last_word_counts() {
        let told = std::sync::Arc::new(Mutex::new(Vec::new()));
        let telling = std::sync::Arc::clone(&told);
        let progress = ProgressSink::new(move |step| telling.lock().unwrap().push(step));
        let hearing = Hearing { what: "the home", progress: &progress, end: Mutex::default() };
        hearing.hear(r#"{"files":1,"bytes":2,"total":null}"#);
        hearing.hear("rubbish");
        assert_eq!(hearing.end(), None);
        let what = "the home".to_owned();
        let step = Progress::Copying { what, files: 1, bytes: 2, total: None };
        let copied = CopyTotals { files: 3, bytes: 4 };
        hearing.hear(r#"{"done":true,"files":3,"bytes":4,"skipped":0}"#);
        assert_eq!(hearing.end(), Some(Said::Done(copied)));
        assert_eq!(*told.lock().unwrap(), [step, copied.told("the home")]);
    }
}
