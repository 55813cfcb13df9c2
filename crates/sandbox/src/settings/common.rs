//! The settings of sandboxes, whatever makes them. Each backend declares its own beside these.

use vestal_config::{
    AnyKey as _, ByteSize, Count, CountOrNone, Cpus, DAY, EnvNames, EnvPairs, Group, Megabytes,
    Patterns, Protection, Range, Seconds, SecondsOrNever, Secrecy, SettingFinding, Settings,
    Severity, ValueSource, YEAR,
};

use super::credentials::CredentialFiles;
use super::environment::SandboxSettings as _;
use super::secrets;
use super::types::{BackendChoice, Isolation, OnConfigChange, SandboxesDir, StartDir};
use super::volumes::Volumes;

vestal_config::keys! {
    /// What makes sandboxes: `auto` takes the best backend that works here, once per sandbox:
    /// native, else docker, else local.
    BACKEND: BackendChoice = "terminal.backend" {
        default: BackendChoice::Auto,
        limits: (),
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

    /// Files of your home that commands get in sandboxes which do not see it: a copy under the same
    /// name in the home there, for the user of the commands alone. It is brought up to date before
    /// each command, removed when it is not declared any more, and never comes back.
    CREDENTIAL_FILES: CredentialFiles = "terminal.credential_files" {
        default: CredentialFiles::EMPTY,
        limits: (),
        env: ["TERMINAL_CREDENTIAL_FILES"],
        protection: Protection::Guards,
        travels: false,
    }

    /// Where sandboxes keep their files.
    SANDBOX_DIR: SandboxesDir = "terminal.sandbox_dir" {
        default: SandboxesDir::InHome,
        limits: (),
        env: ["TERMINAL_SANDBOX_DIR"],
        travels: false,
    }

    /// Bytes kept of each output stream of a job: its head and its tail, with a count of what was
    /// left out.
    JOB_LOG_BYTES: ByteSize = "terminal.job_log_bytes" {
        default: ByteSize::mib(8),
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

    /// What of a mounted directory is not copied to a sandbox on another machine, nor back: rules as
    /// in a `.gitignore`, before those of the directory's `.vestalignore`.
    SYNC_IGNORE: Patterns = "terminal.sync_ignore" {
        default: Patterns::EMPTY,
        limits: (),
        env: ["TERMINAL_SYNC_IGNORE"],
    }

    /// Whether containers and native sandboxes have a network. A native sandbox shares the host's,
    /// its loopback included.
    DOCKER_NETWORK: bool = "terminal.docker_network" {
        default: true,
        limits: (),
        env: ["TERMINAL_DOCKER_NETWORK"],
        protection: Protection::Isolates,
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
pub(crate) static GROUP: Group = Group {
    reserved: RESERVED,
    prefixes: &["docker_", "container_"],
    notes: NOTES,
    check,
    is_secret: secrets::is_secret_name,
    ..Group::of(KEYS)
};

/// Names that belong to features on the way.
static RESERVED: &[&str] = &[
    "terminal.modal_mode",
    "terminal.daemon_term_grace_seconds",
    "terminal.home_mode",
    "terminal.shell_init_files",
    "terminal.auto_source_bashrc",
    "terminal.modal_image",
    "terminal.daytona_image",
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

fn check(settings: &Settings) -> Vec<SettingFinding> {
    let mut findings = Vec::new();
    check_passthrough(settings, &mut findings);
    if let Ok(volumes) = settings.get(&DOCKER_VOLUMES) {
        let weakens = volumes.value.weakens();
        findings.extend(weakening(DOCKER_VOLUMES.name(), &volumes.source, weakens));
    }
    findings
}

/// Returns what is worth knowing about a setting that weakens isolation.
pub(crate) fn weakening(
    key: &'static str,
    source: &ValueSource,
    weakens: Vec<String>,
) -> impl Iterator<Item = SettingFinding> {
    weakens.into_iter().map(move |what| SettingFinding {
        severity: Severity::Note,
        name: Some(key.to_owned()),
        message: format!("{key} ({source}) weakens isolation: {what}"),
        place: Some(source.clone()),
    })
}

fn check_passthrough(settings: &Settings, findings: &mut Vec<SettingFinding>) {
    let Ok(passthrough) = settings.get(&ENV_PASSTHROUGH) else {
        return;
    };
    // What keeps the environment from being read was found before.
    let refused = settings.job_environment().map(|job| job.refused).unwrap_or_default();
    for name in refused {
        findings.push(SettingFinding {
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

#[cfg(test)]
mod tests {
    use vestal_config::AnyKey;

    use crate::settings::testing::TestHome;

    #[test]
    fn a_name_that_is_never_passed_on_is_found() {
        let env = [("TERMINAL_ENV_PASSTHROUGH", "[\"OPENAI_API_KEY\"]")];
        assert_eq!(
            TestHome::new().findings(&env),
            ["Warning: terminal.env_passthrough (environment variable TERMINAL_ENV_PASSTHROUGH) \
                 names OPENAI_API_KEY, which is never passed on to commands",]
        );
    }

    #[test]
    fn what_contradicts_or_weakens_containers_is_found() {
        let home = TestHome::with_config(
            "terminal:
  docker_network: no
  docker_volumes:
    - /var/run/docker.sock:/var/run/docker.sock
  docker_extra_args: [--privileged, --network, host]
",
        );
        assert_eq!(
            home.findings(&[]),
            [
                "Error: terminal.docker_network (config.yaml:2:19) is false, but terminal.docker_extra_args \
                 (config.yaml:5:22) has --network host; remove one of them",
                "Note: terminal.docker_volumes (config.yaml:4:5) weakens isolation: \
                 /var/run/docker.sock:/var/run/docker.sock mounts the socket of a container engine",
                "Note: terminal.docker_extra_args (config.yaml:5:22) weakens isolation: --privileged",
                "Note: terminal.docker_extra_args (config.yaml:5:22) weakens isolation: --network host",
            ]
        );
    }

    #[test]
    fn a_wrong_volume_or_flag_is_found_before_any_container_is_made() {
        let home = TestHome::with_config(
            "terminal:\n  docker_volumes: [\"src:/src:rx\"]\n  docker_extra_args: [--frobnicate]\n",
        );
        let found = home.findings(&[]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with(
                "Error: terminal.docker_volumes is [src:/src:rx] (config.yaml:2:19), which holds \
                 \"src:/src:rx\", which has the unknown option \"rx\"; allowed: a list of \
                 SOURCE:TARGET[:OPTIONS]: "
            ),
            "{found:?}"
        );
        assert!(found[1].contains("which holds --frobnicate, which is not a flag"), "{found:?}");
        assert!(found[1].contains("--add-host, --cap-add, "), "{found:?}");
    }

    fn isolating(set: &str) -> Vec<String> {
        let found = TestHome::new().settings(&[], &[set]).isolating().unwrap();
        found.into_iter().map(|setting| setting.to_string()).collect()
    }

    #[test]
    fn every_setting_that_isolates_asks_for_isolation_when_it_is_not_the_default() {
        let cases = [
            "terminal.docker_extra_args=[\"--cap-drop=ALL\"]",
            "terminal.docker_image=debian:12",
            "terminal.docker_mount_cwd_to_workspace=true",
            "terminal.docker_network=false",
            "terminal.docker_run_as_host_user=true",
            "terminal.docker_volumes=[\"/a:/a\"]",
            "terminal.native_rootfs=/srv/root",
            "terminal.require_limits=true",
        ];
        for set in cases {
            let (key, _) = set.split_once('=').unwrap();
            assert_eq!(isolating(set), [format!("{key} (--set {key})")]);
        }
        let isolates = |key: &&dyn AnyKey| {
            matches!(
                key.protection(),
                super::Protection::Isolates | super::Protection::IsolatesIn(_)
            )
        };
        let mut all: Vec<&str> =
            crate::schema().keys().filter(isolates).map(AnyKey::name).collect();
        all.sort_unstable();
        assert_eq!(all, cases.map(|set| set.split_once('=').unwrap().0));
        for set in ["terminal.container_memory=512", "terminal.docker_volumes=[]"] {
            assert_eq!(isolating(set), [""; 0], "limits and defaults ask for none");
        }
    }

    #[test]
    fn a_wrong_volume_is_an_error_to_who_asks_what_isolates() {
        for volumes in ["\"/a:/x\", \"/b:/x\"", "\"/a:/\"", "\"/a:/.vestal\""] {
            let set = format!("terminal.docker_volumes=[{volumes}]");
            TestHome::new().settings(&[], &[&set]).isolating().unwrap_err();
        }
    }
}
