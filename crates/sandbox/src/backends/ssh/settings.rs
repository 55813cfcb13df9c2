//! The settings of sandboxes on another machine.

use std::path::{Path, PathBuf};

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, expand, path};
use vestal_config::{ConfigError, Group, Protection, Setting, SettingValue, Settings};

use super::login::HostLogin;

vestal_config::keys! {
    /// Machine of sandboxes on `ssh`: a host as `ssh` takes it, also a name of your `ssh_config`.
    SSH_HOST: SshHost = "terminal.ssh_host" {
        default: SshHost(None),
        limits: (),
        env: ["TERMINAL_SSH_HOST"],
    }

    /// User to log in as on that machine. Default: what your `ssh_config` says, else your name
    /// here.
    SSH_USER: SshUser = "terminal.ssh_user" {
        default: SshUser(None),
        limits: (),
        env: ["TERMINAL_SSH_USER"],
    }

    /// Port of the ssh server. Default: what your `ssh_config` says, else 22.
    SSH_PORT: SshPort = "terminal.ssh_port" {
        default: SshPort(None),
        limits: (),
        env: ["TERMINAL_SSH_PORT"],
    }

    /// Private key to log in with, or its public half when an agent has it; no other is then
    /// offered. Default: your agent and `ssh_config`.
    SSH_KEY: SshFile = "terminal.ssh_key" {
        default: SshFile(None),
        limits: (),
        env: ["TERMINAL_SSH_KEY"],
        travels: false,
    }

    /// Configuration that `ssh` reads in place of yours and the system's.
    SSH_CONFIG: SshFile = "terminal.ssh_config" {
        default: SshFile(None),
        limits: (),
        env: ["TERMINAL_SSH_CONFIG"],
        travels: false,
    }

    /// What keeps sandboxes apart from that machine. native: namespaces, as on backend `native`
    /// here; docker: containers of that machine's Docker or Podman. A machine that cannot make them
    /// is an error.
    SSH_ISOLATION: SshIsolation = "terminal.ssh_isolation" {
        default: SshIsolation::None,
        limits: (),
        env: ["TERMINAL_SSH_ISOLATION"],
        protection: Protection::Guards,
    }
}

vestal_config::choices! {
    /// What keeps sandboxes apart from the machine they are on.
    SshIsolation, "known isolation", {
        /// Nothing: commands run as the user over there.
        None = "none",
        /// Namespaces, with the system directories of that machine, read-only.
        Native = "native",
        /// Containers of that machine's engine.
        Docker = "docker",
    }
}

/// The settings of this owner.
pub(crate) static GROUP: Group = Group { prefixes: &["ssh_"], ..Group::of(KEYS) };

/// Longest name of a host or a user.
const MAX_NAME: usize = 255;

/// Returns the login that the settings name; none when they name no host.
pub(super) fn login(settings: &Settings) -> Result<Option<HostLogin>, ConfigError> {
    let Some(host) = settings.get(&SSH_HOST)?.value.0 else {
        return Ok(None);
    };
    let home = settings.environment().user_home();
    let file = |file: SshFile| file.0.map(|path| expand(&path, home.as_deref()));
    Ok(Some(HostLogin {
        host,
        user: settings.get(&SSH_USER)?.value.0,
        port: settings.get(&SSH_PORT)?.value.0,
        key: file(settings.get(&SSH_KEY)?.value),
        config: file(settings.get(&SSH_CONFIG)?.value),
    }))
}

/// Returns what keeps sandboxes apart from that machine.
pub(super) fn isolation(settings: &Settings) -> Result<SshIsolation, ConfigError> {
    Ok(settings.get(&SSH_ISOLATION)?.value)
}

/// Says what is wrong with a host or user, to be read after "which". It is one word of `ssh`'s
/// arguments, and some settings of `ssh` hand it to a shell.
fn check_name(name: &str, allowed: &[u8]) -> Result<(), ValueRefusal> {
    if name.len() > MAX_NAME {
        return Err(ValueRefusal::new(format!("is longer than {MAX_NAME} characters")));
    }
    if name.starts_with('-') {
        return Err(ValueRefusal::new("begins with -, like an option of ssh"));
    }
    let is_allowed = |c: char| {
        c.is_ascii_alphanumeric() || u8::try_from(c).is_ok_and(|byte| allowed.contains(&byte))
    };
    if let Some(wrong) = name.chars().find(|c| !is_allowed(*c)) {
        return Err(ValueRefusal::new(format!("contains {wrong:?}")));
    }
    Ok(())
}

/// A host; none unless it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshHost(Option<String>);

impl SshHost {
    const ALLOWED: &[u8] = b"._-:%";
}

impl Setting for SshHost {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?.trim();
        if text.contains('@') {
            let refusal = ValueRefusal::new("names a user, too");
            return Err(refusal.suggesting(Some("set terminal.ssh_user to it".to_owned())));
        }
        check_name(text, Self::ALLOWED)?;
        Ok(Self((!text.is_empty()).then(|| text.to_owned())))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.0.clone().unwrap_or_default())
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_none().then(|| "none".to_owned())
    }

    fn allowed((): &()) -> String {
        "a host name, an address, or a name of your ssh_config; not beginning with -".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["build.example.org".to_owned(), "cellar".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "maxLength": MAX_NAME, "pattern": "^([A-Za-z0-9._:%][A-Za-z0-9._:%-]*)?$"})
    }
}

/// A user; none unless it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshUser(Option<String>);

impl SshUser {
    const ALLOWED: &[u8] = b"._-@+%=,/:#~";
}

impl Setting for SshUser {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?.trim();
        check_name(text, Self::ALLOWED)?;
        Ok(Self((!text.is_empty()).then(|| text.to_owned())))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.0.clone().unwrap_or_default())
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_none().then(|| "from ssh_config".to_owned())
    }

    fn allowed((): &()) -> String {
        "the name of a user, not beginning with -".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["me".to_owned(), "build".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "maxLength": MAX_NAME, "pattern": "^([^-].*)?$"})
    }
}

/// A port; none unless it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshPort(Option<u16>);

impl Setting for SshPort {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        match input.scalar()?.trim() {
            "" => Ok(Self(None)),
            text => match text.parse::<u16>() {
                Ok(port @ 1..) => Ok(Self(Some(port))),
                _ => Err(ValueRefusal::new("is not a port")),
            },
        }
    }

    fn to_value(&self) -> SettingValue {
        self.0.map_or_else(
            || SettingValue::Text(String::new()),
            |port| SettingValue::Integer(port.into()),
        )
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_none().then(|| "from ssh_config".to_owned())
    }

    fn allowed((): &()) -> String {
        "a whole number from 1 to 65535".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["22".to_owned(), "2222".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535}, {"const": ""}]})
    }
}

/// A file of the user's; none unless it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SshFile(Option<PathBuf>);

impl Setting for SshFile {
    type Limits = ();

    const TILDE_IS_HOME: bool = true;

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        if matches!(input, SettingInput::Node(node) if node.scalar() == Some("")) {
            return Ok(Self(None));
        }
        let path = path(input)?;
        if path.is_absolute() || (path.starts_with("~") && path != Path::new("~")) {
            return Ok(Self(Some(path)));
        }
        Err(ValueRefusal::new(
            "is a relative path, which would mean another file in every directory",
        ))
    }

    fn to_value(&self) -> SettingValue {
        let path = self.0.as_deref().map(Path::to_string_lossy);
        SettingValue::Text(path.map(std::borrow::Cow::into_owned).unwrap_or_default())
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_none().then(|| "none".to_owned())
    }

    fn allowed((): &()) -> String {
        "an absolute path, or one that starts with ~/".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["~/.ssh/id_ed25519".to_owned(), "/etc/vestal/ssh".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "pattern": "^([/~].*)?$"})
    }
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home, Override};

    use super::*;

    fn login_of(values: &[&str]) -> Result<Option<HostLogin>, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        let schema = crate::schema();
        let overrides = values.iter().map(|text| Override::parse(&schema, text).unwrap()).collect();
        let environment = Environment::from_pairs([("HOME", "/home/me")]);
        login(&Settings::load(&schema, Home::at(dir.path()), environment, overrides))
    }

    #[test]
    fn no_host_and_no_user_is_an_option_of_ssh_or_text_for_a_shell() {
        for wrong in [
            "terminal.ssh_host=-oProxyCommand=touch /tmp/x",
            "terminal.ssh_host=-l",
            "terminal.ssh_host=a b",
            "terminal.ssh_host=$(id)",
            "terminal.ssh_host=a;b",
            "terminal.ssh_host=`id`",
            "terminal.ssh_host=me@there",
            "terminal.ssh_host=a\nb",
        ] {
            assert!(login_of(&[wrong]).is_err(), "{wrong}");
        }
        for wrong in ["-oProxyCommand=x", "a b", "$(id)", "a'b", "a\"b", "a\\b", "a|b"] {
            let user = format!("terminal.ssh_user={wrong}");
            assert!(login_of(&["terminal.ssh_host=there", &user]).is_err(), "{wrong}");
        }
        for wrong in ["0", "65536", "-1", "ssh"] {
            let port = format!("terminal.ssh_port={wrong}");
            assert!(login_of(&["terminal.ssh_host=there", &port]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_set_is_left_to_ssh() {
        assert_eq!(login_of(&[]).unwrap(), None);
        let expected = HostLogin { host: "there".into(), ..HostLogin::default() };
        assert_eq!(login_of(&["terminal.ssh_host=there"]).unwrap(), Some(expected));
        let all = [
            "terminal.ssh_host=fe80::1%eth0",
            "terminal.ssh_user=me@corp.example",
            "terminal.ssh_port=2222",
            "terminal.ssh_key=~/.ssh/id",
            "terminal.ssh_config=/etc/other",
        ];
        let expected = HostLogin {
            host: "fe80::1%eth0".into(),
            user: Some("me@corp.example".into()),
            port: Some(2222),
            key: Some("/home/me/.ssh/id".into()),
            config: Some("/etc/other".into()),
        };
        assert_eq!(login_of(&all).unwrap(), Some(expected));
    }
}
