//! Devices, graphics processors and limits of processes.

use std::fmt;

/// One `--device`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// The device on the host.
    pub host: String,
    /// Its place in the container.
    pub container: String,
    /// What may be done with it: some of `r`, `w` and `m`.
    pub permissions: String,
}

impl Device {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let form = || "is not /dev/NAME[:/dev/NAME[:rwm]]".to_owned();
        let is_mode = |text: &str| {
            !text.is_empty()
                && ["r", "w", "m"].iter().all(|c| text.matches(c).count() <= 1)
                && text.bytes().all(|b| b"rwm".contains(&b))
        };
        let parts: Vec<&str> = text.split(':').collect();
        let (host, container, permissions) = match parts.as_slice() {
            [host] => (*host, *host, "rwm"),
            [host, mode] if is_mode(mode) => (*host, *host, *mode),
            [host, container] => (*host, *container, "rwm"),
            [host, container, mode] => (*host, *container, *mode),
            _ => return Err(form()),
        };
        let is_path = |path: &str| path.starts_with('/') && !path.contains('\0');
        if !is_path(host) || !is_path(container) || !is_mode(permissions) {
            return Err(form());
        }
        Ok(Self {
            host: host.to_owned(),
            container: container.to_owned(),
            permissions: permissions.to_owned(),
        })
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.host, self.container, self.permissions)
    }
}

/// Graphics processors: `--gpus`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gpus {
    /// All there are.
    All,
    /// So many, whichever.
    Count(u32),
    /// These, by number or id.
    Devices(Vec<String>),
}

impl Gpus {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let form = || "is not all, a number, or device=ID[,ID…]".to_owned();
        // `docker run` wants quotes around several ids, which then are part of the word.
        let text = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(text);
        if text == "all" {
            return Ok(Self::All);
        }
        if let Some(ids) = text.strip_prefix("device=") {
            let ids: Vec<String> = ids.split(',').map(str::to_owned).collect();
            let valid = |id: &String| super::values::is_word(id) && !id.contains(['=', '"']);
            return if ids.iter().all(valid) { Ok(Self::Devices(ids)) } else { Err(form()) };
        }
        let count = text.strip_prefix("count=").unwrap_or(text);
        match count.parse() {
            Ok(0) | Err(_) => Err(form()),
            Ok(count) => Ok(Self::Count(count)),
        }
    }
}

impl fmt::Display for Gpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Devices(ids) => write!(f, "device={}", ids.join(",")),
        }
    }
}

/// One `--ulimit`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ulimit {
    /// Its name, such as `nofile`.
    pub name: String,
    /// What applies; -1 for no limit.
    pub soft: i64,
    /// What it may be raised to; -1 for no limit.
    pub hard: i64,
}

const ULIMITS: [&str; 15] = [
    "core",
    "cpu",
    "data",
    "fsize",
    "locks",
    "memlock",
    "msgqueue",
    "nice",
    "nofile",
    "nproc",
    "rss",
    "rtprio",
    "rttime",
    "sigpending",
    "stack",
];

impl Ulimit {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let form = || "is not NAME=SOFT[:HARD] with numbers".to_owned();
        let (name, values) = text.split_once('=').ok_or_else(form)?;
        if !ULIMITS.contains(&name) {
            return Err(format!("names no limit; there are {}", ULIMITS.join(", ")));
        }
        let number = |text: &str| text.parse().ok().filter(|number| *number >= -1);
        let (soft, hard) = values.split_once(':').unwrap_or((values, values));
        let (Some(soft), Some(hard)) = (number(soft), number(hard)) else {
            return Err(form());
        };
        if hard != -1 && (soft == -1 || soft > hard) {
            return Err("has a soft limit above the hard one".to_owned());
        }
        Ok(Self { name: name.to_owned(), soft, hard })
    }
}
