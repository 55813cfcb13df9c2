//! Handing a job to a supervisor.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use minicbor::bytes::ByteVec;
use rustix::fs::{Mode, OFlags, Uid};
use rustix::pipe::PipeFlags;
use vestal_wire::{Cause, EnvVar, Exit, Fault, FaultCode, StartJob};

use super::guest::Guest;
use super::ids::JobKey;
use super::job::{Environs, Live, Outlet, OutletKind, Phase, Plan};
use super::timers::Timer;
use crate::failpoint::failpoint;
use crate::orphans::INSTANCE_MARK;
use crate::process::{ChildEnds, FailedStep, Launch, open_pty};
use crate::session::SavedSession;
use crate::user::Credentials;

/// Name of the variable that tells a process which job it belongs to.
const JOB_MARK: &str = "VESTAL_JOB";

/// Exit code for a failure that is not the command's.
const OUR_FAILURE: u8 = 125;

/// Exit code for a command that cannot be run, or not there.
const CANNOT_RUN: u8 = 126;

/// Exit code for a command that does not exist.
const NOT_FOUND: u8 = 127;

impl Guest {
    /// Launches a job. What goes wrong is its end.
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
            Some(name) => Some(load_session(&self.sessions.path(name))?),
            None => None,
        };
        let save = session.is_some() && !start.background;
        let cwd = if plan.vanished.is_some() {
            // The session's own directory is gone; this is the next best.
            job.record.cwd.to_vec()
        } else {
            let places = Directories {
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
        live.phase = Phase::Launching;
        live.began = std::time::Instant::now();
        self.hand_over(key, &launch)?;
        failpoint!("guest.job.after-launch");
        if let Some(live) = self.jobs.get_mut(key).and_then(|job| job.live.as_mut())
            && launch.save
        {
            live.environs = Some(Box::new(Environs { base: launch.env, job: launch.job_env }));
        }
        self.want_spare();
        Ok(())
    }

    /// Gives the launch to a supervisor. One that died unnoticed is replaced.
    fn hand_over(&mut self, key: JobKey, launch: &Launch) -> Result<(), Fault> {
        let mut last = None;
        for _ in 0..2 {
            let Some(live) = self.jobs.get_mut(key).and_then(|job| job.live.as_deref_mut()) else {
                return Ok(());
            };
            let owner = self.pool.standing().credentials.as_ref().map(Credentials::uid);
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

    /// Acts on a supervisor's word that a command could not be started.
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
                self.say_on_stderr(key, &line);
                self.set_exit(key, Exit { code: Some(code), cause: Cause::Exited });
                self.settle(key, None);
            }
            FailedStep::Fork | FailedStep::Setup => {
                let fault = failed("its process", &error);
                self.fail_start(key, fault, OUR_FAILURE);
            }
        }
    }

    /// Ends a job that never ran, and tells those who follow it why.
    fn fail_start(&mut self, key: JobKey, fault: Fault, code: u8) {
        self.set_exit(key, Exit { code: Some(code), cause: Cause::Exited });
        self.settle(key, None);
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        let followers = std::mem::take(&mut job.followers);
        let reply = vestal_wire::Reply::Fault(fault);
        for follower in followers {
            self.conns.reply(follower.to, &reply);
        }
    }
}

/// Where a command can start.
struct Directories<'a> {
    home: &'a [u8],
    start_dir: &'a [u8],
    /// The session's own; empty if it has none.
    session: &'a [u8],
}

impl Directories<'_> {
    /// Returns the directory to start in, and those to try in its place, the
    /// best one last.
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

fn load_session(path: &Path) -> Result<SavedSession, Fault> {
    SavedSession::load(path).map(Option::unwrap_or_default).map_err(|error| {
        Fault::new(FaultCode::System, format!("the session's state cannot be read: {error}"))
    })
}

/// Returns a job's own environment with the marks that every process of it has.
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

/// Makes both ends of a job's standard streams and keeps ours. What the job gets
/// belongs to its user, who could not open it again by name otherwise, as
/// `/dev/stdout` or by the name of the terminal.
fn make_ends(live: &mut Live, owner: Option<Uid>) -> io::Result<ChildEnds> {
    let Some(Plan { start, .. }) = live.plan.as_deref() else {
        return Err(io::ErrorKind::NotFound.into());
    };
    if let Some(size) = start.pty {
        let (master, slave) = open_pty(size)?;
        rustix::io::ioctl_fionbio(&master, true)?;
        give(&slave, owner)?;
        live.stdin.connect_terminal(master.try_clone()?);
        live.outlets = [Some(Outlet::new(master, OutletKind::Terminal)), None];
        let (stdin, stdout) = (slave.try_clone()?, slave.try_clone()?);
        return Ok(ChildEnds { stdin, stdout, stderr: slave });
    }
    let stdin = make_stdin(start, owner)?;
    let (ours, stdout) = output_pipe(owner)?;
    let (second, stderr) = if start.merge {
        (None, stdout.try_clone()?)
    } else {
        let (ours, theirs) = output_pipe(owner)?;
        (Some(Outlet::new(ours, OutletKind::Pipe)), theirs)
    };
    live.outlets = [Some(Outlet::new(ours, OutletKind::Pipe)), second];
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
            give(&theirs, owner)?;
            Ok((Some(ours), theirs))
        }
    }
}

fn output_pipe(owner: Option<Uid>) -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(ours.as_fd(), true)?;
    give(&theirs, owner)?;
    Ok((ours, theirs))
}

/// Makes a job's end of a stream its user's.
fn give(end: &OwnedFd, owner: Option<Uid>) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(session: &str, workdir: Option<&str>) -> (String, Vec<String>) {
        let places = Directories {
            home: b"/home/me",
            start_dir: b"/workspace",
            session: session.as_bytes(),
        };
        let text = |path: Vec<u8>| String::from_utf8(path).unwrap();
        let (cwd, fallbacks) = places.choose(workdir.map(str::as_bytes));
        (text(cwd), fallbacks.into_iter().map(text).collect())
    }

    #[test]
    fn a_command_starts_where_it_is_told_else_where_its_session_is_else_at_the_start() {
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
