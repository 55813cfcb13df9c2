//! Who is asked when a provider fails.

use std::collections::BTreeMap;

use serde_json::json;

use super::fields::Fields;
use super::provider::ProviderName;
use crate::input::{Input, Refusal};
use crate::kinds::{Setting, Text, limits_of};
use crate::value::Value;
use crate::yaml::{Node, NodeKind};

/// A provider and a model to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallback {
    /// The provider.
    pub provider: ProviderName,
    /// The model, as that provider calls it.
    pub model: String,
}

/// Whom to ask, one after the other, when a provider fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fallbacks(Vec<Fallback>);

impl Fallbacks {
    /// Nobody.
    pub const EMPTY: Self = Self(Vec::new());

    /// Returns them in the order they are tried.
    pub fn iter(&self) -> impl Iterator<Item = &Fallback> {
        self.0.iter()
    }
}

fn fallback(node: &Node) -> Result<Fallback, Refusal> {
    let fields = Fields::read(node, "an item", &["provider", "model"])?;
    let name = |node| {
        ProviderName::new(Input::Node(node).scalar()?)
            .ok_or_else(|| Refusal::new("is no name of a provider"))
    };
    let model = |node| {
        let text = Text::read(Input::Node(node), &limits_of::MODEL_NAME)?;
        text.get().map(str::to_owned).ok_or_else(|| Refusal::new("is empty"))
    };
    Ok(Fallback {
        provider: fields.required("provider", name)?,
        model: fields.required("model", model)?,
    })
}

impl Setting for Fallbacks {
    type Limits = ();

    fn read(input: Input<'_>, (): &()) -> Result<Self, Refusal> {
        let hint = || Some(r#"write it as [{"provider": "NAME", "model": "NAME"}]"#.to_owned());
        let tree = input.tree().map_err(|refusal| refusal.suggesting(hint()))?;
        let NodeKind::List { items, .. } = &tree.kind else {
            let reason = format!("is {}, not a list", tree.noun());
            return Err(Refusal::new(reason).suggesting(hint()));
        };
        items.iter().map(fallback).collect::<Result<_, _>>().map(Self)
    }

    fn to_value(&self) -> Value {
        let item = |own: &Fallback| {
            Value::Map(BTreeMap::from([
                ("provider".to_owned(), Value::Text(own.provider.as_str().to_owned())),
                ("model".to_owned(), Value::Text(own.model.clone())),
            ]))
        };
        Value::List(self.0.iter().map(item).collect())
    }

    fn allowed((): &()) -> String {
        "a list of maps with provider and model".to_owned()
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"[{"provider": "openrouter", "model": "some/model"}]"#.to_owned(),
            r#"[{"provider": "here", "model": "small"}, {"provider": "work", "model": "large"}]"#
                .to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        json!({"type": "array", "items": {
            "type": "object",
            "required": ["provider", "model"],
            "additionalProperties": false,
            "properties": {"provider": {"type": "string"}, "model": {"type": "string"}},
        }})
    }
}
