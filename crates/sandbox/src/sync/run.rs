//! A whole sync: look at both sides, decide, carry out, and look again until there is
//! nothing left to do.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use vestal_tree::{OpenTree, TreeError};
use vestal_wire::{EncodeError, Fault};

use super::agreement::{Agreement, RootMark, Terms};
use super::carry_out::Ends;
use super::end::TreeEnd;
use super::intent::{SyncIntent, note_made};
use super::plan::{
    AgreedStates, End, Plan, Remark, SyncAction, SyncDirection, SyncStep, View, beneath, plan,
};
use super::survey::{MAX_ENTRIES, SurveyedTree, TreeSurvey};
use crate::backend::CopyTotals;
use crate::client::CallError;
use crate::store::{KeyLock, LockError, StoreError};
use crate::{ProgressSink, failpoint};

/// How often both sides are looked at again after changes. Both can change all the time.
const ROUNDS: usize = 5;

/// How long another process may take for a sync of the same sandbox.
const LOCKED_AT_MOST: Duration = Duration::from_hours(1);

/// Most paths of a kind that a report names.
const NAMED: usize = 100;

/// A sync that did not come to its end. What was done stays, and the next one goes on.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The connection to the sandbox failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The guest is older than this program.
    #[error("the sandbox's guest is too old to sync files; it is replaced at the next start")]
    OldGuest,
    /// The directory here cannot be read or changed.
    #[error(transparent)]
    Tree(TreeError),
    /// Something on this machine failed.
    #[error(transparent)]
    Here(io::Error),
    /// What was agreed on before cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another process is at it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// There are too many files.
    #[error(
        "there are more than {MAX_ENTRIES} files, or their paths are too long in all; name what is not \
         to be synced in .vestalignore"
    )]
    TooMany,
    /// A path is too long for a message.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// Something of a tree cannot be copied to where all of it is to be.
    #[error("not all files can be copied: {}", first_of(failed, *unnamed))]
    NotCopied {
        /// What, and why not.
        failed: Vec<(PathBuf, String)>,
        /// How many more there are.
        unnamed: u64,
    },
    /// What is only in the sandbox was about to be removed.
    #[error(
        "the sandbox's files stay: not all of them can be brought here: {}",
        first_of(failed, *unnamed)
    )]
    NotBroughtBack {
        /// What, and why not.
        failed: Vec<(PathBuf, String)>,
        /// How many more there are.
        unnamed: u64,
    },
}

/// Names the first of some files, and how many more there are.
fn first_of(failed: &[(PathBuf, String)], unnamed: u64) -> String {
    let more = (failed.len() as u64).saturating_sub(1) + unnamed;
    let first =
        failed.first().map(|(path, why)| format!("{}: {why}", one_line(&path.to_string_lossy())));
    let first = first.unwrap_or_default();
    if more == 0 { first } else { format!("{first}; and {more} more") }
}

impl SyncError {
    /// Returns the guest's message, if it refused.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Call(CallError::Fault(fault)) => Some(fault),
            _ => None,
        }
    }
}

/// A file that was changed on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncConflict {
    /// Its path below the directory: this machine's version.
    pub path: PathBuf,
    /// The path of the sandbox's version.
    pub kept_as: PathBuf,
}

/// One of the two sides of a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncSide {
    /// The directory on this machine.
    Here,
    /// The sandbox's.
    Sandbox,
}

/// What a sync did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncReport {
    /// Changes that were made, of both sides; those that would be, in a dry run.
    pub changes: u64,
    /// Files that were copied.
    pub copied_files: u64,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Files that were changed on both sides.
    pub conflicts: Vec<SyncConflict>,
    /// What was deleted here, because it was deleted in the sandbox.
    pub deleted_here: Vec<PathBuf>,
    /// What was deleted in the sandbox, because it was deleted here.
    pub deleted_there: Vec<PathBuf>,
    /// What was deleted on one side and changed on the other, and is back.
    pub restored: Vec<PathBuf>,
    /// The side that had lost everything, or was another directory than the one agreed about, and
    /// was given what the other one has: nothing of that counted as deleted.
    pub revived: Option<SyncSide>,
    /// Links of the sandbox that lead out of the directory, and were not made here.
    pub refused_links: Vec<PathBuf>,
    /// What could not be synced, with the reasons.
    pub failed: Vec<(PathBuf, String)>,
    /// In a dry run, what would be done.
    pub planned: Vec<String>,
    /// How many more there are of what is listed.
    pub unnamed: u64,
}

impl SyncReport {
    /// Returns whether there is nothing that a person should know.
    pub fn is_quiet(&self) -> bool {
        let Self { conflicts, restored, revived, refused_links, failed, .. } = self;
        conflicts.is_empty()
            && restored.is_empty()
            && revived.is_none()
            && refused_links.is_empty()
            && failed.is_empty()
    }

    /// Returns what a person should know, a sentence each.
    pub fn notes(&self) -> Vec<String> {
        let shown = |path: &PathBuf| one_line(&path.to_string_lossy());
        let conflicts = self.conflicts.iter().map(|SyncConflict { path, kept_as }| {
            format!(
                "{} was changed here and in the sandbox: here it is as you have it, the sandbox's is \
                 {}; take what you need of it and delete it",
                shown(path),
                shown(kept_as)
            )
        });
        let restored = self.restored.iter().map(|path| {
            format!("{} was deleted on one side and changed on the other: it is back", shown(path))
        });
        let links = self.refused_links.iter().map(|path| {
            format!(
                "{} is a link of the sandbox that may lead out of the directory; it is not made here",
                shown(path)
            )
        });
        let failed =
            self.failed.iter().map(|(path, why)| format!("{} is not synced: {why}", shown(path)));
        let more = (self.unnamed > 0).then(|| format!("and {} more", self.unnamed));
        let revived = self.revived.map(|side| {
            match side {
                SyncSide::Here => {
                    "this directory was empty, or is another one than before: nothing of it counts as \
                     deleted, and what the sandbox had is here"
                }
                SyncSide::Sandbox => {
                    "the sandbox's copy was empty, or is another directory than before: nothing of it \
                     counts as deleted, and what is here was copied again"
                }
            }
            .to_owned()
        });
        revived
            .into_iter()
            .chain(conflicts)
            .chain(restored)
            .chain(links)
            .chain(failed)
            .chain(more)
            .collect()
    }

    fn name<T>(unnamed: &mut u64, list: &mut Vec<T>, item: T)
    where
        T: PartialEq,
    {
        if list.contains(&item) {
            return;
        }
        if list.len() < NAMED { list.push(item) } else { *unnamed += 1 }
    }

    /// Notes which files and directories a round has deleted.
    fn note_deleted(&mut self, made: &[SyncStep]) {
        let unnamed = &mut self.unnamed;
        for SyncStep { end, path, action } in made {
            if matches!(action, SyncAction::Delete { .. } | SyncAction::RemoveDirectory) {
                let list = match end {
                    End::Here => &mut self.deleted_here,
                    End::There => &mut self.deleted_there,
                };
                Self::name(unnamed, list, path_of(path));
            }
        }
    }

    fn remark(&mut self, remarks: &[(Vec<u8>, Remark)]) {
        let unnamed = &mut self.unnamed;
        for (path, remark) in remarks {
            let path = path_of(path);
            match remark {
                Remark::Conflict { kept_as } => {
                    let conflict = SyncConflict { path, kept_as: path_of(kept_as) };
                    Self::name(unnamed, &mut self.conflicts, conflict);
                }
                // What was set aside in an earlier round is not there any more.
                Remark::Restored if self.conflicts.iter().any(|known| known.path == path) => {}
                Remark::Restored => Self::name(unnamed, &mut self.restored, path),
                Remark::LinkOutside => Self::name(unnamed, &mut self.refused_links, path),
                Remark::Unknown { reason } => {
                    let reason = match reason.as_str() {
                        "" => "it is no file, directory or link".to_owned(),
                        reason => one_line(reason),
                    };
                    Self::name(unnamed, &mut self.failed, (path, reason));
                }
            }
        }
    }
}

/// What is to be synced.
#[derive(Debug)]
pub(crate) struct SyncTask<'a> {
    /// The sandbox's directory of this home.
    pub(crate) store: &'a Path,
    /// The directory here.
    pub(crate) here: Arc<OpenTree>,
    pub(crate) there: TreeEnd,
    /// What takes no part, as text of a `.gitignore`.
    pub(crate) ignore: Vec<u8>,
    pub(crate) direction: SyncDirection,
    pub(crate) dry_run: bool,
    /// Whether remarks are repeated that were made before.
    pub(crate) says_all: bool,
    /// Whether nothing is done unless the directory here is the one agreed about: what is about
    /// to be removed is not copied to where it never was.
    pub(crate) known_only: bool,
    pub(crate) progress: &'a ProgressSink,
}

/// Makes both sides the same.
pub(crate) async fn sync(task: SyncTask<'_>) -> Result<SyncReport, SyncError> {
    let SyncTask { store, here, there, ignore, direction, dry_run, says_all, known_only, progress } =
        task;
    let lock = KeyLock::acquire(&store.join("sync.lock"), LOCKED_AT_MOST).await?;
    let presence = SyncPresence::of(&here);
    let ends = Ends { here: TreeEnd::Here(here), there };
    let (terms, known) = match Agreement::read(store)? {
        Some((terms, known)) => (Some(terms), known),
        None => (None, Agreement::default()),
    };
    let Agreement { mut base, here, there, is_settled } = known;
    let cut_off = SyncIntent::read(store)?;
    let mut report = SyncReport::default();
    let (mut here, mut there) = look(&ends, here, there, &ignore, progress).await?;
    let now = terms_of(&here, &there, &ignore);
    let same_terms = terms.as_ref() == Some(&now);
    if same_terms && is_settled && !here.changed && !there.changed && cut_off.is_none() {
        return Ok(report);
    }
    if known_only && terms.as_ref().is_none_or(|before| before.here != now.here) {
        return Ok(report);
    }
    let mut views = (here.survey.view(), there.survey.view());
    let mut intent = SyncIntent::new(&now);
    let mut revived = None;
    if is_known(terms.as_ref(), &now) && !here.survey.is_empty() && !there.survey.is_empty() {
        match cut_off {
            Some(Ok(cut_off)) if cut_off.is_of(&now) => {
                cut_off.note(&mut base, &views.0, &views.1);
                intent = cut_off;
            }
            Some(Err(_)) => {
                tracing::warn!(store = %store.display(), "damaged; what differs is kept twice");
                base.clear();
            }
            _ => {}
        }
        base = still_valid(base, terms.as_ref(), &now, (&here, &there), &views);
    } else {
        if let Some(before) = &terms
            && !base.is_empty()
        {
            let is_here_lost = here.survey.is_empty() || before.here != now.here;
            revived = Some(if is_here_lost { SyncSide::Here } else { SyncSide::Sandbox });
        }
        // A side that is another directory than the one agreed about, or that has lost
        // everything at once, has not deleted its files: then nothing was agreed, and what
        // differs is kept twice.
        base.clear();
    }
    let is_news = says_all || !same_terms || here.changed || there.changed;
    let leftovers = [here.survey.temporary(), there.survey.temporary()];
    let mut is_settled = false;
    for round in 0..ROUNDS {
        let made = plan(&base, &views.0, &views.1, direction);
        if is_news || !made.steps.is_empty() {
            report.remark(&made.remarks);
        }
        base.clone_from(&made.agreed);
        if dry_run {
            describe(&mut report, &made);
            return Ok(report);
        }
        if made.steps.is_empty() {
            is_settled = made.remarks.is_empty();
            break;
        }
        report.revived = revived;
        intent.add(store, &made.steps)?;
        failpoint::reach("sync.planned");
        let carried = ends.carry_out(&made.steps, progress).await?;
        report.changes += carried.made.len() as u64;
        report.copied_files += carried.copied_files;
        report.copied_bytes += carried.copied_bytes;
        report.note_deleted(&carried.made);
        let is_last = round + 1 == ROUNDS || carried.made.is_empty();
        if is_last {
            for (path, reason) in carried.undone {
                let reason =
                    reason.unwrap_or_else(|| "it changes all the time; sync again".to_owned());
                let failed = (path_of(&path), one_line(&reason));
                SyncReport::name(&mut report.unnamed, &mut report.failed, failed);
            }
        }
        (here, there) = look(&ends, here.survey, there.survey, &ignore, progress).await?;
        base = not_remounted(base, &here, &there);
        views = (here.survey.view(), there.survey.view());
        note_made(&mut base, &carried.made, &views.0, &views.1);
        if is_last {
            // What has been made meanwhile is agreed about.
            base = plan(&base, &views.0, &views.1, direction).agreed;
            break;
        }
    }
    failpoint::reach("sync.agreed");
    if report.failed.is_empty() && presence.is_alone() {
        for (end, left) in [End::Here, End::There].into_iter().zip(&leftovers) {
            if !left.is_empty() {
                ends.discard(end, left).await?;
            }
        }
    }
    let terms = terms_of(&here, &there, &ignore);
    let agreement = Agreement { base, here: here.survey, there: there.survey, is_settled };
    agreement.write(store, terms, &here.root, &there.root)?;
    failpoint::reach("sync.agreement-written");
    SyncIntent::clear(store)?;
    drop(lock);
    Ok(report)
}

/// Returns the report of a sync after which what the sandbox has is removed: what cannot be
/// brought back is nowhere else, and stays.
pub(crate) fn refuse_unless_brought_back(report: SyncReport) -> Result<SyncReport, SyncError> {
    if report.failed.is_empty() {
        return Ok(report);
    }
    let SyncReport { failed, unnamed, .. } = report;
    Err(SyncError::NotBroughtBack { failed, unnamed })
}

/// Copies a tree to where it is to be whole. What cannot be copied is an error; what is there
/// besides stays.
pub(crate) async fn copy_tree(
    from: TreeEnd,
    to: TreeEnd,
    progress: &ProgressSink,
) -> Result<CopyTotals, SyncError> {
    let ends = Ends { here: from, there: to };
    let (mut here, mut there) = (TreeSurvey::default(), TreeSurvey::default());
    let mut copied = CopyTotals::default();
    let mut undone = Vec::new();
    for _ in 0..ROUNDS {
        let (from, to) = look(&ends, here, there, b"", progress).await?;
        let made =
            plan(&AgreedStates::new(), &from.survey.view(), &to.survey.view(), SyncDirection::Out);
        let mut report = SyncReport::default();
        report.remark(&made.remarks);
        let SyncReport { failed, unnamed, .. } = report;
        if !failed.is_empty() {
            return Err(SyncError::NotCopied { failed, unnamed });
        }
        if made.steps.is_empty() {
            return Ok(copied);
        }
        let carried = ends.carry_out(&made.steps, progress).await?;
        copied.files += carried.made.len() as u64;
        copied.bytes += carried.copied_bytes;
        undone = carried.undone;
        if undone.iter().any(|(_, reason)| reason.is_some()) {
            break;
        }
        (here, there) = (from.survey, to.survey);
    }
    let unnamed = undone.len().saturating_sub(NAMED) as u64;
    let failed = undone.into_iter().take(NAMED).map(|(path, reason)| {
        let reason = reason.unwrap_or_else(|| "it changes all the time".to_owned());
        (path_of(&path), one_line(&reason))
    });
    Err(SyncError::NotCopied { failed: failed.collect(), unnamed })
}

/// Tells syncs of one directory with several sandboxes of each other: files that are on their
/// way for one of them are no leftovers.
struct SyncPresence(Option<OwnedFd>);

impl SyncPresence {
    /// Says that a sync of a directory goes on. Not every filesystem can.
    fn of(root: &OpenTree) -> Self {
        let held = root.as_fd().try_clone_to_owned().ok();
        Self(held.filter(|held| flock(held, FlockOperation::NonBlockingLockShared).is_ok()))
    }

    /// Returns whether no other one goes on, as far as that is known.
    fn is_alone(&self) -> bool {
        let Some(held) = &self.0 else { return true };
        flock(held, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
    }
}

async fn look(
    ends: &Ends,
    here: TreeSurvey,
    there: TreeSurvey,
    ignore: &[u8],
    progress: &ProgressSink,
) -> Result<(SurveyedTree, SurveyedTree), SyncError> {
    let (here, there) = tokio::join!(
        here.take(&ends.here, ignore, progress),
        there.take(&ends.there, ignore, progress)
    );
    Ok((here?, there?))
}

fn terms_of(here: &SurveyedTree, there: &SurveyedTree, ignore: &[u8]) -> Terms {
    Terms {
        here: RootMark::from(&here.root),
        there: RootMark::from(&there.root),
        ignore: ignore.to_vec().into(),
    }
}

/// Returns whether both directories are those that were agreed about.
fn is_known(before: Option<&Terms>, now: &Terms) -> bool {
    before.is_some_and(|before| (before.here, before.there) == (now.here, now.there))
}

/// Returns what of the agreement still counts.
fn still_valid(
    base: AgreedStates,
    before: Option<&Terms>,
    now: &Terms,
    (here, there): (&SurveyedTree, &SurveyedTree),
    views: &(View, View),
) -> AgreedStates {
    let base = not_remounted(base, here, there);
    if before.is_some_and(|before| before.ignore == now.ignore) {
        return base;
    }
    // What takes no part any more is on neither side now; it was not deleted.
    let is_there =
        |path: &[u8]| views.0.items.contains_key(path) || views.1.items.contains_key(path);
    base.into_iter().filter(|(path, _)| is_there(path)).collect()
}

/// Returns what of the agreement still counts where another filesystem is in the place of one
/// that was there, or none any more.
fn not_remounted(base: AgreedStates, here: &SurveyedTree, there: &SurveyedTree) -> AgreedStates {
    let (here, there) = (&here.remounted, &there.remounted);
    if here.is_empty() && there.is_empty() {
        return base;
    }
    base.into_iter().filter(|(path, _)| !beneath(path, here) && !beneath(path, there)).collect()
}

fn describe(report: &mut SyncReport, made: &Plan) {
    report.changes = made.steps.len() as u64;
    for step in &made.steps {
        let path = one_line(&path_of(&step.path).to_string_lossy());
        let verb = match &step.action {
            SyncAction::SetAside { name } => {
                let name = one_line(&String::from_utf8_lossy(name));
                report.planned.push(format!("set aside in the sandbox: {path}, as {name}"));
                continue;
            }
            SyncAction::Executable { .. } => "change the mode of",
            SyncAction::Delete { .. } | SyncAction::RemoveDirectory => "delete",
            SyncAction::MakeDirectory { .. } => "make",
            SyncAction::Copy { size, .. } => {
                report.copied_files += 1;
                report.copied_bytes += size;
                "copy"
            }
            SyncAction::Link { .. } => "link",
        };
        let place = match (step.end, verb) {
            (End::Here, "copy") => "from the sandbox",
            (End::There, "copy") => "to the sandbox",
            (End::Here, _) => "here",
            (End::There, _) => "in the sandbox",
        };
        report.planned.push(format!("{verb} {place}: {path}"));
    }
}

fn path_of(path: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(std::ffi::OsStr::from_bytes(path))
}

fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
