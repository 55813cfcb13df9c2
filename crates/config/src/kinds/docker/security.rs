//! `--security-opt`.

use std::fmt;

use super::paths::HostPath;

/// A filter for system calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seccomp {
    /// None at all.
    Unconfined,
    /// The engine's own.
    Builtin,
    /// A file of the host. The API takes its text, not its name.
    File(HostPath),
}

/// One `--security-opt`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecurityOption {
    /// `no-new-privileges`, which is on anyway; `false` switches it off.
    NoNewPrivileges(bool),
    /// `seccomp=…`.
    Seccomp(Seccomp),
    /// `apparmor=PROFILE`.
    AppArmor(String),
    /// `label=…`: `disable`, or a part of an `SELinux` label such as `type:name`.
    Label(String),
    /// `systempaths=unconfined`: nothing of `/proc` and `/sys` is hidden. The
    /// API takes empty lists of masked and read-only paths instead.
    SystemPathsUnconfined,
}

impl SecurityOption {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // Engines take the older form with a colon, too.
        let (name, value) = match text.split_once(['=', ':']) {
            Some((name, value)) => (name, value),
            None => (text, ""),
        };
        match (name, value) {
            ("no-new-privileges", "" | "true") => Ok(Self::NoNewPrivileges(true)),
            ("no-new-privileges", "false") => Ok(Self::NoNewPrivileges(false)),
            ("seccomp", "unconfined") => Ok(Self::Seccomp(Seccomp::Unconfined)),
            ("seccomp", "builtin") => Ok(Self::Seccomp(Seccomp::Builtin)),
            ("seccomp", path) if !path.is_empty() => HostPath::new(path)
                .map(|path| Self::Seccomp(Seccomp::File(path)))
                .map_err(|reason| format!("names a profile that {reason}")),
            ("apparmor", profile) if super::words::is_word(profile) => {
                Ok(Self::AppArmor(profile.to_owned()))
            }
            ("label", label) if super::words::is_word(label) => Ok(Self::Label(label.to_owned())),
            ("systempaths", "unconfined") => Ok(Self::SystemPathsUnconfined),
            _ => {
                Err("is none of no-new-privileges[=true|false], seccomp=unconfined|builtin|FILE, \
                      apparmor=PROFILE, label=LABEL, systempaths=unconfined"
                    .to_owned())
            }
        }
    }
}

/// Writes the option as `docker run` takes it.
impl fmt::Display for SecurityOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNewPrivileges(on) => write!(f, "no-new-privileges={on}"),
            Self::Seccomp(Seccomp::Unconfined) => f.write_str("seccomp=unconfined"),
            Self::Seccomp(Seccomp::Builtin) => f.write_str("seccomp=builtin"),
            Self::Seccomp(Seccomp::File(path)) => write!(f, "seccomp={}", path.as_str()),
            Self::AppArmor(profile) => write!(f, "apparmor={profile}"),
            Self::Label(label) => write!(f, "label={label}"),
            Self::SystemPathsUnconfined => f.write_str("systempaths=unconfined"),
        }
    }
}
