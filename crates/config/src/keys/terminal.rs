//! Sandboxes and the commands in them.

use crate::check::{Finding, Severity};
use crate::environment::ENGINE_VARIABLES;
use crate::key::{AnyKey as _, Protection, Secrecy};
use crate::kinds::{
    BackendChoice, BackendNames, Bytes, Count, CountOrNone, Cpus, DockerBinary, DockerTransport,
    EnvNames, EnvPairs, ExtraArgs, ImageName, Isolation, Megabytes, OnConfigChange, Range, Rootfs,
    SandboxDir, Seconds, SecondsOrNever, StartDir, Volumes,
};
use crate::kinds::{DAY, YEAR};
use crate::schema::Group;
use crate::secrets;
use crate::settings::Settings;

crate::keys! {
    /// What makes sandboxes: `auto` takes the best backend that works here, once per sandbox:
    /// native, else docker, else local.
    BACKEND: BackendChoice = "terminal.backend" {
        default: BackendChoice::Auto,
        limits: BackendNames {
            known: &["native", "docker", "local"],
            mistaken: &[(
                "podman",
                "Podman is used through the backend docker; set terminal.backend: docker",
            )],
            reserved: &["ssh", "apptainer", "singularity", "modal", "daytona", "kubernetes"],
        },
        env: ["TERMINAL_ENV", "TERMINAL_BACKEND"],
        protection: Protection::Guards,
    }

    /// Directory that commands start in. `.`, `auto` and `cwd` stand for where `vestal` was
    /// started.
    CWD: StartDir = "terminal.cwd" {
        default: StartDir::Launch,
        limits: (),
        env: ["TERMINAL_CWD"],
    }

    /// Time a command of an agent may take. `vestal run` has no limit unless `--timeout` is given.
    TIMEOUT: Seconds = "terminal.timeout" {
        default: Seconds::new(180),
        limits: Range { min: 1, max: 7 * DAY },
        env: ["TERMINAL_TIMEOUT"],
    }

    /// Idle time after which a long-lived process lets go of a sandbox. Twice this (two minutes
    /// at least, also for 0) is the age at which leftovers of crashed processes are removed.
    LIFETIME_SECONDS: Seconds = "terminal.lifetime_seconds" {
        default: Seconds::new(300),
        limits: Range { min: 0, max: YEAR },
        env: ["TERMINAL_LIFETIME_SECONDS"],
    }

    /// Idle time after which a sandbox ends by itself; its workspace and home stay.
    RETENTION_SECONDS: SecondsOrNever = "terminal.retention_seconds" {
        default: SecondsOrNever::After(Seconds::new(7 * DAY)),
        limits: Range { min: 1, max: 10 * YEAR },
        env: ["TERMINAL_RETENTION_SECONDS"],
    }

    /// Whether a sandbox outlives the process that made it.
    PERSIST_ACROSS_PROCESSES: bool = "terminal.persist_across_processes" {
        default: true,
        limits: (),
        env: ["TERMINAL_PERSIST_ACROSS_PROCESSES", "TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES"],
        aliases: ["terminal.docker_persist_across_processes"],
    }

    /// Whether workspace and home are kept on disk. With `false` they are gone with the instance.
    CONTAINER_PERSISTENT: bool = "terminal.container_persistent" {
        default: true,
        limits: (),
        env: ["TERMINAL_CONTAINER_PERSISTENT"],
    }

    /// Whether leftovers of crashed processes are removed.
    ORPHAN_REAPER: bool = "terminal.orphan_reaper" {
        default: true,
        limits: (),
        env: ["TERMINAL_ORPHAN_REAPER", "TERMINAL_DOCKER_ORPHAN_REAPER"],
        aliases: ["terminal.docker_orphan_reaper"],
    }

    /// What to do when settings changed since a sandbox was made: say so, make it anew when it is
    /// idle, or keep it. A change that tightens isolation is never ignored.
    ON_CONFIG_CHANGE: OnConfigChange = "terminal.on_config_change" {
        default: OnConfigChange::Warn,
        limits: (),
        env: ["TERMINAL_ON_CONFIG_CHANGE"],
    }

    /// Who shares a sandbox: all conversations of a profile, one conversation, or one task.
    ISOLATION: Isolation = "terminal.isolation" {
        default: Isolation::Shared,
        limits: (),
        env: ["TERMINAL_ISOLATION"],
        protection: Protection::Guards,
    }

    /// Variables that commands get although they would be stripped as secrets, or are only in
    /// `.env`. Keys of model providers are never passed on.
    ENV_PASSTHROUGH: EnvNames = "terminal.env_passthrough" {
        default: EnvNames::EMPTY,
        limits: (),
        env: ["TERMINAL_ENV_PASSTHROUGH"],
    }

    /// Variables that commands get, with their values.
    ENV: EnvPairs = "terminal.env" {
        default: EnvPairs::EMPTY,
        limits: (),
        env: ["TERMINAL_JOB_ENV"],
        secrecy: Secrecy::Secret,
    }

    /// Where sandboxes keep their files.
    SANDBOX_DIR: SandboxDir = "terminal.sandbox_dir" {
        default: SandboxDir::InHome,
        limits: (),
        env: ["TERMINAL_SANDBOX_DIR"],
        travels: false,
    }

    /// Bytes kept of each output stream of a job: its head and its tail, with a count of what was
    /// left out.
    JOB_LOG_BYTES: Bytes = "terminal.job_log_bytes" {
        default: Bytes::mib(8),
        limits: Range { min: 64 << 10, max: 16 << 30 },
        env: ["TERMINAL_JOB_LOG_BYTES"],
    }

    /// Ended jobs that a sandbox keeps on record; the oldest are forgotten first.
    JOBS_KEPT: Count = "terminal.jobs_kept" {
        default: Count::new(200),
        limits: Range { min: 1, max: 100_000 },
        env: ["TERMINAL_JOBS_KEPT"],
    }

    /// Time a job has between being asked to end and being killed.
    STOP_GRACE_SECONDS: Seconds = "terminal.stop_grace_seconds" {
        default: Seconds::new(5),
        limits: Range { min: 0, max: 3600 },
        env: ["TERMINAL_STOP_GRACE_SECONDS"],
    }

    /// System of native sandboxes, in place of this machine's own: a directory or an archive (tar,
    /// as it is or compressed with gzip) that holds a root filesystem with a shell, such as
    /// `docker export` writes. Packages can be installed in it.
    NATIVE_ROOTFS: Rootfs = "terminal.native_rootfs" {
        default: Rootfs::Host,
        limits: (),
        env: ["TERMINAL_NATIVE_ROOTFS"],
        protection: Protection::Isolates,
    }

    /// Image that containers are made of.
    DOCKER_IMAGE: ImageName = "terminal.docker_image" {
        default: ImageName::declared("nikolaik/python-nodejs:python3.11-nodejs20"),
        limits: (),
        env: ["TERMINAL_DOCKER_IMAGE"],
        protection: Protection::Isolates,
    }

    /// Variables that commands in containers and native sandboxes get, with the value they have
    /// here or in `.env`. A name that is not set is left out. Secrets are forwarded, too, when they
    /// are named.
    DOCKER_FORWARD_ENV: EnvNames = "terminal.docker_forward_env" {
        default: EnvNames::EMPTY,
        limits: (),
        env: ["TERMINAL_DOCKER_FORWARD_ENV"],
    }

    /// Variables that commands in containers and native sandboxes get, with their values. They go
    /// above `terminal.env` and `terminal.docker_forward_env`.
    DOCKER_ENV: EnvPairs = "terminal.docker_env" {
        default: EnvPairs::EMPTY,
        limits: (),
        env: ["TERMINAL_DOCKER_ENV"],
        secrecy: Secrecy::Secret,
    }

    /// What is mounted into containers and native sandboxes, as `docker run -v` takes it. `~` is
    /// your home. Native sandboxes have no named volumes.
    DOCKER_VOLUMES: Volumes = "terminal.docker_volumes" {
        default: Volumes::EMPTY,
        limits: (),
        env: ["TERMINAL_DOCKER_VOLUMES"],
        protection: Protection::Isolates,
    }

    /// Whether the directory that `vestal` was started in is mounted at `/workspace`. Such a
    /// directory has a sandbox of its own.
    DOCKER_MOUNT_CWD_TO_WORKSPACE: bool = "terminal.docker_mount_cwd_to_workspace" {
        default: false,
        limits: (),
        env: ["TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE"],
        protection: Protection::Isolates,
    }

    /// Whether containers and native sandboxes have a network. A native sandbox shares the host's,
    /// its loopback included.
    DOCKER_NETWORK: bool = "terminal.docker_network" {
        default: true,
        limits: (),
        env: ["TERMINAL_DOCKER_NETWORK"],
        protection: Protection::Isolates,
    }

    /// More flags for containers, as words of `docker run`; what follows a flag may be in the same
    /// word after `=` or in the next. Of flags that hold one value the last counts. `--init` has no
    /// effect: the guest is the first process and reaps. Flags that weaken isolation are taken, and
    /// `vestal inspect` names them.
    DOCKER_EXTRA_ARGS: ExtraArgs = "terminal.docker_extra_args" {
        default: ExtraArgs::EMPTY,
        limits: (),
        env: ["TERMINAL_DOCKER_EXTRA_ARGS"],
        protection: Protection::IsolatesContainers,
    }

    /// Whether commands in containers run as you instead of as the image's user.
    DOCKER_RUN_AS_HOST_USER: bool = "terminal.docker_run_as_host_user" {
        default: false,
        limits: (),
        env: ["TERMINAL_DOCKER_RUN_AS_HOST_USER"],
        protection: Protection::IsolatesContainers,
    }

    /// Whether the image's own `ENTRYPOINT` is kept, as images with an init of their own need it.
    DOCKER_KEEP_ENTRYPOINT: bool = "terminal.docker_keep_entrypoint" {
        default: false,
        limits: (),
        env: ["TERMINAL_DOCKER_KEEP_ENTRYPOINT"],
    }

    /// How the guest in a container is reached: by a socket in a shared directory, by a stream of
    /// the engine, or by the first of them that works.
    DOCKER_TRANSPORT: DockerTransport = "terminal.docker_transport" {
        default: DockerTransport::Auto,
        limits: (),
        env: ["TERMINAL_DOCKER_TRANSPORT"],
    }

    /// Program of the container engine, which decides between Docker and Podman.
    DOCKER_BINARY: DockerBinary = "terminal.docker_binary" {
        default: DockerBinary::Found,
        limits: (),
        env: ["VESTAL_DOCKER_BINARY", "TERMINAL_DOCKER_BINARY"],
    }

    /// Processors that a container or a native sandbox may use. Limits that the host cannot enforce
    /// are left out, unless `terminal.require_limits` is set.
    CONTAINER_CPU: Cpus = "terminal.container_cpu" {
        default: Cpus::from_thousandths(1000),
        limits: Range { min: 10, max: 4_096_000 },
        env: ["TERMINAL_CONTAINER_CPU"],
    }

    /// Memory that a container or a native sandbox may use, in MB.
    CONTAINER_MEMORY: Megabytes = "terminal.container_memory" {
        default: Megabytes::new(5120),
        limits: Range { min: 6, max: 64 << 20 },
        env: ["TERMINAL_CONTAINER_MEMORY"],
    }

    /// Disk that the own files of a container or a native sandbox may use, in MB.
    CONTAINER_DISK: Megabytes = "terminal.container_disk" {
        default: Megabytes::new(51_200),
        limits: Range { min: 1, max: 1 << 30 },
        env: ["TERMINAL_CONTAINER_DISK"],
    }

    /// Processes and threads that a container or a native sandbox may have at a time.
    CONTAINER_PIDS: CountOrNone = "terminal.container_pids" {
        default: CountOrNone::new(256),
        limits: Range { min: 16, max: 4_194_304 },
        env: ["TERMINAL_CONTAINER_PIDS"],
    }

    /// Whether a limit of processors, memory, disk or processes that you set to something else than
    /// the default, and the host cannot enforce, is an error. Otherwise the sandbox goes without it;
    /// that is said once, and shown by `inspect` and `doctor`, as it is for defaults.
    REQUIRE_LIMITS: bool = "terminal.require_limits" {
        default: false,
        limits: (),
        env: ["TERMINAL_REQUIRE_LIMITS"],
        protection: Protection::Isolates,
    }
}

/// The settings of this owner.
pub static GROUP: Group = Group {
    reserved: RESERVED,
    variables: ENGINE_VARIABLES,
    prefixes: &["docker_", "native_", "container_"],
    notes: NOTES,
    check,
    is_secret: secrets::is_secret_name,
    ..Group::of(KEYS)
};

/// Names that belong to features on the way.
static RESERVED: &[&str] = &[
    "terminal.modal_mode",
    "terminal.daemon_term_grace_seconds",
    "terminal.credential_files",
    "terminal.home_mode",
    "terminal.shell_init_files",
    "terminal.auto_source_bashrc",
    "terminal.singularity_image",
    "terminal.modal_image",
    "terminal.daytona_image",
    "terminal.ssh_host",
    "terminal.ssh_user",
    "terminal.ssh_port",
    "terminal.ssh_key",
    "terminal.persistent_shell",
    "terminal.sudo_password",
];

const NOTES: &str = "
## Variables that commands don't get

A command on this machine gets your environment without keys, tokens and addresses of model
providers (whatever `api_key_env` in `providers` names, too), tokens and passwords of messaging services, keys of services that tools use (`GH_TOKEN`
and `GITHUB_TOKEN` too), paths of Google Cloud credentials, `SUDO_PASSWORD` and Vestal's own
secrets. `terminal.env_passthrough` lets names through, except those of model providers,
`SUDO_PASSWORD` and Vestal's own. The AWS variables, `SSH_AUTH_SOCK` and `CLAUDE_CODE_OAUTH_TOKEN`
are inherited.

A command in a container inherits nothing. It gets the image's environment and, of one name the last:
`terminal.env_passthrough` by the rules above, `terminal.docker_forward_env`, `terminal.env` and
`terminal.docker_env`. What `terminal.docker_forward_env` names is forwarded whatever it is.
";

fn check(settings: &Settings) -> Vec<Finding> {
    let mut findings = Vec::new();
    check_passthrough(settings, &mut findings);
    check_containers(settings, &mut findings);
    findings
}

/// Finds what containers cannot be made with, and what makes them less safe.
fn check_containers(settings: &Settings, findings: &mut Vec<Finding>) {
    // Keys without a value were found before.
    for message in settings.contradictions().unwrap_or_default() {
        let severity = Severity::Error;
        findings.push(Finding { severity, name: None, place: None, message });
    }
    let volumes = settings.get(&DOCKER_VOLUMES).map(|own| (own.value.weakens(), own.source));
    let extra = settings.get(&DOCKER_EXTRA_ARGS).map(|own| (own.value.weakens(), own.source));
    let names = [DOCKER_VOLUMES.name(), DOCKER_EXTRA_ARGS.name()];
    for (name, own) in names.into_iter().zip([volumes, extra]) {
        let Ok((weakens, source)) = own else { continue };
        for what in weakens {
            findings.push(Finding {
                severity: Severity::Note,
                name: Some(name.to_owned()),
                message: format!("{name} ({source}) weakens isolation: {what}"),
                place: Some(source.clone()),
            });
        }
    }
}

fn check_passthrough(settings: &Settings, findings: &mut Vec<Finding>) {
    let Ok(passthrough) = settings.get(&ENV_PASSTHROUGH) else {
        return;
    };
    // What keeps the environment from being read was found before.
    let refused = settings.job_environment().map(|job| job.refused).unwrap_or_default();
    for name in refused {
        findings.push(Finding {
            severity: Severity::Warning,
            name: Some(ENV_PASSTHROUGH.name().to_owned()),
            message: format!(
                "{} ({}) names {name}, which is never passed on to commands",
                ENV_PASSTHROUGH.name(),
                passthrough.source
            ),
            place: Some(passthrough.source.clone()),
        });
    }
}
