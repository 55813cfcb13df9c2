//! Homes for tests, and a schema: keys of every shape that the engine knows, declared as owners do.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use crate::kind::{self, Fields, Json, SettingInput, ValueRefusal};
use crate::{
    ConfigError, EnvName, EnvPairs, Environment, Group, Home, Override, Schema, SecretText,
    Setting, SettingValue, Settings,
};

/// A home in a temporary directory, removed when dropped.
pub(crate) struct TestHome {
    dir: TempDir,
}

impl TestHome {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn with_config(text: impl AsRef<[u8]>) -> Self {
        Self::new().config(text)
    }

    pub(crate) fn config(self, text: impl AsRef<[u8]>) -> Self {
        fs::write(self.home().config_file(), text).expect("config.yaml written");
        self
    }

    pub(crate) fn dotenv(self, text: impl AsRef<[u8]>) -> Self {
        use std::os::unix::fs::PermissionsExt;
        fs::write(self.home().env_file(), text).expect(".env written");
        fs::set_permissions(self.home().env_file(), fs::Permissions::from_mode(0o600))
            .expect("mode set");
        self
    }

    pub(crate) fn home(&self) -> Home {
        Home::at(self.dir.path())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read_config(&self) -> String {
        fs::read_to_string(self.home().config_file()).expect("config.yaml read")
    }

    pub(crate) fn settings(&self, env: &[(&str, &str)], sets: &[&str]) -> Settings {
        let overrides =
            sets.iter().map(|text| Override::parse(&crate::schema(), text).expect("an assignment"));
        let env = Environment::from_pairs(env.iter().copied());
        Settings::load(&crate::schema(), self.home(), env, overrides.collect())
    }
}

/// A directory, for which an unquoted `~` in YAML is the user's home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Directory(pub(crate) PathBuf);

impl Setting for Directory {
    type Limits = ();

    const TILDE_IS_HOME: bool = true;

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        kind::path(input).map(Self)
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.0.to_string_lossy().into_owned())
    }

    fn allowed((): &()) -> String {
        "a directory".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["/srv/project".to_owned(), "~/work".to_owned()]
    }

    fn schema((): &()) -> Json {
        json!({"type": "string"})
    }
}

/// Maps by name, whose entries may be secrets or name variables that hold some.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Services(BTreeMap<String, Service>);

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    command: Option<String>,
    api_key: SecretText,
    pub(crate) api_key_env: Option<EnvName>,
    env: EnvPairs,
}

impl Services {
    const EMPTY: Self = Self(BTreeMap::new());
}

impl Setting for Services {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let tree = input.tree()?;
        let entries = tree.entries().ok_or_else(|| ValueRefusal::new("is not a map"))?;
        let service = |entry: &kind::MapEntry| {
            let name =
                entry.name().ok_or_else(|| ValueRefusal::new("holds a key that is not a name"))?;
            let known = ["command", "api_key", "api_key_env", "env"];
            let fields = Fields::read(&entry.value, name, &known)?;
            let variable = |node| {
                let text = SettingInput::Node(node).scalar()?;
                EnvName::new(text).ok_or_else(|| ValueRefusal::new("is not the name of a variable"))
            };
            let service = Service {
                command: fields
                    .value("command", |node| Ok(SettingInput::Node(node).scalar()?.to_owned()))?,
                api_key: fields
                    .value("api_key", |node| SecretText::read(SettingInput::Node(node), &()))?
                    .unwrap_or(SecretText::EMPTY),
                api_key_env: fields.value("api_key_env", variable)?,
                env: fields
                    .value("env", |node| EnvPairs::read(SettingInput::Node(node), &()))?
                    .unwrap_or(EnvPairs::EMPTY),
            };
            Ok((name.to_owned(), service))
        };
        entries.iter().map(service).collect::<Result<_, _>>().map(Self)
    }

    fn to_value(&self) -> SettingValue {
        let entry = |(name, own): (&String, &Service)| {
            let text = |text: &str| SettingValue::Text(text.to_owned());
            let fields = [
                ("command", own.command.as_deref().map(text)),
                ("api_key", own.api_key.expose().map(text)),
                ("api_key_env", own.api_key_env.as_ref().map(|own| text(own.as_str()))),
                ("env", own.env.iter().next().map(|_| own.env.to_value())),
            ];
            let fields = fields.into_iter();
            let fields = fields.filter_map(|(name, value)| Some((name.to_owned(), value?)));
            (name.clone(), SettingValue::Map(fields.collect()))
        };
        SettingValue::Map(self.0.iter().map(entry).collect())
    }

    fn allowed((): &()) -> String {
        "maps with command, api_key, api_key_env, env".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        let example = |name: &str| format!("{{\"{name}\": {{\"command\": \"run\"}}}}");
        vec![example("here"), example("there")]
    }

    fn schema((): &()) -> Json {
        json!({"type": "object"})
    }
}

/// The keys of the schema for tests.
pub(crate) mod keys {
    use std::borrow::Cow;

    use super::{Directory, Services};
    use crate::{
        ByteSize, Count, CountOrNone, Cpus, EnvNames, EnvPairs, LineMode, Megabytes, Names,
        Patterns, Protection, Range, Seconds, Secrecy, SecretText, Text, TextLimits,
    };

    const LINE: TextLimits = TextLimits { max_bytes: 256, lines: LineMode::One };
    const LINES: TextLimits = TextLimits { max_bytes: 256, lines: LineMode::Many };
    const ALL: &[Cow<'static, str>] = &[Cow::Borrowed("all")];

    crate::choices! {
        /// A choice.
        Backend, "backend", {
            /// The first.
            Auto = "auto",
            /// The second.
            Local = "local",
        }
    }

    crate::choices! {
        /// A choice whose words are easily mistyped.
        Isolation, "known isolation", {
            /// The first.
            Shared = "shared",
            /// The second.
            Task = "task",
        }
    }

    crate::keys! {
        /// What makes sandboxes.
        BACKEND: Backend = "terminal.backend" {
            default: Backend::Auto,
            limits: (),
            env: ["TERMINAL_ENV", "TERMINAL_BACKEND"],
            protection: Protection::Guards,
        }

        /// A directory.
        CWD: Directory = "terminal.cwd" {
            default: Directory(std::path::PathBuf::new()),
            limits: (),
            env: ["TERMINAL_CWD"],
        }

        /// A time.
        TIMEOUT: Seconds = "terminal.timeout" {
            default: Seconds::new(180),
            limits: Range { min: 1, max: 7 * crate::DAY },
            env: ["TERMINAL_TIMEOUT"],
        }

        /// A flag with two names.
        PERSIST_ACROSS_PROCESSES: bool = "terminal.persist_across_processes" {
            default: true,
            limits: (),
            env: ["TERMINAL_PERSIST_ACROSS_PROCESSES", "TERMINAL_DOCKER_PERSIST_ACROSS_PROCESSES"],
            aliases: ["terminal.docker_persist_across_processes"],
        }

        /// Another one.
        ORPHAN_REAPER: bool = "terminal.orphan_reaper" {
            default: true,
            limits: (),
            env: ["TERMINAL_ORPHAN_REAPER", "TERMINAL_DOCKER_ORPHAN_REAPER"],
            aliases: ["terminal.docker_orphan_reaper"],
        }

        /// A choice.
        ISOLATION: Isolation = "terminal.isolation" {
            default: Isolation::Shared,
            limits: (),
            env: ["TERMINAL_ISOLATION"],
            protection: Protection::Guards,
        }

        /// Names of variables.
        ENV_PASSTHROUGH: EnvNames = "terminal.env_passthrough" {
            default: EnvNames::EMPTY,
            limits: (),
            env: ["TERMINAL_ENV_PASSTHROUGH"],
        }

        /// Variables, which are secret.
        ENV: EnvPairs = "terminal.env" {
            default: EnvPairs::EMPTY,
            limits: (),
            env: ["TERMINAL_JOB_ENV"],
            secrecy: Secrecy::Secret,
        }

        /// A size.
        JOB_LOG_BYTES: ByteSize = "terminal.job_log_bytes" {
            default: ByteSize::mib(8),
            limits: Range { min: 64 << 10, max: 16 << 30 },
            env: ["TERMINAL_JOB_LOG_BYTES"],
        }

        /// A count.
        JOBS_KEPT: Count = "terminal.jobs_kept" {
            default: Count::new(200),
            limits: Range { min: 1, max: 100_000 },
            env: ["TERMINAL_JOBS_KEPT"],
        }

        /// Text that isolates.
        NATIVE_ROOTFS: Text = "terminal.native_rootfs" {
            default: Text::EMPTY,
            limits: LINE,
            env: ["TERMINAL_NATIVE_ROOTFS"],
            protection: Protection::Isolates,
        }

        /// Text that isolates.
        DOCKER_IMAGE: Text = "terminal.docker_image" {
            default: Text::EMPTY,
            limits: LINE,
            env: ["TERMINAL_DOCKER_IMAGE"],
            protection: Protection::Isolates,
        }

        /// A flag that isolates.
        DOCKER_NETWORK: bool = "terminal.docker_network" {
            default: true,
            limits: (),
            env: ["TERMINAL_DOCKER_NETWORK"],
            protection: Protection::Isolates,
        }

        /// A list that isolates in one kind of sandboxes.
        DOCKER_EXTRA_ARGS: Patterns = "terminal.docker_extra_args" {
            default: Patterns::EMPTY,
            limits: (),
            env: ["TERMINAL_DOCKER_EXTRA_ARGS"],
            protection: Protection::IsolatesIn("containers"),
        }

        /// A number of processors.
        CONTAINER_CPU: Cpus = "terminal.container_cpu" {
            default: Cpus::from_thousandths(1000),
            limits: Range { min: 10, max: 4_096_000 },
            env: ["TERMINAL_CONTAINER_CPU"],
        }

        /// A size that may be none.
        CONTAINER_MEMORY: Megabytes = "terminal.container_memory" {
            default: Megabytes::new(5120),
            limits: Range { min: 6, max: 64 << 20 },
            env: ["TERMINAL_CONTAINER_MEMORY"],
        }

        /// A count that may be none.
        CONTAINER_PIDS: CountOrNone = "terminal.container_pids" {
            default: CountOrNone::new(256),
            limits: Range { min: 16, max: 4_194_304 },
            env: ["TERMINAL_CONTAINER_PIDS"],
        }

        /// The one value that a section may be in short.
        MODEL_DEFAULT: Text = "model.default" {
            default: Text::EMPTY,
            limits: LINE,
            env: ["VESTAL_MODEL"],
            aliases: ["model"],
        }

        /// Another of that section.
        MODEL_PROVIDER: Text = "model.provider" {
            default: Text::EMPTY,
            limits: LINE,
            env: ["VESTAL_PROVIDER"],
        }

        /// A secret.
        MODEL_API_KEY: SecretText = "model.api_key" {
            default: SecretText::EMPTY,
            limits: (),
            env: ["VESTAL_API_KEY"],
            secrecy: Secrecy::Secret,
        }

        /// Maps with secrets in them.
        PROVIDERS: Services = "providers" {
            default: Services::EMPTY,
            limits: (),
            env: ["VESTAL_PROVIDERS"],
            secrecy: Secrecy::Within(&["api_key"]),
        }

        /// Maps with secrets in them.
        MCP_SERVERS: Services = "mcp_servers" {
            default: Services::EMPTY,
            limits: (),
            env: ["VESTAL_MCP_SERVERS"],
            secrecy: Secrecy::Within(&["env"]),
        }

        /// Text of several lines.
        AGENT_SYSTEM_PROMPT: Text = "agent.system_prompt" {
            default: Text::EMPTY,
            limits: LINES,
            env: ["VESTAL_SYSTEM_PROMPT"],
        }

        /// A count.
        AGENT_MAX_TURNS: Count = "agent.max_turns" {
            default: Count::new(90),
            limits: Range { min: 1, max: 100_000 },
            env: ["VESTAL_MAX_TURNS"],
        }

        /// Names.
        TOOLSETS: Names = "toolsets" {
            default: Names::declared(ALL),
            limits: (),
            env: ["VESTAL_TOOLSETS"],
        }

        /// A flag that guards.
        APPROVALS_MANUAL: bool = "approvals.mode" {
            default: true,
            limits: (),
            env: ["VESTAL_APPROVALS_MODE"],
            protection: Protection::Guards,
        }

        /// A list that guards.
        APPROVALS_DENY: Patterns = "approvals.deny" {
            default: Patterns::EMPTY,
            limits: (),
            env: ["VESTAL_APPROVALS_DENY"],
            protection: Protection::Guards,
        }

        /// A list that stays on its machine.
        COMMAND_ALLOWLIST: Patterns = "command_allowlist" {
            default: Patterns::EMPTY,
            limits: (),
            env: ["VESTAL_COMMAND_ALLOWLIST"],
            travels: false,
        }

        /// A flag that guards.
        SECURITY_REDACT_SECRETS: bool = "security.redact_secrets" {
            default: true,
            limits: (),
            env: ["VESTAL_REDACT_SECRETS"],
            protection: Protection::Guards,
        }

        /// Names.
        SKILLS_DISABLED: Names = "skills.disabled" {
            default: Names::EMPTY,
            limits: (),
            env: ["VESTAL_SKILLS_DISABLED"],
        }

        /// A count beside a section.
        KANBAN_MAX_SPAWN: Count = "kanban.max_spawn" {
            default: Count::new(1),
            limits: Range { min: 1, max: 100 },
            env: ["VESTAL_KANBAN_MAX_SPAWN"],
        }

        /// Text that stays on its machine.
        KANBAN_HOST: Text = "kanban.host" {
            default: Text::EMPTY,
            limits: LINE,
            env: ["VESTAL_KANBAN_HOST"],
            travels: false,
        }

        /// A count in a section of a section.
        KANBAN_DIAGNOSTICS_CRASH_THRESHOLD: Count = "kanban.diagnostics.crash_threshold" {
            default: Count::new(2),
            limits: Range { min: 1, max: 1000 },
            env: ["VESTAL_KANBAN_DIAGNOSTICS_CRASH_THRESHOLD"],
        }
    }
}

static GROUP: Group = Group {
    reserved: &["terminal.modal_image", "gateway"],
    prefixes: &["docker_", "native_", "container_"],
    is_secret: |name| name.ends_with("_API_KEY") || name.ends_with("_TOKEN"),
    secret_variables,
    secrets: |settings| {
        let key = settings.get(&keys::MODEL_API_KEY).map_or(SecretText::EMPTY, |found| found.value);
        key.expose().map(str::to_owned).into_iter().collect()
    },
    ..Group::of(keys::KEYS)
};

fn secret_variables(settings: &Settings) -> Result<Vec<EnvName>, ConfigError> {
    let services = settings.get(&keys::PROVIDERS)?.value;
    Ok(services.0.into_values().filter_map(|own| own.api_key_env).collect())
}

/// Returns the schema for tests.
pub(crate) fn schema() -> Schema {
    Schema::new([&GROUP])
}
