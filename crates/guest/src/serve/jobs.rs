//! All jobs on record, in memory and in the journal.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use vestal_wire::{Cause, Exit, Fault, FaultCode, JobId, JobInfo, JobState, Outcome};

use super::clock::wall_ms;
use super::ids::JobKey;
use super::job::{Job, Live};
use crate::journal::{Journal, JournalError, Ledger, Opened, Record};
use crate::log::{JobLog, delete_directory};

/// All jobs on record.
#[derive(Debug)]
pub(super) struct Jobs {
    map: BTreeMap<JobKey, Job>,
    ids: HashMap<JobId, JobKey>,
    next: u64,
    /// Jobs that are over.
    over: usize,
    /// Jobs that are over which are kept on record.
    kept: usize,
    journal: Journal,
    /// Ids of jobs that are no longer on record.
    used: Ledger,
    /// Ids that must not be run.
    refused: Ledger,
    /// Starts of guests whose every job is in the journal, this one last.
    opened: Vec<Opened>,
    dir: PathBuf,
    log_bytes: u64,
}

impl Jobs {
    /// Reads the journal in `state_dir` and notes this start.
    pub(super) fn open(
        state_dir: &std::path::Path,
        opened: Opened,
        log_bytes: u64,
        kept: u32,
    ) -> Result<Self, JournalError> {
        let path = state_dir.join("journal");
        let replay = Journal::replay(&path)?;
        let mut history = replay.opened;
        // Where records are missing, by damage or because the machine went
        // down, absence proves nothing for the guests before this one.
        history.retain(|earlier| earlier.boot == opened.boot && !replay.damaged);
        history.push(opened);
        let dir = state_dir.join("jobs");
        let mut on_disk = entries(&dir);
        let jobs: Vec<Job> = replay
            .jobs
            .into_iter()
            .map(|info| recover(info, &dir, &mut on_disk, log_bytes))
            .collect();
        for stray in on_disk {
            // A leftover that cannot be deleted takes room and does no other harm.
            delete_directory(&dir.join(stray)).ok();
        }
        let mut records = Vec::new();
        push_history(&mut records, &history, &replay.used, &replay.refused);
        records.extend(jobs.iter().map(|job| Record::End(Box::new(job.record.clone()))));
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
            opened: history,
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

    /// Records a job that is about to be started. Its id is new.
    pub(super) fn admit(&mut self, info: JobInfo, live: Box<Live>) -> Result<JobKey, Fault> {
        if self.used.contains(&info.id) {
            return Err(Fault::new(FaultCode::Invalid, "the job's id was used before"));
        }
        if self.refused.contains(&info.id) {
            let message = "the job's id was given up: its caller was told that it never started";
            return Err(Fault::new(FaultCode::Invalid, message));
        }
        let record = Record::Start(Box::new(info));
        if let Err(error) = self.journal.append(&record) {
            let message = format!("the start cannot be recorded: {error}");
            return Err(Fault { code: FaultCode::NoSpace, message, errno: error.raw_os_error() });
        }
        let Record::Start(info) = record else { unreachable!("it was made so above") };
        let log = JobLog::new(self.dir.join(info.id.as_str()), self.log_bytes);
        Ok(self.insert(Job::new(*info, log, Some(live))))
    }

    /// Records what is known of a job that ended.
    pub(super) fn record_end(&mut self, key: JobKey) {
        if let Some(job) = self.map.get(&key) {
            // Without the record, a later guest counts the job as lost. That is
            // all that can be done on a full disk.
            self.journal.append(&Record::End(Box::new(job.info()))).ok();
        }
    }

    /// Returns what became of a command, and gives its id up if it never started.
    pub(super) fn lookup(&mut self, id: &JobId, incarnation: &str, boot: &str) -> Outcome {
        if let Some(job) = self.find(id).and_then(|key| self.get(key)) {
            return Outcome::Known(Box::new(job.info()));
        }
        if self.refused.contains(id) {
            return Outcome::NeverStarted;
        }
        let asked = Opened { incarnation: incarnation.to_owned(), boot: boot.to_owned() };
        if !self.opened.contains(&asked) || self.used.contains(id) || self.used.overflowed() {
            return Outcome::Unknown;
        }
        // The promise that it never will start must be kept by later guests too.
        if self.journal.append(&Record::Refused(id.clone())).is_err() {
            return Outcome::Unknown;
        }
        self.refused.add(id);
        Outcome::NeverStarted
    }

    /// Notes that a job is over, and forgets the oldest where there are too many.
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
            // It stays as it is where it cannot be rewritten.
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
                // Without the record, a later guest knows the job without its log.
                self.journal.append(&Record::Forgotten(job.record.id)).ok();
                job.log.delete().ok();
            }
        }
    }

    /// Returns the records that say all that is known.
    fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        push_history(&mut records, &self.opened, &self.used, &self.refused);
        records.extend(self.map.values().map(|job| {
            let info = Box::new(job.info());
            if job.exit().is_some() { Record::End(info) } else { Record::Start(info) }
        }));
        records
    }
}

fn push_history(records: &mut Vec<Record>, opened: &[Opened], used: &Ledger, refused: &Ledger) {
    records.extend(opened.iter().cloned().map(Record::Opened));
    records.push(Record::Ids {
        used: used.to_bytes().into(),
        refused: refused.to_bytes().into(),
        overflowed: used.overflowed(),
    });
}

/// Returns a job of an earlier guest. One that ran then ended with that guest.
fn recover(
    mut info: JobInfo,
    dir: &std::path::Path,
    on_disk: &mut HashSet<String>,
    log_bytes: u64,
) -> Job {
    if !matches!(info.state, JobState::Ended(_)) {
        info.state = JobState::Ended(Exit { code: None, cause: Cause::Lost });
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
