//! What tokens cost.

use std::collections::BTreeMap;

use serde_json::json;
use vestal_config::kind::{Fields, SettingInput, ValueRefusal, YamlNode, scaled};
use vestal_config::{Decimal, Setting, SettingValue, Text};

use super::providers::MODEL_NAME;

const FIELDS: &[&str] = &["input", "output", "cache_read", "cache_write"];

/// More than any tokens cost, in millionths of a US dollar per million tokens.
const MAX_MILLIONTHS: u64 = 1_000_000 * 1_000_000;

/// US dollars per million tokens, in whole millionths of a dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenPrice {
    millionths: u64,
}

impl TokenPrice {
    /// Makes a price of so many millionths of a US dollar per million tokens.
    pub const fn from_millionths(millionths: u64) -> Self {
        Self { millionths }
    }

    /// Returns millionths of a US dollar per million tokens, which is the price
    /// of one token in millionths of a millionth of a dollar.
    pub const fn millionths(self) -> u64 {
        self.millionths
    }

    fn read(node: &YamlNode) -> Result<Self, ValueRefusal> {
        let text = SettingInput::Node(node).scalar()?.trim();
        scaled(text, 1_000_000)
            .filter(|millionths| *millionths <= MAX_MILLIONTHS)
            .map(Self::from_millionths)
            .ok_or_else(|| ValueRefusal::new("is not a price such as 3 or 0.25"))
    }

    fn to_value(self) -> SettingValue {
        if self.millionths.is_multiple_of(1_000_000) {
            SettingValue::Integer(self.millionths / 1_000_000)
        } else {
            SettingValue::Decimal(Decimal::from_millionths(self.millionths))
        }
    }
}

/// What a model's tokens cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenPrices {
    /// Tokens that the model reads.
    pub input: TokenPrice,
    /// Tokens that it writes.
    pub output: TokenPrice,
    /// Tokens that it reads from the provider's cache; none when not given.
    pub cache_read: Option<TokenPrice>,
    /// Tokens that the provider puts into its cache; none when not given.
    pub cache_write: Option<TokenPrice>,
}

/// Prices by the name of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PriceTable(BTreeMap<String, TokenPrices>);

impl PriceTable {
    /// No prices.
    pub const EMPTY: Self = Self(BTreeMap::new());

    /// Returns the prices of a model.
    pub fn get(&self, model: &str) -> Option<&TokenPrices> {
        self.0.get(model)
    }

    /// Returns models and their prices.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &TokenPrices)> {
        self.0.iter().map(|(model, prices)| (model.as_str(), prices))
    }
}

fn prices(model: &str, node: &YamlNode) -> Result<TokenPrices, ValueRefusal> {
    let fields = Fields::read(node, model, FIELDS)?;
    Ok(TokenPrices {
        input: fields.required("input", TokenPrice::read)?,
        output: fields.required("output", TokenPrice::read)?,
        cache_read: fields.value("cache_read", TokenPrice::read)?,
        cache_write: fields.value("cache_write", TokenPrice::read)?,
    })
}

impl Setting for PriceTable {
    type Limits = ();

    fn read(input: SettingInput<'_>, (): &()) -> Result<Self, ValueRefusal> {
        let hint = || Some(r#"write it as {"MODEL": {"input": 3, "output": 15}}"#.to_owned());
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
            if all.insert(model.to_owned(), prices(model, &entry.value)?).is_some() {
                return Err(ValueRefusal::new(format!("has {model} twice")));
            }
        }
        Ok(Self(all))
    }

    fn to_value(&self) -> SettingValue {
        let own = |(model, own): (&String, &TokenPrices)| {
            let given = [
                ("input", Some(own.input)),
                ("output", Some(own.output)),
                ("cache_read", own.cache_read),
                ("cache_write", own.cache_write),
            ];
            let fields = given
                .into_iter()
                .filter_map(|(name, price)| Some((name.to_owned(), price?.to_value())));
            (model.clone(), SettingValue::Map(fields.collect()))
        };
        SettingValue::Map(self.0.iter().map(own).collect())
    }

    fn allowed((): &()) -> String {
        format!("a map from names of models to maps with {} (numbers)", FIELDS.join(", "))
    }

    fn examples((): &()) -> Vec<String> {
        vec![
            r#"{"some-model": {"input": 3, "output": 15, "cache_read": 0.3}}"#.to_owned(),
            r#"{"other/model": {"input": 0.0375, "output": 0.15}}"#.to_owned(),
        ]
    }

    fn schema((): &()) -> serde_json::Value {
        let price = json!({"type": "number", "minimum": 0});
        json!({"type": "object", "additionalProperties": {
            "type": "object",
            "required": ["input", "output"],
            "additionalProperties": false,
            "properties": {
                "input": price, "output": price, "cache_read": price, "cache_write": price,
            },
        }})
    }
}
