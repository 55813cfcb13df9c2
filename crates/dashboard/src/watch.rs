//! Notices changes in a home by any process, without polling.
//!
//! The kernel tells which file was written (inotify). Each file belongs to a topic; a topic has a
//! number that grows with every change. Pages receive the numbers and ask for what they show.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify::{Event, ReadFlags, WatchFlags};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use vestal_config::Home;
use vestal_process::FileChanges;

/// Writes that belong together are one change.
const TOGETHER: Duration = Duration::from_millis(30);

/// The shortest time between two changes that are reported: a log that is written without a pause is
/// told ten times a second.
const PAUSE: Duration = Duration::from_millis(60);

/// A database's log is written before its commit can be seen. So what was reported is reported once more.
const AGAIN: Duration = Duration::from_millis(500);

/// How often the directories are gone through again where the kernel cannot watch: its limit of
/// watches is reached, or it has none.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Topic {
    Sandboxes,
    Board,
    Conversations,
    Gateways,
    Logs,
    Settings,
    Schedules,
    Skills,
    Memory,
}

impl Topic {
    pub(crate) const ALL: [Self; 9] = [
        Self::Sandboxes,
        Self::Board,
        Self::Conversations,
        Self::Gateways,
        Self::Logs,
        Self::Settings,
        Self::Schedules,
        Self::Skills,
        Self::Memory,
    ];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Sandboxes => "sandboxes",
            Self::Board => "board",
            Self::Conversations => "conversations",
            Self::Gateways => "gateways",
            Self::Logs => "logs",
            Self::Settings => "settings",
            Self::Schedules => "schedules",
            Self::Skills => "skills",
            Self::Memory => "memory",
        }
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|topic| topic.word() == word)
    }
}

/// The number of each topic.
pub(crate) type Numbers = [u64; Topic::ALL.len()];

/// What kind of directory is watched, and so which files in it mean something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// The home of a profile.
    Profile,
    /// The directory of profiles.
    Profiles,
    /// The directory of sandboxes.
    Sandboxes,
    /// One sandbox.
    Sandbox,
    /// What the guest of a sandbox writes.
    SandboxState,
    /// The directory of boards.
    Boards,
    /// One board.
    Board,
    /// Logs.
    Logs,
    /// The schedules of a profile.
    Schedules,
    /// Skills, their categories and folders.
    Skills,
    /// Notes of the agent.
    Memory,
    /// The supervisor's records.
    Run,
    /// Files of running processes of another profile.
    ProfileRun,
    /// Records of long actions.
    Operations,
}

impl Place {
    /// Returns what a change of a file in it is about.
    fn topic(self, name: &[u8], flags: ReadFlags) -> Option<Topic> {
        let is_write = flags.intersects(ReadFlags::MODIFY | ReadFlags::MOVED_TO);
        let is_listing = flags.intersects(
            ReadFlags::CREATE | ReadFlags::DELETE | ReadFlags::MOVED_TO | ReadFlags::MOVED_FROM,
        );
        match (self, name) {
            (Self::Profile, b"state.db" | b"state.db-wal") if is_write => {
                Some(Topic::Conversations)
            }
            (Self::Profile, b"config.yaml" | b".env" | b"active_profile") => Some(Topic::Settings),
            (Self::Profile, b"gateway_state.json" | b"gateway_desired.json") => {
                Some(Topic::Gateways)
            }
            // What was made is in them before they are watched.
            (Self::Profile, b"cron") => Some(Topic::Schedules),
            (Self::Profile, b"memories") => Some(Topic::Memory),
            (Self::Profiles, _) if is_listing => Some(Topic::Settings),
            // Records that were written before they were watched are found by the receiver of the
            // event that their directory was made.
            (Self::Sandboxes, _) | (Self::Run | Self::ProfileRun, b"operations") if is_listing => {
                Some(Topic::Sandboxes)
            }
            (Self::Sandbox, b"sandbox.json" | b"intent.json")
            | (Self::SandboxState, b"journal") => Some(Topic::Sandboxes),
            (Self::Boards, _) if is_listing => Some(Topic::Board),
            (Self::Board, b"kanban.db" | b"kanban.db-wal") if is_write => Some(Topic::Board),
            (Self::Schedules, b"schedules.db" | b"schedules.db-wal") if is_write => {
                Some(Topic::Schedules)
            }
            (Self::Skills, _) | (Self::Profile, b"skills") => Some(Topic::Skills),
            (Self::Memory, name) if name.ends_with(b".md") => Some(Topic::Memory),
            (Self::Logs, name) if is_write && name != b"dashboard-audit.log" => Some(Topic::Logs),
            // A step in the middle and the end are written by rename.
            (Self::Operations, name) if name.ends_with(b".json") && is_listing => {
                Some(Topic::Sandboxes)
            }
            (Self::Run, name) if name.starts_with(b"supervisor") || name.ends_with(b".json") => {
                (name != b"dashboard.json").then_some(Topic::Gateways)
            }
            _ => None,
        }
    }
}

/// Watches a home until it is stopped.
#[derive(Debug)]
pub(crate) struct Watch {
    numbers: watch::Receiver<Numbers>,
    /// Tells the numbers of this process from those of another.
    epoch: u64,
    stop: CancellationToken,
}

impl Watch {
    /// Begins to watch. Where the kernel does not help, everything is reported from time to time.
    pub(crate) fn start(root: &Home) -> Self {
        let (sender, numbers) = watch::channel([0; Topic::ALL.len()]);
        let stop = CancellationToken::new();
        let epoch = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
        let (root, stopped) = (root.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                () = run(root, sender) => {}
            }
        });
        Self { numbers, epoch, stop }
    }

    /// Returns the numbers, now and whenever they change.
    pub(crate) fn numbers(&self) -> watch::Receiver<Numbers> {
        self.numbers.clone()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

async fn run(root: Home, sender: watch::Sender<Numbers>) {
    let mut files = match WatchedFiles::new(root) {
        Ok(files) => files,
        Err(error) => {
            tracing::warn!(%error, "changes cannot be watched; pages are refreshed every 30 s");
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                sender.send_modify(|numbers| numbers.iter_mut().for_each(|number| *number += 1));
            }
        }
    };
    loop {
        let mut changed = match files.next().await {
            Ok(changed) => changed,
            Err(error) => {
                tracing::warn!(%error, "a change was not noticed");
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
        };
        publish(&sender, changed);
        tokio::time::sleep(PAUSE).await;
        // Once more when it is quiet: what was written may be visible only now.
        while let Ok(more) = tokio::time::timeout(AGAIN, files.next()).await {
            let Ok(more) = more else { break };
            publish(&sender, more);
            for (all, new) in changed.iter_mut().zip(more) {
                *all |= new;
            }
            tokio::time::sleep(PAUSE).await;
        }
        publish(&sender, changed);
    }
}

fn publish(sender: &watch::Sender<Numbers>, changed: [bool; Topic::ALL.len()]) {
    if !changed.contains(&true) {
        return;
    }
    sender.send_modify(|numbers| {
        for (number, changed) in numbers.iter_mut().zip(changed) {
            *number += u64::from(changed);
        }
    });
}

/// The directories that are watched.
struct WatchedFiles {
    root: Home,
    changes: FileChanges,
    places: HashMap<i32, (Place, PathBuf)>,
    known: HashMap<PathBuf, i32>,
}

impl WatchedFiles {
    fn new(root: Home) -> io::Result<Self> {
        let changes = FileChanges::new()?;
        let mut files = Self { root, changes, places: HashMap::new(), known: HashMap::new() };
        files.look();
        Ok(files)
    }

    /// Watches every directory that is there and is not watched yet.
    fn look(&mut self) {
        let root = self.root.root().to_owned();
        let kanban = vestal_board::settings::boards_dir(&self.root);
        let boards = kanban.join("boards");
        self.add(Place::Boards, &boards);
        for board in directories(&boards) {
            self.add(Place::Board, &board);
        }
        // So that the first board is noticed.
        self.add(Place::Boards, &kanban);
        self.add(Place::Profiles, &self.root.profiles_dir());
        self.add(Place::Run, &self.root.run_dir());
        self.add(Place::Run, &self.root.run_dir().join("slots"));
        self.add(Place::Profile, &root);
        for gateway in directories(&self.root.logs_dir().join("gateways")) {
            self.add(Place::Logs, &gateway);
        }
        for profile in self.root.profiles() {
            let home = self.root.sibling(profile);
            self.add(Place::Profile, &home.dir());
            self.add(Place::Logs, &home.logs_dir());
            // The one of the default profile is watched already.
            self.add(Place::ProfileRun, &home.run_dir());
            self.add(Place::Operations, &home.run_dir().join("operations"));
            self.add(Place::Schedules, &home.dir().join("cron"));
            self.add(Place::Memory, &home.dir().join("memories"));
            let skills = home.dir().join("skills");
            self.add(Place::Skills, &skills);
            // A skill is in the directory, or in a category there.
            for folder in directories(&skills) {
                self.add(Place::Skills, &folder);
                for skill in directories(&folder) {
                    self.add(Place::Skills, &skill);
                }
            }
            self.add(Place::Sandboxes, &home.sandboxes_dir());
            for sandbox in directories(&home.sandboxes_dir()) {
                self.add(Place::Sandbox, &sandbox);
                self.add(Place::SandboxState, &sandbox.join("state"));
            }
        }
    }

    fn add(&mut self, place: Place, dir: &Path) {
        if self.known.contains_key(dir) {
            return;
        }
        let flags = WatchFlags::MODIFY
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::ONLYDIR
            | WatchFlags::DONT_FOLLOW;
        // One that is not there is noticed when it is made; one beyond the kernel's limit is not.
        if let Ok(number) = self.changes.watch(dir, flags) {
            self.places.insert(number, (place, dir.to_owned()));
            self.known.insert(dir.to_owned(), number);
        }
    }

    /// Waits until something has changed that is about a topic.
    async fn next(&mut self) -> io::Result<[bool; Topic::ALL.len()]> {
        loop {
            let mut changed = [false; Topic::ALL.len()];
            let mut is_new = false;
            let mut gone = Vec::new();
            let note = |event: &Event<'_>| {
                let flags = event.events();
                if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                    // Nobody knows what was missed.
                    changed = [true; Topic::ALL.len()];
                    is_new = true;
                }
                if flags.contains(ReadFlags::IGNORED) {
                    gone.push(event.wd());
                    return;
                }
                is_new |= flags.contains(ReadFlags::ISDIR)
                    && flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
                let name = event.file_name().map_or(&b""[..], |name| name.to_bytes());
                let place = self.places.get(&event.wd());
                let topic = place.and_then(|(place, _)| place.topic(name, flags));
                if let Some(topic) = topic {
                    changed[topic as usize] = true;
                }
            };
            self.changes.next(TOGETHER, note).await?;
            for number in gone {
                if let Some((_, dir)) = self.places.remove(&number) {
                    self.known.remove(&dir);
                }
            }
            if is_new {
                self.look();
            }
            if changed.contains(&true) {
                return Ok(changed);
            }
        }
    }
}

/// Returns the directories in one; hidden ones are not anybody's yet.
fn directories(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let is_shown = |name: &OsStr| !name.as_bytes().starts_with(b".");
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter(|entry| is_shown(&entry.file_name()))
        .map(|entry| entry.path())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn topic_changed(receiver: &mut watch::Receiver<Numbers>, topic: Topic) {
        let at = receiver.borrow()[topic as usize];
        receiver.wait_for(|numbers| numbers[topic as usize] > at).await.unwrap();
    }

    #[tokio::test]
    async fn what_another_process_writes_is_reported_by_topic_also_in_directories_made_since() {
        let dir = tempfile::tempdir().unwrap();
        let watch = Watch::start(&Home::at(dir.path()));
        let mut numbers = watch.numbers();
        // The watch begins in a task of its own: a change is made until it is heard.
        let write = |path: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        };
        let first = async {
            loop {
                write("config.yaml");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = first => {}
            () = topic_changed(&mut numbers, Topic::Settings) => {}
        }
        std::fs::create_dir_all(dir.path().join("sandboxes")).unwrap();
        let job = async {
            loop {
                write("sandboxes/web/state/journal");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = job => {}
            () = topic_changed(&mut numbers, Topic::Sandboxes) => {}
        }
        assert_eq!(numbers.borrow()[Topic::Board as usize], 0, "nobody touched a board");
        watch.stop();
    }

    #[test]
    fn the_dashboards_own_files_are_no_news() {
        let flags = ReadFlags::MODIFY;
        assert_eq!(Place::Profile.topic(b"dashboard.db-wal", flags), None);
        assert_eq!(Place::Logs.topic(b"dashboard-audit.log", flags), None);
        assert_eq!(Place::Run.topic(b"dashboard.json", ReadFlags::MOVED_TO), None);
        assert_eq!(Place::Profile.topic(b"state.db-wal", flags), Some(Topic::Conversations));
        assert_eq!(Place::Profile.topic(b"state.db-shm", flags), None);
    }
}
