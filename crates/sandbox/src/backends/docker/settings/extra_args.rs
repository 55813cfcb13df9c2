//! Words for `docker run`, each with a meaning.

use std::collections::BTreeMap;

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, texts};
use vestal_config::{Setting, SettingValue};

use super::devices::{Device, Gpus, Ulimit};
use super::flags;
use super::mounts::{MountFlag, MountKind};
use super::values::{PortMapping, Seccomp, SecurityOption};
use crate::settings::exposes;

/// Words as for `docker run`, read into what they mean.
///
/// Every flag that is allowed has a field; an absent one leaves the field
/// empty. Of flags that hold one value the last counts, as with `docker run`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExtraArgs {
    /// The words as they were given.
    pub(super) words: Vec<String>,
    /// `--add-host`, each `NAME:ADDRESS` or `NAME:host-gateway`.
    pub add_hosts: Vec<String>,
    /// `--cap-add`, in capitals without `CAP_`.
    pub cap_add: Vec<String>,
    /// `--cap-drop`, in capitals without `CAP_`.
    pub cap_drop: Vec<String>,
    /// `--cpu-shares`.
    pub cpu_shares: Option<i64>,
    /// `--cpuset-cpus`, such as `0-3,5`.
    pub cpuset_cpus: Option<String>,
    /// `--cpuset-mems`, such as `0`.
    pub cpuset_mems: Option<String>,
    /// `--device`.
    pub devices: Vec<Device>,
    /// `--dns`, addresses.
    pub dns: Vec<String>,
    /// `--dns-option`.
    pub dns_options: Vec<String>,
    /// `--dns-search`.
    pub dns_search: Vec<String>,
    /// `--gpus`.
    pub gpus: Option<Gpus>,
    /// `--group-add`, names or numbers.
    pub group_add: Vec<String>,
    /// `--hostname`.
    pub hostname: Option<String>,
    /// `--init`. It has no effect: the guest is the first process and reaps.
    pub init: bool,
    /// `--ipc`.
    pub ipc: Option<String>,
    /// `--label`; none begins with `vestal-`.
    pub labels: BTreeMap<String, String>,
    /// `--memory-reservation`, in bytes.
    pub memory_reservation: Option<i64>,
    /// `--memory-swap`, in bytes; -1 for no limit.
    pub memory_swap: Option<i64>,
    /// `--memory-swappiness`, -1 to 100.
    pub memory_swappiness: Option<i64>,
    /// `--mount`, each with a target of its own.
    pub mounts: Vec<MountFlag>,
    /// `--network`.
    pub network: Option<String>,
    /// `--oom-score-adj`.
    pub oom_score_adj: Option<i64>,
    /// `--pid`.
    pub pid: Option<String>,
    /// `--platform`.
    pub platform: Option<String>,
    /// `--privileged`.
    pub privileged: bool,
    /// `--publish`, a mapping for every port.
    pub publish: Vec<PortMapping>,
    /// `--read-only`.
    pub read_only: bool,
    /// `--runtime`.
    pub runtime: Option<String>,
    /// `--security-opt`, in the order given.
    pub security_opt: Vec<SecurityOption>,
    /// `--shm-size`, in bytes.
    pub shm_size: Option<i64>,
    /// `--sysctl`.
    pub sysctls: BTreeMap<String, String>,
    /// `--tmpfs`: targets and their options, which may be empty.
    pub tmpfs: BTreeMap<String, String>,
    /// `--ulimit`, one of a name.
    pub ulimits: Vec<Ulimit>,
    /// `--user`: whom commands run as, a name or a number, and a group after a
    /// colon.
    pub user: Option<String>,
    /// `--userns`.
    pub userns: Option<String>,
    /// `--uts`.
    pub uts: Option<String>,
}

impl ExtraArgs {
    /// No words.
    pub const EMPTY: Self = Self {
        words: Vec::new(),
        add_hosts: Vec::new(),
        cap_add: Vec::new(),
        cap_drop: Vec::new(),
        cpu_shares: None,
        cpuset_cpus: None,
        cpuset_mems: None,
        devices: Vec::new(),
        dns: Vec::new(),
        dns_options: Vec::new(),
        dns_search: Vec::new(),
        gpus: None,
        group_add: Vec::new(),
        hostname: None,
        init: false,
        ipc: None,
        labels: BTreeMap::new(),
        memory_reservation: None,
        memory_swap: None,
        memory_swappiness: None,
        mounts: Vec::new(),
        network: None,
        oom_score_adj: None,
        pid: None,
        platform: None,
        privileged: false,
        publish: Vec::new(),
        read_only: false,
        runtime: None,
        security_opt: Vec::new(),
        shm_size: None,
        sysctls: BTreeMap::new(),
        tmpfs: BTreeMap::new(),
        ulimits: Vec::new(),
        user: None,
        userns: None,
        uts: None,
    };

    /// Reads words that were kept from an earlier time; none if they mean nothing any more.
    pub fn from_words(words: Vec<String>) -> Option<Self> {
        flags::parse(words).ok()
    }

    /// Returns the words as they were given.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Reports whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Returns where something is mounted.
    pub fn targets(&self) -> impl Iterator<Item = &str> {
        let mounts = self.mounts.iter().map(|mount| mount.target.as_str());
        mounts.chain(self.tmpfs.keys().map(String::as_str))
    }

    /// Returns whether a container with these words may be isolated more than one with others:
    /// something is taken from it, or a restriction is new. What only adds is not among it.
    pub fn may_isolate_more_than(&self, was: &Self) -> bool {
        self.takes_away_from(was) || self.restricts_more_than(was)
    }

    /// Returns whether something that a container could do or reach is missing.
    fn takes_away_from(&self, was: &Self) -> bool {
        let kept = self.weakens();
        was.weakens().iter().any(|flag| !kept.contains(flag))
            || lacks(&self.mounts, &was.mounts)
            || lacks(&self.publish, &was.publish)
            || lacks(&self.group_add, &was.group_add)
    }

    /// Returns whether a restriction is new, or another one.
    fn restricts_more_than(&self, was: &Self) -> bool {
        let strict = |option: &&SecurityOption| !loosens(option);
        let spaces = [
            (&self.network, &was.network),
            (&self.pid, &was.pid),
            (&self.ipc, &was.ipc),
            (&self.uts, &was.uts),
            (&self.userns, &was.userns),
        ];
        (self.read_only && !was.read_only)
            || lacks(&was.cap_drop, &self.cap_drop)
            || self
                .security_opt
                .iter()
                .filter(strict)
                .any(|option| !was.security_opt.contains(option))
            || spaces.iter().any(|(now, was)| {
                now != was && now.as_ref().is_some_and(|now| !is_shared(now))
            })
            || is_another(self.user.as_ref(), was.user.as_ref())
            || is_another(self.runtime.as_ref(), was.runtime.as_ref())
            || is_another(self.cpuset_cpus.as_ref(), was.cpuset_cpus.as_ref())
            || is_another(self.cpuset_mems.as_ref(), was.cpuset_mems.as_ref())
            || is_another(self.memory_swap.filter(|swap| *swap >= 0).as_ref(), was.memory_swap.as_ref())
            || self.shm_size.unwrap_or(SHM_SIZE) < was.shm_size.unwrap_or(SHM_SIZE)
            || lacks(&was.ulimits, &self.ulimits)
            || self.sysctls != was.sysctls
            // Over a directory of the image or of a mount it hides what is there.
            || self.tmpfs.iter().any(|(target, options)| was.tmpfs.get(target) != Some(options))
    }

    /// Names what of it weakens isolation, each as the flag that does.
    pub fn weakens(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.privileged {
            found.push("--privileged".to_owned());
        }
        found.extend(self.cap_add.iter().map(|name| format!("--cap-add {name}")));
        found.extend(
            self.security_opt
                .iter()
                .filter(|option| loosens(option))
                .map(|option| format!("--security-opt {option}")),
        );
        let spaces = [
            ("pid", &self.pid),
            ("ipc", &self.ipc),
            ("uts", &self.uts),
            ("userns", &self.userns),
            ("network", &self.network),
        ];
        for (flag, value) in spaces {
            let shared = value.as_ref().filter(|value| is_shared(value));
            found.extend(shared.map(|value| format!("--{flag} {value}")));
        }
        found.extend(self.devices.iter().map(|device| format!("--device {device}")));
        found.extend(self.gpus.as_ref().map(|gpus| format!("--gpus {gpus}")));
        for mount in &self.mounts {
            if let MountKind::Bind { source, .. } = &mount.kind
                && let Some(what) = exposes(source)
            {
                found.push(format!("--mount at {} mounts {what}", mount.target));
            }
        }
        found
    }
}

/// Size of `/dev/shm` where none is set.
const SHM_SIZE: i64 = 64 << 20;

/// Returns whether a namespace is another one's.
fn is_shared(namespace: &str) -> bool {
    namespace == "host" || namespace.starts_with("container:")
}

/// Returns whether something of `before` is not in `list`.
fn lacks<T: PartialEq>(list: &[T], before: &[T]) -> bool {
    before.iter().any(|entry| !list.contains(entry))
}

/// Returns whether there is a value that was not there before. Of two values it is not known which
/// isolates more.
fn is_another<T: PartialEq>(now: Option<&T>, was: Option<&T>) -> bool {
    now.is_some() && now != was
}

fn loosens(option: &SecurityOption) -> bool {
    match option {
        SecurityOption::NoNewPrivileges(on) => !on,
        SecurityOption::Seccomp(profile) => *profile == Seccomp::Unconfined,
        SecurityOption::AppArmor(profile) => profile == "unconfined",
        SecurityOption::Label(label) => label == "disable",
        SecurityOption::SystemPathsUnconfined => true,
    }
}

const HINT: &str = "write it as [\"--shm-size=1g\", \"--cap-add\", \"SYS_PTRACE\"]";

/// Reports whether `--env` or `-e`, after which a secret may stand, is in a text.
fn sets_a_variable(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-')
        .any(|word| word.starts_with("--env") || word.starts_with("-e"))
}

impl Setting for ExtraArgs {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let read = texts(input, HINT).and_then(flags::parse);
        // A message repeats words, whichever of them is wrong. With a secret among them it
        // repeats none, and the flag before the secret is wrong in any case.
        read.map_err(
            |refusal| {
                if sets_a_variable(&input.written()) { flags::about_env() } else { refusal }
            },
        )
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::List(self.words.iter().map(|word| SettingValue::Text(word.clone())).collect())
    }

    fn allowed((): &()) -> String {
        format!("a list of words as for docker run, of the flags {}", flags::mapped().join(", "))
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"["--shm-size=1g"]"#.to_owned(),
            r#"["--cap-add", "SYS_PTRACE", "--ulimit=nofile=1024:4096"]"#.to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": ["string", "number", "boolean"]}})
    }
}

#[cfg(test)]
#[path = "extra_args_tests.rs"]
mod tests;
