//! Jobs on record, in memory and in the journal.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use vestal_wire::{
    Cause, CommandOutcome, EnvVar, Fault, FaultCode, JobExit, JobId, JobInfo, JobState, StartJob,
};

use super::input::StdinQueue;
use super::lifetime::wall_ms;
use super::output::Follower;
use super::reactor::{ChannelId, JobKey, SupervisorId, TimerId};
use crate::journal::{GuestStart, IdSet, Journal, JournalError, JournalRecord};
use crate::log::{JobLog, LogStream, delete_directory};
use crate::process::LaunchCommand;

/// A job on record.
#[derive(Debug)]
pub(super) struct Job {
    /// The job's description, except for what [`Job::info`] adds.
    pub(super) record: JobInfo,
    pub(super) log: JobLog,
    pub(super) followers: Vec<Follower>,
    pub(super) waiters: Vec<Waiter>,
    /// What the job needs until it is over: processes, pipes, a session to save.
    pub(super) live: Option<Box<LiveJob>>,
    /// Whether it is queued to be served.
    pub(super) queued: bool,
}

/// A caller that waits for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiter {
    pub(super) to: ChannelId,
    pub(super) wait_for: WaitFor,
}

/// What a waiter waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitFor {
    /// The shell has ended and the session is saved or left as it was.
    End,
    /// No process is left.
    Gone,
}

/// The phase of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordedPhase {
    /// The previous command of its session is being saved.
    Waiting,
    /// A supervisor is starting it.
    Launching,
    /// The shell runs.
    Running,
    /// The exit code is known; the session is about to be saved.
    Saving,
    /// The shell has ended and the session is saved or left as it was.
    Settled,
}

/// Why a job was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KillReason {
    Timeout,
    Caller,
}

/// What a job needs until it is over.
#[derive(Debug)]
pub(super) struct LiveJob {
    pub(super) phase: RecordedPhase,
    pub(super) began: Instant,
    /// How to launch it; removed when it has started.
    pub(super) plan: Option<Box<LaunchPlan>>,
    /// The environments to compare the session's state with.
    pub(super) launch_env: Option<Box<LaunchEnvironment>>,
    pub(super) supervisor: Option<SupervisorId>,
    /// Where its output comes from.
    pub(super) outputs: [Option<OutputPipe>; 2],
    pub(super) stdin: StdinQueue,
    pub(super) timeout: Option<TimerId>,
    pub(super) reason: Option<KillReason>,
    /// Its turn in its session, if its state is to be saved.
    pub(super) turn: Option<u64>,
    /// Length of the streams when the shell ended, as far as known.
    pub(super) ends: [Option<u64>; 2],
    /// Bytes that a terminal may still hold from before the end of the shell.
    pub(super) terminal_rest: Option<usize>,
    /// The session's directory, if the command has its own working directory.
    pub(super) session_dir: Option<Vec<u8>>,
    /// The state that its shell left.
    pub(super) dump: Option<OwnedFd>,
    /// Whether its supervisor died and its processes are being killed.
    pub(super) orphaned: bool,
}

/// How to launch a job.
#[derive(Debug)]
pub(super) struct LaunchPlan {
    pub(super) start: StartJob,
    pub(super) command: LaunchCommand,
    /// Directories to try if the session's own is gone.
    pub(super) fallbacks: Vec<Vec<u8>>,
    /// The session's directory, if it is gone.
    pub(super) vanished: Option<Vec<u8>>,
    /// Where the session's damaged file is now.
    pub(super) damaged_session: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct LaunchEnvironment {
    pub(super) base: Vec<EnvVar>,
    pub(super) job: Vec<EnvVar>,
}

/// The guest's end of a pipe or terminal that a job writes to.
#[derive(Debug)]
pub(super) struct OutputPipe {
    pub(super) fd: OwnedFd,
    /// Whether the poller watches it.
    pub(super) watched: bool,
    pub(super) kind: OutputKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputKind {
    /// A pipe of the usual size.
    Pipe,
    /// A pipe that was enlarged, or could not be.
    LargePipe,
    Terminal,
}

impl Job {
    pub(super) const fn new(record: JobInfo, log: JobLog, live: Option<Box<LiveJob>>) -> Self {
        Self { record, log, followers: Vec::new(), waiters: Vec::new(), live, queued: false }
    }

    /// Returns what is known of the job now.
    pub(super) fn info(&self) -> JobInfo {
        let [stdout, stderr] = LogStream::ALL.map(|stream| self.log.stream(stream));
        JobInfo {
            stdout_bytes: stdout.total(),
            stderr_bytes: stderr.total(),
            stdout_omitted: stdout.omitted(),
            stderr_omitted: stderr.omitted(),
            stdin_open: self.live.as_ref().is_some_and(|live| live.stdin.is_open()),
            ..self.record.clone()
        }
    }

    /// Returns how the job ended, if it has.
    pub(super) const fn exit(&self) -> Option<JobExit> {
        match self.record.state {
            JobState::Ended(exit) => Some(exit),
            JobState::Starting | JobState::Running => None,
        }
    }

    /// Returns the ends of the streams for followers, if they are known.
    pub(super) fn ends(&self) -> Option<[u64; 2]> {
        self.exit()?;
        let [stdout, stderr] = LogStream::ALL.map(|stream| {
            let total = self.log.stream(stream).total();
            match &self.live {
                Some(live) => live.ends[stream.index()].map(|end| end.max(total)),
                None => Some(total),
            }
        });
        Some([stdout?, stderr?])
    }

    /// Returns whether the shell has ended and the session is settled.
    pub(super) fn is_settled(&self) -> bool {
        self.live.as_ref().is_none_or(|live| live.phase == RecordedPhase::Settled)
    }

    /// Returns whether no process of the job is left.
    pub(super) fn is_gone(&self) -> bool {
        let bare = |live: &LiveJob| live.supervisor.is_none() && !live.orphaned;
        self.is_settled() && self.live.as_deref().is_none_or(bare)
    }

    /// Returns whether nothing can happen to the job any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_gone()
            && self.live.as_ref().is_none_or(|live| live.outputs.iter().all(Option::is_none))
    }

    /// Returns whether the job may be forgotten.
    fn is_forgettable(&self) -> bool {
        self.live.is_none() && self.followers.is_empty() && self.waiters.is_empty()
    }
}

impl LiveJob {
    /// Returns the state of a job that has not been launched.
    pub(super) fn new(plan: Box<LaunchPlan>) -> Self {
        let reads = plan.start.pty.is_some() || plan.start.stdin == vestal_wire::Stdin::Piped;
        let stdin = if reads { StdinQueue::planned() } else { StdinQueue::closed() };
        Self {
            phase: RecordedPhase::Waiting,
            began: Instant::now(),
            plan: Some(plan),
            launch_env: None,
            supervisor: None,
            outputs: [None, None],
            stdin,
            timeout: None,
            reason: None,
            turn: None,
            ends: [None, None],
            terminal_rest: None,
            session_dir: None,
            dump: None,
            orphaned: false,
        }
    }
}

/// All jobs on record.
#[derive(Debug)]
pub(super) struct Jobs {
    map: BTreeMap<JobKey, Job>,
    ids: HashMap<JobId, JobKey>,
    next: u64,
    /// Number of jobs that are over.
    over: usize,
    /// Maximum number of ended jobs kept on record.
    kept: usize,
    journal: Journal,
    /// Ids of forgotten jobs.
    used: IdSet,
    /// Ids that must not be run.
    refused: IdSet,
    /// Starts of guests whose jobs are all in the journal, this one last.
    starts: Vec<GuestStart>,
    dir: PathBuf,
    log_bytes: u64,
}

impl Jobs {
    /// Reads the journal in `state_dir` and records this start.
    pub(super) fn open(
        state_dir: &std::path::Path,
        starts: GuestStart,
        log_bytes: u64,
        kept: u32,
    ) -> Result<Self, JournalError> {
        let path = state_dir.join("journal");
        let replay = Journal::replay(&path)?;
        let mut history = replay.starts;
        // If records are missing, because of damage or a crash of the machine,
        // absence proves nothing for earlier guests.
        history.retain(|earlier| earlier.boot == starts.boot && !replay.damaged);
        history.push(starts);
        let dir = state_dir.join("jobs");
        let mut on_disk = entries(&dir);
        let jobs: Vec<Job> = replay
            .jobs
            .into_iter()
            .map(|info| recover(info, &dir, &mut on_disk, log_bytes))
            .collect();
        for stray in on_disk {
            // A leftover that cannot be deleted only takes space.
            delete_directory(&dir.join(stray)).ok();
        }
        let mut records = Vec::new();
        push_history(&mut records, &history, &replay.used, &replay.refused);
        records.extend(jobs.iter().map(|job| JournalRecord::End(Box::new(job.record.clone()))));
        let journal = Journal::create(&path, &records)?;
        let mut all = Self {
            map: BTreeMap::new(),
            ids: HashMap::new(),
            next: 0,
            over: 0,
            kept: kept as usize,
            journal,
            used: replay.used,
            refused: replay.refused,
            starts: history,
            dir,
            log_bytes,
        };
        for job in jobs {
            all.over += 1;
            all.insert(job);
        }
        all.forget_oldest();
        Ok(all)
    }

    pub(super) fn find(&self, id: &JobId) -> Option<JobKey> {
        self.ids.get(id).copied()
    }

    pub(super) fn get(&self, key: JobKey) -> Option<&Job> {
        self.map.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: JobKey) -> Option<&mut Job> {
        self.map.get_mut(&key)
    }

    /// Returns what a job needs until it is over, unless it is.
    pub(super) fn live_mut(&mut self, key: JobKey) -> Option<&mut LiveJob> {
        self.map.get_mut(&key)?.live.as_deref_mut()
    }

    /// Returns all jobs, oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (JobKey, &Job)> {
        self.map.iter().map(|(key, job)| (*key, job))
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// Returns the jobs that are not over.
    pub(super) fn live_keys(&self) -> Vec<JobKey> {
        self.iter().filter(|(_, job)| job.live.is_some()).map(|(key, _)| key).collect()
    }

    /// Returns how many bytes the logs keep.
    pub(super) fn log_bytes(&self) -> u64 {
        self.map.values().map(|job| job.log.kept()).sum()
    }

    /// Records a job that is about to start. Its id must be new.
    pub(super) fn admit(&mut self, info: JobInfo, live: Box<LiveJob>) -> Result<JobKey, Fault> {
        if self.used.contains(&info.id) {
            return Err(Fault::new(FaultCode::Invalid, "the job's id was used before"));
        }
        if self.refused.contains(&info.id) {
            let message =
                "the job's id is refused: its caller has an answer that the job never started";
            return Err(Fault::new(FaultCode::Invalid, message));
        }
        let record = JournalRecord::Start(Box::new(info));
        if let Err(error) = self.journal.append(&record) {
            let message = format!("the start cannot be recorded: {error}");
            return Err(Fault { code: FaultCode::NoSpace, message, errno: error.raw_os_error() });
        }
        let JournalRecord::Start(info) = record else { unreachable!("it was made so above") };
        let log = JobLog::new(self.dir.join(info.id.as_str()), self.log_bytes);
        Ok(self.insert(Job::new(*info, log, Some(live))))
    }

    /// Records the state of a job that ended.
    pub(super) fn record_end(&mut self, key: JobKey) {
        if let Some(job) = self.map.get(&key) {
            // Without the record, a later guest counts the job as lost. On a full
            // disk this cannot be avoided.
            self.journal.append(&JournalRecord::End(Box::new(job.info()))).ok();
        }
    }

    /// Returns what became of a command. If it never started, its id is refused
    /// from now on.
    pub(super) fn lookup(&mut self, id: &JobId, incarnation: &str, boot: &str) -> CommandOutcome {
        if let Some(job) = self.find(id).and_then(|key| self.get(key)) {
            return CommandOutcome::Known(Box::new(job.info()));
        }
        if self.refused.contains(id) {
            return CommandOutcome::NeverStarted;
        }
        let asked = GuestStart { incarnation: incarnation.to_owned(), boot: boot.to_owned() };
        if !self.starts.contains(&asked) || self.used.contains(id) || self.used.overflowed() {
            return CommandOutcome::Unknown;
        }
        // Later guests must refuse the id too.
        if self.journal.append(&JournalRecord::Refused(id.clone())).is_err() {
            return CommandOutcome::Unknown;
        }
        self.refused.add(id);
        CommandOutcome::NeverStarted
    }

    /// Records that a job is over, and forgets the oldest jobs if there are too
    /// many.
    pub(super) fn retire(&mut self, key: JobKey) {
        if let Some(job) = self.map.get_mut(&key)
            && job.live.take().is_some()
        {
            job.log.close_files();
            self.over += 1;
        }
        self.forget_oldest();
        if self.journal.wants_compaction() {
            let records = self.records();
            // If it cannot be rewritten, it stays as it is.
            self.journal.compact(&records).ok();
        }
    }

    fn insert(&mut self, job: Job) -> JobKey {
        let key = JobKey(self.next);
        self.next += 1;
        self.ids.insert(job.record.id.clone(), key);
        self.map.insert(key, job);
        key
    }

    fn forget_oldest(&mut self) {
        while self.over > self.kept {
            let oldest = self.map.iter().find(|(_, job)| job.is_forgettable());
            let Some(key) = oldest.map(|(key, _)| *key) else {
                return;
            };
            if let Some(job) = self.map.remove(&key) {
                self.over -= 1;
                self.ids.remove(&job.record.id);
                self.used.add(&job.record.id);
                // Without the record, a later guest knows the job without its
                // log.
                self.journal.append(&JournalRecord::Forgotten(job.record.id)).ok();
                job.log.delete().ok();
            }
        }
    }

    /// Returns the records for the current state.
    fn records(&self) -> Vec<JournalRecord> {
        let mut records = Vec::new();
        push_history(&mut records, &self.starts, &self.used, &self.refused);
        records.extend(self.map.values().map(|job| {
            let info = Box::new(job.info());
            if job.exit().is_some() { JournalRecord::End(info) } else { JournalRecord::Start(info) }
        }));
        records
    }
}

fn push_history(
    records: &mut Vec<JournalRecord>,
    starts: &[GuestStart],
    used: &IdSet,
    refused: &IdSet,
) {
    records.extend(starts.iter().cloned().map(JournalRecord::GuestStart));
    records.push(JournalRecord::Ids {
        used: used.to_bytes().into(),
        refused: refused.to_bytes().into(),
        overflowed: used.overflowed(),
    });
}

/// Returns a job of an earlier guest. A job that was running ended with that
/// guest.
fn recover(
    mut info: JobInfo,
    dir: &std::path::Path,
    on_disk: &mut HashSet<String>,
    log_bytes: u64,
) -> Job {
    if !matches!(info.state, JobState::Ended(_)) {
        info.state = JobState::Ended(JobExit { code: None, cause: Cause::Lost });
        info.ended_ms = Some(wall_ms());
    }
    info.processes = 0;
    info.stdin_open = false;
    let recorded = [info.stdout_bytes, info.stderr_bytes];
    let own = dir.join(info.id.as_str());
    on_disk.remove(info.id.as_str());
    let log = JobLog::recover(own, log_bytes, recorded);
    Job::new(info, log, None)
}

fn entries(dir: &std::path::Path) -> HashSet<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return HashSet::new();
    };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
