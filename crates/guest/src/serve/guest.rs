//! The event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SocketFlags;
use vestal_wire::GuestSettings;
use vestal_wire::limits::MAX_DATA;

use super::conn::ConnState;
use super::conns::{Conns, MAX_CONNECTIONS};
use super::identity::{Door, Identity};
use super::ids::{ConnId, JobKey, Token};
use super::jobs::Jobs;
use super::poll::{Poller, Ready};
use super::pool::Pool;
use super::sessions::Sessions;
use super::shutdown::{Ending, STOP_GRACE};
use super::signals::{Signal, Signals};
use super::timers::{Timer, Timers};
use super::workers::{Mailbox, Workers};
use crate::process::Standing;

/// How long the pool may be without an idle supervisor. Most commands are over
/// before, and hand theirs back.
const SPARE_AFTER: Duration = Duration::from_millis(20);

/// How long new connections wait when there is no descriptor for them.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Time between two looks at whether anybody can still find the guest. Tests
/// wait for it.
const LOOK_AT_DOOR: Duration =
    Duration::from_secs(if cfg!(feature = "failpoints") { 1 } else { 20 });

/// Everything the guest has.
pub(super) struct Guest {
    pub(super) settings: GuestSettings,
    pub(super) identity: Identity,
    pub(super) poller: Poller,
    pub(super) listener: OwnedFd,
    door: Door,
    pub(super) signals: Signals,
    pub(super) conns: Conns,
    pub(super) jobs: Jobs,
    pub(super) sessions: Sessions,
    pub(super) pool: Pool,
    pub(super) timers: Timers,
    pub(super) workers: Workers,
    pub(super) mailbox: Arc<Mailbox>,
    /// Jobs whose followers and watchers are to be served this turn.
    pub(super) pumps: Vec<JobKey>,
    /// Jobs whose session is to be saved when their exit code has been told.
    pub(super) saves: Vec<JobKey>,
    /// When the guest ends for want of an owner.
    pub(super) owner_deadline: Option<Instant>,
    pub(super) ending: Option<Ending>,
    /// Orphans are being killed on another thread.
    pub(super) burying: bool,
    /// Orphans that the guest may not kill.
    pub(super) spared: Vec<u32>,
    /// Room for bytes on their way through.
    pub(super) buf: Box<[u8]>,
    spare_due: bool,
}

impl Guest {
    pub(super) fn new(parts: Parts) -> io::Result<Self> {
        let Parts { settings, standing, identity, listener, door, signals, conns, jobs, sessions } =
            parts;
        let poller = Poller::new()?;
        let mailbox = Arc::new(Mailbox::new()?);
        poller.add(&listener, Token::Listener, Ready::IN)?;
        poller.add(signals.fd(), Token::Signals, Ready::IN)?;
        poller.add(mailbox.bell(), Token::Workers, Ready::IN)?;
        let owner_deadline = settings.owner_grace_ms.and_then(after_millis);
        Ok(Self {
            settings,
            identity,
            poller,
            listener,
            door,
            signals,
            conns,
            jobs,
            sessions,
            workers: Workers::new(standing.credentials.clone()),
            pool: Pool::new(standing),
            timers: Timers::default(),
            mailbox,
            pumps: Vec::new(),
            saves: Vec::new(),
            owner_deadline,
            ending: None,
            burying: false,
            spared: Vec::new(),
            buf: vec![0; MAX_DATA].into_boxed_slice(),
            spare_due: false,
        })
    }

    /// Serves until the guest is to end and every job's processes are gone.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        self.want_spare();
        self.timers.set(LOOK_AT_DOOR, Timer::Door);
        loop {
            self.poller.wait(&mut events, self.time_left())?;
            for event in &events {
                let (data, ready) = (event.data, event.flags);
                self.handle(Token::from_bits(data.u64()), ready);
            }
            self.run_timers();
            self.pump_queued();
            self.flush();
            self.save_sessions();
            if self.end_step() {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, token: Token, ready: Ready) {
        match token {
            Token::Listener => self.accept(),
            Token::Signals => self.take_signals(),
            Token::Workers => self.take_letters(),
            Token::Conn(id) => {
                if ready.contains(Ready::OUT) {
                    self.conns.mark_dirty(id);
                }
                if ready.intersects(Ready::IN | Ready::HUP | Ready::ERR) {
                    self.read_conn(id);
                }
            }
            Token::Supervisor(id) => self.read_reports(id),
            Token::Output(job, stream) => self.read_output(job, stream),
            Token::Input(job) => self.write_input(job),
        }
    }

    /// Returns how long to wait for events.
    fn time_left(&self) -> Option<Duration> {
        if !self.pumps.is_empty() {
            return Some(Duration::ZERO);
        }
        let ending = self.ending.as_ref().map(Ending::next_step);
        let idle = if ending.is_none() { self.conns.clock.ends_at() } else { None };
        let owner = if ending.is_none() { self.owner_deadline } else { None };
        let next = [self.timers.next_at(), ending, idle, owner].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Ends a guest that nobody can find any more, once nobody is with it and
    /// nothing runs: it would stay for nothing.
    fn look_at_door(&mut self) {
        let lonely = self.conns.ids().is_empty() && self.conns.clock.jobs_running() == 0;
        if lonely && !self.door.is_open() {
            crate::diagnostics::note("the socket is gone and nobody is here; ending");
            self.begin_end(STOP_GRACE);
        } else {
            self.timers.set(LOOK_AT_DOOR, Timer::Door);
        }
    }

    fn run_timers(&mut self) {
        let now = Instant::now();
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::JobTimeout(job) => self.time_out(job),
                Timer::WaitOver(caller) => self.wait_is_over(caller),
                Timer::Spare => self.add_spare(),
                Timer::Sweep => self.sweep(),
                Timer::Door => self.look_at_door(),
                Timer::Accept => {
                    self.poller.add(&self.listener, Token::Listener, Ready::IN).ok();
                }
            }
        }
        let is_over = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.ending.is_none()
            && (is_over(self.conns.clock.ends_at()) || is_over(self.owner_deadline))
        {
            self.begin_end(STOP_GRACE);
        }
    }

    fn take_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                Signal::Child => self.sweep(),
                Signal::Stop => self.begin_end(STOP_GRACE),
            }
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let fd = match rustix::net::accept_with(&self.listener, flags) {
                Ok(fd) => fd,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    // The caller stays in the queue; polling on would only spin.
                    self.poller.remove(&self.listener);
                    self.timers.set(ACCEPT_AGAIN, Timer::Accept);
                    return;
                }
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => return,
            };
            if self.conns.len() >= MAX_CONNECTIONS {
                continue;
            }
            let id = self.conns.insert(fd);
            let Some(conn) = self.conns.get_mut(id) else {
                continue;
            };
            if self.poller.add(conn.fd(), Token::Conn(id), Ready::IN).is_err() {
                self.conns.remove(id);
            }
        }
    }

    /// Writes what is waiting, and closes what is to be closed.
    pub(super) fn flush(&mut self) {
        for id in self.conns.take_dirty() {
            let Some(conn) = self.conns.get_mut(id) else {
                continue;
            };
            let relieved = conn.flush();
            let blocked = conn.is_blocked();
            if conn.state == ConnState::Closing || relieved.is_err() {
                self.drop_conn(id);
                continue;
            }
            if blocked != conn.awaits_room {
                conn.awaits_room = blocked;
                let ready = if blocked { Ready::IN | Ready::OUT } else { Ready::IN };
                // It can only fail for want of memory; the next event tries again.
                self.poller.modify(conn.fd(), Token::Conn(id), ready).ok();
            }
            if matches!(relieved, Ok(true)) {
                self.resume_output(id);
            }
        }
    }

    /// Goes on with output that was held back because the host did not read.
    fn resume_output(&mut self, id: ConnId) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let jobs: Vec<JobKey> = conn.followed().collect();
        let files: Vec<u32> = conn.open_files().collect();
        for job in jobs {
            self.queue_pump(job);
        }
        for channel in files {
            self.advance_file(super::ids::Address { conn: id, channel });
        }
    }

    /// Has a job's followers and watchers served at the end of this turn.
    pub(super) fn queue_pump(&mut self, key: JobKey) {
        if let Some(job) = self.jobs.get_mut(key)
            && !std::mem::replace(&mut job.queued, true)
        {
            self.pumps.push(key);
        }
    }

    pub(super) fn pump_queued(&mut self) {
        for key in std::mem::take(&mut self.pumps) {
            if let Some(job) = self.jobs.get_mut(key) {
                job.queued = false;
            }
            self.pump(key);
        }
    }

    /// Has a spare supervisor made soon, unless one comes back before.
    pub(super) fn want_spare(&mut self) {
        if !self.pool.has_spare() && !std::mem::replace(&mut self.spare_due, true) {
            self.timers.set(SPARE_AFTER, Timer::Spare);
        }
    }

    fn add_spare(&mut self) {
        self.spare_due = false;
        if !self.pool.has_spare() && self.ending.is_none() {
            // Without a spare the next command makes its own, or says why not.
            self.pool.add_spare(&self.poller).ok();
        }
    }
}

/// What a guest is put together from.
pub(super) struct Parts {
    pub(super) settings: GuestSettings,
    pub(super) standing: Standing,
    pub(super) identity: Identity,
    pub(super) listener: OwnedFd,
    pub(super) door: Door,
    pub(super) signals: Signals,
    pub(super) conns: Conns,
    pub(super) jobs: Jobs,
    pub(super) sessions: Sessions,
}

/// Returns the moment that many milliseconds from now.
pub(super) fn after_millis(millis: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_millis(millis))
}
