//! From what an image calls its user to who that is.

use std::borrow::Cow;

use super::accounts::{Account, Accounts, number};

/// Who jobs run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// All groups, the first one among them.
    pub(crate) groups: Vec<u32>,
    /// Absent where the instance does not know the number.
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) home: Vec<u8>,
    pub(crate) shell: Option<Vec<u8>>,
}

/// Why there is no such user.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UserError {
    #[error("there is no {what} {name:?} in {list} of the image")]
    Unknown { what: &'static str, name: String, list: &'static str },
    #[error("{0} is no number a user or group can have")]
    Range(String),
}

/// Returns who `spec` is: a name or number, with or without `:` and a group, as
/// container engines understand it. Absent: whoever this process is.
pub(crate) fn resolve(spec: Option<&str>) -> Result<User, UserError> {
    let mut groups: Vec<u32> =
        rustix::process::getgroups().unwrap_or_default().iter().map(|gid| gid.as_raw()).collect();
    let own =
        Ids { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    let accounts = Accounts::read();
    let Some(spec) = spec.filter(|spec| !spec.is_empty()) else {
        let account = accounts.users().find(|account| account.uid == own.uid);
        keep_first(&mut groups, own.gid);
        return Ok(described(account, own, groups));
    };
    let mut user = find(&accounts, own, spec)?;
    // Groups that were given to the container are meant for its jobs too. What
    // this process has for being who it is, is not.
    let usual = find(&accounts, own, &own.uid.to_string()).map_or(Vec::new(), |own| own.groups);
    groups.retain(|gid| *gid != 0 && *gid != own.gid && !usual.contains(gid));
    groups.retain(|gid| !user.groups.contains(gid));
    user.groups.append(&mut groups);
    Ok(user)
}

/// The ids of a process.
#[derive(Debug, Clone, Copy)]
struct Ids {
    uid: u32,
    gid: u32,
}

/// Finds a user by the engines' rules: a number is compared with numbers only,
/// an unknown one is fine and has group 0 and home `/`; further groups come
/// from the list, unless a group is named.
fn find(accounts: &Accounts, own: Ids, spec: &str) -> Result<User, UserError> {
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
    Ok(described(account, Ids { uid, gid }, groups))
}

fn described(account: Option<Account<'_>>, ids: Ids, groups: Vec<u32>) -> User {
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

/// Returns the number that a name is, if it is one.
fn id(name: &str) -> Result<Option<u32>, UserError> {
    if !name.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    number(name.as_bytes()).map(Some).ok_or_else(|| UserError::Range(name.to_owned()))
}

/// Puts the first group where it belongs, and leaves each group in once.
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
    /// Returns how to call the user in a message.
    pub(crate) fn called(&self) -> Cow<'_, str> {
        match &self.name {
            Some(name) => String::from_utf8_lossy(name),
            None => Cow::Owned(self.uid.to_string()),
        }
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
