//! The event loop.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SocketFlags;
use vestal_wire::GuestSettings;
use vestal_wire::limits::MAX_DATA;

use super::boot::{GuestIdentity, SocketFile};
use super::connection::ConnectionState;
use super::connections::{HostConnections, MAX_CONNECTIONS};
use super::jobs::Jobs;
use super::launch::SupervisorPool;
use super::lifetime::{STOP_GRACE, Shutdown};
use super::reactor::{
    ConnectionId, GuestSignal, JobKey, PollToken, Poller, Ready, Signals, Timer, Timers,
};
use super::workers::{Mailbox, Workers};
use crate::process::JobRights;
use crate::session::Sessions;

/// How long the pool may be without an idle supervisor. Most commands end earlier
/// and return theirs.
const SPARE_AFTER: Duration = Duration::from_millis(20);

/// How long to wait before accepting connections again when there are no
/// descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);

/// Interval at which the guest checks whether its socket still exists. Tests wait
/// for it.
const CHECK_SOCKET_EVERY: Duration =
    Duration::from_secs(if cfg!(feature = "failpoints") { 1 } else { 20 });

/// The state of the guest.
pub(super) struct Guest {
    pub(super) settings: GuestSettings,
    pub(super) identity: GuestIdentity,
    pub(super) poller: Poller,
    pub(super) listener: OwnedFd,
    socket_file: SocketFile,
    pub(super) signals: Signals,
    pub(super) connections: HostConnections,
    pub(super) jobs: Jobs,
    pub(super) sessions: Sessions,
    pub(super) pool: SupervisorPool,
    pub(super) timers: Timers,
    pub(super) workers: Workers,
    pub(super) mailbox: Arc<Mailbox>,
    /// Jobs whose followers and waiters are served at the end of this turn.
    pub(super) pumps: Vec<JobKey>,
    /// Jobs whose session is saved after their exit code was sent.
    pub(super) saves: Vec<JobKey>,
    /// When the guest ends because no owner is connected.
    pub(super) owner_deadline: Option<Instant>,
    pub(super) shutdown: Option<Shutdown>,
    /// Whether a worker is killing orphans.
    pub(super) killing_orphans: bool,
    /// Orphans that the guest may not kill.
    pub(super) unkillable: Vec<u32>,
    /// Buffer for output.
    pub(super) buf: Box<[u8]>,
    spare_due: bool,
}

impl Guest {
    pub(super) fn new(parts: GuestParts) -> io::Result<Self> {
        let GuestParts {
            settings,
            rights,
            identity,
            listener,
            socket_file,
            signals,
            connections,
            jobs,
            sessions,
        } = parts;
        let poller = Poller::new()?;
        let mailbox = Arc::new(Mailbox::new()?);
        poller.add(&listener, PollToken::Listener, Ready::IN)?;
        poller.add(signals.fd(), PollToken::Signals, Ready::IN)?;
        poller.add(mailbox.wakeup(), PollToken::Workers, Ready::IN)?;
        let owner_deadline = settings.owner_grace_ms.and_then(after_millis);
        Ok(Self {
            settings,
            identity,
            poller,
            listener,
            socket_file,
            signals,
            connections,
            jobs,
            sessions,
            workers: Workers::new(rights.credentials.clone()),
            pool: SupervisorPool::new(rights),
            timers: Timers::default(),
            mailbox,
            pumps: Vec::new(),
            saves: Vec::new(),
            owner_deadline,
            shutdown: None,
            killing_orphans: false,
            unkillable: Vec::new(),
            buf: vec![0; MAX_DATA].into_boxed_slice(),
            spare_due: false,
        })
    }

    /// Serves until the guest ends and all processes of jobs are gone.
    pub(super) fn run(&mut self) -> io::Result<()> {
        let mut events = Vec::with_capacity(64);
        self.want_spare();
        self.timers.set(CHECK_SOCKET_EVERY, Timer::CheckSocket);
        loop {
            self.poller.wait(&mut events, self.time_left())?;
            for event in &events {
                let (data, ready) = (event.data, event.flags);
                self.handle(PollToken::from_bits(data.u64()), ready);
            }
            self.run_timers();
            self.pump_queued();
            self.flush();
            self.save_sessions();
            if self.shutdown_step() {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, token: PollToken, ready: Ready) {
        match token {
            PollToken::Listener => self.accept(),
            PollToken::Signals => self.take_signals(),
            PollToken::Workers => self.take_worker_messages(),
            PollToken::Connection(id) => {
                if ready.contains(Ready::OUT) {
                    self.connections.mark_dirty(id);
                }
                if ready.intersects(Ready::IN | Ready::HUP | Ready::ERR) {
                    self.read_connection(id);
                }
            }
            PollToken::Supervisor(id) => self.read_reports(id),
            PollToken::Output(job, stream) => self.read_output(job, stream),
            PollToken::Input(job) => self.write_input(job),
        }
    }

    /// Returns how long to wait for events.
    fn time_left(&self) -> Option<Duration> {
        if !self.pumps.is_empty() {
            return Some(Duration::ZERO);
        }
        let ending = self.shutdown.as_ref().map(Shutdown::next_step);
        let idle = if ending.is_none() { self.connections.clock.ends_at() } else { None };
        let owner = if ending.is_none() { self.owner_deadline } else { None };
        let next = [self.timers.next_at(), ending, idle, owner].into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }

    /// Ends a guest that cannot be found any more, if nobody is connected and no
    /// job runs.
    fn check_socket(&mut self) {
        let lonely =
            self.connections.ids().is_empty() && self.connections.clock.jobs_running() == 0;
        if lonely && !self.socket_file.is_open() {
            crate::diagnostics::note(
                "the socket is gone and no client is connected; shutting down",
            );
            self.begin_shutdown(STOP_GRACE);
        } else {
            self.timers.set(CHECK_SOCKET_EVERY, Timer::CheckSocket);
        }
    }

    fn run_timers(&mut self) {
        let now = Instant::now();
        while let Some(timer) = self.timers.pop(now) {
            match timer {
                Timer::JobTimeout(job) => self.time_out(job),
                Timer::WaitOver(caller) => self.wait_is_over(caller),
                Timer::Spare => self.add_spare(),
                Timer::ReapOrphans => self.reap_orphans(),
                Timer::CheckSocket => self.check_socket(),
                Timer::Accept => {
                    self.poller.add(&self.listener, PollToken::Listener, Ready::IN).ok();
                }
            }
        }
        let is_over = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.shutdown.is_none()
            && (is_over(self.connections.clock.ends_at()) || is_over(self.owner_deadline))
        {
            self.begin_shutdown(STOP_GRACE);
        }
    }

    fn take_signals(&mut self) {
        while let Some(signal) = self.signals.next() {
            match signal {
                GuestSignal::Child => self.reap_orphans(),
                GuestSignal::Stop => self.begin_shutdown(STOP_GRACE),
            }
        }
    }

    fn accept(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        loop {
            let fd = match rustix::net::accept_with(&self.listener, flags) {
                Ok(fd) => fd,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    // The caller stays in the queue; polling would only spin.
                    self.poller.remove(&self.listener);
                    self.timers.set(ACCEPT_AGAIN, Timer::Accept);
                    return;
                }
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(_) => return,
            };
            if self.connections.len() >= MAX_CONNECTIONS {
                continue;
            }
            let id = self.connections.insert(fd);
            let Some(conn) = self.connections.get_mut(id) else {
                continue;
            };
            if self.poller.add(conn.fd(), PollToken::Connection(id), Ready::IN).is_err() {
                self.connections.remove(id);
            }
        }
    }

    /// Writes queued frames and closes connections.
    pub(super) fn flush(&mut self) {
        for id in self.connections.take_dirty() {
            let Some(conn) = self.connections.get_mut(id) else {
                continue;
            };
            let relieved = conn.flush();
            let blocked = conn.is_blocked();
            if conn.state == ConnectionState::Closing || relieved.is_err() {
                self.drop_connection(id);
                continue;
            }
            if blocked != conn.awaits_room {
                conn.awaits_room = blocked;
                let ready = if blocked { Ready::IN | Ready::OUT } else { Ready::IN };
                // It fails only without memory; the next event tries again.
                self.poller.modify(conn.fd(), PollToken::Connection(id), ready).ok();
            }
            if matches!(relieved, Ok(true)) {
                self.resume_output(id);
            }
        }
    }

    /// Continues output that was held back because the host did not read.
    fn resume_output(&mut self, id: ConnectionId) {
        let Some(conn) = self.connections.get_mut(id) else {
            return;
        };
        let jobs: Vec<JobKey> = conn.followed().collect();
        let files: Vec<u32> = conn.open_files().collect();
        for job in jobs {
            self.queue_pump(job);
        }
        for channel in files {
            self.advance_file(super::reactor::ChannelId { conn: id, channel });
        }
    }

    /// Schedules a job's followers and waiters to be served at the end of this
    /// turn.
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

    /// Schedules a spare supervisor, unless one becomes idle before.
    pub(super) fn want_spare(&mut self) {
        if !self.pool.has_spare() && !std::mem::replace(&mut self.spare_due, true) {
            self.timers.set(SPARE_AFTER, Timer::Spare);
        }
    }

    fn add_spare(&mut self) {
        self.spare_due = false;
        if !self.pool.has_spare() && self.shutdown.is_none() {
            // Without a spare, the next command starts its own supervisor or
            // reports the failure.
            self.pool.add_spare(&self.poller).ok();
        }
    }
}

pub(super) struct GuestParts {
    pub(super) settings: GuestSettings,
    pub(super) rights: JobRights,
    pub(super) identity: GuestIdentity,
    pub(super) listener: OwnedFd,
    pub(super) socket_file: SocketFile,
    pub(super) signals: Signals,
    pub(super) connections: HostConnections,
    pub(super) jobs: Jobs,
    pub(super) sessions: Sessions,
}

/// Returns the instant that many milliseconds from now.
pub(super) fn after_millis(millis: u64) -> Option<Instant> {
    Instant::now().checked_add(Duration::from_millis(millis))
}
