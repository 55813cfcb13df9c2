//! Launches jobs on a pool of supervisors.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use minicbor::bytes::ByteVec;
use rustix::fs::{Mode, OFlags, Uid};
use rustix::pipe::PipeFlags;
use vestal_wire::{Cause, EnvVar, Fault, FaultCode, JobExit, StartJob};

use super::guest::Guest;
use super::jobs::{LaunchEnvironment, LaunchPlan, LiveJob, OutputKind, OutputPipe, RecordedPhase};
use super::reactor::{JobKey, PollToken, Poller, Ready, SupervisorId, Timer};
use crate::failpoint::failpoint;
use crate::orphans::INSTANCE_MARK;
use crate::process::{ChildEnds, FailedStep, JobRights, Launch, SupervisorProcess, open_pty};
use crate::session::SavedSession;
use crate::user::Credentials;

/// Environment variable with the id of the job a process belongs to.
const JOB_MARK: &str = "VESTAL_JOB";

/// Exit code for a failure of the guest.
const OUR_FAILURE: u8 = 125;

/// Exit code for a command that cannot be run, or not in its directory.
const CANNOT_RUN: u8 = 126;

/// Exit code for a command that does not exist.
const NOT_FOUND: u8 = 127;

/// Maximum number of idle supervisors.
const MAX_IDLE: usize = 2;

impl Guest {
    /// Launches a job. A failure ends the job.
    pub(super) fn launch(&mut self, key: JobKey) {
        if let Err(fault) = self.try_launch(key) {
            self.fail_start(key, fault, OUR_FAILURE);
        }
    }

    fn try_launch(&mut self, key: JobKey) -> Result<(), Fault> {
        let Some(job) = self.jobs.get_mut(key) else {
            return Ok(());
        };
        let Some(live) = job.live.as_deref_mut() else {
            return Ok(());
        };
        let Some(plan) = live.plan.as_deref_mut() else {
            return Ok(());
        };
        let start = &mut plan.start;
        let session = match &start.session {
            Some(name) => {
                let (session, aside) = load_session(&self.sessions.path(name))?;
                plan.damaged_session = plan.damaged_session.take().or(aside);
                Some(session)
            }
            None => None,
        };
        let save = session.is_some() && !start.background;
        let cwd = if plan.vanished.is_some() {
            // The session's own directory is gone; this is the next one to try.
            job.record.cwd.to_vec()
        } else {
            let places = StartDirectories {
                home: &self.settings.home,
                start_dir: start.start_dir.as_ref().unwrap_or(&self.settings.start_dir),
                session: session.as_ref().map_or(&[], |session| session.cwd.as_slice()),
            };
            let (cwd, fallbacks) = places.choose(start.workdir.as_deref().map(Vec::as_slice));
            plan.fallbacks = fallbacks;
            cwd
        };
        job.record.cwd = ByteVec::from(cwd.clone());
        live.session_dir = match (&start.workdir, &session) {
            (Some(_), Some(session)) => Some(session.cwd.clone()),
            _ => None,
        };
        let env = start.env.clone().unwrap_or_else(|| self.settings.env.clone());
        let job_env = marked(&start.job_env, &self.settings.instance, start.id.as_str());
        let launch = Launch {
            command: plan.command.clone(),
            session,
            save,
            env,
            job_env,
            cwd,
            pty: start.pty.is_some(),
        };
        if live.turn.is_none()
            && save
            && let Some(name) = &start.session
        {
            live.turn = Some(self.sessions.begin(name));
        }
        if live.timeout.is_none() {
            live.timeout = start.timeout_ms.and_then(|millis| {
                self.timers.set(Duration::from_millis(millis), Timer::JobTimeout(key))
            });
        }
        live.phase = RecordedPhase::Launching;
        live.began = std::time::Instant::now();
        self.send_to_supervisor(key, &launch)?;
        failpoint!("guest.job.after-launch");
        if let Some(live) = self.jobs.live_mut(key)
            && launch.save
        {
            live.launch_env =
                Some(Box::new(LaunchEnvironment { base: launch.env, job: launch.job_env }));
        }
        self.want_spare();
        Ok(())
    }

    /// Sends the launch to a supervisor. Replaces a supervisor that died
    /// unnoticed.
    fn send_to_supervisor(&mut self, key: JobKey, launch: &Launch) -> Result<(), Fault> {
        let mut last = None;
        for _ in 0..2 {
            let Some(live) = self.jobs.live_mut(key) else {
                return Ok(());
            };
            let owner = self.pool.rights().credentials.as_ref().map(Credentials::uid);
            let ends = make_ends(live, owner).map_err(|error| failed("its pipes", &error))?;
            let taken = self.pool.take(&self.poller, key);
            let id = taken.map_err(|error| failed("its supervisor", &error))?;
            live.supervisor = Some(id);
            let Some(supervisor) = self.pool.get_mut(id) else {
                continue;
            };
            match supervisor.launch(launch, ends) {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
            live.supervisor = None;
            self.pool.discard(id, &self.poller);
        }
        let error = last.unwrap_or_else(|| io::ErrorKind::BrokenPipe.into());
        Err(failed("its supervisor", &error))
    }

    /// Handles a supervisor's report that a command could not be started.
    pub(super) fn start_failed(&mut self, key: JobKey, step: FailedStep, errno: i32) {
        let error = io::Error::from_raw_os_error(errno);
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let Some(live) = job.live.as_deref_mut() else {
            return;
        };
        if let Some(id) = live.supervisor.take() {
            self.pool.detach(id);
        }
        let cwd = String::from_utf8_lossy(&job.record.cwd).into_owned();
        match step {
            FailedStep::Chdir => {
                if let Some(plan) = live.plan.as_deref_mut()
                    && let Some(next) = plan.fallbacks.pop()
                {
                    plan.vanished.get_or_insert_with(|| job.record.cwd.to_vec());
                    job.record.cwd = ByteVec::from(next);
                    return self.launch(key);
                }
                let message = format!("cannot start in {cwd}: {error}");
                let fault = Fault { code: FaultCode::NoWorkdir, message, errno: Some(errno) };
                self.fail_start(key, fault, CANNOT_RUN);
            }
            FailedStep::Exec => {
                let missing = error.kind() == io::ErrorKind::NotFound;
                let code = if missing { NOT_FOUND } else { CANNOT_RUN };
                let line = format!("vestal: cannot run the command: {error}\n");
                self.write_stderr_line(key, &line);
                self.set_exit(key, JobExit { code: Some(code), cause: Cause::Exited });
                self.settle(key, None);
            }
            FailedStep::Fork | FailedStep::Setup => {
                let fault = failed("its process", &error);
                self.fail_start(key, fault, OUR_FAILURE);
            }
        }
    }

    /// Ends a job that never ran, and sends the fault to its followers.
    fn fail_start(&mut self, key: JobKey, fault: Fault, code: u8) {
        self.set_exit(key, JobExit { code: Some(code), cause: Cause::Exited });
        self.settle(key, None);
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let followers = std::mem::take(&mut job.followers);
        let reply = vestal_wire::CallReply::Fault(fault);
        for follower in followers {
            self.connections.reply(follower.to, &reply);
        }
    }
}

/// Directories in which a command can start.
struct StartDirectories<'a> {
    home: &'a [u8],
    start_dir: &'a [u8],
    /// The session's directory; empty if it has none.
    session: &'a [u8],
}

impl StartDirectories<'_> {
    /// Returns the start directory, and the alternatives with the best one last.
    fn choose(&self, workdir: Option<&[u8]>) -> (Vec<u8>, Vec<Vec<u8>>) {
        let start_dir = self.resolve(self.start_dir, self.home);
        match workdir {
            Some(workdir) if self.session.is_empty() => {
                (self.resolve(workdir, &start_dir), Vec::new())
            }
            Some(workdir) => (self.resolve(workdir, self.session), Vec::new()),
            None if self.session.is_empty() => (start_dir, Vec::new()),
            None => (self.session.to_vec(), vec![b"/".to_vec(), self.home.to_vec(), start_dir]),
        }
    }

    fn resolve(&self, path: &[u8], base: &[u8]) -> Vec<u8> {
        match path {
            [b'/', ..] => path.to_vec(),
            b"~" => self.home.to_vec(),
            [b'~', b'/', rest @ ..] => join(self.home, rest),
            _ => join(base, path),
        }
    }
}

fn join(base: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut joined = base.to_vec();
    if !joined.ends_with(b"/") {
        joined.push(b'/');
    }
    joined.extend_from_slice(rest);
    joined
}

/// Returns a session, and where something is now that was in its place.
fn load_session(path: &Path) -> Result<(SavedSession, Option<PathBuf>), Fault> {
    SavedSession::load_or_begin(path).map_err(|error| {
        Fault::new(FaultCode::System, format!("the session's state cannot be read: {error}"))
    })
}

/// Returns a job's own environment with the marks of its processes.
fn marked(job_env: &[EnvVar], instance: &str, id: &str) -> Vec<EnvVar> {
    let marks = [(INSTANCE_MARK, instance), (JOB_MARK, id)];
    let is_mark = |var: &&EnvVar| marks.iter().any(|(name, _)| var.name[..] == *name.as_bytes());
    let mut env: Vec<EnvVar> = job_env.iter().filter(|var| !is_mark(var)).cloned().collect();
    env.extend(marks.map(|(name, value)| EnvVar {
        name: name.as_bytes().to_vec().into(),
        value: value.as_bytes().to_vec().into(),
    }));
    env
}

/// Creates both ends of a job's standard streams and keeps the guest's. The job's
/// ends belong to its user, who could otherwise not open them again as
/// `/dev/stdout` or by the name of the terminal.
fn make_ends(live: &mut LiveJob, owner: Option<Uid>) -> io::Result<ChildEnds> {
    let Some(LaunchPlan { start, .. }) = live.plan.as_deref() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    if let Some(size) = start.pty {
        let (master, slave) = open_pty(size)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        set_owner(&slave, owner)?;
        live.stdin.connect_terminal(master.try_clone()?);
        live.outputs = [Some(OutputPipe::new(master, OutputKind::Terminal)), None];
        let (stdin, stdout) = (slave.try_clone()?, slave.try_clone()?);
        return Ok(ChildEnds { stdin, stdout, stderr: slave });
    }
    let stdin = make_stdin(start, owner)?;
    let (ours, stdout) = output_pipe(owner)?;
    let (second, stderr) = if start.merge {
        (None, stdout.try_clone()?)
    } else {
        let (ours, theirs) = output_pipe(owner)?;
        (Some(OutputPipe::new(ours, OutputKind::Pipe)), theirs)
    };
    live.outputs = [Some(OutputPipe::new(ours, OutputKind::Pipe)), second];
    let stdin = match stdin {
        (Some(ours), theirs) => {
            live.stdin.connect_pipe(ours);
            theirs
        }
        (None, theirs) => theirs,
    };
    Ok(ChildEnds { stdin, stdout, stderr })
}

fn make_stdin(start: &StartJob, owner: Option<Uid>) -> io::Result<(Option<OwnedFd>, OwnedFd)> {
    match start.stdin {
        vestal_wire::Stdin::Null => {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            Ok((None, rustix::fs::open("/dev/null", flags, Mode::empty())?))
        }
        vestal_wire::Stdin::Piped => {
            let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&ours, true)?;
            set_owner(&theirs, owner)?;
            Ok((Some(ours), theirs))
        }
    }
}

fn output_pipe(owner: Option<Uid>) -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(ours.as_fd(), true)?;
    set_owner(&theirs, owner)?;
    Ok((ours, theirs))
}

/// Makes the job's user the owner of its end of a stream.
fn set_owner(end: &OwnedFd, owner: Option<Uid>) -> io::Result<()> {
    if owner.is_some() {
        rustix::fs::fchown(end, owner, None)?;
    }
    Ok(())
}

fn failed(what: &str, error: &io::Error) -> Fault {
    Fault {
        code: FaultCode::System,
        message: format!("the command cannot be started: {what}: {error}"),
        errno: error.raw_os_error(),
    }
}

#[derive(Debug)]
pub(super) struct SupervisorPool {
    rights: JobRights,
    all: HashMap<SupervisorId, PoolSlot>,
    idle: Vec<SupervisorId>,
    next: u64,
}

#[derive(Debug)]
struct PoolSlot {
    supervisor: SupervisorProcess,
    job: Option<JobKey>,
}

impl SupervisorPool {
    /// Returns an empty pool for jobs with these rights.
    pub(super) fn new(rights: JobRights) -> Self {
        Self { rights, all: HashMap::new(), idle: Vec::new(), next: 0 }
    }

    /// Returns the rights of jobs.
    pub(super) const fn rights(&self) -> &JobRights {
        &self.rights
    }

    /// Starts an idle supervisor.
    pub(super) fn add_spare(&mut self, poller: &Poller) -> io::Result<()> {
        let supervisor = SupervisorProcess::spawn(&self.rights)?;
        let id = SupervisorId(self.next);
        self.next += 1;
        poller.add(supervisor.control(), PollToken::Supervisor(id), Ready::IN)?;
        self.all.insert(id, PoolSlot { supervisor, job: None });
        self.idle.push(id);
        Ok(())
    }

    /// Returns whether a supervisor is idle.
    pub(super) fn has_spare(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Takes an idle supervisor for a job, or starts a new one.
    pub(super) fn take(&mut self, poller: &Poller, job: JobKey) -> io::Result<SupervisorId> {
        if self.idle.is_empty() {
            self.add_spare(poller)?;
        }
        loop {
            let id = self.idle.pop().ok_or(io::ErrorKind::NotFound)?;
            if let Some(slot) = self.all.get_mut(&id) {
                slot.job = Some(job);
                return Ok(id);
            }
        }
    }

    /// Detaches a supervisor from a job that could not be started. It becomes
    /// idle when it reports so.
    pub(super) fn detach(&mut self, id: SupervisorId) {
        if let Some(slot) = self.all.get_mut(&id) {
            slot.job = None;
        }
    }

    /// Takes back a supervisor whose job is gone.
    pub(super) fn release(&mut self, id: SupervisorId, poller: &Poller) {
        if self.idle.len() >= MAX_IDLE {
            self.discard(id, poller);
        } else if let Some(slot) = self.all.get_mut(&id) {
            slot.job = None;
            self.idle.push(id);
        }
    }

    /// Removes a supervisor, which ends it and all its processes.
    pub(super) fn discard(&mut self, id: SupervisorId, poller: &Poller) -> Option<JobKey> {
        self.idle.retain(|idle| *idle != id);
        let slot = self.all.remove(&id)?;
        poller.remove(slot.supervisor.control());
        slot.job
    }

    pub(super) fn get_mut(&mut self, id: SupervisorId) -> Option<&mut SupervisorProcess> {
        self.all.get_mut(&id).map(|slot| &mut slot.supervisor)
    }

    /// Returns the job of a supervisor.
    pub(super) fn job(&self, id: SupervisorId) -> Option<JobKey> {
        self.all.get(&id)?.job
    }

    pub(super) fn pid(&self, id: SupervisorId) -> Option<u32> {
        self.all.get(&id).map(|slot| slot.supervisor.pid())
    }

    /// Returns the process ids of all supervisors.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.all.values().map(|slot| slot.supervisor.pid()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(session: &str, workdir: Option<&str>) -> (String, Vec<String>) {
        let places = StartDirectories {
            home: b"/home/me",
            start_dir: b"/workspace",
            session: session.as_bytes(),
        };
        let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
        let (cwd, fallbacks) = places.choose(workdir.map(str::as_bytes));
        (text(cwd), fallbacks.into_iter().map(text).collect())
    }

    #[test]
    fn a_command_starts_in_the_given_directory_else_in_its_sessions_else_at_the_start() {
        assert_eq!(choose("/s", Some("/w")), ("/w".into(), vec![]));
        assert_eq!(choose("/s", Some("w")), ("/s/w".into(), vec![]));
        assert_eq!(choose("", Some("w")), ("/workspace/w".into(), vec![]));
        assert_eq!(choose("/s", Some("~/x")), ("/home/me/x".into(), vec![]));
        assert_eq!(choose("", None), ("/workspace".into(), vec![]));
        let (cwd, fallbacks) = choose("/s", None);
        assert_eq!((cwd.as_str(), fallbacks.last().unwrap().as_str()), ("/s", "/workspace"));
    }

    #[test]
    fn the_marks_cannot_be_overridden() {
        let var = |name: &str, value: &str| EnvVar {
            name: name.as_bytes().to_vec().into(),
            value: value.as_bytes().to_vec().into(),
        };
        let env = marked(&[var(JOB_MARK, "fake"), var("A", "1")], "i", "j");
        assert_eq!(env, [var("A", "1"), var(INSTANCE_MARK, "i"), var(JOB_MARK, "j")]);
    }
}
