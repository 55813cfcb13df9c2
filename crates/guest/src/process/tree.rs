//! Process trees: finds, stops, kills and reaps all processes of one.

#![expect(unsafe_code, reason = "waiting for any child is not offered for good reason elsewhere")]

use std::collections::HashSet;
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::process::{Pid, PidfdFlags, Signal};

use super::protocol::WaitStatus;

/// How long a growing tree is stopped before the processes found so far are
/// killed.
const SETTLING: Duration = Duration::from_secs(5);

/// How long the supervisor kills and reaps in one call. Processes that survive
/// longer sleep uninterruptibly or belong to another user.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Longest pause between two rounds of killing.
const PAUSE: Duration = Duration::from_millis(20);

/// Kills the processes `roots` and all their descendants. Returns the roots that
/// this thread may not kill.
///
/// The caller must be sure that the pids are the intended processes. Their parent
/// learns by reaping whether they are gone.
pub fn kill_tree(roots: &[u32]) -> Vec<u32> {
    let mut freeze = Freeze::below(roots.iter().filter_map(|pid| to_pid(*pid)));
    freeze.settle();
    let refused = freeze.kill();
    roots
        .iter()
        .copied()
        .filter(|root| to_pid(*root).is_some_and(|p| refused.contains(&p)))
        .collect()
}

/// Returns the living descendants of a process, without the process itself and
/// without zombies.
pub fn descendants(root: u32) -> Vec<u32> {
    let Some(root) = to_pid(root) else {
        return Vec::new();
    };
    let mut found = HashSet::new();
    let mut pending = children(root);
    while let Some(pid) = pending.pop() {
        if found.insert(pid) {
            pending.extend(children(pid));
        }
    }
    let living = found.into_iter().filter(|pid| {
        ProcessStat::read(*pid).is_some_and(|stat| !matches!(stat.state, b'Z' | b'X'))
    });
    living.map(|pid| pid.as_raw_nonzero().get().unsigned_abs()).collect()
}

/// Returns the start time of a process in clock ticks since boot.
pub fn start_time(pid: u32) -> Option<u64> {
    ProcessStat::read(to_pid(pid)?).map(|stat| stat.start_time)
}

pub(super) fn to_pid(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

/// Stops a tree, process by process, until all of it is stopped.
///
/// A stopped process neither forks nor reaps. So a pass that finds no new process
/// has found all of them, and their pids stay valid until one is killed.
pub(super) struct Freeze {
    /// Processes the walk starts from.
    roots: Vec<Pid>,
    /// A process whose descendants are stopped, but not itself: the supervisor.
    spared: Option<Pid>,
    stopped: HashSet<Pid>,
}

impl Freeze {
    /// Prepares to stop `roots` and their descendants.
    pub(super) fn below(roots: impl Iterator<Item = Pid>) -> Self {
        let own = rustix::process::getpid();
        let roots = roots.filter(|pid| *pid != own).collect();
        Self { roots, spared: None, stopped: HashSet::new() }
    }

    /// Prepares to stop the descendants of this process.
    fn below_self() -> Self {
        let own = rustix::process::getpid();
        Self { roots: vec![own], spared: Some(own), stopped: HashSet::new() }
    }

    /// Stops the tree until a pass finds nothing new, or the time is up.
    pub(super) fn settle(&mut self) {
        let deadline = Instant::now() + SETTLING;
        while self.pass() > 0 && Instant::now() < deadline {}
    }

    /// Kills all processes found, and returns those it may not kill. Ignores
    /// processes that are gone.
    pub(super) fn kill(&self) -> Vec<Pid> {
        self.send(Signal::KILL)
    }

    /// Sends a signal to all processes found, and returns those it may not send it to.
    fn send(&self, signal: Signal) -> Vec<Pid> {
        let sent = |pid: &Pid| rustix::process::kill_process(*pid, signal);
        let refused = |pid: &Pid| sent(pid) == Err(rustix::io::Errno::PERM);
        self.stopped.iter().copied().filter(refused).collect()
    }

    /// Walks the tree once and returns the number of new processes.
    fn pass(&mut self) -> usize {
        let mut visited = HashSet::new();
        let mut pending: Vec<(Pid, Option<Pid>)> =
            self.roots.iter().map(|root| (*root, None)).collect();
        let mut new = 0;
        while let Some((pid, parent)) = pending.pop() {
            if !visited.insert(pid) {
                continue;
            }
            if self.spared != Some(pid) && !self.stopped.contains(&pid) {
                if !self.stop(pid, parent) {
                    continue;
                }
                new += 1;
            }
            pending.extend(children(pid).into_iter().map(|child| (child, Some(pid))));
        }
        new
    }

    /// Stops one process and the group it leads. Returns whether it belongs to
    /// the tree.
    fn stop(&mut self, pid: Pid, parent: Option<Pid>) -> bool {
        // Between listing the children and acting on one, the child may have
        // ended and its pid may be reused. A pidfd pins the process; its parent
        // then shows whether it is the right one.
        let pinned = rustix::process::pidfd_open(pid, PidfdFlags::empty());
        let Some(stat) = ProcessStat::read(pid) else {
            return false;
        };
        if parent.is_some() && !self.is_ours(stat.parent) {
            return false;
        }
        let stopped = match pinned {
            Ok(pidfd) => rustix::process::pidfd_send_signal(&pidfd, Signal::STOP),
            Err(rustix::io::Errno::SRCH) => return false,
            // Without pidfds the check above must suffice.
            Err(_) => rustix::process::kill_process(pid, Signal::STOP),
        };
        if stopped == Err(rustix::io::Errno::SRCH) {
            return false;
        }
        self.stopped.insert(pid);
        if stat.group == Some(pid) {
            // All members of the group descend from the tree: a group never
            // crosses sessions, and a leader outside our session created its own.
            rustix::process::kill_process_group(pid, Signal::STOP).ok();
        }
        true
    }

    fn is_ours(&self, parent: Option<Pid>) -> bool {
        parent.is_some_and(|parent| {
            self.roots.contains(&parent)
                || self.stopped.contains(&parent)
                // Orphans of a tree below this process become its children.
                || self.spared == Some(parent)
                || parent == rustix::process::getpid()
        })
    }
}

/// The fields of `/proc/<pid>/stat` that matter here.
struct ProcessStat {
    state: u8,
    parent: Option<Pid>,
    group: Option<Pid>,
    start_time: u64,
}

impl ProcessStat {
    fn read(pid: Pid) -> Option<Self> {
        let line = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        Self::parse(&line)
    }

    fn parse(line: &[u8]) -> Option<Self> {
        // The second field is the program's name in parentheses, which may
        // contain blanks and parentheses. The other fields follow the last one.
        let after = line.iter().rposition(|byte| *byte == b')')? + 1;
        let rest = std::str::from_utf8(line.get(after..)?).ok()?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let pid_at = |index: usize| fields.get(index)?.parse().ok().and_then(Pid::from_raw);
        Some(Self {
            state: *fields.first()?.as_bytes().first()?,
            parent: pid_at(1),
            group: pid_at(2),
            start_time: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Returns the children of all threads of a process.
fn children(pid: Pid) -> Vec<Pid> {
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let Ok(entries) = fs::read_dir(&tasks) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for thread in entries.flatten() {
        match fs::read_to_string(thread.path().join("children")) {
            Ok(list) => found.extend(parse_pids(&list)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Either the thread has just ended, or the kernel was built
                // without these lists.
                if !fs::exists("/proc/thread-self/children").unwrap_or(true) {
                    return children_by_scan(pid);
                }
            }
            Err(_) => {}
        }
    }
    found
}

/// Returns the children of a process by scanning all processes.
fn children_by_scan(parent: Pid) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
    pids.filter(|pid| ProcessStat::read(*pid).is_some_and(|stat| stat.parent == Some(parent)))
        .collect()
}

fn parse_pids(list: &str) -> impl Iterator<Item = Pid> + '_ {
    list.split_ascii_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw))
}

/// What is left below the supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Remaining {
    /// Nothing: there is no child to wait for, and orphans would be children.
    Nothing,
    /// Some process.
    Some,
}

/// A child that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReapedChild {
    pub(super) pid: Pid,
    /// How it ended.
    pub(super) status: WaitStatus,
}

/// Reaps every child that has ended.
pub(super) fn reap_children(mut each: impl FnMut(ReapedChild)) -> Remaining {
    loop {
        let mut status = 0;
        // SAFETY: waitpid writes one int through a valid pointer. Every child of
        // this single-threaded process is the job's, so waiting for any is right.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::__WALL) };
        if pid < 0 {
            // No signal interrupts it, so the error can only be ECHILD.
            return Remaining::Nothing;
        }
        match Pid::from_raw(pid) {
            None => return Remaining::Some,
            Some(pid) => each(ReapedChild { pid, status: decode(status) }),
        }
    }
}

/// Stops, kills and reaps until nothing is left or the time is up.
pub(super) fn kill_descendants(mut each: impl FnMut(ReapedChild)) -> Remaining {
    let deadline = Instant::now() + KILL_TIMEOUT;
    let mut pause = Duration::from_micros(100);
    loop {
        if kill_round(&mut each) == Remaining::Nothing {
            return Remaining::Nothing;
        }
        if Instant::now() >= deadline {
            return Remaining::Some;
        }
        std::thread::sleep(pause);
        if reap_children(&mut each) == Remaining::Nothing {
            return Remaining::Nothing;
        }
        pause = (pause * 2).min(PAUSE);
    }
}

/// Stops the whole tree, kills it, and reaps the processes that are dead.
pub(super) fn kill_round(each: impl FnMut(ReapedChild)) -> Remaining {
    // Nothing is reaped before the whole tree is stopped: reaping frees pids, and
    // a fork bomb would win the race.
    let mut freeze = Freeze::below_self();
    freeze.settle();
    freeze.kill();
    reap_children(each)
}

/// Asks all descendants to end, at one instant: while one of them is on its way out, none of the
/// others goes on as if nothing were.
pub(super) fn ask_descendants_to_end() {
    let mut freeze = Freeze::below_self();
    freeze.settle();
    freeze.send(Signal::TERM);
    freeze.send(Signal::CONT);
}

/// Kills all descendants and ignores their status.
pub(super) fn kill_all() {
    kill_descendants(|_| {});
}

fn decode(status: i32) -> WaitStatus {
    if libc::WIFSIGNALED(status) {
        WaitStatus::Signaled(libc::WTERMSIG(status))
    } else {
        WaitStatus::Exited(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(u8::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_cannot_forge_the_fields_after_it() {
        let line = b"7 (a) S 1 1 (b)) R 12 13 14 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let stat = ProcessStat::parse(line).unwrap();
        assert_eq!(
            (stat.state, stat.parent, stat.group, stat.start_time),
            (b'R', Pid::from_raw(12), Pid::from_raw(13), 4711)
        );
    }

    #[test]
    fn garbage_is_no_process() {
        for line in [&b""[..], b")", b"1 (x", b"1 (x) S", b"1 (x) S a b c"] {
            assert!(ProcessStat::parse(line).is_none());
        }
    }

    #[test]
    fn this_process_has_a_start_time_and_an_absent_one_has_none() {
        assert!(start_time(std::process::id()).is_some());
        assert_eq!(start_time(0), None);
        assert_eq!(start_time(u32::MAX), None);
    }
}
