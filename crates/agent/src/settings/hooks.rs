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

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home, Override, Settings};

    use super::*;
    use crate::settings::keys;

    fn read(text: &str) -> Result<HookList, String> {
        let schema = crate::schema();
        let assignment = format!("hooks.before_tool={text}");
        let set = Override::parse(&schema, &assignment).map_err(|error| error.to_string())?;
        let dir = tempfile::tempdir().unwrap();
        let settings =
            Settings::load(&schema, Home::at(dir.path()), Environment::default(), vec![set]);
        let found = settings.get(&keys::HOOKS_BEFORE_TOOL).map_err(|error| error.to_string())?;
        Ok(found.value)
    }

    #[test]
    fn a_hook_has_a_command_and_otherwise_what_is_safe() {
        let list = read(
            r#"[{"command": "check"}, {"command": "log", "tools": ["mcp_*"], "timeout": "2m", "on_failure": "allow"}]"#,
        );
        let hooks: Vec<HookSetting> = list.unwrap().iter().cloned().collect();
        let usual = (hooks[0].tools.len(), hooks[0].timeout(), hooks[0].on_failure);
        assert_eq!(usual, (0, Duration::from_secs(30), HookFailure::Deny));
        let other = (hooks[1].tools.as_slice(), hooks[1].timeout(), hooks[1].on_failure);
        assert_eq!(other, (&["mcp_*".to_owned()][..], Duration::from_mins(2), HookFailure::Allow));
    }

    #[test]
    fn a_hook_that_is_misspelt_is_an_error_and_not_left_out() {
        for wrong in [
            r#"{"command": "x"}"#,
            r#"[{"tools": ["terminal"]}]"#,
            r#"[{"command": ""}]"#,
            r#"[{"command": "x", "tool": "terminal"}]"#,
            r#"[{"command": "x", "tools": ["term inal"]}]"#,
            r#"[{"command": "x", "timeout": 0}]"#,
            r#"[{"command": "x", "on_failure": "maybe"}]"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
