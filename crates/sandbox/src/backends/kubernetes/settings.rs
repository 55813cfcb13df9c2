//! The settings of sandboxes on Kubernetes. They are known also to a program that was built
//! without the backend, so that a configuration means the same to every build.

use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::json;
use vestal_config::kind::{SettingInput, ValueRefusal, expand, texts};
use vestal_config::{
    ConfigError, Group, LineMode, Megabytes, Protection, Range, Seconds, Setting, SettingValue,
    Settings, Text, TextLimits, Variable, VariableScope,
};

use crate::Overrides;
use crate::backends::docker::settings::ImageName;

vestal_config::choices! {
    /// How much of a node a sandbox reserves.
    Reservation, "known reservation", {
        /// Little: idle sandboxes share a node, and busy ones compete.
        Little = "little",
        /// Its limits: what it may use is there for it alone.
        Limits = "limits",
    }
}

const LINE: TextLimits = TextLimits { max_bytes: 4096, lines: LineMode::One };

vestal_config::keys! {
    /// Namespace of sandboxes on `kubernetes`. It must be named: no cluster is asked before.
    KUBERNETES_NAMESPACE: ObjectName = "terminal.kubernetes_namespace" {
        default: ObjectName(None),
        limits: (),
        env: ["TERMINAL_KUBERNETES_NAMESPACE"],
    }

    /// Context of your kubeconfig. Default: its current one.
    KUBERNETES_CONTEXT: Text = "terminal.kubernetes_context" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["TERMINAL_KUBERNETES_CONTEXT"],
    }

    /// The kubeconfig. Default: `KUBECONFIG`, else `~/.kube/config`, else the service account of
    /// the pod that Vestal runs in.
    KUBERNETES_CONFIG: Text = "terminal.kubernetes_config" {
        default: Text::EMPTY,
        limits: LINE,
        env: ["TERMINAL_KUBERNETES_CONFIG"],
        travels: false,
    }

    /// Image of the pods, as the nodes pull it. It needs `/bin/sh`, `head`, `tail` and `chmod`.
    KUBERNETES_IMAGE: ImageName = "terminal.kubernetes_image" {
        default: ImageName::declared("nikolaik/python-nodejs:python3.11-nodejs20"),
        limits: (),
        env: ["TERMINAL_KUBERNETES_IMAGE"],
    }

    /// Secret of the namespace to pull the image with.
    KUBERNETES_IMAGE_PULL_SECRET: ObjectName = "terminal.kubernetes_image_pull_secret" {
        default: ObjectName(None),
        limits: (),
        env: ["TERMINAL_KUBERNETES_IMAGE_PULL_SECRET"],
    }

    /// Storage class of the volume that keeps workspace and home. Default: the cluster's.
    KUBERNETES_STORAGE_CLASS: ObjectName = "terminal.kubernetes_storage_class" {
        default: ObjectName(None),
        limits: (),
        env: ["TERMINAL_KUBERNETES_STORAGE_CLASS"],
    }

    /// Size of that volume. It is asked for once, when the volume is made.
    KUBERNETES_STORAGE_SIZE: Megabytes = "terminal.kubernetes_storage_size" {
        default: Megabytes::new(10 << 10),
        limits: Range { min: 1, max: 1 << 34 },
        env: ["TERMINAL_KUBERNETES_STORAGE_SIZE"],
    }

    /// Further claims of the namespace that pods mount, each as `claim:/path` or `claim:/path:ro`.
    KUBERNETES_CLAIMS: Claims = "terminal.kubernetes_claims" {
        default: Claims(Vec::new()),
        limits: (),
        env: ["TERMINAL_KUBERNETES_CLAIMS"],
    }

    /// User and group number that commands run as. Default: the image's user.
    KUBERNETES_RUN_AS_USER: UserNumber = "terminal.kubernetes_run_as_user" {
        default: UserNumber(None),
        limits: (),
        env: ["TERMINAL_KUBERNETES_RUN_AS_USER"],
        protection: Protection::Guards,
    }

    /// Service account of the pods. Its token is never in them.
    KUBERNETES_SERVICE_ACCOUNT: ObjectName = "terminal.kubernetes_service_account" {
        default: ObjectName(None),
        limits: (),
        env: ["TERMINAL_KUBERNETES_SERVICE_ACCOUNT"],
    }

    /// Labels of the nodes that pods may run on, each as `name=value`.
    KUBERNETES_NODE_SELECTOR: NodeLabels = "terminal.kubernetes_node_selector" {
        default: NodeLabels(Vec::new()),
        limits: (),
        env: ["TERMINAL_KUBERNETES_NODE_SELECTOR"],
    }

    /// Runtime class of the pods, such as one of gVisor or Kata. Default: the cluster's.
    KUBERNETES_RUNTIME_CLASS: ObjectName = "terminal.kubernetes_runtime_class" {
        default: ObjectName(None),
        limits: (),
        env: ["TERMINAL_KUBERNETES_RUNTIME_CLASS"],
        protection: Protection::Guards,
    }

    /// Where pods may connect to, each as an address or a network with or without a TCP port; the
    /// cluster's names are resolved besides. Nobody connects to them. Default: everywhere. It is a
    /// NetworkPolicy, which not every cluster enforces.
    KUBERNETES_EGRESS: EgressRules = "terminal.kubernetes_egress" {
        default: EgressRules(Vec::new()),
        limits: (),
        env: ["TERMINAL_KUBERNETES_EGRESS"],
        protection: Protection::Guards,
    }

    /// How much processor and memory of a node a sandbox reserves: `little`, or its `limits`.
    KUBERNETES_RESERVE: Reservation = "terminal.kubernetes_reserve" {
        default: Reservation::Little,
        limits: (),
        env: ["TERMINAL_KUBERNETES_RESERVE"],
    }

    /// How long a pod may take to run: a node may have to be added and the image pulled.
    KUBERNETES_START_TIMEOUT: Seconds = "terminal.kubernetes_start_timeout" {
        default: Seconds::new(300),
        limits: Range { min: 1, max: 86_400 },
        env: ["TERMINAL_KUBERNETES_START_TIMEOUT"],
    }
}

/// The settings of this owner.
pub(crate) static GROUP: Group =
    Group { variables: VARIABLES, prefixes: &["kubernetes_"], ..Group::of(KEYS) };

/// The variable of all programs that use a cluster.
const VARIABLES: &[Variable] = &[Variable {
    name: "KUBECONFIG",
    doc: "Files of your kubeconfig, separated by `:`, when `terminal.kubernetes_config` is not set.",
    scope: VariableScope::Environment,
}];

/// What shapes a sandbox's pod, beyond limits and network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodSettings {
    pub(super) image: String,
    pub(super) image_pull_secret: Option<String>,
    pub(super) storage_class: Option<String>,
    pub(super) storage_mb: u64,
    pub(super) claims: Vec<MountedClaim>,
    pub(super) user: Option<u32>,
    pub(super) service_account: Option<String>,
    pub(super) node_labels: Vec<(String, String)>,
    pub(super) runtime_class: Option<String>,
    pub(super) egress: Vec<EgressRule>,
    pub(super) reserve: Reservation,
    pub(super) start_timeout: std::time::Duration,
}

#[cfg_attr(not(feature = "kubernetes"), expect(dead_code, reason = "only the backend reads them"))]
impl PodSettings {
    /// Reads the settings.
    pub(super) fn read(settings: &Settings, overrides: &Overrides) -> Result<Self, ConfigError> {
        let storage = settings.get(&KUBERNETES_STORAGE_SIZE)?.value;
        let storage = storage.get().or(KUBERNETES_STORAGE_SIZE.default_value().get());
        let image = match &overrides.image {
            Some(image) => image.clone(),
            None => settings.get(&KUBERNETES_IMAGE)?.value.to_string(),
        };
        Ok(Self {
            image,
            image_pull_secret: settings.get(&KUBERNETES_IMAGE_PULL_SECRET)?.value.0,
            storage_class: settings.get(&KUBERNETES_STORAGE_CLASS)?.value.0,
            storage_mb: storage.unwrap_or(1 << 10),
            claims: settings.get(&KUBERNETES_CLAIMS)?.value.0,
            user: settings.get(&KUBERNETES_RUN_AS_USER)?.value.0,
            service_account: settings.get(&KUBERNETES_SERVICE_ACCOUNT)?.value.0,
            node_labels: settings.get(&KUBERNETES_NODE_SELECTOR)?.value.0,
            runtime_class: settings.get(&KUBERNETES_RUNTIME_CLASS)?.value.0,
            egress: settings.get(&KUBERNETES_EGRESS)?.value.0,
            reserve: settings.get(&KUBERNETES_RESERVE)?.value,
            start_timeout: settings.get(&KUBERNETES_START_TIMEOUT)?.value.duration(),
        })
    }
}

/// Where the cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ClusterChoice {
    pub(super) namespace: String,
    pub(super) context: Option<String>,
    /// Files of the kubeconfig, each of which may be missing; none: the pod's own account.
    pub(super) files: Vec<PathBuf>,
    /// Whether the user has named them.
    pub(super) named: bool,
}

/// Returns the cluster that the settings name; none where they name no namespace.
#[cfg_attr(not(feature = "kubernetes"), expect(dead_code, reason = "only the backend reads it"))]
pub(super) fn cluster(settings: &Settings) -> Result<Option<ClusterChoice>, ConfigError> {
    let Some(namespace) = settings.get(&KUBERNETES_NAMESPACE)?.value.0 else {
        return Ok(None);
    };
    let home = settings.environment().user_home();
    let own = settings.get(&KUBERNETES_CONFIG)?.value;
    let variable = settings.environment().get("KUBECONFIG").filter(|value| !value.is_empty());
    let (files, named) = match (own.get(), variable) {
        (Some(path), _) => (vec![expand(path.as_ref(), home.as_deref())], true),
        (None, Some(paths)) => {
            let paths = std::env::split_paths(paths).filter(|path| !path.as_os_str().is_empty());
            (paths.collect(), true)
        }
        (None, None) => (home.map(|home| home.join(".kube/config")).into_iter().collect(), false),
    };
    let context = settings.get(&KUBERNETES_CONTEXT)?.value.get().map(str::to_owned);
    Ok(Some(ClusterChoice { namespace, context, files, named }))
}

/// Longest name of an object.
const MAX_NAME: usize = 253;

fn check_name(text: &str) -> Result<(), ValueRefusal> {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    let ends = [text.bytes().next(), text.bytes().next_back()];
    if text.len() > MAX_NAME {
        return Err(ValueRefusal::new(format!("is longer than {MAX_NAME} characters")));
    }
    if !text.bytes().all(inner) || ends.contains(&Some(b'-')) || ends.contains(&Some(b'.')) {
        return Err(ValueRefusal::new(
            "is no name of Kubernetes: lower-case letters, digits, - and ., the first and the last \
             a letter or digit",
        ));
    }
    Ok(())
}

/// The name of an object; none unless it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectName(Option<String>);

impl Setting for ObjectName {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let text = input.scalar()?.trim();
        check_name(text)?;
        Ok(Self((!text.is_empty()).then(|| text.to_owned())))
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::Text(self.0.clone().unwrap_or_default())
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_none().then(|| "none".to_owned())
    }

    fn allowed((): &()) -> String {
        "a name of Kubernetes: lower-case letters, digits, - and .".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["agents".to_owned(), "team-a".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "string", "maxLength": MAX_NAME, "pattern": "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$"})
    }
}

/// A user that is not root; none unless it is set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UserNumber(Option<u32>);

impl Setting for UserNumber {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        match input.scalar()?.trim() {
            "" => Ok(Self(None)),
            text => match text.parse::<u32>() {
                Ok(user @ 1..=0x7fff_ffff) => Ok(Self(Some(user))),
                _ => Err(ValueRefusal::new("is not a number from 1 to 2147483647")),
            },
        }
    }

    fn to_value(&self) -> SettingValue {
        self.0.map_or_else(
            || SettingValue::Text(String::new()),
            |user| SettingValue::Integer(user.into()),
        )
    }

    fn in_words(&self) -> Option<String> {
        self.0.is_none().then(|| "the image's".to_owned())
    }

    fn allowed((): &()) -> String {
        "a whole number from 1 to 2147483647".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec!["1000".to_owned(), "65534".to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"anyOf": [{"type": "integer", "minimum": 1, "maximum": 0x7fff_ffff}, {"const": ""}]})
    }
}

/// Labels that nodes must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeLabels(Vec<(String, String)>);

impl Setting for NodeLabels {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let mut labels = Vec::new();
        for text in texts(input, r#"write it as ["disk=ssd"]"#)? {
            let is_allowed = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
            let Some((name, value)) = text.split_once('=') else {
                return Err(ValueRefusal::new(format!("holds {text:?}, which is not name=value")));
            };
            if name.is_empty() || !name.bytes().chain(value.bytes()).all(is_allowed) {
                return Err(ValueRefusal::new(format!("holds {text:?}, which is not a label")));
            }
            labels.push((name.to_owned(), value.to_owned()));
        }
        labels.sort();
        Ok(Self(labels))
    }

    fn to_value(&self) -> SettingValue {
        let labels =
            self.0.iter().map(|(name, value)| SettingValue::Text(format!("{name}={value}")));
        SettingValue::List(labels.collect())
    }

    fn allowed((): &()) -> String {
        "a list of name=value".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"["disk=ssd"]"#.to_owned(),
            r#"["kubernetes.io/arch=arm64", "pool=agents"]"#.to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9_./-]+=[A-Za-z0-9_./-]*$"}})
    }
}

/// A claim that somebody else has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountedClaim {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) read_only: bool,
}

impl MountedClaim {
    fn parse(text: &str) -> Result<Self, ValueRefusal> {
        let wrong = |why: &str| {
            ValueRefusal::new(format!("holds {text:?}, {why}; write claim:/path or claim:/path:ro"))
        };
        let (text, read_only) = match text.strip_suffix(":ro") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let Some((name, path)) = text.split_once(':') else {
            return Err(wrong("which has no path"));
        };
        check_name(name)?;
        let is_plain = path.starts_with('/')
            && path.len() > 1
            && path.split('/').all(|part| part != "." && part != "..")
            && !path.contains(|c: char| c.is_control() || c == ':');
        let is_ours = ["/.vestal", "/proc", "/sys", "/dev"]
            .iter()
            .any(|own| path == *own || path.starts_with(&format!("{own}/")));
        if name.is_empty() || !is_plain || is_ours {
            return Err(wrong("whose path cannot be used"));
        }
        Ok(Self { name: name.to_owned(), path: path.to_owned(), read_only })
    }

    /// Returns the claim as it is written.
    pub(super) fn to_text(&self) -> String {
        let Self { name, path, read_only } = self;
        format!("{name}:{path}{}", if *read_only { ":ro" } else { "" })
    }
}

/// A place that pods may connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EgressRule {
    address: IpAddr,
    /// Leading bits of the address that count.
    bits: u8,
    pub(super) port: Option<u16>,
}

impl EgressRule {
    /// Reads `ADDRESS[/BITS][:PORT]`, an address of IPv6 in brackets where a port follows.
    fn parse(text: &str) -> Result<Self, ValueRefusal> {
        let wrong = |why: &str| ValueRefusal::new(format!("holds {text:?}, {why}"));
        let (network, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((network, rest)) => (network, rest.strip_prefix(':')),
            None => match text.split_once(':') {
                Some((network, port)) if !port.contains(':') => (network, Some(port)),
                _ => (text, None),
            },
        };
        let (address, bits) = match network.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (network, None),
        };
        let address: IpAddr =
            address.parse().map_err(|_| wrong("which is no address of a network"))?;
        let all = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits.map(str::parse::<u8>) {
            None => all,
            Some(Ok(bits)) if bits <= all => bits,
            Some(_) => return Err(wrong("whose number of bits is none")),
        };
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port @ 1..)) => Some(port),
            Some(_) => return Err(wrong("whose port is none")),
        };
        Ok(Self { address, bits, port })
    }

    /// Returns the network as policies have it.
    pub(super) fn cidr(self) -> String {
        format!("{}/{}", self.address, self.bits)
    }

    /// Returns the rule as it is written.
    pub(super) fn to_text(self) -> String {
        match (self.port, self.address) {
            (None, _) => self.cidr(),
            (Some(port), IpAddr::V4(_)) => format!("{}:{port}", self.cidr()),
            (Some(port), IpAddr::V6(_)) => format!("[{}]:{port}", self.cidr()),
        }
    }
}

/// Places that pods may connect to; none: everywhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EgressRules(Vec<EgressRule>);

impl Setting for EgressRules {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let rules = texts(input, r#"write it as ["10.0.0.0/8", "192.0.2.7:443"]"#)?;
        rules.iter().map(|text| EgressRule::parse(text)).collect::<Result<_, _>>().map(Self)
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::List(self.0.iter().map(|rule| SettingValue::Text(rule.to_text())).collect())
    }

    fn allowed((): &()) -> String {
        "a list of ADDRESS[/BITS][:PORT], an address of IPv6 in brackets before a port".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"["10.0.0.0/8"]"#.to_owned(),
            r#"["0.0.0.0/0:443", "[2001:db8::/32]:443"]"#.to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": "string", "pattern": r"^[0-9a-fA-F.:/\[\]]+$"}})
    }
}

/// Claims that pods mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claims(Vec<MountedClaim>);

impl Setting for Claims {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let claims = texts(input, r#"write it as ["data:/data:ro"]"#)?;
        claims.iter().map(|text| MountedClaim::parse(text)).collect::<Result<_, _>>().map(Self)
    }

    fn to_value(&self) -> SettingValue {
        SettingValue::List(self.0.iter().map(|claim| SettingValue::Text(claim.to_text())).collect())
    }

    fn allowed((): &()) -> String {
        "a list of claim:/path or claim:/path:ro".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec![r#"["data:/data:ro"]"#.to_owned(), r#"["models:/models", "cache:/cache"]"#.to_owned()]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {"type": "string", "pattern": "^[a-z0-9.-]+:/[^:]+(:ro)?$"}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_connect_to_is_an_address_or_a_network_with_or_without_a_port() {
        for (text, written) in [
            ("192.0.2.7", "192.0.2.7/32"),
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.7:443", "192.0.2.7/32:443"),
            ("0.0.0.0/0:53", "0.0.0.0/0:53"),
            ("2001:db8::/32", "2001:db8::/32"),
            ("[2001:db8::1]:443", "[2001:db8::1/128]:443"),
        ] {
            let rule = EgressRule::parse(text).unwrap();
            assert_eq!(rule.to_text(), written);
            assert_eq!(EgressRule::parse(written).unwrap(), rule);
        }
        for wrong in
            ["", "example.org", "10.0.0.0/33", "10.0.0.1:0", "10.0.0.1:x", "::/129", "1.2.3/8"]
        {
            assert!(EgressRule::parse(wrong).is_err(), "{wrong}");
        }
    }
}
