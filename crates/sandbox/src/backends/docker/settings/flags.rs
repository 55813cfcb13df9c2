//! The flags of `docker run`: which have a meaning here, and what to use
//! instead of the others.

use vestal_config::kind::ValueRefusal;

use super::devices::{Device, Gpus, Ulimit};
use super::extra_args::ExtraArgs;
use super::mounts::{self, MountFlag};
use super::values::{self, SecurityOption};

/// The sizes that a flag takes for a value that the API wants signed.
const MAX_SIZE: u64 = i64::MAX as u64;

/// What is wrong with a value, to be read after "which".
type FlagCheck = Result<(), String>;

/// What a flag does.
enum Meaning {
    /// Takes a value.
    Value(fn(&mut ExtraArgs, &str) -> FlagCheck),
    /// Is on, or off with `=false`.
    Switch(fn(&mut ExtraArgs, bool)),
}

/// A flag that is read.
struct Flag {
    /// Without dashes; the first is its own name.
    names: &'static [&'static str],
    short: Option<char>,
    meaning: Meaning,
}

/// A flag that is not, and why.
struct Refused {
    names: &'static [&'static str],
    short: Option<char>,
    /// What to do about it.
    advice: &'static str,
}

const fn value(
    names: &'static [&'static str],
    short: Option<char>,
    read: fn(&mut ExtraArgs, &str) -> FlagCheck,
) -> Flag {
    Flag { names, short, meaning: Meaning::Value(read) }
}

const fn switch(names: &'static [&'static str], set: fn(&mut ExtraArgs, bool)) -> Flag {
    Flag { names, short: None, meaning: Meaning::Switch(set) }
}

const fn refused(
    names: &'static [&'static str],
    short: Option<char>,
    advice: &'static str,
) -> Refused {
    Refused { names, short, advice }
}

static FLAGS: &[Flag] = &[
    value(&["add-host"], None, |a, v| push(&mut a.add_hosts, values::extra_host(v))),
    value(&["cap-add"], None, |a, v| push(&mut a.cap_add, values::capability(v))),
    value(&["cap-drop"], None, |a, v| push(&mut a.cap_drop, values::capability(v))),
    value(&["cpu-shares"], Some('c'), |a, v| {
        put(&mut a.cpu_shares, values::integer(v, 2, 262_144))
    }),
    value(&["cpuset-cpus"], None, |a, v| put(&mut a.cpuset_cpus, values::number_set(v))),
    value(&["cpuset-mems"], None, |a, v| put(&mut a.cpuset_mems, values::number_set(v))),
    value(&["device"], None, |a, v| push(&mut a.devices, Device::parse(v))),
    value(&["dns"], None, |a, v| push(&mut a.dns, values::ip(v))),
    value(&["dns-option", "dns-opt"], None, |a, v| push(&mut a.dns_options, values::word(v))),
    value(&["dns-search"], None, |a, v| push(&mut a.dns_search, values::word(v))),
    value(&["gpus"], None, |a, v| put(&mut a.gpus, Gpus::parse(v))),
    value(&["group-add"], None, |a, v| push(&mut a.group_add, values::word(v))),
    value(&["hostname"], Some('h'), |a, v| put(&mut a.hostname, values::host_name(v))),
    switch(&["init"], |a, on| a.init = on),
    value(&["ipc"], None, |a, v| put(&mut a.ipc, values::namespace(v, &IPC))),
    value(&["label"], Some('l'), label),
    value(&["memory-reservation"], None, |a, v| put(&mut a.memory_reservation, size(v))),
    value(&["memory-swap"], None, |a, v| {
        put(&mut a.memory_swap, if v == "-1" { Ok(-1) } else { size(v) })
    }),
    value(&["memory-swappiness"], None, |a, v| {
        put(&mut a.memory_swappiness, values::integer(v, -1, 100))
    }),
    value(&["mount"], None, |a, v| {
        let mount = MountFlag::parse(v)?;
        free(a, &mount.target)?;
        a.mounts.push(mount);
        Ok(())
    }),
    value(&["network", "net"], None, |a, v| put(&mut a.network, network(v))),
    value(&["oom-score-adj"], None, |a, v| {
        put(&mut a.oom_score_adj, values::integer(v, -1000, 1000))
    }),
    value(&["pid"], None, |a, v| put(&mut a.pid, values::namespace(v, &["host"]))),
    value(&["platform"], None, |a, v| put(&mut a.platform, values::platform(v))),
    switch(&["privileged"], |a, on| a.privileged = on),
    value(&["publish"], Some('p'), |a, v| values::publish(v, &mut a.publish)),
    switch(&["read-only"], |a, on| a.read_only = on),
    value(&["runtime"], None, |a, v| put(&mut a.runtime, values::word(v))),
    value(&["security-opt"], None, |a, v| push(&mut a.security_opt, SecurityOption::parse(v))),
    value(&["shm-size"], None, |a, v| put(&mut a.shm_size, size(v))),
    value(&["sysctl"], None, |a, v| {
        let (name, value) = values::assignment(v)?;
        a.sysctls.insert(name, value);
        Ok(())
    }),
    value(&["tmpfs"], None, |a, v| {
        let (target, options) = mounts::tmpfs(v)?;
        free(a, &target)?;
        a.tmpfs.insert(target, options);
        Ok(())
    }),
    value(&["ulimit"], None, |a, v| {
        let limit = Ulimit::parse(v)?;
        a.ulimits.retain(|other| other.name != limit.name);
        a.ulimits.push(limit);
        Ok(())
    }),
    value(&["user"], Some('u'), |a, v| put(&mut a.user, user(v))),
    value(&["userns"], None, |a, v| put(&mut a.userns, values::word(v))),
    value(&["uts"], None, |a, v| put(&mut a.uts, values::host_only(v))),
];

const IPC: [&str; 4] = ["host", "none", "private", "shareable"];

const NOT_ATTACHED: &str = "Vestal starts the container by itself and reaches it through its guest";

static REFUSED: &[Refused] = &[
    refused(
        &["env", "env-file"],
        Some('e'),
        "use terminal.docker_env or terminal.docker_forward_env",
    ),
    refused(&["volume"], Some('v'), "use terminal.docker_volumes"),
    refused(
        &["name"],
        None,
        "Vestal names its containers, so that it finds them again; name the task instead (-t)",
    ),
    refused(
        &["rm"],
        None,
        "terminal.persist_across_processes and terminal.retention_seconds decide when a \
         container ends",
    ),
    refused(&["detach"], Some('d'), NOT_ATTACHED),
    refused(&["interactive"], Some('i'), NOT_ATTACHED),
    refused(&["tty"], Some('t'), NOT_ATTACHED),
    refused(&["attach"], Some('a'), NOT_ATTACHED),
    refused(
        &["entrypoint"],
        None,
        "the guest is started first; terminal.docker_keep_entrypoint keeps the image's own",
    ),
    refused(&["restart"], None, "Vestal starts a stopped container when it is used again"),
    refused(&["workdir"], Some('w'), "use terminal.cwd"),
    refused(&["cpus"], None, "use terminal.container_cpu"),
    refused(&["memory"], Some('m'), "use terminal.container_memory, in MB"),
    refused(&["pids-limit"], None, "use terminal.container_pids"),
    refused(&["storage-opt"], None, "use terminal.container_disk, in MB"),
];

/// Returns the flags that have a meaning, as they are written.
pub(super) fn mapped() -> Vec<String> {
    let all = |flag: &Flag| {
        let long = flag.names.iter().map(|name| format!("--{name}"));
        long.chain(flag.short.map(|short| format!("-{short}"))).collect::<Vec<_>>().join("/")
    };
    FLAGS.iter().map(all).collect()
}

fn push<T>(list: &mut Vec<T>, value: Result<T, String>) -> FlagCheck {
    list.push(value?);
    Ok(())
}

fn put<T>(place: &mut Option<T>, value: Result<T, String>) -> FlagCheck {
    *place = Some(value?);
    Ok(())
}

fn size(text: &str) -> Result<i64, String> {
    let bytes = values::bytes(text).filter(|bytes| (1..=MAX_SIZE).contains(bytes));
    bytes
        .and_then(|bytes| i64::try_from(bytes).ok())
        .ok_or_else(|| "is not a size such as 65536, 512m or 1.5g".to_owned())
}

fn label(args: &mut ExtraArgs, text: &str) -> FlagCheck {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if name.to_ascii_lowercase().starts_with("vestal-") {
        return Err("is one of Vestal's own, by which it finds its containers".to_owned());
    }
    if name.is_empty() || name.contains(char::is_whitespace) || text.contains('\0') {
        return Err("is not NAME=VALUE".to_owned());
    }
    args.labels.insert(name.to_owned(), value.to_owned());
    Ok(())
}

fn user(text: &str) -> Result<String, String> {
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with('-')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
    };
    let (name, group) = text.split_once(':').unwrap_or((text, "0"));
    if is_name(name) && is_name(group) {
        return Ok(text.to_owned());
    }
    Err("is not USER or USER:GROUP, names or numbers".to_owned())
}

fn network(text: &str) -> Result<String, String> {
    let name = values::word(text)?;
    if name.starts_with("name=") {
        return Err("is the long form; name the network alone".to_owned());
    }
    Ok(name)
}

/// Reports a target that is taken. Engines refuse two mounts at one place only
/// when a container is started.
fn free(args: &ExtraArgs, target: &str) -> FlagCheck {
    if args.targets().any(|taken| taken == target) {
        return Err(format!("mounts a second thing at {target}"));
    }
    Ok(())
}

/// Reads the words.
pub(super) fn parse(given: Vec<String>) -> Result<ExtraArgs, ValueRefusal> {
    let mut args = ExtraArgs::EMPTY;
    let mut rest = given.iter().map(String::as_str);
    while let Some(word) = rest.next() {
        let (shown, flag, attached) = find(word)?;
        match &flag.meaning {
            Meaning::Switch(set) => set(&mut args, on_or_off(&shown, attached)?),
            Meaning::Value(read) => {
                let value = attached.or_else(|| rest.next()).ok_or_else(|| {
                    ValueRefusal::new(format!("ends in {shown}, which needs a value"))
                })?;
                read(&mut args, value).map_err(|reason| {
                    ValueRefusal::new(format!("holds {shown} {value:?}, which {reason}"))
                })?;
            }
        }
    }
    args.words = given;
    Ok(args)
}

/// Returns a flag as it is written, what it means, and the value in the same word.
fn find(word: &str) -> Result<(String, &'static Flag, Option<&str>), ValueRefusal> {
    if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
        let (name, attached) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let shown = format!("--{name}");
        if let Some(flag) = FLAGS.iter().find(|flag| flag.names.contains(&name)) {
            return Ok((shown, flag, attached));
        }
        let known = REFUSED.iter().find(|flag| flag.names.contains(&name));
        return Err(not_taken(&shown, known));
    }
    let mut characters = word.chars();
    match (characters.next(), characters.next()) {
        (Some('-'), Some(short)) if short != '-' => {
            let shown = format!("-{short}");
            if let Some(flag) = FLAGS.iter().find(|flag| flag.short == Some(short)) {
                let attached = Some(characters.as_str()).filter(|value| !value.is_empty());
                let attached = attached.map(|value| value.strip_prefix('=').unwrap_or(value));
                return Ok((shown, flag, attached));
            }
            let known = REFUSED.iter().find(|flag| flag.short == Some(short));
            Err(not_taken(&shown, known))
        }
        _ => Err(ValueRefusal::new(format!("holds {word:?} where a flag is expected"))
            .suggesting(Some("write flags only; image and command are Vestal's".to_owned()))),
    }
}

/// Says why words that set a variable are not taken, without repeating any.
pub(super) fn about_env() -> ValueRefusal {
    let known = REFUSED.iter().find(|refused| refused.short == Some('e'));
    not_taken("--env", known).about_a_secret()
}

/// Says why a flag is not taken and what to do about it.
fn not_taken(shown: &str, known: Option<&Refused>) -> ValueRefusal {
    if let Some(known) = known {
        return ValueRefusal::new(format!("holds {shown}, which is not taken from here"))
            .suggesting(Some(known.advice.to_owned()));
    }
    if let Some((flag, _)) = shown.split_once(char::is_whitespace) {
        let name = flag.trim_start_matches('-');
        if let Some(known) = REFUSED.iter().find(|refused| refused.names.contains(&name)) {
            return not_taken(flag, Some(known));
        }
        return ValueRefusal::new(format!("holds {flag} and its value in one word"))
            .suggesting(Some(format!("write them as two words or as {flag}=VALUE")));
    }
    ValueRefusal::new(format!("holds {shown}, which is not a flag that Vestal maps"))
}

fn on_or_off(shown: &str, value: Option<&str>) -> Result<bool, ValueRefusal> {
    match value {
        None => Ok(true),
        Some(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "t" => Ok(true),
            "false" | "0" | "f" => Ok(false),
            _ => Err(ValueRefusal::new(format!(
                "holds {shown} with something else than true or false"
            ))),
        },
    }
}
