//! The user that jobs and file operations run as.
//!
//! The guest is root where it may be, so that it works in any image; jobs run as
//! the image's user. The user is looked up in the instance's own `/etc/passwd`; no
//! library of the image is used.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;
use std::str::FromStr;

use rustix::fs::{FileType, Gid, Mode, OFlags, Uid, fstat};
use rustix::io::Errno;
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use vestal_wire::EnvVar;

use crate::diagnostics::path_of;
use crate::process::DEFAULT_PATH;

/// Maximum bytes read from a list: the image's files are not trusted.
const MAX_LIST: u64 = 4 << 20;

/// Prefix of variables that are private to the guest.
const PRIVATE: &[u8] = b"VESTAL_GUEST_";

/// The user that jobs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups, including the primary group first.
    pub(crate) groups: Vec<u32>,
    /// Absent if the image does not list the user.
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) home: Vec<u8>,
    pub(crate) shell: Option<Vec<u8>>,
}

/// Why a user was not found.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UserError {
    #[error("there is no {what} {name:?} in {list} of the image")]
    Unknown { what: &'static str, name: String, list: &'static str },
    #[error("{0} is not a valid user or group id")]
    Range(String),
}

/// Finds the user for `spec`: a name or number, optionally with `:` and a group,
/// as container engines interpret it. Absent: the user of this process.
pub(crate) fn resolve(spec: Option<&str>) -> Result<User, UserError> {
    let mut groups: Vec<u32> =
        rustix::process::getgroups().unwrap_or_default().iter().map(|gid| gid.as_raw()).collect();
    let own = ProcessIds {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    let accounts = AccountLists::read();
    let Some(spec) = spec.filter(|spec| !spec.is_empty()) else {
        let account = accounts.users().find(|account| account.uid == own.uid);
        keep_first(&mut groups, own.gid);
        return Ok(described(account, own, groups));
    };
    let mut user = find(&accounts, own, spec)?;
    // Groups given to the container are meant for its jobs too, but not the
    // groups of this process's own user.
    let usual = find(&accounts, own, &own.uid.to_string()).map_or(Vec::new(), |own| own.groups);
    groups.retain(|gid| *gid != 0 && *gid != own.gid && !usual.contains(gid));
    groups.retain(|gid| !user.groups.contains(gid));
    user.groups.append(&mut groups);
    Ok(user)
}

#[derive(Debug, Clone, Copy)]
struct ProcessIds {
    uid: u32,
    gid: u32,
}

/// Finds a user by the rules of container engines: a number is only compared with
/// numbers; an unknown number is valid and has group 0 and home `/`;
/// supplementary groups come from the list, unless a group is given.
fn find(accounts: &AccountLists, own: ProcessIds, spec: &str) -> Result<User, UserError> {
    let (user, group) = spec.split_once(':').unwrap_or((spec, ""));
    let own_number;
    let user = if user.is_empty() {
        own_number = own.uid.to_string();
        &own_number
    } else {
        user
    };
    let uid = id(user)?;
    let account = accounts.users().find(|account| match uid {
        Some(uid) => account.uid == uid,
        None => account.name == user.as_bytes(),
    });
    let uid = match (account, uid) {
        (Some(account), _) => account.uid,
        (None, Some(uid)) => uid,
        (None, None) => return Err(unknown("user", user, "/etc/passwd")),
    };
    let mut gid = account.map_or(0, |account| account.gid);
    let mut groups = Vec::new();
    if group.is_empty() {
        if let Some(account) = account {
            let of_user = accounts.groups().filter(|group| group.has(account.name));
            groups.extend(of_user.map(|group| group.gid));
        }
    } else if let Some(number) = id(group)? {
        gid = number;
    } else {
        let named = accounts.groups().find(|listed| listed.name == group.as_bytes());
        gid = named.ok_or_else(|| unknown("group", group, "/etc/group"))?.gid;
    }
    keep_first(&mut groups, gid);
    Ok(described(account, ProcessIds { uid, gid }, groups))
}

fn described(account: Option<Account<'_>>, ids: ProcessIds, groups: Vec<u32>) -> User {
    let text = |field: &[u8]| (!field.is_empty()).then(|| field.to_vec());
    User {
        uid: ids.uid,
        gid: ids.gid,
        groups,
        name: account.and_then(|account| text(account.name)),
        home: account.and_then(|account| text(account.home)).unwrap_or_else(|| b"/".to_vec()),
        shell: account.and_then(|account| text(account.shell)),
    }
}

/// Returns the number if the name is one.
fn id(name: &str) -> Result<Option<u32>, UserError> {
    if !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    number(name.as_bytes()).map(Some).ok_or_else(|| UserError::Range(name.to_owned()))
}

/// Puts the primary group first, and removes duplicates.
fn keep_first(groups: &mut Vec<u32>, gid: u32) {
    groups.sort_unstable();
    groups.dedup();
    groups.retain(|other| *other != gid);
    groups.insert(0, gid);
}

fn unknown(what: &'static str, name: &str, list: &'static str) -> UserError {
    UserError::Unknown { what, name: name.to_owned(), list }
}

impl User {
    /// Returns the user's name for a message.
    pub(crate) fn display_name(&self) -> Cow<'_, str> {
        match &self.name {
            Some(name) => String::from_utf8_lossy(name),
            None => Cow::Owned(self.uid.to_string()),
        }
    }
}

/// Both lists. A missing or unreadable one is empty.
#[derive(Debug, Default)]
pub(super) struct AccountLists {
    pub(super) passwd: Vec<u8>,
    pub(super) group: Vec<u8>,
}

/// A user in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Account<'a> {
    pub(super) name: &'a [u8],
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) home: &'a [u8],
    pub(super) shell: &'a [u8],
}

/// A group in the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupEntry<'a> {
    pub(super) name: &'a [u8],
    pub(super) gid: u32,
    members: &'a [u8],
}

impl AccountLists {
    /// Reads the lists of this instance.
    pub(super) fn read() -> Self {
        Self { passwd: read("/etc/passwd"), group: read("/etc/group") }
    }

    /// Returns the users in order. Skips invalid lines.
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

    /// Returns the groups in order. Skips invalid lines.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupEntry<'_>> {
        self.group.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut fields = line.split(|byte| *byte == b':');
            let name = fields.next().filter(|name| !name.is_empty())?;
            let gid = number(fields.nth(1)?)?;
            Some(GroupEntry { name, gid, members: fields.next().unwrap_or_default() })
        })
    }
}

impl GroupEntry<'_> {
    /// Returns whether a user is listed as a member of the group.
    pub(super) fn has(&self, user: &[u8]) -> bool {
        self.members.split(|byte| *byte == b',').any(|member| member == user)
    }
}

/// Returns the id in a field. Ids over 31 bits are invalid, as in container
/// engines: the highest would mean "unchanged" to the kernel.
pub(super) fn number(field: &[u8]) -> Option<u32> {
    let id = std::str::from_utf8(field).ok().and_then(|text| u32::from_str(text).ok())?;
    (id <= i32::MAX.unsigned_abs()).then_some(id)
}

fn read(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A pipe in its place must not block the guest.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    if let Ok(file) = rustix::fs::open(path, flags, Mode::empty())
        && fstat(&file)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    {
        // An incomplete list still contains the users before its end.
        File::from(file).take(MAX_LIST).read_to_end(&mut bytes).ok();
    }
    bytes
}

/// The credentials of a user other than the guest's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credentials {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

/// How to run jobs as a user.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UserChange {
    /// No change: the guest runs as that user.
    None,
    /// Processes take on these credentials.
    To(Credentials),
    /// Not possible: the guest runs as another user and not as root.
    Impossible,
}

impl UserChange {
    /// Returns how a guest with these ids can run jobs as `user`.
    pub(crate) fn between(uid: u32, gid: u32, user: &User) -> Self {
        // A guest that runs as the user keeps its groups, even where it may not
        // set any.
        if user.uid == uid && (user.gid == gid || uid != 0) {
            return Self::None;
        }
        if uid != 0 {
            return Self::Impossible;
        }
        Self::To(Credentials {
            uid: Uid::from_raw(user.uid),
            gid: Gid::from_raw(user.gid),
            groups: user.groups.iter().map(|gid| Gid::from_raw(*gid)).collect(),
        })
    }
}

impl Credentials {
    /// Changes the calling thread to the user permanently. This is all that is
    /// needed in a process that is about to execute a program.
    pub(crate) fn assume(&self) -> Result<(), Errno> {
        self.take_groups()?;
        set_thread_res_uid(self.uid, self.uid, self.uid)
    }

    /// Lets the calling thread act with the user's rights only: it may access the
    /// user's files and signal the user's processes. The thread still belongs to
    /// the guest, so the user can neither trace nor signal the guest through it.
    pub(crate) fn borrow(&self) -> Result<(), Errno> {
        self.take_groups()?;
        set_thread_res_uid(None, self.uid, None)
    }

    /// Returns the user's id.
    pub(crate) const fn uid(&self) -> Uid {
        self.uid
    }

    fn take_groups(&self) -> Result<(), Errno> {
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)
    }
}

/// Returns the base environment of jobs: `inherited`, overridden by the variables
/// of the user, overridden by the settings.
pub(crate) fn base_environment(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    settings: &[EnvVar],
    user: &User,
    home: &[u8],
) -> Vec<EnvVar> {
    let mut env = Vec::new();
    for (name, value) in inherited {
        let name = name.into_vec();
        if !name.starts_with(PRIVATE) {
            set(&mut env, name, value.into_vec());
        }
    }
    if let Some(name) = &user.name {
        set(&mut env, b"USER".to_vec(), name.clone());
        set(&mut env, b"LOGNAME".to_vec(), name.clone());
    }
    set(&mut env, b"HOME".to_vec(), home.to_vec());
    if let Some(shell) = &user.shell
        && path_of(shell).is_file()
    {
        set(&mut env, b"SHELL".to_vec(), shell.clone());
    }
    for var in settings {
        set(&mut env, var.name.to_vec(), var.value.to_vec());
    }
    if !env.iter().any(|var| *var.name == b"PATH") {
        set(&mut env, b"PATH".to_vec(), DEFAULT_PATH.to_vec());
    }
    env
}

fn set(env: &mut Vec<EnvVar>, name: Vec<u8>, value: Vec<u8>) {
    match env.iter_mut().find(|var| *var.name == name) {
        Some(var) => var.value = value.into(),
        None => env.push(EnvVar { name: name.into(), value: value.into() }),
    }
}

#[cfg(test)]
#[path = "user_tests.rs"]
mod tests;
