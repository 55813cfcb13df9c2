//! Schemas of arguments, made such that every provider takes them.
//!
//! Servers send whatever their languages make of types: references, unions at
//! the top, lists without items. Providers refuse the whole request because of
//! one such tool, so each is repaired, and only what cannot be is left out.

use serde_json::{Map, Value, json};

use crate::tool::{printable, shortened};

/// How deep a schema may be.
const DEEPEST: usize = 16;

/// Bytes of a schema: a provider counts them in every request.
const LARGEST: usize = 24 << 10;

/// Longest name of a property that every provider takes.
const LONGEST_NAME: usize = 64;

/// Bytes that every part of a schema is counted as having at least.
const NODE: usize = 8;

/// Characters of a description within a schema.
const DESCRIPTION: usize = 1000;

/// Bytes that may be made of a schema on the way: references can multiply what they refer to.
const MOST_WORK: usize = 40 * LARGEST;

/// Words that say nothing to a model, or that some provider refuses.
const LEFT_OUT: &[&str] = &[
    "$schema",
    "$id",
    "$comment",
    "$anchor",
    "$defs",
    "definitions",
    "$dynamicRef",
    "$dynamicAnchor",
    "$recursiveRef",
    "$recursiveAnchor",
    "$vocabulary",
];

/// What a value may be said to be.
const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// Words whose values are maps from names to schemas.
const MAPS: &[&str] = &["properties", "patternProperties", "dependentSchemas"];

/// Words whose values are lists of schemas.
const LISTS: &[&str] = &["anyOf", "oneOf", "allOf", "prefixItems"];

/// A schema that providers take, and what a model should know besides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Repaired {
    pub(crate) schema: Value,
    /// What had to be left out, for the description of the tool.
    pub(crate) note: Option<&'static str>,
}

/// Repairs the schema of a tool's arguments.
pub(crate) fn repaired(schema: &Map<String, Value>) -> Repaired {
    let whole = Value::Object(schema.clone());
    let mut repair = SchemaRepair { root: &whole, budget: MOST_WORK, cut: false, renamed: false };
    let top = repair.schema(&whole, &mut Vec::new(), 0);
    let schema = object(top);
    if repair.cut || size(&schema) > LARGEST {
        let small = without_annotations(&schema);
        if !repair.cut && size(&small) <= LARGEST {
            return Repaired { schema: small, note: None };
        }
        return Repaired {
            schema: json!({"type": "object", "properties": {}, "additionalProperties": true}),
            note: Some("(The schema of its arguments is too large to be shown.)"),
        };
    }
    let note = repair.renamed.then_some(
        "(It has further arguments, whose names cannot be passed on; they are left out.)",
    );
    Repaired { schema, note }
}

fn size(value: &Value) -> usize {
    value.to_string().len()
}

struct SchemaRepair<'a> {
    root: &'a Value,
    /// Bytes that may still be made.
    budget: usize,
    cut: bool,
    renamed: bool,
}

impl<'a> SchemaRepair<'a> {
    /// Reports whether so many bytes more may be made.
    fn spend(&mut self, bytes: usize) -> bool {
        self.cut |= bytes > self.budget;
        self.budget = self.budget.saturating_sub(bytes);
        !self.cut
    }

    /// Copies what a word says, if there is room for it.
    fn copy(&mut self, word: &str, value: &Value) -> Option<Value> {
        match value {
            Value::String(text) if ["description", "title"].contains(&word) => {
                let text = shortened(&printable(&shortened(text, 2 * DESCRIPTION)), DESCRIPTION);
                self.spend(text.len()).then_some(Value::String(text))
            }
            other => self.spend(word.len() + weight(other)).then(|| without_references(other)),
        }
    }

    fn schema(&mut self, value: &'a Value, trail: &mut Vec<&'a str>, depth: usize) -> Value {
        if depth > DEEPEST || !self.spend(NODE) {
            return json!({});
        }
        let Value::Object(map) = value else {
            // `true` takes everything. What takes nothing is said by its absence.
            return json!({});
        };
        if let Some(Value::String(reference)) = map.get("$ref") {
            return self.referred(map, reference, trail, depth);
        }
        let mut out = Map::new();
        for (word, value) in map {
            if LEFT_OUT.contains(&word.as_str()) {
                continue;
            }
            let value = match (word.as_str(), value) {
                (word, Value::Object(entries)) if MAPS.contains(&word) => {
                    self.named(entries, trail, depth)
                }
                (word, Value::Array(items)) if LISTS.contains(&word) && !items.is_empty() => {
                    Value::Array(
                        items.iter().map(|item| self.schema(item, trail, depth + 1)).collect(),
                    )
                }
                ("items", Value::Array(items)) => {
                    // The old way to write a tuple; one kind of item says most of it.
                    items.first().map_or(json!({}), |item| self.schema(item, trail, depth + 1))
                }
                ("items" | "if" | "then" | "else" | "contains", value)
                | ("not" | "additionalProperties", value @ Value::Object(_)) => {
                    self.schema(value, trail, depth + 1)
                }
                ("type", value) => match kinds(value) {
                    Some(kinds) => kinds,
                    None => continue,
                },
                (word, value) if fits(word, value) => match self.copy(word, value) {
                    Some(copy) => copy,
                    None => continue,
                },
                _ => continue,
            };
            out.insert(word.clone(), value);
        }
        if is_kind(&out, "array") && !out.contains_key("items") {
            out.insert("items".to_owned(), json!({}));
        }
        tidy_required(&mut out);
        Value::Object(out)
    }

    fn named(
        &mut self,
        entries: &'a Map<String, Value>,
        trail: &mut Vec<&'a str>,
        depth: usize,
    ) -> Value {
        let mut out = Map::new();
        for (name, value) in entries {
            if self.cut {
                break;
            }
            let fits = (1..=LONGEST_NAME).contains(&name.len())
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
            if fits {
                out.insert(name.clone(), self.schema(value, trail, depth + 1));
            } else {
                self.renamed = true;
            }
        }
        Value::Object(out)
    }

    /// Puts what is referred to in the place of the reference, with what stands
    /// beside it. What contains itself is left open.
    fn referred(
        &mut self,
        map: &'a Map<String, Value>,
        reference: &'a str,
        trail: &mut Vec<&'a str>,
        depth: usize,
    ) -> Value {
        let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let found = match target {
            Some(target) if !trail.contains(&reference) => {
                trail.push(reference);
                let found = self.schema(target, trail, depth + 1);
                trail.pop();
                found
            }
            _ => json!({}),
        };
        let mut out = match found {
            Value::Object(out) => out,
            _ => Map::new(),
        };
        for word in ["description", "default", "title"] {
            let beside = map.get(word).filter(|value| fits(word, value));
            if let Some(copy) = beside.and_then(|value| self.copy(word, value)) {
                out.insert(word.to_owned(), copy);
            }
        }
        Value::Object(out)
    }
}

/// Returns the kinds that a value may have, as far as they are known.
fn kinds(declared: &Value) -> Option<Value> {
    let known = |kind: &&Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match declared {
        Value::Array(all) => {
            let mut kinds: Vec<Value> = Vec::new();
            for kind in all.iter().filter(known) {
                if !kinds.contains(kind) {
                    kinds.push(kind.clone());
                }
            }
            (!kinds.is_empty()).then_some(Value::Array(kinds))
        }
        one => Some(one).filter(known).cloned(),
    }
}

/// Leaves out references where no schema is expected: what they refer to is no
/// longer there.
fn without_references(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(word, _)| *word != "$ref");
            Value::Object(kept.map(|(word, own)| (word.clone(), without_references(own))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_references).collect()),
        other => other.clone(),
    }
}

fn is_kind(schema: &Map<String, Value>, kind: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(own)) => own == kind,
        Some(Value::Array(own)) => own.iter().any(|own| own == kind),
        _ => false,
    }
}

/// Has `required` name what there is, or not be there.
fn tidy_required(schema: &mut Map<String, Value>) {
    let Some(required) = schema.remove("required") else { return };
    let known = schema.get("properties").and_then(Value::as_object);
    let (Value::Array(names), Some(known)) = (required, known) else { return };
    let names: Vec<Value> = names
        .into_iter()
        .filter(|name| name.as_str().is_some_and(|name| known.contains_key(name)))
        .collect();
    if !names.is_empty() {
        schema.insert("required".to_owned(), Value::Array(names));
    }
}

/// Has the top be an object with properties: what stands in unions there is put
/// together, and what only some of them ask for is asked for no longer.
fn object(schema: Value) -> Value {
    let mut top = match schema {
        Value::Object(top) => top,
        _ => Map::new(),
    };
    let mut properties = take_map(&mut top, "properties");
    let mut required = take_list(&mut top, "required");
    for word in ["allOf", "anyOf", "oneOf"] {
        for part in take_list(&mut top, word) {
            let Value::Object(mut part) = part else { continue };
            if word == "allOf" {
                required.extend(take_list(&mut part, "required"));
            }
            for (name, value) in take_map(&mut part, "properties") {
                properties.entry(name).or_insert(value);
            }
        }
    }
    for word in ["not", "if", "then", "else", "enum", "const", "dependentSchemas"] {
        top.remove(word);
    }
    top.insert("type".to_owned(), json!("object"));
    top.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        top.insert("required".to_owned(), Value::Array(required));
        tidy_required(&mut top);
    }
    Value::Object(top)
}

fn take_map(from: &mut Map<String, Value>, word: &str) -> Map<String, Value> {
    match from.remove(word) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn take_list(from: &mut Map<String, Value>, word: &str) -> Vec<Value> {
    match from.remove(word) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

/// Leaves out what explains but does not constrain. A property may be called
/// like one of those words.
fn without_annotations(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let words =
                ["description", "title", "examples", "example", "default", "markdownDescription"];
            let mut out = Map::new();
            for (word, value) in map {
                match value {
                    Value::Object(entries) if MAPS.contains(&word.as_str()) => {
                        let entries = entries.iter();
                        let entries =
                            entries.map(|(name, own)| (name.clone(), without_annotations(own)));
                        out.insert(word.clone(), Value::Object(entries.collect()));
                    }
                    value if !words.contains(&word.as_str()) => {
                        out.insert(word.clone(), without_annotations(value));
                    }
                    _ => {}
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(without_annotations).collect()),
        other => other.clone(),
    }
}

/// Reports whether a word says what it can say. Older drafts of the standard,
/// and servers that know none, say other things, and providers refuse a whole
/// request because of one.
pub(super) fn fits(word: &str, value: &Value) -> bool {
    match word {
        "description" | "title" | "pattern" | "format" | "contentEncoding" | "contentMediaType" => {
            value.is_string()
        }
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => value.is_number(),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties"
        | "minContains" | "maxContains" => value.is_u64(),
        "uniqueItems" | "readOnly" | "writeOnly" | "deprecated" | "additionalProperties" => {
            value.is_boolean()
        }
        "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
        "required" | "examples" => value.is_array(),
        // These have been read already, if they were what they should be.
        "properties" | "patternProperties" | "dependentSchemas" | "anyOf" | "oneOf" | "allOf"
        | "prefixItems" | "not" => false,
        _ => true,
    }
}

/// Returns about how many bytes a value has.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 8,
        Value::Array(items) => 8 + items.iter().map(weight).sum::<usize>(),
        Value::Object(map) => {
            8 + map.iter().map(|(word, value)| word.len() + weight(value)).sum::<usize>()
        }
    }
}

#[cfg(test)]
#[path = "schema_tests.rs"]
mod tests;
