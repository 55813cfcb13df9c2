//! Which paths matter beyond the work at hand.

use super::path_context::PathContext;

/// Directories of the system: to empty one of them is to lose the machine.
const SYSTEM: [&str; 28] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/home",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/srv",
    "/sys",
    "/usr",
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var",
    "/var/lib",
    "/var/log",
    "/Users",
    "/System",
    "/Library",
];

/// Beginnings of the names of disks.
const DISKS: [&str; 13] = [
    "/dev/sd",
    "/dev/hd",
    "/dev/vd",
    "/dev/xvd",
    "/dev/nvme",
    "/dev/mmcblk",
    "/dev/disk/",
    "/dev/mapper/",
    "/dev/dm-",
    "/dev/md",
    "/dev/mtd",
    "/dev/nbd",
    "/dev/rdisk",
];

/// Directories whose files configure the machine or hold credentials, and what they are.
const SENSITIVE_DIRS: [(&str, &str); 36] = [
    ("/etc", "the system's configuration"),
    ("/boot", "what the machine boots from"),
    ("/proc", "the kernel's settings"),
    ("/sys", "the kernel's settings"),
    ("/bin", "the system's programs"),
    ("/sbin", "the system's programs"),
    ("/lib", "the system's libraries"),
    ("/usr/bin", "the system's programs"),
    ("/usr/sbin", "the system's programs"),
    ("/usr/lib", "the system's libraries and services"),
    ("/usr/local/lib/systemd", "the system's services"),
    ("/usr/local/bin", "programs that run by their plain names"),
    ("/usr/local/sbin", "programs that run by their plain names"),
    ("/opt/homebrew/bin", "programs that run by their plain names"),
    ("~/bin", "programs that run by their plain names"),
    ("~/.local/bin", "programs that run by their plain names"),
    ("~/.cargo/bin", "programs that run by their plain names"),
    ("~/go/bin", "programs that run by their plain names"),
    ("/var/spool/cron", "commands that run by the clock"),
    ("/var/lib/docker", "the container engine's own files"),
    ("~/.ssh", "SSH keys and who may log in"),
    ("~/.gnupg", "PGP keys"),
    ("~/.aws", "cloud credentials"),
    ("~/.azure", "cloud credentials"),
    ("~/.config/gcloud", "cloud credentials"),
    ("~/.kube", "cluster credentials"),
    ("~/.docker", "registry credentials"),
    ("~/.config/gh", "GitHub credentials"),
    ("~/.config/rclone", "cloud credentials"),
    ("~/.terraform.d", "cloud credentials"),
    ("~/.password-store", "passwords"),
    ("~/.local/share/keyrings", "passwords"),
    ("~/.config/systemd", "services that start by themselves"),
    ("~/.config/autostart", "programs that start by themselves"),
    ("~/.config/fish", "the shell's start-up files"),
    ("~/.config/git", "git's configuration, which can run commands"),
];

/// Files in a home that do the same.
const SENSITIVE_FILES: [(&str, &str); 30] = [
    (".bashrc", "a start-up file of the shell"),
    (".bash_profile", "a start-up file of the shell"),
    (".bash_login", "a start-up file of the shell"),
    (".bash_logout", "a start-up file of the shell"),
    (".bash_aliases", "a start-up file of the shell"),
    (".profile", "a start-up file of the shell"),
    (".zshrc", "a start-up file of the shell"),
    (".zshenv", "a start-up file of the shell"),
    (".zprofile", "a start-up file of the shell"),
    (".zlogin", "a start-up file of the shell"),
    (".zlogout", "a start-up file of the shell"),
    (".kshrc", "a start-up file of the shell"),
    (".inputrc", "a start-up file of the shell"),
    (".xinitrc", "a start-up file of the desktop"),
    (".xprofile", "a start-up file of the desktop"),
    (".pam_environment", "a start-up file of the session"),
    (".netrc", "credentials"),
    (".pgpass", "credentials"),
    (".my.cnf", "credentials"),
    (".npmrc", "credentials"),
    (".pypirc", "credentials"),
    (".git-credentials", "credentials"),
    (".vault-token", "credentials"),
    (".boto", "credentials"),
    (".s3cfg", "credentials"),
    (".authinfo", "credentials"),
    (".cargo/credentials", "credentials"),
    (".cargo/credentials.toml", "credentials"),
    (".gem/credentials", "credentials"),
    (".gitconfig", "git's configuration, which can run commands"),
];

/// Devices that everybody may write to.
const HARMLESS_DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/tty",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
    "/dev/random",
];

/// Brings a path into one form: the home as `~`, no needless slashes and dots,
/// relative to `cwd` where that is known.
pub(super) fn canonical(path: &str, cwd: Option<&str>, path_context: &PathContext) -> String {
    let joined = match cwd {
        Some(cwd) if !path.starts_with(['/', '~']) => format!("{cwd}/{path}"),
        _ => path.to_owned(),
    };
    let (root, rest) = if let Some(rest) = joined.strip_prefix('/') {
        ("/".to_owned(), rest)
    } else if joined.starts_with('~') {
        let end = joined.find('/').unwrap_or(joined.len());
        let user = if &joined[..end] == "~+" { "." } else { &joined[..end] };
        (user.to_owned(), &joined[end..])
    } else {
        (String::new(), joined.as_str())
    };
    let mut root = root;
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                // Above a home are the homes of others.
                _ if root.starts_with('~') => "/home".clone_into(&mut root),
                _ if root.is_empty() => parts.push(".."),
                // Above `/home` is `/`, and above that nothing.
                _ => "/".clone_into(&mut root),
            },
            part => parts.push(part),
        }
    }
    let below = parts.join("/");
    let whole = match (root.as_str(), below.is_empty()) {
        ("", true) => ".".to_owned(),
        ("", false) => below,
        ("/", _) => format!("/{below}"),
        (_, true) => root,
        (_, false) => format!("{root}/{below}"),
    };
    as_home(whole, path_context)
}

/// Writes the user's home as `~`.
fn as_home(path: String, path_context: &PathContext) -> String {
    // In a sandbox with a system of its own the host's home means nothing.
    let homes = [path_context.user_home.as_deref(), path_context.real_home.as_deref()];
    let homes = homes.into_iter().flatten().filter(|_| path_context.mounts.is_none());
    for home in homes.map(|home| home.trim_end_matches('/')).filter(|home| !home.is_empty()) {
        match path.strip_prefix(home) {
            Some("") => return "~".to_owned(),
            Some(rest) if rest.starts_with('/') => return format!("~{rest}"),
            _ => {}
        }
    }
    path
}

/// Says what would be lost if everything at a canonical path were removed, if
/// that is more than anybody can want.
pub(super) fn irreplaceable(path: &str) -> Option<&'static str> {
    let everything = everything_in(path);
    if everything == "/" {
        return Some("the whole system");
    }
    if everything == "~" || is_other_home(everything) {
        return Some("a home directory");
    }
    let named = if everything.contains(['*', '?', '[']) && everything.len() < 64 {
        // A wildcard of the shell does not reach across a slash.
        let glob = globset::GlobBuilder::new(everything).literal_separator(true).build();
        let glob = glob.ok()?.compile_matcher();
        SYSTEM.iter().any(|name| glob.is_match(name))
    } else {
        SYSTEM.contains(&everything)
    };
    named.then_some("a directory of the system")
}

fn is_other_home(path: &str) -> bool {
    if let Some(name) = path.strip_prefix('~') {
        return !name.contains('/');
    }
    path.strip_prefix("/home/").is_some_and(|name| !name.contains('/'))
}

/// Returns the directory whose whole contents a path with wildcards means.
pub(super) fn everything_in(path: &str) -> &str {
    let mut path = path;
    while let Some((above, last)) = path.rsplit_once('/') {
        let all = last.contains('*') && last.chars().all(|c| "*?.[]!^{},".contains(c));
        if !all {
            break;
        }
        path = if above.is_empty() { "/" } else { above };
        if path == "/" {
            break;
        }
    }
    path
}

/// Reports whether a canonical path is a disk.
pub(super) fn is_disk(path: &str) -> bool {
    DISKS.iter().any(|disk| path.starts_with(disk))
}

/// Says what a file is that should not be changed unasked; nothing for others.
pub(super) fn sensitive(path: &str, path_context: &PathContext) -> Option<&'static str> {
    if path.rsplit('/').next().is_some_and(|name| name == "docker.sock" || name == "podman.sock") {
        return Some("the socket of a container engine");
    }
    let relative = !path.starts_with(['/', '~']);
    let host = match path_context.on_host(path) {
        Some(host) => host,
        // It may well be below a mounted directory.
        None if relative && path_context.may_change_host(None) => path.to_owned(),
        None => return None,
    };
    if is_sensitive_by_name(&host) {
        return Some("a file that programs run or read when they start, or a key");
    }
    let on_host = PathContext { mounts: None, ..path_context.clone() };
    let path = canonical(&host, None, &on_host);
    if let Some(home) = &path_context.vestal_home
        && let Some(rest) = path.strip_prefix(canonical(home, None, &on_host).as_str())
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return own(rest);
    }
    // A home may be mounted as a whole.
    let mounts = path_context.mounts.iter().flatten();
    let mut dirs = mounts.map(|(_, dir)| canonical(dir, None, &on_host));
    if dirs.any(|dir| is_below(&path, &dir) && is_hidden_in_home(&path, &dir)) {
        return Some("settings of a program");
    }
    if is_harmless_device(&path) {
        return None;
    }
    if path.starts_with("/dev/") && !path.starts_with("/dev/shm/") {
        return Some("a device");
    }
    let in_home = in_a_home(&path);
    let written = in_home.as_deref().unwrap_or(&path);
    let dir = SENSITIVE_DIRS.iter().find(|(dir, _)| {
        written.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    let file = written
        .strip_prefix("~/")
        .and_then(|name| SENSITIVE_FILES.iter().find(|(file, _)| *file == name));
    dir.or(file).map(|(_, what)| *what)
}

/// Directories that hold temporary files, which nobody misses.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Directories, wherever they lie, whose files run by themselves or hold keys.
const RUN_BY_THEMSELVES: [&str; 13] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".password-store",
    ".husky",
    ".githooks",
    ".emacs.d",
    ".config/systemd",
    ".config/autostart",
    ".config/fish",
];

/// Files, wherever they lie, that programs run or are configured by when they
/// start; the start-up files of shells are in [`SENSITIVE_FILES`].
const READ_AT_START: [&str; 24] = [
    "bin/activate",
    "gradlew",
    "mvnw",
    ".envrc",
    ".vimrc",
    ".exrc",
    ".nvimrc",
    ".emacs",
    ".gdbinit",
    ".lldbinit",
    ".tmux.conf",
    ".screenrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".curlrc",
    ".wgetrc",
    ".pythonrc",
    "usercustomize.py",
    "sitecustomize.py",
    ".psqlrc",
    ".claude/settings.json",
    ".claude/settings.local.json",
    "authorized_keys",
    "crontab",
];

/// Files, wherever they lie, that are keys or hold them.
const KEYS: [&str; 5] = [".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519"];

/// Endings of the names of files that hold keys.
const KEY_ENDINGS: [&str; 2] = ["pem", "key"];

/// What follows `.env.` in the names of examples, which hold none.
const ENV_TEMPLATES: [&str; 5] = ["example", "sample", "template", "dist", "defaults"];

/// Directories of a home that hold keys or passwords, and what in them is none.
const SECRET_DIRS: [(&str, &[&str]); 16] = [
    (".ssh", &["config", "known_hosts", "known_hosts.old", "authorized_keys"]),
    (".gnupg", &["gpg.conf", "gpg-agent.conf", "pubring.kbx"]),
    (".aws", &["config"]),
    (".azure", &["config"]),
    (".kube", &[]),
    (".config/gcloud", &[]),
    (".config/gh", &["config.yml"]),
    (".config/rclone", &[]),
    (".config/google-chrome", &[]),
    (".config/chromium", &[]),
    (".config/sops", &[]),
    (".mozilla", &[]),
    (".terraform.d", &[]),
    (".password-store", &[]),
    (".local/share/keyrings", &[]),
    (".docker/config.json", &[]),
];

/// Reports whether a canonical path names keys or passwords, by where it lies and by its name.
pub(super) fn is_secret(path: &str, path_context: &PathContext) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let pattern = name.contains(['*', '?', '[', '{']);
    if let Some(home) = &path_context.vestal_home
        && let Some(rest) = path.strip_prefix(canonical(home, None, path_context).as_str())
        && (rest.is_empty() || rest.starts_with('/'))
    {
        return own(rest).is_some() && is_secret_of_own(rest, name, pattern);
    }
    let home = in_a_home(path).or_else(|| path.starts_with("~/").then(|| path.to_owned()));
    if let Some(rest) = home.as_deref().and_then(|home| home.strip_prefix("~/")) {
        let dir = SECRET_DIRS.iter().find(|(dir, _)| is_below(rest, dir));
        if let Some((_, plain)) = dir {
            return !plain.contains(&name) && name.strip_suffix(".pub").is_none();
        }
        let mut credentials = SENSITIVE_FILES.iter().filter(|(_, what)| *what == "credentials");
        // The settings of npm are read as often as the key in them.
        if credentials.any(|(file, _)| *file == rest && rest != ".npmrc") {
            return true;
        }
        // `~/.vestal` of others, and what a wildcard may stand for.
        if is_below(rest, ".vestal") {
            return is_secret_of_own(&rest[".vestal".len()..], name, pattern);
        }
    }
    let of_system = ["/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-"];
    let of_process = path.starts_with("/proc/") && matches!(name, "environ" | "mem");
    let is_public = is_below(path, "/usr") || is_below(path, "/etc/ssl/certs");
    of_system.contains(&path)
        || of_process
        || is_below(path, "/etc/ssl/private")
        || is_key(&path.to_ascii_lowercase()) && !is_public
        || path.starts_with("/etc/ssh/") && name.starts_with("ssh_host_") && name.ends_with("_key")
}

/// Reports whether a path below Vestal's home, with its leading slash, names its keys, the
/// conversations, or a directory that holds them.
fn is_secret_of_own(rest: &str, name: &str, pattern: bool) -> bool {
    let rest = rest.trim_matches('/');
    let profile = rest
        .strip_prefix("profiles")
        .is_some_and(|below| below.trim_matches('/').split('/').count() == 1);
    let held = [".env", ".db", "auth", "token", "secret", "credential", "oauth", "gateway"];
    rest.is_empty() || profile || pattern || held.iter().any(|part| name.contains(part))
}

/// Reports whether a canonical path is the same as another or below it.
pub(super) fn is_below(path: &str, dir: &str) -> bool {
    match path.strip_prefix(dir.trim_end_matches('/')) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

/// Reports whether a canonical path is a device that everybody may write to.
pub(super) fn is_harmless_device(path: &str) -> bool {
    let descriptor = path.strip_prefix("/dev/fd/");
    HARMLESS_DEVICES.contains(&path)
        || descriptor.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()))
}

/// Reports whether a canonical path lies in a directory for temporary files.
pub(super) fn is_temporary(path: &str) -> bool {
    TEMPORARY.iter().any(|dir| path.len() > dir.len() && is_below(path, dir))
}

/// Reports whether a file is run, or read as settings, by programs that start
/// later, or is a key, judged by its name alone: in whatever directory it lies.
pub(super) fn is_sensitive_by_name(path: &str) -> bool {
    // Some filesystems do not tell letters' cases apart.
    let path = path.to_ascii_lowercase();
    let path = path.as_str();
    let named = |file: &str| {
        path.strip_suffix(file).is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let within = |dir: &str| {
        let mut from = 0;
        while let Some(at) = path[from..].find(dir).map(|offset| from + offset) {
            let end = at + dir.len();
            let begins = at == 0 || path.as_bytes()[at - 1] == b'/';
            if begins && path[end..].chars().next().is_none_or(|next| next == '/') {
                return true;
            }
            from = end;
        }
        false
    };
    let in_git = within(".git") && !named(".git/info/exclude");
    in_git
        || SENSITIVE_FILES.iter().any(|(file, _)| named(file))
        || READ_AT_START.iter().any(|file| named(file))
        || RUN_BY_THEMSELVES.iter().any(|dir| within(dir))
        || is_key(path)
}

/// Reports whether a file is a key or holds them, by its name in small letters.
fn is_key(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let variables = name.strip_prefix(".env.").is_some_and(|kind| !ENV_TEMPLATES.contains(&kind));
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    variables || KEYS.contains(&name) || ending.is_some_and(|it| KEY_ENDINGS.contains(&it))
}

/// Reports whether a canonical path is hidden right below a home, where programs
/// keep their settings; not so if the working directory lies there, too.
pub(super) fn is_hidden_in_home(path: &str, dir: &str) -> bool {
    let home = in_a_home(path);
    let rest = home.as_deref().unwrap_or(path).strip_prefix("~/");
    let first = rest.and_then(|rest| rest.split('/').next()).filter(|name| name.starts_with('.'));
    first.is_some_and(|first| first != ".cache" && !is_below(dir, &format!("~/{first}")))
}

/// Says what a file in the directory of Vestal's own is.
fn own(rest: &str) -> Option<&'static str> {
    let mut parts = rest.trim_start_matches('/').split('/');
    match (parts.next(), parts.next(), parts.next()) {
        // Those are the sandboxes' files, not ours.
        (Some("sandboxes"), Some(_), Some("workspace" | "home")) => None,
        (Some("profiles"), Some(_), Some("sandboxes")) => match (parts.next(), parts.next()) {
            (Some(_), Some("workspace" | "home")) => None,
            _ => Some("a file of Vestal's own"),
        },
        _ => Some("a file of Vestal's own"),
    }
}

/// Writes a path below anybody's home with `~` for it.
fn in_a_home(path: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix("/root/") {
        return Some(format!("~/{rest}"));
    }
    let rest = path.strip_prefix("/home/").or_else(|| {
        let rest = path.strip_prefix('~')?;
        (!rest.starts_with('/')).then_some(rest)
    })?;
    rest.split_once('/').map(|(_, rest)| format!("~/{rest}"))
}
