//! Starts and follows jobs.

use minicbor::bytes::ByteVec;
use vestal_wire::limits::{MAX_SUMMARY, WINDOW};
use vestal_wire::{
    AttachJob, CallEvent, CallReply, EnvVar, FaultCode, JobCommand, JobInfo, JobState,
    OutputDelivery, SessionState, ShellText, StartJob, Stream,
};

use super::connections::{Feeds, OpenCall};
use super::guest::Guest;
use super::jobs::{LaunchPlan, LiveJob};
use super::lifetime::{CallKind, wall_ms};
use super::output::{FollowUntil, Follower};
use super::reactor::{ChannelId, JobKey};
use crate::failpoint::failpoint;
use crate::log::LogStream;
use crate::process::LaunchCommand;
use crate::session::is_valid_name;

/// Longest shell text.
const MAX_TEXT: usize = 256 << 20;

/// Longest path of a directory.
const MAX_PATH: usize = 4096;

impl Guest {
    /// Handles a start request: at once, or when its text has arrived.
    pub(super) fn start(&mut self, at: ChannelId, kind: CallKind, mut start: StartJob) {
        if let Err(message) = check(&start) {
            return self.connections.fault(at, FaultCode::Invalid, message);
        }
        let command = match &mut start.command {
            JobCommand::Shell(ShellText::Streamed) => {
                let call = OpenCall::Text(Box::new(start), Vec::new());
                return self.connections.open(at, call, kind);
            }
            JobCommand::Shell(ShellText::Inline(text)) => {
                LaunchCommand::Shell(std::mem::take(&mut **text))
            }
            JobCommand::Argv(argv) => LaunchCommand::Argv(std::mem::take(argv)),
        };
        self.begin(at, kind, start, command);
    }

    /// Receives a piece of shell text.
    pub(super) fn take_text(&mut self, at: ChannelId, bytes: &[u8]) {
        let Some(channel) = self.connections.channel(at) else {
            return;
        };
        let OpenCall::Text(_, text) = &mut channel.call else {
            return;
        };
        if text.len() + bytes.len() > MAX_TEXT {
            let message = format!("shell text may be at most {MAX_TEXT} bytes long");
            return self.connections.fault(at, FaultCode::NoSpace, message);
        }
        if text.len() + bytes.len() > WINDOW as usize && text.capacity() < MAX_TEXT / 8 {
            text.reserve(text.len());
        }
        text.extend_from_slice(bytes);
        self.connections.taken(at, Stream::Text, bytes.len());
    }

    /// Starts a job whose text has arrived.
    pub(super) fn start_with_text(&mut self, at: ChannelId) {
        let Some(conn) = self.connections.get_mut(at.conn) else {
            return;
        };
        let Some(channel) = conn.channels.get_mut(&at.channel) else {
            return;
        };
        let kind = channel.kind;
        if let OpenCall::Text(start, text) = std::mem::replace(&mut channel.call, OpenCall::Work) {
            self.begin(at, kind, *start, LaunchCommand::Shell(text));
        }
    }

    /// Records and launches a job, or follows the existing job with its id.
    fn begin(&mut self, at: ChannelId, kind: CallKind, start: StartJob, command: LaunchCommand) {
        if let Some(key) = self.jobs.find(&start.id) {
            let follower = Follower::new(at, start.delivery, [0, 0], FollowUntil::JobEnd);
            return self.follow(key, kind, follower, Feeds::Nothing);
        }
        if self.shutdown.is_some() {
            return self.connections.fault(
                at,
                FaultCode::ShuttingDown,
                "the guest is shutting down",
            );
        }
        failpoint!("guest.job.before-journal");
        let info = describe(&start, &command);
        let (session, delivery) = (start.session.clone(), start.delivery);
        let plan = LaunchPlan {
            start,
            command,
            fallbacks: Vec::new(),
            vanished: None,
            damaged_session: None,
        };
        let live = Box::new(LiveJob::new(Box::new(plan)));
        let feeds = if live.stdin.is_open() { Feeds::Input } else { Feeds::Nothing };
        let key = match self.jobs.admit(info, live) {
            Ok(key) => key,
            Err(fault) => return self.connections.reply(at, &CallReply::Fault(fault)),
        };
        failpoint!("guest.job.after-journal");
        self.connections.clock.job_began();
        self.follow(key, kind, Follower::new(at, delivery, [0, 0], FollowUntil::JobEnd), feeds);
        if !session.is_some_and(|name| self.sessions.wait(&name, key)) {
            self.launch(key);
        }
    }

    /// Follows a job that is on record.
    pub(super) fn attach(&mut self, at: ChannelId, kind: CallKind, attach: &AttachJob) {
        let Some(key) = self.job_or_fault(at, &attach.id) else {
            return;
        };
        let until_when = if attach.follow { FollowUntil::JobEnd } else { FollowUntil::Now };
        let from = [attach.stdout_from, attach.stderr_from];
        let follower = Follower::new(at, attach.delivery, from, until_when);
        self.follow(key, kind, follower, Feeds::Nothing);
    }

    fn follow(&mut self, key: JobKey, kind: CallKind, mut follower: Follower, feeds: Feeds) {
        let at = follower.to;
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        if follower.stops_now() {
            follower.set_ends(LogStream::ALL.map(|stream| job.log.stream(stream).total()));
        } else if let Some(ends) = job.ends() {
            follower.set_ends(ends);
        }
        let detached = matches!(follower.delivery, OutputDelivery::Detached);
        let begun = !matches!(job.record.state, JobState::Starting);
        let pid = job.record.pid.filter(|_| begun);
        let answer = (detached && begun).then(|| CallReply::Job(Box::new(job.info())));
        if answer.is_none() {
            job.followers.push(follower);
        }
        match self.connections.channel(at) {
            // The channel is already open for the text.
            Some(channel) => channel.call = OpenCall::Follow(key, feeds),
            None => self.connections.open(at, OpenCall::Follow(key, feeds), kind),
        }
        if let Some(pid) = pid {
            self.connections.event(at, &CallEvent::Started { pid });
        }
        match answer {
            Some(answer) => self.connections.reply(at, &answer),
            None => self.queue_pump(key),
        }
    }

    /// Removes a follower. The input of a foreground job ends with the caller
    /// that fed it: no other caller knows how much was read.
    pub(super) fn unfollow(&mut self, key: JobKey, at: ChannelId, feeds: Feeds) {
        let Some(job) = self.jobs.get_mut(key) else {
            return;
        };
        job.followers.retain(|follower| follower.to != at);
        let ends_input = feeds == Feeds::Input && !job.record.background && !job.record.pty;
        if ends_input && let Some(live) = job.live.as_mut() {
            live.stdin.push_done(at, true);
            self.write_input(key);
        }
        self.queue_pump(key);
    }
}

/// Describes a job that is about to start.
fn describe(start: &StartJob, command: &LaunchCommand) -> JobInfo {
    JobInfo {
        id: start.id.clone(),
        state: JobState::Starting,
        summary: summary(command),
        session: start.session.clone(),
        cwd: start.workdir.clone().unwrap_or_else(|| ByteVec::from(Vec::new())),
        background: start.background,
        pty: start.pty.is_some(),
        pid: None,
        pid_start: None,
        started_ms: wall_ms(),
        ended_ms: None,
        stdout_bytes: 0,
        stderr_bytes: 0,
        stdout_omitted: 0,
        stderr_omitted: 0,
        processes: 0,
        stdin_open: false,
        session_state: SessionState::None,
        duration_us: None,
        session_error: None,
    }
}

/// Returns the start of a command, for listings.
fn summary(command: &LaunchCommand) -> String {
    let mut bytes = Vec::with_capacity(MAX_SUMMARY);
    match command {
        LaunchCommand::Shell(text) => bytes.extend(text.iter().take(MAX_SUMMARY)),
        LaunchCommand::Argv(argv) => {
            for (i, argument) in argv.iter().enumerate() {
                if bytes.len() > MAX_SUMMARY {
                    break;
                }
                bytes.extend((i > 0).then_some(b' '));
                bytes.extend(argument.iter().take(MAX_SUMMARY));
            }
        }
    }
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    text.truncate(text.floor_char_boundary(MAX_SUMMARY));
    text
}

/// Checks a start request.
fn check(start: &StartJob) -> Result<(), &'static str> {
    if start.session.as_deref().is_some_and(|name| !is_valid_name(name)) {
        return Err("the session name is not valid");
    }
    if let JobCommand::Argv(argv) = &start.command {
        if argv.is_empty() {
            return Err("there is no program to run");
        }
        if argv.iter().any(|argument| argument.contains(&0)) {
            return Err("an argument contains a NUL byte");
        }
    }
    for path in [&start.workdir, &start.start_dir].into_iter().flatten() {
        if path.is_empty() || path.len() >= MAX_PATH || path.contains(&0) {
            return Err("the path of the directory is not valid");
        }
    }
    let fits = |var: &EnvVar| {
        !var.name.is_empty()
            && !var.name.iter().any(|byte| matches!(byte, 0 | b'='))
            && !var.value.contains(&0)
    };
    if !start.env.iter().flatten().chain(&start.job_env).all(fits) {
        return Err("an environment variable has no name or contains a NUL byte");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_short_and_text_whatever_the_command_is() {
        let argv =
            LaunchCommand::Argv(["ls", "-l", "a b"].map(|s| s.as_bytes().to_vec().into()).into());
        assert_eq!(summary(&argv), "ls -l a b");
        let long = summary(&LaunchCommand::Shell("\u{00e4}".repeat(1000).into_bytes()));
        assert!(long.len() <= MAX_SUMMARY);
        assert!(summary(&LaunchCommand::Shell(vec![0xff; 1000])).len() <= MAX_SUMMARY);
    }
}
