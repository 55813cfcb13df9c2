//! One server.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde_json::json;

use vestal_config::kind::{Fields, SettingInput, ValueRefusal, YamlNode, texts};
use vestal_config::{EnvPairs, Names, Range, Seconds, Setting, SettingValue};

use super::Headers;

/// Entries of every server.
const COMMON: &[&str] =
    &["enabled", "timeout", "connect_timeout", "tools", "supports_parallel_tool_calls"];

/// Entries of a server that is a program.
const OF_PROGRAMS: &[&str] = &["command", "args", "env", "cwd"];

/// Entries of a server that has an address.
const OF_ADDRESSES: &[&str] = &["url", "headers", "transport", "oauth"];

/// Entries that files of a fuller setup have; they are taken and do nothing.
const WITHOUT_EFFECT: &[&str] =
    &["keepalive_interval", "idle_timeout_seconds", "max_lifetime_seconds"];

/// Longest command, argument or address.
const MAX_BYTES: usize = 4096;

/// How long a call may take.
const TIMEOUT: Range = Range { min: 1, max: 86_400 };

/// How long connecting may take.
const CONNECT_TIMEOUT: Range = Range { min: 1, max: 3600 };

const DEFAULT_TIMEOUT: Seconds = Seconds::new(300);
const DEFAULT_CONNECT_TIMEOUT: Seconds = Seconds::new(60);

/// One server of tools. What it is started and asked with may hold secrets and
/// is in no debug output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Whether it is used at all.
    pub enabled: bool,
    /// How it is reached.
    pub connection: McpConnection,
    /// How long one call may take without a sign of life.
    pub timeout: Seconds,
    /// How long connecting may take.
    pub connect_timeout: Seconds,
    /// The tools that are taken, by the server's names; none: all.
    pub include: Option<Names>,
    /// The tools that are not taken.
    pub exclude: Names,
    /// Whether its tools may run beside each other.
    pub supports_parallel_tool_calls: bool,
    origin: ServerOrigin,
    pub(super) has_entries_without_effect: bool,
}

/// Who names a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerOrigin {
    /// The settings.
    Settings,
    /// A client, as an editor does.
    Client,
}

/// How a server is reached. Text may refer to variables as `${NAME}`.
#[derive(Clone, PartialEq, Eq)]
pub enum McpConnection {
    /// It is a program that is started and spoken to over its standard streams.
    Program {
        /// The program: a path, or a name that is looked up.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables it gets besides the harmless ones.
        env: EnvPairs,
        /// Where it is started.
        cwd: Option<PathBuf>,
    },
    /// It has an address.
    Address {
        /// The address.
        url: String,
        /// What is sent with every request.
        headers: Headers,
        /// What it speaks.
        transport: McpTransport,
        /// How it is logged in at, if it asks for that.
        login: LoginSettings,
    },
}

/// How a server is logged in at, where the usual does not do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoginSettings {
    /// The client that we are there; none: we have ourselves registered.
    pub client_id: Option<String>,
    /// What we ask to be allowed; none: what the server proposes.
    pub scopes: Vec<String>,
    /// The port that the browser comes back to; none: any.
    pub callback_port: Option<u16>,
}

impl LoginSettings {
    fn read(node: &YamlNode) -> Result<Self, ValueRefusal> {
        let fields = Fields::read(node, "oauth", &["client_id", "scopes", "callback_port"])?;
        let port = |node| {
            let port = SettingInput::Node(node).scalar()?.trim().parse::<u16>();
            port.ok().filter(|port| *port > 0).ok_or_else(|| ValueRefusal::new("is not a port"))
        };
        let scopes = |node| {
            let scopes = texts(SettingInput::Node(node), r#"write it as ["read", "write"]"#)?;
            let is_scope = |scope: &String| {
                !scope.is_empty()
                    && scope.bytes().all(|b| b.is_ascii_graphic() && !b"\"\\".contains(&b))
            };
            match scopes.iter().find(|scope| !is_scope(scope)) {
                Some(wrong) => {
                    Err(ValueRefusal::new(format!("holds {wrong:?}, which is no scope")))
                }
                None => Ok(scopes),
            }
        };
        Ok(Self {
            client_id: fields.value("client_id", text)?,
            scopes: fields.value("scopes", scopes)?.unwrap_or_default(),
            callback_port: fields.value("callback_port", port)?,
        })
    }

    fn to_value(&self) -> Option<SettingValue> {
        let mut fields = BTreeMap::new();
        if let Some(client) = &self.client_id {
            fields.insert("client_id".to_owned(), SettingValue::Text(client.clone()));
        }
        if !self.scopes.is_empty() {
            let scopes = self.scopes.iter().cloned().map(SettingValue::Text).collect();
            fields.insert("scopes".to_owned(), SettingValue::List(scopes));
        }
        if let Some(port) = self.callback_port {
            fields.insert("callback_port".to_owned(), SettingValue::Integer(u64::from(port)));
        }
        (!fields.is_empty()).then_some(SettingValue::Map(fields))
    }
}

/// What a server with an address speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpTransport {
    /// Streamable HTTP.
    Http,
    /// The older HTTP with server-sent events.
    Sse,
}

impl McpTransport {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Sse => "sse",
        }
    }

    fn read(node: &YamlNode) -> Result<Self, ValueRefusal> {
        match SettingInput::Node(node).scalar()?.trim().to_ascii_lowercase().as_str() {
            "http" | "streamable-http" | "streamable_http" => Ok(Self::Http),
            "sse" => Ok(Self::Sse),
            _ => Err(ValueRefusal::new("is neither http nor sse")),
        }
    }
}

/// Shows how it is reached, and nothing that could be a secret.
impl fmt::Debug for McpConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program { args, env, cwd, .. } => f
                .debug_struct("Program")
                .field("args", &args.len())
                .field("env", env)
                .field("cwd", cwd)
                .finish_non_exhaustive(),
            Self::Address { headers, transport, .. } => f
                .debug_struct("Address")
                .field("headers", headers)
                .field("transport", transport)
                .finish_non_exhaustive(),
        }
    }
}

impl McpServer {
    /// Returns a server that something else than the settings names, as an editor does. Its texts
    /// are taken as they are: a `${NAME}` in them must not be where a secret of the profile goes.
    pub fn literal(connection: McpConnection) -> Self {
        Self {
            enabled: true,
            connection,
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            include: None,
            exclude: Names::EMPTY,
            supports_parallel_tool_calls: false,
            origin: ServerOrigin::Client,
            has_entries_without_effect: false,
        }
    }

    /// Reports whether `${NAME}` in its texts stands for itself.
    pub(crate) fn is_literal(&self) -> bool {
        self.origin == ServerOrigin::Client
    }

    /// Reads the entries of a server.
    pub(super) fn read(name: &str, node: &YamlNode) -> Result<Self, ValueRefusal> {
        let known: Vec<&str> = [OF_PROGRAMS, OF_ADDRESSES, COMMON, WITHOUT_EFFECT].concat();
        let fields = Fields::read(node, name, &known)?;
        let has = |entry: &&&str| matches!(fields.value(entry, |_| Ok(())), Ok(Some(())));
        let connection = match (fields.value("command", text)?, fields.value("url", text)?) {
            (Some(_), Some(_)) => {
                return Err(ValueRefusal::new(format!("gives {name} both a command and a url")));
            }
            (None, None) => {
                let hint = "a program has a command, a server elsewhere a url".to_owned();
                let reason = format!("gives {name} neither a command nor a url");
                return Err(ValueRefusal::new(reason).suggesting(Some(hint)));
            }
            (Some(command), None) => {
                if let Some(entry) = OF_ADDRESSES.iter().find(has) {
                    return Err(ValueRefusal::new(format!("gives {name} a command and {entry}")));
                }
                program(&fields, command)?
            }
            (None, Some(url)) => {
                if let Some(entry) = OF_PROGRAMS.iter().find(has) {
                    return Err(ValueRefusal::new(format!("gives {name} a url and {entry}")));
                }
                address(&fields, url)?
            }
        };
        let flag = |node| bool::read(SettingInput::Node(node), &());
        let seconds =
            |limits: &'static Range| move |node| Seconds::read(SettingInput::Node(node), limits);
        let (include, exclude) = fields.value("tools", tools)?.unwrap_or((None, Names::EMPTY));
        Ok(Self {
            enabled: fields.value("enabled", flag)?.unwrap_or(true),
            connection,
            timeout: fields.value("timeout", seconds(&TIMEOUT))?.unwrap_or(DEFAULT_TIMEOUT),
            connect_timeout: fields
                .value("connect_timeout", seconds(&CONNECT_TIMEOUT))?
                .unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            include,
            exclude,
            supports_parallel_tool_calls: fields
                .value("supports_parallel_tool_calls", flag)?
                .unwrap_or(false),
            origin: ServerOrigin::Settings,
            has_entries_without_effect: WITHOUT_EFFECT.iter().any(|entry| has(&entry)),
        })
    }

    pub(super) fn to_value(&self) -> SettingValue {
        let text = |text: &str| SettingValue::Text(text.to_owned());
        let mut fields = BTreeMap::new();
        let mut put = |name: &str, value| drop(fields.insert(name.to_owned(), value));
        match &self.connection {
            McpConnection::Program { command, args, env, cwd } => {
                put("command", text(command));
                if !args.is_empty() {
                    put("args", SettingValue::List(args.iter().map(|arg| text(arg)).collect()));
                }
                if env.iter().next().is_some() {
                    put("env", env.to_value());
                }
                if let Some(cwd) = cwd {
                    put("cwd", text(&cwd.to_string_lossy()));
                }
            }
            McpConnection::Address { url, headers, transport, login } => {
                put("url", text(url));
                if let Some(login) = login.to_value() {
                    put("oauth", login);
                }
                if !headers.is_empty() {
                    put("headers", headers.to_value());
                }
                put("transport", text(transport.as_str()));
            }
        }
        if !self.enabled {
            put("enabled", SettingValue::Bool(false));
        }
        put("timeout", self.timeout.to_value());
        put("connect_timeout", self.connect_timeout.to_value());
        if self.supports_parallel_tool_calls {
            put("supports_parallel_tool_calls", SettingValue::Bool(true));
        }
        let mut tools = BTreeMap::new();
        if let Some(include) = &self.include {
            tools.insert("include".to_owned(), include.to_value());
        }
        if self.exclude.iter().next().is_some() {
            tools.insert("exclude".to_owned(), self.exclude.to_value());
        }
        if !tools.is_empty() {
            put("tools", SettingValue::Map(tools));
        }
        SettingValue::Map(fields)
    }

    pub(super) fn allowed() -> String {
        let (program, address) = (OF_PROGRAMS.join(", "), OF_ADDRESSES.join(", "));
        format!("maps with {program}, or with {address}; and with {}", COMMON.join(", "))
    }

    pub(super) fn schema() -> serde_json::Value {
        let list = json!({"type": "array", "items": {"type": "string"}});
        let map = json!({"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}});
        json!({
            "type": "object",
            "oneOf": [{"required": ["command"]}, {"required": ["url"]}],
            "additionalProperties": false,
            "properties": {
                "command": {"type": "string"},
                "args": list,
                "env": EnvPairs::schema(&()),
                "cwd": {"type": "string"},
                "url": {"type": "string"},
                "headers": map,
                "transport": {"enum": ["http", "sse"]},
                "oauth": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "client_id": {"type": "string"},
                        "scopes": list,
                        "callback_port": {"type": "integer", "minimum": 1, "maximum": 65535},
                    },
                },
                "enabled": {"type": "boolean"},
                "timeout": Seconds::schema(&TIMEOUT),
                "connect_timeout": Seconds::schema(&CONNECT_TIMEOUT),
                "supports_parallel_tool_calls": {"type": "boolean"},
                "tools": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {"include": list, "exclude": list},
                },
                "keepalive_interval": {},
                "idle_timeout_seconds": {},
                "max_lifetime_seconds": {},
            },
        })
    }
}

fn program(fields: &Fields<'_>, command: String) -> Result<McpConnection, ValueRefusal> {
    let args = |node| {
        let args = texts(SettingInput::Node(node), r#"write it as ["first", "second"]"#)?;
        if args.iter().any(|arg| arg.contains('\0')) {
            return Err(ValueRefusal::new("holds an argument with a NUL character"));
        }
        Ok(args)
    };
    Ok(McpConnection::Program {
        command,
        args: fields.value("args", args)?.unwrap_or_default(),
        env: fields
            .value("env", |node| EnvPairs::read(SettingInput::Node(node), &()))?
            .unwrap_or(EnvPairs::EMPTY),
        cwd: fields.value("cwd", text)?.map(PathBuf::from),
    })
}

fn address(fields: &Fields<'_>, url: String) -> Result<McpConnection, ValueRefusal> {
    let lower = url.to_ascii_lowercase();
    let is_address = lower.starts_with("http://") || lower.starts_with("https://");
    // An address may be a variable altogether; what it says is seen when it is used.
    if !is_address && !url.starts_with("${") {
        return Err(ValueRefusal::new("has a url that does not begin with http:// or https://"));
    }
    Ok(McpConnection::Address {
        url,
        headers: fields.value("headers", Headers::read)?.unwrap_or_default(),
        transport: fields.value("transport", McpTransport::read)?.unwrap_or(McpTransport::Http),
        login: fields.value("oauth", LoginSettings::read)?.unwrap_or_default(),
    })
}

/// Reads which tools are taken.
fn tools(node: &YamlNode) -> Result<(Option<Names>, Names), ValueRefusal> {
    let fields = Fields::read(node, "tools", &["include", "exclude"])?;
    let names = |node| Names::read(SettingInput::Node(node), &());
    let exclude = fields.value("exclude", names)?.unwrap_or(Names::EMPTY);
    Ok((fields.value("include", names)?, exclude))
}

/// Reads text that is not empty and fits on a line.
fn text(node: &YamlNode) -> Result<String, ValueRefusal> {
    let text = SettingInput::Node(node).scalar()?.trim();
    if text.is_empty() {
        return Err(ValueRefusal::new("is empty"));
    }
    if text.len() > MAX_BYTES {
        return Err(ValueRefusal::new(format!("is longer than {MAX_BYTES} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(ValueRefusal::new("contains control characters"));
    }
    Ok(text.to_owned())
}
