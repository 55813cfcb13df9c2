//! Documentation made from the schema.

use std::collections::BTreeMap;

use serde_json::json;

use crate::key::{AnyKey, Protection, Secrecy};
use crate::schema::Schema;

const INTRODUCTION: &str = "\
# Configuration

<!-- Generated from the schema in crates/config. Don't edit; run
     `cargo run -p vestal-config --example docs > docs/configuration.md`. -->

A value is taken from the first of these places that says something:

1. `--set key=value` on the command line (repeatable);
2. the process environment;
3. `.env` in the home of the profile;
4. `config.yaml` in the home of the profile;
5. the default.

`vestal config show` says where each value came from, `vestal config check` finds
mistakes (exit code 1 if there are any), `vestal config set key value` and `vestal config unset key`
change `config.yaml` and keep its comments.
A wrong value is an error for what uses that key and for nothing else.

A name that no key has is told by every command, once per change of the file, and has no effect. If it is
nearly the name of a key that protects you (PROTECTING), whatever asks for that key fails with exit
code 125 until the name is corrected or removed: nothing starts with less protection than you meant.
Variables are treated the same. In the environment only near misses of a known variable count,
because other programs may have variables that begin with `TERMINAL_`; in `.env` every unknown
`TERMINAL_*` and `VESTAL_*` is told.

";

const FORMS: &str = "
## How values are written

| kind | forms |
|---|---|
| yes or no | `true`/`false`, `1`/`0`, `yes`/`no`, `on`/`off` |
| duration | seconds (`90`), or with a suffix: `90s`, `10m`, `2h`, `7d` |
| size | bytes (`65536`), or with a suffix: `64K`, `8M`, `1G` (powers of 1024); where it says MB, a number alone is in MB |
| list, map | YAML in `config.yaml`; JSON in variables and in `--set`: `[\"A\", \"B\"]`, `{\"A\": \"b\"}` |

- A list or a map is taken whole from one place; places are not merged.
- An empty variable and YAML's null count as not set. For directories an unquoted `~` is your home.
- Two names of one key in the same place must agree.
- `.env` holds `NAME=value` lines. `export` may stand in front, `#` begins a comment, quotes may
  span lines, nothing is expanded, the last line of a name wins. Keep it readable by you alone
  (`chmod 600`).
";

impl Schema {
    /// Returns the documentation of all keys as Markdown.
    pub fn markdown(&self) -> String {
        let protecting =
            self.keys().filter(|key| key.protection() != Protection::None).map(AnyKey::name);
        let protecting: Vec<String> = protecting.map(|name| format!("`{name}`")).collect();
        let mut out = INTRODUCTION.replace("PROTECTING", &protecting.join(", "));
        out.push_str(
            "## Keys\n\n| key | variable | default | allowed | meaning |\n|---|---|---|---|---|\n",
        );
        for key in self.keys() {
            row(&mut out, key);
        }
        out.push_str("\n## Variables that are no keys\n\n| variable | meaning |\n|---|---|\n");
        for variable in self.variables() {
            line(&mut out, &[&format!("`{}`", variable.name), variable.doc]);
        }
        out.push_str(FORMS);
        for group in self.groups() {
            out.push_str(group.notes);
        }
        out
    }

    /// Returns the JSON schema of `config.yaml`, for editors.
    pub fn json_schema(&self) -> serde_json::Value {
        let mut sections: BTreeMap<&str, serde_json::Map<String, serde_json::Value>> =
            BTreeMap::new();
        let mut alone = serde_json::Map::new();
        for key in self.keys() {
            for name in std::iter::once(key.name()).chain(key.aliases().iter().copied()) {
                let mut schema = key.schema();
                schema["description"] = json!(key.doc());
                if name == key.name() && key.secrecy() != Secrecy::Secret {
                    schema["default"] = json!(key.default_untyped());
                }
                match name.split_once('.') {
                    Some((section, own)) => {
                        place(sections.entry(section).or_default(), own, schema);
                    }
                    None => {
                        alone.insert(name.to_owned(), schema);
                    }
                }
            }
        }
        let mut properties = alone;
        for (name, keys) in sections {
            let mut section = json!({"type": ["object", "null"], "properties": keys});
            // A section that has a short form is either of the two.
            if properties.contains_key(name) {
                section["type"] = json!(["object", "null", "string"]);
            }
            properties.insert(name.to_owned(), section);
        }
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Vestal configuration",
            "type": "object",
            "properties": properties,
        })
    }
}

fn row(out: &mut String, key: &dyn AnyKey) {
    let code = |names: &[&str]| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let default = key.default_untyped().to_string();
    let default = match key.default_in_words() {
        Some(words) if default.is_empty() => words,
        Some(words) if words != default => format!("`{default}` ({words})"),
        _ => format!("`{default}`"),
    };
    let mut doc = key.doc().to_owned();
    if !key.aliases().is_empty() {
        doc.push_str(" Also: ");
        doc.push_str(&code(key.aliases()));
        doc.push('.');
    }
    match key.secrecy() {
        Secrecy::Public => {}
        Secrecy::Secret => doc.push_str(" Masked when shown."),
        Secrecy::Within(names) => {
            doc.push(' ');
            doc.push_str(&code(names));
            doc.push_str(if names.len() == 1 { " is" } else { " are" });
            doc.push_str(" masked when shown.");
        }
    }
    line(out, &[&code(&[key.name()]), &code(key.env()), &default, &key.allowed(), &doc]);
}

fn line(out: &mut String, cells: &[&str]) {
    out.push('|');
    for cell in cells {
        out.push(' ');
        // Inside a table a bar ends the cell, whatever surrounds it.
        out.push_str(&cell.replace('|', "\\|"));
        out.push_str(" |");
    }
    out.push('\n');
}

/// Puts the schema of a key into its section, below further sections if it is in such.
fn place(
    section: &mut serde_json::Map<String, serde_json::Value>,
    name: &str,
    schema: serde_json::Value,
) {
    let Some((inner, own)) = name.split_once('.') else {
        section.insert(name.to_owned(), schema);
        return;
    };
    let inner = section
        .entry(inner)
        .or_insert_with(|| json!({"type": ["object", "null"], "properties": {}}));
    if let Some(keys) = inner["properties"].as_object_mut() {
        place(keys, own, schema);
    }
}
