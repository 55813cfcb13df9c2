//! Carrying a plan out, one side after the other.

use std::time::{Duration, Instant};

use vestal_wire::TreeOp;
use vestal_wire::tree::{
    HashedFile, ReadHead, TreeChange, TreeOutcome, TreePath, framed, framed_bytes, partial_name,
};

use super::end::{TreeEnd, TreeInput, TreeOutput, shortened};
use super::plan::{End, SyncAction, SyncStep};
use super::run::SyncError;
use crate::{Progress, ProgressSink, failpoint};

/// Content from this size on is kept when it is cut off, and goes on from there.
const RESUMABLE: u64 = 4 << 20;

/// What came of a plan.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    pub(crate) made: Vec<SyncStep>,
    pub(crate) copied_files: u64,
    pub(crate) copied_bytes: u64,
    /// What was not made, and why; nothing where somebody was quicker.
    pub(crate) undone: Vec<(Vec<u8>, Option<String>)>,
}

/// The two directories.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    pub(crate) here: TreeEnd,
    pub(crate) there: TreeEnd,
}

impl Ends {
    fn of(&self, end: End) -> &TreeEnd {
        match end {
            End::Here => &self.here,
            End::There => &self.there,
        }
    }

    /// Makes the changes of both sides: the sandbox's first, where versions are set aside.
    pub(crate) async fn carry_out(
        &self,
        steps: &[SyncStep],
        progress: &ProgressSink,
    ) -> Result<Carried, SyncError> {
        let mut carried = Carried::default();
        for (end, point) in [(End::There, "sync.there-changed"), (End::Here, "sync.here-changed")] {
            let steps: Vec<&SyncStep> = steps.iter().filter(|step| step.end == end).collect();
            if !steps.is_empty() {
                self.change(end, &steps, progress, &mut carried).await?;
            }
            failpoint::reach(point);
        }
        Ok(carried)
    }

    /// Removes what interrupted changes left behind. What cannot be removed stays.
    pub(crate) async fn discard(&self, end: End, names: &[Vec<u8>]) -> Result<(), SyncError> {
        let (mut input, mut output) = self.of(end).open(TreeOp::Change).await?;
        for name in names {
            let change = TreeChange::Discard { path: name.clone().into() };
            if !input.write(framed(&change)?).await {
                break;
            }
        }
        input.end();
        while output.record::<TreeOutcome>().await?.is_some() {}
        Ok(())
    }

    async fn change(
        &self,
        end: End,
        steps: &[&SyncStep],
        progress: &ProgressSink,
        carried: &mut Carried,
    ) -> Result<(), SyncError> {
        let offsets = self.offsets(end, steps).await?;
        let copies: Vec<TreePath> = steps
            .iter()
            .zip(&offsets)
            .filter(|(step, _)| matches!(step.action, SyncAction::Copy { .. }))
            .map(|(step, offset)| TreePath {
                path: step.path.clone().into(),
                offset: *offset,
                // A file that grows all the time has an end all the same.
                end: Some(size(step)),
            })
            .collect();
        let total = steps.iter().map(|step| size(step)).sum();
        let (input, mut output) = self.of(end).open(TreeOp::Change).await?;
        let source = if copies.is_empty() {
            None
        } else {
            Some(self.of(end.other()).open(TreeOp::Read).await?)
        };
        let (asking, source) = match source {
            Some((asking, source)) => (Some(asking), Some(source)),
            None => (None, None),
        };
        let asked = async {
            let Some(mut asking) = asking else { return Ok::<(), SyncError>(()) };
            for copy in &copies {
                if !asking.write(framed(copy)?).await {
                    return Ok(());
                }
            }
            asking.end();
            Ok(())
        };
        let mut pump = Pump {
            input,
            source,
            meter: Meter::new(
                progress,
                match end {
                    End::There => "files to the sandbox",
                    End::Here => "files from the sandbox",
                },
                total,
            ),
        };
        let pumped = async {
            for (step, offset) in steps.iter().zip(&offsets) {
                if !pump.send(step, *offset).await? {
                    return Ok::<_, SyncError>((pump.meter.files, pump.meter.bytes));
                }
            }
            let Pump { input, meter, .. } = pump;
            input.end();
            Ok((meter.files, meter.bytes))
        };
        let outcomes = async {
            let mut outcomes: Vec<TreeOutcome> = Vec::new();
            while let Some(outcome) = output.record().await? {
                if outcomes.len() == steps.len() {
                    return Err(output.violated("more outcomes than there were changes"));
                }
                outcomes.push(outcome);
            }
            if outcomes.len() == steps.len() {
                Ok(outcomes)
            } else {
                Err(output.violated("fewer outcomes than there were changes"))
            }
        };
        let (asked, pumped, outcomes) = tokio::join!(asked, pumped, outcomes);
        // What ended the changes says more than what found nobody to take it.
        let outcomes = outcomes?;
        let (files, bytes) = pumped?;
        asked?;
        carried.copied_files += files;
        carried.copied_bytes += bytes;
        for (step, outcome) in steps.iter().zip(outcomes) {
            match outcome {
                TreeOutcome::Made => carried.made.push((*step).clone()),
                TreeOutcome::Overtaken => carried.undone.push((step.path.clone(), None)),
                TreeOutcome::Failed { reason } => {
                    carried.undone.push((step.path.clone(), Some(shortened(reason))));
                }
            }
        }
        Ok(())
    }

    /// Returns how much of each content is there from an interrupted change, and is right.
    async fn offsets(&self, end: End, steps: &[&SyncStep]) -> Result<Vec<u64>, SyncError> {
        let mut offsets = vec![0; steps.len()];
        let large: Vec<usize> =
            (0..steps.len()).filter(|at| size(steps[*at]) >= RESUMABLE).collect();
        if large.is_empty() {
            return Ok(offsets);
        }
        let partial = large.iter().map(|at| {
            let SyncAction::Copy { hash, .. } = &steps[*at].action else { return Vec::new() };
            let path = &steps[*at].path;
            let above = path.iter().rposition(|byte| *byte == b'/').map_or(0, |end| end + 1);
            [&path[..above], &partial_name(&(*hash).into())].concat()
        });
        let partial: Vec<TreePath> =
            partial.map(|path| TreePath { path: path.into(), offset: 0, end: None }).collect();
        let there = hashes(self.of(end), &partial).await?;
        let begun: Vec<usize> = (0..large.len())
            .filter(|at| there[*at].hash.is_some() && there[*at].stamp.size > 0)
            .collect();
        if begun.is_empty() {
            return Ok(offsets);
        }
        let beginnings: Vec<TreePath> = begun
            .iter()
            .map(|at| TreePath {
                path: steps[large[*at]].path.clone().into(),
                offset: 0,
                end: Some(there[*at].stamp.size),
            })
            .collect();
        let source = hashes(self.of(end.other()), &beginnings).await?;
        for (at, source) in begun.into_iter().zip(source) {
            let kept = there[at].stamp.size;
            if source.hash == there[at].hash && kept <= size(steps[large[at]]) {
                offsets[large[at]] = kept;
            }
        }
        Ok(offsets)
    }
}

async fn hashes(end: &TreeEnd, wanted: &[TreePath]) -> Result<Vec<HashedFile>, SyncError> {
    let (mut input, mut output) = end.open(TreeOp::Hash).await?;
    for path in wanted {
        if !input.write(framed(path)?).await {
            break;
        }
    }
    input.end();
    let mut hashed = Vec::new();
    while let Some(file) = output.record().await? {
        hashed.push(file);
        if hashed.len() > wanted.len() {
            break;
        }
    }
    if hashed.len() == wanted.len() {
        Ok(hashed)
    } else {
        Err(output.violated("other hashes than were asked for"))
    }
}

fn size(step: &SyncStep) -> u64 {
    match step.action {
        SyncAction::Copy { size, .. } => size,
        _ => 0,
    }
}

/// Sends changes to one side, and the content of files from the other.
struct Pump<'p> {
    input: TreeInput,
    source: Option<TreeOutput>,
    meter: Meter<'p>,
}

impl Pump<'_> {
    /// Sends one change. Returns whether more are wanted.
    async fn send(&mut self, step: &SyncStep, offset: u64) -> Result<bool, SyncError> {
        if !self.input.write(framed(&change(step, offset))?).await {
            return Ok(false);
        }
        let SyncAction::Copy { size, .. } = step.action else { return Ok(true) };
        let Some(source) = &mut self.source else { return Ok(false) };
        let Some(head) = source.record::<ReadHead>().await? else {
            return Err(source.violated("fewer files than were asked for"));
        };
        let mut left = size.saturating_sub(offset);
        self.meter.count(1, offset.min(size));
        if head.error.is_none() {
            while let Some(piece) = source.piece().await? {
                if piece.len() as u64 > left {
                    return Err(source.violated("more of a file than was asked for"));
                }
                left -= piece.len() as u64;
                self.meter.count(0, piece.len() as u64);
                if !self.input.write(framed_bytes(&piece)).await {
                    return Ok(false);
                }
            }
        }
        Ok(self.input.write(framed_bytes(&[])).await)
    }
}

/// Returns the change that a step asks for. What goes to the sandbox keeps its bits. What comes
/// from it gets the usual ones of this user's files, or those of the file it replaces; only what
/// is private there is private here, too.
fn change(step: &SyncStep, offset: u64) -> TreeChange {
    let path = || step.path.clone().into();
    let is_new = !matches!(step.action, SyncAction::Copy { replaces: Some(_), .. });
    let bits = |mode: u32, owner: u32| match step.end {
        End::There => Some(mode & 0o777),
        End::Here if is_new && mode & 0o777 == mode & 0o700 => Some(mode & 0o100 | owner),
        End::Here => None,
    };
    match &step.action {
        SyncAction::SetAside { name } => {
            TreeChange::Rename { path: path(), name: name.clone().into() }
        }
        SyncAction::Executable { executable, stamp, .. } => {
            TreeChange::Executable { path: path(), executable: *executable, stamp: *stamp }
        }
        SyncAction::Delete { stamp } => TreeChange::Delete { path: path(), stamp: *stamp },
        SyncAction::RemoveDirectory => TreeChange::RemoveDirectory { path: path() },
        SyncAction::MakeDirectory { mode } => {
            TreeChange::Directory { path: path(), mode: bits(*mode, 0o700) }
        }
        SyncAction::Copy { hash, mode, mtime_ns, size, replaces } => TreeChange::File {
            path: path(),
            hash: (*hash).into(),
            mode: bits(*mode, 0o600),
            executable: mode & 0o100 != 0,
            mtime_ns: *mtime_ns,
            replaces: *replaces,
            offset,
            resumable: *size >= RESUMABLE,
        },
        SyncAction::Link { target, replaces } => {
            TreeChange::Link { path: path(), target: target.clone().into(), replaces: *replaces }
        }
    }
}

/// How long something takes before its progress is reported.
const REPORT_AFTER: Duration = Duration::from_secs(1);

/// How often progress is reported.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// Counts files and bytes of one step of a sync.
pub(super) struct Meter<'p> {
    begun: Instant,
    reported_at: Option<Instant>,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) total: u64,
    what: &'static str,
    progress: &'p ProgressSink,
}

impl<'p> Meter<'p> {
    pub(super) fn new(progress: &'p ProgressSink, what: &'static str, total: u64) -> Self {
        Self { begun: Instant::now(), reported_at: None, files: 0, bytes: 0, total, what, progress }
    }

    pub(super) fn count(&mut self, files: u64, bytes: u64) {
        self.files += files;
        self.bytes += bytes;
        let is_short = self.begun.elapsed() < REPORT_AFTER;
        if is_short || self.reported_at.is_some_and(|at| at.elapsed() < REPORT_EVERY) {
            return;
        }
        self.reported_at = Some(Instant::now());
        self.progress.report(Progress::Copying {
            what: self.what.to_owned(),
            files: self.files,
            bytes: self.bytes,
            total: Some(self.total),
        });
    }
}
