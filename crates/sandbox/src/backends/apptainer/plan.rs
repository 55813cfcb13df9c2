//! The plan of a container: Apptainer's command line and configuration, and what the stage
//! takes away inside of it before the guest starts.
//!
//! Everything is set on the command line or in a configuration of our own, so that
//! nothing depends on what the machine's configuration adds: no home, no directories of the
//! administrator, no variables. Nothing secret is on the command line.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use minicbor::bytes::ByteVec;
use vestal_stage::{MASKED_PROC, READ_ONLY_PROC};
use vestal_wire::ContainerConfinement;

use super::program::MountRights;
use super::settings::ApptainerSettings;
use crate::backend::BackendError;
use crate::backends::native::{HOSTNAME, HostDirs};
use crate::backends::own_system::{
    BOOT_DIR, GUEST_FILE, IO_DIR, MountAt, NEVER, SETTINGS_FILE, STATE_DIR, WORKSPACE, refused, vet,
};
use crate::mounts::{Mounts, covers};

/// Where the stage is in a container.
const STAGE_FILE: &str = "/.vestal/stage";

/// What the stage takes away, in the boot directory.
pub(super) const CONFINEMENT: &str = "confinement";

/// An empty directory, in the boot directory, that is put over what is not to be seen.
pub(super) const EMPTY: &str = "empty";

/// Name of the configuration in the instance's directory.
const CONFIG: &str = "apptainer.conf";

/// The home of commands that run as root.
const ROOT_HOME: &str = "/root";

/// The home of commands that run as an ordinary user.
const USER_HOME: &str = "/home/vestal";

/// Directories in memory, which are lost when the container ends.
const IN_MEMORY: &str = "/run";

/// Megabytes that `/tmp`, `/var/tmp`, `/run` and Apptainer's own files may take together.
const MEMORY_MB: u64 = 1024;

/// The same with a workspace and a home in memory.
const EVERYTHING_MB: u64 = 12 * 1024;

/// The capabilities of root in a container: `CHOWN`, `DAC_OVERRIDE`, `FOWNER`, `SETGID` and
/// `SETUID`, with which packages are installed and servers leave root.
const CAPABILITIES: [(u32, &str); 5] = [
    (0, "CAP_CHOWN"),
    (1, "CAP_DAC_OVERRIDE"),
    (3, "CAP_FOWNER"),
    (6, "CAP_SETGID"),
    (7, "CAP_SETUID"),
];

/// Variables that Apptainer adds, by how they begin: they name files of this machine, or are
/// for its own shell.
const HIDDEN_VARIABLES: [&str; 6] =
    ["APPTAINER_", "SINGULARITY_", "PROMPT_COMMAND", "PS1", "USER_PATH", "SHLVL"];

/// Everything that determines a container.
#[derive(Debug)]
pub(super) struct ContainerPlanInput<'a> {
    pub(super) settings: &'a ApptainerSettings,
    pub(super) dirs: &'a HostDirs,
    pub(super) rights: MountRights,
    /// The image's file or directory.
    pub(super) image: &'a Path,
    /// The stage's program on this machine.
    pub(super) stage: &'a Path,
    /// The host directories that passed the checks.
    pub(super) mounts: &'a Mounts,
    /// Most processes, if no control group counts them.
    pub(super) max_processes: Option<u64>,
    /// Filters of system calls.
    pub(super) filters: Vec<ByteVec>,
    /// Whether a path of this machine exists.
    pub(super) exists: fn(&Path) -> bool,
}

/// A planned container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ApptainerContainer {
    /// The arguments of Apptainer.
    pub(super) arguments: Vec<OsString>,
    /// The configuration file and its content, where one of our own is taken.
    pub(super) config: Option<(PathBuf, String)>,
    pub(super) confinement: ContainerConfinement,
    /// Directories that the container has of this machine at a place, by the path that was
    /// asked for: the user's.
    pub(super) user_mounts: Vec<UserMount>,
    /// Directories of this machine to make, with their modes.
    pub(super) dirs_to_make: Vec<(PathBuf, u32)>,
    pub(super) home: PathBuf,
    pub(super) start_dir: PathBuf,
    /// User settings that weaken the isolation.
    pub(super) weakened: Vec<String>,
}

/// A directory or file of the user in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UserMount {
    /// Its path, as it was asked for.
    pub(super) asked: PathBuf,
    /// Where it is in the container.
    pub(super) target: PathBuf,
    pub(super) read_only: bool,
}

/// Where a container keeps its own files.
pub(super) fn overlay_dir(dirs: &HostDirs) -> PathBuf {
    dirs.layers.clone()
}

/// Returns the home of commands.
pub(super) fn home(rights: MountRights) -> &'static Path {
    Path::new(match rights {
        MountRights::Root => ROOT_HOME,
        MountRights::UserNamespace | MountRights::SetUid => USER_HOME,
    })
}

/// Plans a container.
pub(super) fn plan(input: &ContainerPlanInput<'_>) -> Result<ApptainerContainer, BackendError> {
    let ContainerPlanInput { settings, dirs, rights, .. } = input;
    let home = home(*rights);
    let user_mounts = user_mounts(settings)?;
    let is_taken = |target: &Path| user_mounts.iter().any(|mount| mount.target == target);
    let config =
        config(*rights, settings.persistent).map(|content| (dirs.instance.join(CONFIG), content));
    let mut line = CommandLine::default();
    if let Some((path, _)) = &config {
        line.add("--config").add(path);
    }
    line.add("exec").add("--containall").add("--no-init").add("--no-eval");
    line.add("--no-mount").add("sys,bind-paths").add("--hostname").add(HOSTNAME);
    line.add("--pwd").add("/");
    if !settings.network {
        line.add("--net").add("--network").add("none");
    }
    if *rights == MountRights::Root {
        let names = CAPABILITIES.map(|(_, name)| name);
        line.add("--add-caps").add(names.join(","));
    }
    line.add("--overlay").add(checked(&overlay_dir(dirs))?);
    let workspace = Path::new(WORKSPACE);
    let mut dirs_to_make = vec![(dirs.io.clone(), 0o700), (dirs.state.clone(), 0o700)];
    if is_taken(home) || !settings.persistent {
        line.add("--no-home");
    } else {
        dirs_to_make.push((dirs.home.clone(), 0o700));
        // The account of the user in the container has this home, too.
        let mut spec = checked(&dirs.home)?.as_os_str().to_owned();
        spec.push(":");
        spec.push(home);
        line.add("--home").add(spec);
    }
    let mut in_memory = vec![Path::new(IN_MEMORY)];
    if !settings.persistent {
        in_memory.extend([workspace, home]);
    }
    for dir in in_memory.into_iter().filter(|dir| !is_taken(dir)) {
        line.add("--scratch").add(dir);
    }
    // Read-only: the sandbox must not change the programs that are started in it.
    line.mount(&dirs.boot, Path::new(BOOT_DIR), Access::Read);
    line.mount(input.stage, Path::new(STAGE_FILE), Access::Read);
    line.mount(&dirs.io, Path::new(IO_DIR), Access::Write);
    line.mount(&dirs.state, Path::new(STATE_DIR), Access::Write);
    if settings.persistent && !is_taken(workspace) {
        dirs_to_make.push((dirs.workspace.clone(), 0o755));
        line.mount(&dirs.workspace, workspace, Access::Write);
    }
    if settings.network {
        let hosts = Path::new("/etc/hosts");
        if (input.exists)(hosts) && !is_taken(hosts) {
            line.mount(hosts, hosts, Access::Read);
        }
    }
    mount_of_the_user(&mut line, input, &user_mounts)?;
    if *rights == MountRights::Root {
        cover_kernel_files(&mut line, input);
    }
    line.add(input.image);
    line.add(STAGE_FILE).add("confine").add(Path::new(BOOT_DIR).join(CONFINEMENT)).add("--");
    line.add(GUEST_FILE).add("serve").add("--settings").add(SETTINGS_FILE);
    Ok(ApptainerContainer {
        arguments: line.0,
        config,
        confinement: confinement(input),
        user_mounts,
        dirs_to_make,
        home: home.to_owned(),
        start_dir: settings.cwd.clone().unwrap_or_else(|| workspace.to_owned()),
        weakened: settings.volumes.weakens(),
    })
}

/// Returns what the stage takes away in the container.
fn confinement(input: &ContainerPlanInput<'_>) -> ContainerConfinement {
    let capabilities = match input.rights {
        MountRights::Root => CAPABILITIES.iter().fold(0, |mask, (number, _)| mask | 1 << number),
        MountRights::UserNamespace | MountRights::SetUid => 0,
    };
    ContainerConfinement {
        capabilities,
        filters: input.filters.clone(),
        max_processes: input.max_processes,
        hidden_variables: HIDDEN_VARIABLES.map(str::to_owned).into(),
    }
}

/// Returns the configuration of Apptainer; nothing where it takes only the machine's.
fn config(rights: MountRights, persistent: bool) -> Option<String> {
    let accounts = match rights {
        // The accounts of a container of root are its own, also those that packages add.
        MountRights::Root => "no",
        // The user of a command needs an account.
        MountRights::UserNamespace => "yes",
        MountRights::SetUid => return None,
    };
    let size = if persistent { MEMORY_MB } else { EVERYTHING_MB };
    Some(format!(
        "# Written anew at every start.\n\
         sessiondir max size = {size}\n\
         config passwd = {accounts}\n\
         config group = {accounts}\n\
         config resolv_conf = yes\n\
         mount sys = no\n\
         mount hostfs = no\n\
         mount slave = no\n\
         root default capabilities = no\n\
         systemd cgroups = no\n\
         enable overlay = yes\n\
         enable underlay = no\n"
    ))
}

/// Returns what the user mounts.
fn user_mounts(settings: &ApptainerSettings) -> Result<Vec<UserMount>, BackendError> {
    let (sources, home) = (settings.user_mounts(), settings.user_home.as_deref());
    let mut found: Vec<UserMount> = Vec::new();
    let mut add = |asked: PathBuf, target: &Path, read_only: bool| {
        if NEVER.iter().any(|never| target.starts_with(never)) {
            return Err(cannot_mount(target, "the kernel or Vestal uses that path"));
        }
        if found.iter().any(|other| other.target == target) {
            return Err(BackendError::Advised {
                problem: format!("two things are to be mounted at {}", target.display()),
                advice: "remove one of them from terminal.docker_volumes".to_owned(),
            });
        }
        found.push(UserMount { asked, target: target.to_owned(), read_only });
        Ok(())
    };
    for volume in settings.volumes.iter() {
        add(sources.source(volume)?, Path::new(&volume.target), volume.read_only)?;
    }
    for bind in &settings.binds {
        vet(bind)?;
        match MountAt::among(&settings.volumes, home, bind) {
            MountAt::Nothing => add(bind.clone(), bind, false)?,
            MountAt::Itself => {}
            MountAt::Another => {
                return Err(refused(
                    bind,
                    "the settings mount something else there, or mount it read-only",
                    "remove it from terminal.docker_volumes",
                ));
            }
        }
    }
    if let Some(mount) = &settings.mount {
        add(mount.clone(), Path::new(WORKSPACE), false)?;
    }
    Ok(found)
}

fn cannot_mount(target: &Path, problem: &str) -> BackendError {
    BackendError::Advised {
        problem: format!("nothing can be mounted at {}: {problem}", target.display()),
        advice: "choose another path in the sandbox".to_owned(),
    }
}

/// Adds what the user mounts, and covers directories of ours that would be seen there:
/// parents before what is below them, so that what is lent of a covered one is there.
fn mount_of_the_user(
    line: &mut CommandLine,
    input: &ContainerPlanInput<'_>,
    user_mounts: &[UserMount],
) -> Result<(), BackendError> {
    let (mut mounts, mut covered) = (Vec::new(), Vec::new());
    for mount in user_mounts {
        let admitted = input.mounts.get(&mount.asked)?;
        let access = if mount.read_only { Access::Read } else { Access::Write };
        mounts.push((admitted.path.clone(), mount.target.clone(), access));
        for cover in covers(&input.settings.protected.hidden, &admitted.path, &mount.target) {
            let fixed = cover.fixed.into_iter();
            covered.extend(fixed.map(|(source, target)| (source, target, access)));
            covered.push((input.dirs.boot.join(EMPTY), cover.target, Access::Read));
        }
    }
    for cover in covered {
        if mounts.iter().all(|(_, target, _)| *target != cover.1) {
            mounts.push(cover);
        }
    }
    mounts.sort_by_key(|(_, target, _)| target.components().count());
    for (source, target, access) in mounts {
        line.mount(&source, &target, access);
    }
    Ok(())
}

/// Covers what of `/proc` root could change or must not see: there is no user namespace that
/// would keep root from it.
fn cover_kernel_files(line: &mut CommandLine, input: &ContainerPlanInput<'_>) {
    let proc = Path::new("/proc");
    for path in READ_ONLY_PROC.map(|name| proc.join(name)) {
        if (input.exists)(&path) {
            line.mount(&path, &path, Access::Read);
        }
    }
    let empty = input.dirs.boot.join(EMPTY);
    for path in MASKED_PROC.map(|name| proc.join(name)) {
        if path.is_dir() {
            line.mount(&empty, &path, Access::Read);
        } else if (input.exists)(&path) {
            line.mount(Path::new("/dev/null"), &path, Access::Read);
        }
    }
}

/// Access to a directory of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// The words of a command line.
#[derive(Debug, Default)]
struct CommandLine(Vec<OsString>);

impl CommandLine {
    fn add(&mut self, word: impl AsRef<OsStr>) -> &mut Self {
        self.0.push(word.as_ref().to_owned());
        self
    }

    /// Adds a directory or file of this machine.
    fn mount(&mut self, source: &Path, target: &Path, access: Access) {
        let mut spec = OsString::from("type=bind,");
        spec.push(field("source", source));
        spec.push(",");
        spec.push(field("destination", target));
        if access == Access::Read {
            spec.push(",ro");
        }
        self.add("--mount").add(spec);
    }
}

/// Returns a field of a mount, quoted as CSV.
fn field(name: &str, path: &Path) -> OsString {
    let mut quoted = vec![b'"'];
    quoted.extend_from_slice(name.as_bytes());
    quoted.push(b'=');
    for byte in path.as_os_str().as_bytes() {
        if *byte == b'"' {
            quoted.push(b'"');
        }
        quoted.push(*byte);
    }
    quoted.push(b'"');
    OsStr::from_bytes(&quoted).to_owned()
}

/// Returns a path of ours that Apptainer takes in an option with parts.
fn checked(path: &Path) -> Result<&Path, BackendError> {
    if path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b',')) {
        return Err(BackendError::Advised {
            problem: format!("apptainer cannot take {}: it contains : or ,", path.display()),
            advice: "set terminal.sandbox_dir to a directory without these".to_owned(),
        });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_quoted_so_that_no_path_is_an_option() {
        let mut line = CommandLine::default();
        line.mount(Path::new("/a,ro\"b:c"), Path::new("/t,x"), Access::Write);
        let spec = r#"type=bind,"source=/a,ro""b:c","destination=/t,x""#;
        assert_eq!(line.0, ["--mount", spec]);
        line.mount(Path::new("/a"), Path::new("/b"), Access::Read);
        assert_eq!(line.0[3], r#"type=bind,"source=/a","destination=/b",ro"#);
    }

    #[test]
    fn paths_that_an_option_would_take_apart_are_refused() {
        checked(Path::new("/a b\"c")).unwrap();
        for wrong in ["/a:b", "/a,b"] {
            let refused = checked(Path::new(wrong)).unwrap_err();
            assert!(refused.advice().unwrap().contains("terminal.sandbox_dir"), "{refused}");
        }
    }

    #[test]
    fn a_set_uid_program_keeps_the_configuration_of_its_machine() {
        assert_eq!(config(MountRights::SetUid, true), None);
        let of_root = config(MountRights::Root, true).unwrap();
        assert!(of_root.contains("root default capabilities = no\n"), "{of_root}");
        assert!(of_root.contains("config passwd = no\n"), "{of_root}");
        let of_user = config(MountRights::UserNamespace, false).unwrap();
        assert!(of_user.contains("sessiondir max size = 12288\n"), "{of_user}");
    }
}
