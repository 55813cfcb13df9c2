//! The accounts of a sandbox: `passwd`, `group` and their shadow files.
//!
//! Root, system accounts and nobody are copied from the host, because files in
//! the system directories belong to them. Accounts of people are left out.

use std::fmt::Write as _;
use std::path::PathBuf;

/// The user and group of unmapped owners.
const NOBODY: u32 = 65_534;

/// The first number of a regular user, unless `login.defs` has a lower one.
const FIRST_REGULAR_ID: u32 = 1000;

/// The contents of the account files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Accounts {
    pub(super) passwd: String,
    pub(super) group: String,
    pub(super) shadow: String,
    pub(super) gshadow: String,
}

impl Accounts {
    /// Builds the accounts of a sandbox from the host's files.
    pub(super) fn of(passwd: &str, group: &str, login_defs: &str, shell: &str) -> Self {
        let users = system_entries(passwd, 7, first_regular_id(login_defs, "UID_MIN"), 2);
        let groups = system_entries(group, 4, first_regular_id(login_defs, "GID_MIN"), 2);
        let mut files = Self {
            passwd: format!("root:x:0:0:root:/root:{shell}\n"),
            group: "root:x:0:\n".to_owned(),
            shadow: "root:*:::::::\n".to_owned(),
            gshadow: "root:*::\n".to_owned(),
        };
        let mut nobody = false;
        for user in &users {
            let [name, _, uid, gid, _, home, shell] = user[..] else {
                continue;
            };
            nobody |= uid == "65534";
            // The comment field (GECOS) can hold a person's name.
            writeln!(files.passwd, "{name}:x:{uid}:{gid}::{home}:{shell}").ok();
            writeln!(files.shadow, "{name}:*:::::::").ok();
        }
        if !nobody {
            files.passwd.push_str("nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n");
            files.shadow.push_str("nobody:*:::::::\n");
        }
        let mut nogroup = false;
        for group in &groups {
            let [name, _, gid, _] = group[..] else {
                continue;
            };
            nogroup |= gid == "65534";
            // Member lists can name people.
            writeln!(files.group, "{name}:x:{gid}:").ok();
            writeln!(files.gshadow, "{name}:*::").ok();
        }
        if !nogroup {
            files.group.push_str("nogroup:x:65534:\n");
            files.gshadow.push_str("nogroup:*::\n");
        }
        files
    }
}

/// Returns the fields of the entries of system accounts other than root.
fn system_entries(
    text: &str,
    parts: usize,
    first_regular_id: u32,
    number_at: usize,
) -> Vec<Vec<&str>> {
    let mut seen = std::collections::BTreeSet::from(["root"]);
    let mut entries = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let number = fields.get(number_at).and_then(|number| number.parse::<u32>().ok());
        let of_system = number
            .is_some_and(|number| number == NOBODY || (1..first_regular_id).contains(&number));
        let named = fields.first().is_some_and(|name| is_name(name) && seen.insert(*name));
        if of_system && named && fields.len() == parts {
            entries.push(fields);
        }
    }
    entries
}

/// Returns whether a name may stand in an account file.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '$');
    !name.is_empty() && name.len() <= 64 && name.chars().all(fits) && !name.starts_with('-')
}

/// Returns the first number of a regular user.
fn first_regular_id(login_defs: &str, key: &str) -> u32 {
    let value = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next() == Some(key)).then(|| words.next()?.parse::<u32>().ok()).flatten()
    };
    login_defs.lines().find_map(value).unwrap_or(FIRST_REGULAR_ID).clamp(1, FIRST_REGULAR_ID)
}

pub(super) fn user_name(passwd: &str, uid: u32) -> Option<String> {
    let name = |line: &str| {
        let mut parts = line.split(':');
        let name = parts.next()?;
        let number = parts.nth(1)?.parse::<u32>().ok()?;
        (number == uid && is_name(name)).then(|| name.to_owned())
    };
    passwd.lines().find_map(name)
}

/// Returns the home directories of regular users.
pub(super) fn homes_of_regular_users(passwd: &str) -> Vec<PathBuf> {
    let home = |line: &str| {
        let fields: Vec<&str> = line.split(':').collect();
        let uid = fields.get(2)?.parse::<u32>().ok()?;
        let home = fields.get(5).filter(|home| home.starts_with('/'))?;
        (uid >= FIRST_REGULAR_ID && uid != NOBODY).then(|| PathBuf::from(home))
    };
    passwd.lines().filter_map(home).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "\
root:$6$hash:0:0:Root of host:/srv/root:/bin/zsh
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
toor:x:0:0::/:/bin/sh
ada:x:1000:1000:Ada Lovelace,,,:/home/ada:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
+::::::
daemon:x:7:7:twice:/:/bin/sh
bad name:x:8:8::/:/bin/sh
short:x:9
dynamic:x:61184:61184::/:/bin/sh
";
    const GROUP: &str = "\
root:x:0:ada
daemon:x:1:
docker:x:998:ada,bob
ada:x:1000:
nogroup:x:65534:
";

    #[test]
    fn system_accounts_are_copied_and_people_are_not() {
        let made = Accounts::of(PASSWD, GROUP, "", "/bin/bash");
        let expected = Accounts {
            passwd: "\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1::/usr/sbin:/usr/sbin/nologin
_apt:x:42:65534::/nonexistent:/usr/sbin/nologin
nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin
"
            .into(),
            group: "root:x:0:\ndaemon:x:1:\ndocker:x:998:\nnogroup:x:65534:\n".into(),
            shadow: "root:*:::::::\ndaemon:*:::::::\n_apt:*:::::::\nnobody:*:::::::\n".into(),
            gshadow: "root:*::\ndaemon:*::\ndocker:*::\nnogroup:*::\n".into(),
        };
        assert_eq!(made, expected);
    }

    #[test]
    fn a_host_without_accounts_gives_root_and_nobody() {
        let made = Accounts::of("", "", "", "/bin/sh");
        assert_eq!(
            made.passwd,
            "root:x:0:0:root:/root:/bin/sh\n\
             nobody:x:65534:65534::/nonexistent:/usr/sbin/nologin\n"
        );
        assert_eq!(made.group, "root:x:0:\nnogroup:x:65534:\n");
    }

    #[test]
    fn a_lower_uid_min_is_honoured_and_a_higher_one_is_not() {
        let passwd = "eve:x:500:500::/home/eve:/bin/sh\nbin:x:2:2::/bin:/bin/sh\n";
        let made = Accounts::of(passwd, "", "# UID_MIN 1\nUID_MIN\t 500\n", "/bin/sh");
        assert!(!made.passwd.contains("eve") && made.passwd.contains("bin:x:2"), "{made:?}");
        // Users made before UID_MIN was raised are still people.
        let made = Accounts::of(PASSWD, "", "UID_MIN 5000\n", "/bin/sh");
        assert!(!made.passwd.contains("ada"), "{made:?}");
    }

    #[test]
    fn users_and_homes_are_found_by_number() {
        assert_eq!(user_name(PASSWD, 1000).as_deref(), Some("ada"));
        assert_eq!(user_name(PASSWD, 8), None);
        assert_eq!(
            homes_of_regular_users(PASSWD),
            [PathBuf::from("/home/ada"), PathBuf::from("/")]
        );
    }
}
