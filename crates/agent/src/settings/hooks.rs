//! Commands that run before and after calls of tools.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::json;
use vestal_config::kind::{Fields, SettingInput, ValueRefusal, YamlNode, texts};
use vestal_config::{Range, Seconds, Setting, SettingValue};

vestal_config::choices! {
    /// What becomes of a call whose hook fails, hangs or cannot be started.
    HookFailure, "known rule for hooks that fail", {
        /// It is refused.
        Deny = "deny",
        /// It goes on, with a warning.
        Allow = "allow",
    }
}

const FIELDS: &[&str] = &["command", "tools", "timeout", "on_failure"];

/// The time that a hook may take.
const TIMEOUT: Range = Range { min: 1, max: 600 };
const USUAL_TIMEOUT: Seconds = Seconds::new(30);

/// Characters of a command.
const LONGEST: usize = 16 << 10;

/// Hooks of one kind.
const MOST: usize = 50;

/// One command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookSetting {
    /// The text that the shell runs.
    pub command: String,
    /// Patterns of the tools' names; none: every tool.
    pub tools: Vec<String>,
    timeout: Seconds,
    /// What becomes of a call when it fails.
    pub on_failure: HookFailure,
}

impl HookSetting {
    /// Returns the time that it may take.
    pub fn timeout(&self) -> Duration {
        self.timeout.duration()
    }
}

/// Commands in the order in which they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookList(Vec<HookSetting>);

impl HookList {
    /// None.
    pub const EMPTY: Self = Self(Vec::new());

    /// Returns them in order.
    pub fn iter(&self) -> impl Iterator<Item = &HookSetting> {
        self.0.iter()
    }
}

fn hook(node: &YamlNode) -> Result<HookSetting, ValueRefusal> {
    let fields = Fields::read(node, "a hook", FIELDS)?;
    let command = |node| {
        let text = SettingInput::Node(node).scalar()?.trim();
        if text.is_empty() || text.contains('\0') || text.len() > LONGEST {
            return Err(ValueRefusal::new("is empty, too long or has a NUL character"));
        }
        Ok(text.to_owned())
    };
    let patterns = |node| {
        let patterns = texts(SettingInput::Node(node), r#"write it as ["terminal", "mcp_*"]"#)?;
        let is_name = |text: &String| {
            !text.is_empty()
                && text.len() <= 128
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-*".contains(&b))
        };
        match patterns.iter().find(|text| !is_name(text)) {
            Some(wrong) => Err(ValueRefusal::new(format!(
                "holds {wrong:?}, which is neither a tool's name nor one with * in it"
            ))),
            None => Ok(patterns),
        }
    };
    let timeout = |node| Seconds::read(SettingInput::Node(node), &TIMEOUT);
    let failure = |node| HookFailure::read(SettingInput::Node(node), &());
    Ok(HookSetting {
        command: fields.required("command", command)?,
        tools: fields.value("tools", patterns)?.unwrap_or_default(),
        timeout: fields.value("timeout", timeout)?.unwrap_or(USUAL_TIMEOUT),
        on_failure: fields.value("on_failure", failure)?.unwrap_or(HookFailure::Deny),
    })
}

impl Setting for HookList {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let hint = || Some(r#"write it as [{"command": "PROGRAM"}]"#.to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let Some(items) = tree.items() else {
            let reason = format!("is {}, not a list", tree.noun());
            return Err(ValueRefusal::new(reason).suggesting(hint()));
        };
        if items.len() > MOST {
            return Err(ValueRefusal::new(format!("holds more than {MOST} hooks")));
        }
        items.iter().map(hook).collect::<Result<_, _>>().map(Self)
    }

    fn to_value(&self) -> SettingValue {
        let one = |hook: &HookSetting| {
            let tools = hook.tools.iter().cloned().map(SettingValue::Text).collect();
            SettingValue::Map(BTreeMap::from([
                ("command".to_owned(), SettingValue::Text(hook.command.clone())),
                ("tools".to_owned(), SettingValue::List(tools)),
                ("timeout".to_owned(), hook.timeout.to_value()),
                ("on_failure".to_owned(), hook.on_failure.to_value()),
            ]))
        };
        SettingValue::List(self.0.iter().map(one).collect())
    }

    fn allowed((): &()) -> String {
        format!("a list of maps with {}", FIELDS.join(", "))
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"[{"command": "~/bin/check-call", "tools": ["terminal", "mcp_*"]}]"#.to_owned(),
            r#"[{"command": "cat >> ~/calls.jsonl", "timeout": 5, "on_failure": "allow"}]"#
                .to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {
            "type": "object",
            "required": ["command"],
            "additionalProperties": false,
            "properties": {
                "command": {"type": "string", "minLength": 1},
                "tools": {"type": "array", "items": {"type": "string", "pattern": "^[A-Za-z0-9_*-]+$"}},
                "timeout": Seconds::schema(&TIMEOUT),
                "on_failure": HookFailure::schema(&()),
            },
        }})
    }
}
