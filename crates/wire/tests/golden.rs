//! The encoding of every message, byte for byte.
//!
//! A row that differs means that running guests no longer understand this version:
//! a number was changed or reused. Rows are added, never changed; `golden.txt`
//! contains them as `name hex`.

#![expect(clippy::expect_used, reason = "a helper of a test may panic as the test may")]

mod samples;

use std::collections::BTreeSet;
use std::fmt::{Debug, Write as _};

use minicbor::{Decode, Encode};
use vestal_wire::tree::{TreeChange, TreeOutcome};
use vestal_wire::{
    CallEvent, CallReply, CallRequest, Cause, CommandOutcome, CreateMode, FaultCode, FileKind,
    FileOp, FileReply, FrameKind, HostRole, JobCommand, JobState, Mapping, Network, OutputDelivery,
    Purpose, Root, SandboxMount, SessionState, ShellText, Stdin, Stream, TreeOp, decode, encode,
};

const GOLDEN: &str = include_str!("golden.txt");

/// Types that were renamed, and what their rows begin with, which never changes.
const ROW_TYPES: [(&str, &str); 8] = [
    ("CallRequest", "Request"),
    ("CallEvent", "Event"),
    ("CallReply", "Reply"),
    ("CommandOutcome", "Outcome"),
    ("TreeOutcome", "Outcome"),
    ("HostRole", "Role"),
    ("JobCommand", "Command"),
    ("OutputDelivery", "Delivery"),
];

/// Types of which variants were renamed too, and the names of their rows.
const ROW_NAMES: [(&str, &str); 8] = [
    ("Root::Overlay", "Root::Layers"),
    ("SandboxMount::Bind", "Place::Bind"),
    ("SandboxMount::Overlay", "Place::Layers"),
    ("SandboxMount::Tmpfs", "Place::Memory"),
    ("SandboxMount::Proc", "Place::Processes"),
    ("SandboxMount::Dev", "Place::Devices"),
    ("SandboxMount::Symlink", "Place::Link"),
    ("SandboxMount::Directory", "Place::Directory"),
];

/// The table as this version would write it, and the names in it.
#[derive(Default)]
struct Table {
    text: String,
    names: BTreeSet<String>,
}

impl Table {
    fn row(&mut self, name: &str, bytes: &[u8]) {
        write!(self.text, "{} ", row_name(name)).expect("text takes all");
        for byte in bytes {
            write!(self.text, "{byte:02x}").expect("text takes all");
        }
        self.text.push('\n');
        assert!(self.names.insert(name.to_owned()), "{name} is there twice");
    }

    fn message<T>(&mut self, name: &str, message: &T)
    where
        T: Encode<()> + for<'b> Decode<'b, ()> + PartialEq + Debug,
    {
        let bytes = encode(message).expect("a message");
        assert_eq!(&decode::<T>(&bytes).expect("the same message"), message);
        self.row(name, &bytes);
    }
}

/// Returns the name in the table of what is called `name` in this version.
fn row_name(name: &str) -> String {
    if let Some((_, row)) = ROW_NAMES.iter().find(|(now, _)| *now == name) {
        return (*row).to_owned();
    }
    let variant = name.split_once("::");
    match variant.and_then(|(of, it)| Some((ROW_TYPES.iter().find(|(now, _)| *now == of)?, it))) {
        Some(((_, row), variant)) => format!("{row}::{variant}"),
        None => name.to_owned(),
    }
}

/// Adds a row for each sample of an enum. A new variant does not compile until
/// it is named here, and is red until it has a sample.
macro_rules! variants {
    ($table:ident, $enum:ident: $($variant:ident)+; $samples:expr) => {
        let name = |sample: &$enum| match sample {
            $($enum::$variant { .. } => concat!(stringify!($enum), "::", stringify!($variant))),+
        };
        for sample in $samples {
            $table.message(name(&sample), &sample);
        }
        for name in [$(concat!(stringify!($enum), "::", stringify!($variant))),+] {
            assert!($table.names.contains(name), "no sample of {name}");
        }
    };
    // An enum that is no more than its variants.
    ($table:ident, $enum:ident: $($variant:ident)+) => {
        variants! { $table, $enum: $($variant)+; [$($enum::$variant),+] }
    };
}

fn table() -> Table {
    let mut table = Table::default();
    table.row("Header", &samples::header().to_bytes());
    table.message("Hello", &samples::hello());
    table.message("Welcome", &samples::welcome());
    table.message("GuestSettings", &samples::guest_settings());
    table.message("GuestSettings+user", &samples::guest_settings_for_a_user());
    table.message("Fault", &samples::fault());
    variants! {
        table, CallRequest: Status Stats Touch Start Attach Wait Jobs Lookup Kill Signal Input Resize
            ResetSession File Retain Shutdown Ports Connect;
        samples::requests()
    }
    variants! { table, CallEvent: Started Gap Ended; samples::events() }
    variants! {
        table, CallReply: Done Fault Status Stats Job Jobs Outcome File Ports; samples::replies()
    }
    variants! {
        table, FileOp: Read Write Patch List Stat Search Mkdir Move Delete Tree; samples::file_ops()
    }
    variants! { table, TreeOp: Scan Hash Read Change; samples::tree_ops() }
    table.message("KnownDirectory", &samples::known_directory());
    table.message("TreeRoot", &samples::tree_root());
    table.message("Listing", &samples::listing());
    table.message("TreePath", &samples::tree_path());
    table.message("HashedFile", &samples::hashed_file());
    table.message("ReadHead", &samples::read_head());
    variants! {
        table, TreeChange: Directory File Link Delete RemoveDirectory Rename Executable Discard;
        samples::tree_changes()
    }
    variants! { table, TreeOutcome: Made Overtaken Failed; samples::tree_outcomes() }
    variants! { table, FileReply: Read Written List Stat Found Done; samples::file_replies() }
    variants! { table, JobCommand: Shell Argv; samples::commands() }
    variants! { table, ShellText: Inline Streamed; samples::shell_texts() }
    variants! { table, OutputDelivery: Detached EveryByte Lossy Captured; samples::deliveries() }
    variants! { table, Cause: Exited Signaled TimedOut Killed Lost; samples::causes() }
    variants! { table, JobState: Starting Running Ended; samples::job_states() }
    variants! { table, CommandOutcome: Known NeverStarted Unknown; samples::outcomes() }
    variants! { table, HostRole: User Observer Owner }
    variants! { table, Stdin: Null Piped }
    variants! { table, SessionState: None Saved Superseded }
    variants! { table, CreateMode: Any New Existing }
    variants! { table, FileKind: File Directory Symlink Other }
    variants! {
        table, FaultCode: Internal Invalid Unsupported WrongInstance Cancelled ShuttingDown Busy
            NoSuchJob NoWorkdir NotFound Exists WrongKind Denied Conflict NoSpace System
    }
    table.message("Enclosure", &samples::enclosure());
    table.message("Users", &samples::users());
    variants! { table, Mapping: Own Privileged Helpers; samples::mappings() }
    variants! { table, Root: Directory Overlay; samples::roots() }
    variants! {
        table, SandboxMount: Bind Overlay Tmpfs Proc Dev Symlink Directory; samples::mounts()
    }
    variants! { table, Purpose: Serve Trial; samples::purposes() }
    variants! { table, Network: Host None }
    table.message("Launch", &samples::launch());
    table.message("Confinement", &samples::confinement());
    table
}

#[test]
fn no_message_is_encoded_in_another_way_than_before() {
    let now = table().text;
    let changed: Vec<_> = now.lines().filter(|row| !GOLDEN.lines().any(|g| g == *row)).collect();
    assert!(now == GOLDEN, "rows that are new or differ:\n{}\n", changed.join("\n"));
}

#[test]
fn kinds_and_streams_keep_their_numbers() {
    use FrameKind::{Cancel, Credit, Data, End, Open, Reply, Welcome};
    let kinds =
        [FrameKind::Hello, Welcome, Open, FrameKind::Event, Reply, Data, End, Credit, Cancel];
    assert_eq!(kinds.map(|kind| kind as u8), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
    let streams = [Stream::Input, Stream::Stdout, Stream::Stderr, Stream::Text, Stream::Content];
    assert_eq!(streams.map(|stream| stream as u8), [0, 1, 2, 3, 4]);
}
