//! The instance's lists of users and groups.

use std::fs::File;
use std::io::Read as _;
use std::str::FromStr;

use rustix::fs::{FileType, Mode, OFlags, fstat};

/// Most bytes of a list that are read: the image's files are not trusted.
const MAX_LIST: u64 = 4 << 20;

/// Both lists. One that is not there or cannot be read is empty.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    pub(super) passwd: Vec<u8>,
    pub(super) group: Vec<u8>,
}

/// A user of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account<'a> {
    pub(super) name: &'a [u8],
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: &'a [u8],
    pub(super) shell: &'a [u8],
}

/// A group of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Group<'a> {
    pub(super) name: &'a [u8],
    pub(super) gid: u32,
    members: &'a [u8],
}

impl Accounts {
    /// Reads the lists of this instance.
    pub(super) fn read() -> Self {
        Self { passwd: read("/etc/passwd"), group: read("/etc/group") }
    }

    /// Returns the users in their order. Lines that are none are passed over.
    pub(super) fn users(&self) -> impl Iterator<Item = Account<'_>> {
        self.passwd.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            let uid = number(fields.nth(1)?)?;
            let gid = number(fields.next()?)?;
            let home = fields.nth(1).unwrap_or_default();
            let shell = fields.next().unwrap_or_default();
            Some(Account { name, uid, gid, home, shell })
        })
    }

    /// Returns the groups in their order. Lines that are none are passed over.
    pub(super) fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.group.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            let gid = number(fields.nth(1)?)?;
            Some(Group { name, gid, members: fields.next().unwrap_or_default() })
        })
    }
}

impl Group<'_> {
    /// Tells whether a user is listed as one of the group.
    pub(super) fn has(&self, user: &[u8]) -> bool {
        self.members.split(|byte| *byte == b',').any(|member| member == user)
    }
}

/// Returns the id that a field is. Ids over 31 bits are none, as with container
/// engines: the highest would mean "leave it as it is" to the kernel.
pub(super) fn number(field: &[u8]) -> Option<u32> {
    let id = std::str::from_utf8(field).ok().and_then(|text| u32::from_str(text).ok())?;
    (id <= i32::MAX.unsigned_abs()).then_some(id)
}

fn read(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A pipe in its place must not make the guest wait.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    if let Ok(file) = rustix::fs::open(path, flags, Mode::empty())
        && fstat(&file)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    {
        // A list that breaks off in the middle is one of the users before that.
        File::from(file).take(MAX_LIST).read_to_end(&mut bytes).ok();
    }
    bytes
}
