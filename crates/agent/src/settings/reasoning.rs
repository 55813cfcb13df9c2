//! How much models think.

use std::collections::BTreeMap;

use serde_json::json;
use vestal_config::kind::{Fields, SettingInput, ValueRefusal, YamlNode};
use vestal_config::{ConfigError, Range, Setting, SettingValue, Settings, Text};
use vestal_model::{ReasoningEffort, ReasoningOptions};

use super::providers::{MODEL_NAME, TokensOrAuto};
use crate::settings::keys;

vestal_config::choices! {
    /// How much the model thinks before it answers.
    EffortChoice, "known reasoning effort", {
        /// As much as the provider sees fit.
        Auto = "auto",
        /// Not at all.
        None = "none",
        /// As little as it can.
        Minimal = "minimal",
        /// A little.
        Low = "low",
        /// As much as most tasks need.
        Medium = "medium",
        /// Much.
        High = "high",
        /// As much as it can.
        XHigh = "xhigh",
    }
}

impl EffortChoice {
    /// Returns the effort; none where it is left to the provider.
    pub fn effort(self) -> Option<ReasoningEffort> {
        ReasoningEffort::from_word(self.as_str())
    }
}

/// The tokens that a model may think with.
pub(super) const BUDGET: Range = Range { min: 1024, max: 1_000_000 };

const FIELDS: &[&str] = &["effort", "budget"];

/// How much one model thinks; what is not given is as for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ModelReasoning {
    effort: Option<EffortChoice>,
    budget: Option<TokensOrAuto>,
}

/// How much models think, by the name of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasoningTable(BTreeMap<String, ModelReasoning>);

impl ReasoningTable {
    /// Says nothing of any model.
    pub const EMPTY: Self = Self(BTreeMap::new());
}

fn one(model: &str, node: &YamlNode) -> Result<ModelReasoning, ValueRefusal> {
    // A word alone is its effort.
    if let Ok(effort) = EffortChoice::read(SettingInput::Node(node), &()) {
        return Ok(ModelReasoning { effort: Some(effort), budget: None });
    }
    let fields = Fields::read(node, model, FIELDS)?;
    let effort = |node| EffortChoice::read(SettingInput::Node(node), &());
    let budget = |node| TokensOrAuto::read(SettingInput::Node(node), &BUDGET);
    Ok(ModelReasoning {
        effort: fields.value("effort", effort)?,
        budget: fields.value("budget", budget)?,
    })
}

impl Setting for ReasoningTable {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let hint = || Some(r#"write it as {"MODEL": {"effort": "high"}}"#.to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let Some(entries) = tree.entries() else {
            let reason = format!("is {}, not a map", tree.noun());
            return Err(ValueRefusal::new(reason).suggesting(hint()));
        };
        let mut all = BTreeMap::new();
        for entry in entries {
            let model = Text::read(SettingInput::Node(&entry.key), &MODEL_NAME)?;
            let Some(model) = model.get() else {
                return Err(ValueRefusal::new("holds a key that is not the name of a model"));
            };
            if all.insert(model.to_owned(), one(model, &entry.value)?).is_some() {
                return Err(ValueRefusal::new(format!("has {model} twice")));
            }
        }
        Ok(Self(all))
    }

    fn to_value(&self) -> SettingValue {
        let own = |(model, own): (&String, &ModelReasoning)| {
            let effort = own.effort.map(|effort| ("effort".to_owned(), effort.to_value()));
            let budget = own.budget.map(|budget| ("budget".to_owned(), budget.to_value()));
            (model.clone(), SettingValue::Map(effort.into_iter().chain(budget).collect()))
        };
        SettingValue::Map(self.0.iter().map(own).collect())
    }

    fn allowed((): &()) -> String {
        format!("a map from names of models to maps with {}", FIELDS.join(", "))
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"{"some-model": {"effort": "high"}}"#.to_owned(),
            r#"{"other/model": {"effort": "auto", "budget": 16000}}"#.to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "object", "additionalProperties": {"anyOf": [
            EffortChoice::schema(&()),
            {
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "effort": EffortChoice::schema(&()),
                    "budget": TokensOrAuto::schema(&BUDGET),
                },
            },
        ]}})
    }
}

/// Returns how much a model thinks: what is said of it by name counts before what is
/// said of all.
pub(super) fn of_model(settings: &Settings, model: &str) -> Result<ReasoningOptions, ConfigError> {
    let table = settings.get(&keys::MODEL_REASONING)?.value;
    let own = table.0.get(model);
    let effort = match own.and_then(|own| own.effort) {
        Some(effort) => effort,
        None => settings.get(&keys::MODEL_REASONING_EFFORT)?.value,
    };
    let budget = match own.and_then(|own| own.budget) {
        Some(budget) => budget,
        None => settings.get(&keys::MODEL_THINKING_BUDGET)?.value,
    };
    Ok(ReasoningOptions { effort: effort.effort(), budget_tokens: budget.get() })
}

#[cfg(test)]
mod tests {
    use vestal_config::{Environment, Home, Override};

    use super::*;

    fn of(assignments: &[&str], model: &str) -> ReasoningOptions {
        let dir = tempfile::tempdir().unwrap();
        let schema = crate::schema();
        let set = assignments.iter().map(|text| Override::parse(&schema, text).unwrap()).collect();
        let settings = Settings::load(&schema, Home::at(dir.path()), Environment::default(), set);
        of_model(&settings, model).unwrap()
    }

    #[test]
    fn a_setting_of_one_model_wins_over_that_of_all() {
        assert_eq!(of(&[], "m"), ReasoningOptions::AUTO);
        let table = r#"model.reasoning={"m": {"effort": "auto", "budget": 2000}, "n": "high"}"#;
        let set = ["model.reasoning_effort=low", "model.thinking_budget=4000", table];
        let low = ReasoningOptions::effort(ReasoningEffort::Low);
        assert_eq!(of(&set, "other"), ReasoningOptions { budget_tokens: Some(4000), ..low });
        let own = ReasoningOptions { effort: None, budget_tokens: Some(2000) };
        assert_eq!(of(&set, "m"), own);
        let high = ReasoningOptions::effort(ReasoningEffort::High);
        assert_eq!(of(&set, "n"), ReasoningOptions { budget_tokens: Some(4000), ..high });
    }

    #[test]
    fn an_effort_that_there_is_not_is_refused() {
        let schema = crate::schema();
        for wrong in [
            "model.reasoning_effort=much",
            "model.thinking_budget=100",
            r#"model.reasoning={"m": {"effrt": "high"}}"#,
            r#"model.reasoning={"m": "much"}"#,
        ] {
            let dir = tempfile::tempdir().unwrap();
            let set = Override::parse(&schema, wrong).map(|set| vec![set]);
            let refused = set.map_or(true, |set| {
                let settings =
                    Settings::load(&schema, Home::at(dir.path()), Environment::default(), set);
                of_model(&settings, "m").is_err()
            });
            assert!(refused, "{wrong}");
        }
    }
}
